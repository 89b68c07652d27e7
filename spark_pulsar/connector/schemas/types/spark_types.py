"""Spark's names of Arrow types, and the part of an Arrow type that a user's Spark type requests (SCHEMA-10).

This module reads only public attributes of Spark types (`fields`, `elementType`, `simpleString()`), so that it needs no
pyspark.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.columns import MAP_TYPE
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.types.arrow_types import OddType, with_times_as

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

_OF_NAME: Final = {name: kind for kind, name in _NAMES.items()}
JSON_NAMES: Final = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""Types whose names in JSON are others than in `simpleString()`."""

_NAMED: Final[dict[str, Any]] = {
    **{name: JSON_NAMES.get(name, name) for name in ("binary", "string", "int", "bigint", "timestamp")},
    MAP_TYPE: {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
}
"""Types of the connector's own columns. In JSON `timestamp` is one with a time zone, whatever the session's
`spark.sql.timestampType` makes of that word in DDL."""


def has_spark_name(kind: Any) -> bool:
    """Returns whether an Arrow type without parts is a type of Spark."""
    return kind in _NAMES


def spark_name(kind: Any) -> str:
    """Returns the name of Spark's type for an Arrow type, as its `simpleString()` (SCHEMA-15). Raises SchemaError for
    one that Spark lacks (SCHEMA-14: `OddType`)."""
    if isinstance(kind, OddType):
        raise SchemaError(kind.reason)
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{spark_name(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_name(kind.key_type)},{spark_name(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_name(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]


def arrow_type(name: str) -> Any:
    """Returns the Arrow type of one of the connector's own columns, whose Spark type has this name in DDL."""
    return pa.map_(pa.string(), pa.string()) if name == MAP_TYPE else _OF_NAME[name]


def json_field(name: str, kind: Any) -> dict[str, Any]:
    """Returns a nullable field as in `StructType.jsonValue()`; `kind` is an Arrow type, or the name of a Spark type of
    the connector's own columns."""
    spark_type = _NAMED[kind] if isinstance(kind, str) else _json_type(kind)
    return {"name": name, "type": spark_type, "nullable": True, "metadata": {}}


def _json_type(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [json_field(field.name, field.type) for field in kind]}
    if pa.types.is_map(kind):
        key, value = _json_type(kind.key_type), _json_type(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _json_type(kind.value_type), "containsNull": True}
    name = spark_name(kind)
    return JSON_NAMES.get(name, name)


def requested_type(spark_type: Any, kind: Any, path: str, *, times_as_text: bool = False) -> Any:
    """Returns the part of an Arrow type that a Spark type requests: of structs the fields that it names, in its order.
    With `times_as_text` a string requests a time of a day (SPARK-6).

    Raises SchemaError for a field that is not there, for another type, and for a nested field declared NOT NULL.
    """
    if isinstance(kind, OddType):
        name = spark_type.simpleString()
        if name not in ("string", "binary"):
            raise SchemaError(kind.reason)
        return pa.string() if name == "string" else pa.binary()
    requested = partial(requested_type, times_as_text=times_as_text)
    if pa.types.is_struct(kind) and hasattr(spark_type, "fields"):
        there = {field.name: field.type for field in kind}
        wanted = []
        for field in spark_type.fields:
            if field.name not in there:
                raise SchemaError(f"there is no field {path}.{field.name} to read; there are {', '.join(there)}")
            _nullable(field.nullable, f"{path}.{field.name}")
            wanted.append(pa.field(field.name, requested(field.dataType, there[field.name], f"{path}.{field.name}")))
        return pa.struct(wanted)
    if pa.types.is_list(kind) and hasattr(spark_type, "elementType"):
        _nullable(spark_type.containsNull, f"elements of {path}")
        return pa.list_(requested(spark_type.elementType, kind.value_type, f"{path}[]"))
    if pa.types.is_map(kind) and hasattr(spark_type, "valueType"):
        _nullable(spark_type.valueContainsNull, f"values of {path}")
        if spark_type.keyType.simpleString() == "string":
            return pa.map_(pa.string(), requested(spark_type.valueType, kind.item_type, f"{path}[]"))
    name = spark_name(with_times_as(kind, pa.string()) if times_as_text else kind)
    if spark_type.simpleString() != name:
        raise SchemaError(
            f"column {path} is {name}, it cannot be read as {spark_type.simpleString()}; cast it afterwards"
        )
    return kind


def _nullable(nullable: bool, what: str) -> None:
    if not nullable:
        raise SchemaError(f"{what} cannot be read as NOT NULL: payloads may hold nulls there")
