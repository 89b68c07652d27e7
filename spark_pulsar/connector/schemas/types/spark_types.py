"""Spark's names of Arrow types, and the part of an Arrow type that a user's Spark type asks for.

Spark types are looked at by their public face only (`fields`, `elementType`, `simpleString()`), so that this module
needs no pyspark.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError

_NAMES: Final[dict[Any, str]] = {
    pa.null(): "void",
    pa.binary(): "binary",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.time64("ns"): "time(6)",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def spark_name(kind: Any, *, quoted: bool = False) -> str:
    """Returns the name of Spark's type for an Arrow type, as its `simpleString()`; with `quoted` as DDL, which keeps
    names of fields that are no plain words."""
    if pa.types.is_struct(kind):
        colon = ": " if quoted else ":"
        fields = (f"{_name(each.name, quoted)}{colon}{spark_name(each.type, quoted=quoted)}" for each in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type, quoted=quoted)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type, quoted=quoted)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]


def ddl(fields: Any) -> str:
    """Returns the columns of an Arrow schema as DDL."""
    return ", ".join(f"{_name(each.name, True)} {spark_name(each.type, quoted=True)}" for each in fields)


def _name(name: str, quoted: bool) -> str:
    return f"`{name.replace('`', '``')}`" if quoted else name


def asked_for(spark_type: Any, kind: Any, path: str) -> Any:
    """Returns the part of an Arrow type that a Spark type asks for: of structs the fields that it names, in its order.

    Raises SchemaError for a field that is not there, for another type, and for a nested field declared NOT NULL.
    """
    if pa.types.is_struct(kind) and hasattr(spark_type, "fields"):
        there = {each.name: each.type for each in kind}
        wanted = []
        for each in spark_type.fields:
            if each.name not in there:
                raise SchemaError(f"there is no field {path}.{each.name} to read; there are {', '.join(there)}")
            _nullable(each.nullable, f"{path}.{each.name}")
            wanted.append(pa.field(each.name, asked_for(each.dataType, there[each.name], f"{path}.{each.name}")))
        return pa.struct(wanted)
    if pa.types.is_list(kind) and hasattr(spark_type, "elementType"):
        _nullable(spark_type.containsNull, f"elements of {path}")
        return pa.list_(asked_for(spark_type.elementType, kind.value_type, f"{path}[]"))
    if pa.types.is_map(kind) and hasattr(spark_type, "valueType"):
        _nullable(spark_type.valueContainsNull, f"values of {path}")
        if spark_type.keyType.simpleString() == "string":
            return pa.map_(pa.string(), asked_for(spark_type.valueType, kind.item_type, f"{path}[]"))
    if spark_type.simpleString() != spark_name(kind):
        raise SchemaError(
            f"column {path} is {spark_name(kind)}, it cannot be read as {spark_type.simpleString()}; cast it afterwards"
        )
    return kind


def _nullable(nullable: bool, what: str) -> None:
    if not nullable:
        raise SchemaError(f"{what} cannot be read as NOT NULL: payloads may hold nulls there")
