"""Avro definitions derived from Spark's types, as Spark's own `to_avro` and StreamNative's sink derive them
(SCHEMA-15).

Types are read in the form of `StructType.jsonValue()`, so that no pyspark is needed. Differences to `to_avro`: a
nullable field is `["null", type]` with the default null, as in the definitions of Pulsar's Java client, so that a
column may be added to a topic that has data; a decimal is `bytes` instead of a named `fixed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.extended_definition import TOP_LEVEL_RECORD

AvroType = str | dict[str, Any] | list[Any]
"""An Avro type as its JSON is."""

_NAME: Final = re.compile(r"[^\W\d]\w*")
"""Names as Avro's Java library takes them: letters of all alphabets."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TIME: Final = re.compile(r"time\((\d+)\)")
_TEXT: Final = re.compile(r"string\b.*|(?:var)?char\(\d+\)")
_PLAIN: Final[Mapping[str, AvroType]] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_MICROSECOND_DIGITS: Final = 6


def derive_record(struct: Mapping[str, Any], name: str = TOP_LEVEL_RECORD, namespace: str = "") -> dict[str, Any]:
    """Derives the record of a struct type, given as JSON. Raises SchemaError naming the column that cannot be one of
    its fields."""
    return _record(struct, name, namespace, "")


def _record(struct: Mapping[str, Any], name: str, namespace: str, path: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}" if namespace else name
    fields: list[dict[str, Any]] = []
    for field in struct["fields"]:
        column = f"{path}{field['name']}"
        if _NAME.fullmatch(field["name"]) is None:
            raise SchemaError(
                f"column {column} cannot be a field of an Avro definition: names have letters, digits and _ only, and "
                "begin with no digit; rename it"
            )
        kind = _type(field["type"], field["name"], inner, column)
        if field["nullable"]:
            fields.append({"name": field["name"], "type": ["null", kind], "default": None})
        else:
            fields.append({"name": field["name"], "type": kind})
    if not fields:
        raise SchemaError(f"column {path[:-1]} is a struct without fields; drop it" if path else "there is no column")
    record: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        record["namespace"] = namespace
    return {**record, "fields": fields}


def _type(kind: Any, name: str, namespace: str, column: str) -> AvroType:
    if isinstance(kind, str):
        return _atomic(kind, column)
    if kind["type"] == "struct":
        return _record(kind, name, namespace, f"{column}.")
    if kind["type"] == "array":
        return {"type": "array", "items": _item(kind["elementType"], kind["containsNull"], name, namespace, column)}
    if kind["type"] == "map":
        if not isinstance(kind["keyType"], str) or _TEXT.fullmatch(kind["keyType"]) is None:
            raise SchemaError(f"column {column} is a map whose keys are no strings, which Avro lacks; cast the keys")
        return {"type": "map", "values": _item(kind["valueType"], kind["valueContainsNull"], name, namespace, column)}
    if kind["type"] == "udt":
        return _type(kind["sqlType"], name, namespace, column)
    raise _inexpressible(str(kind["type"]), column)


def _item(kind: Any, nullable: bool, name: str, namespace: str, column: str) -> AvroType:
    avro_type = _type(kind, name, namespace, column)
    return ["null", avro_type] if nullable else avro_type


def _atomic(kind: str, column: str) -> AvroType:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if _TEXT.fullmatch(kind):
        return "string"
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and int(decimal[2]) >= 0:
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": int(decimal[1]),
            "scale": int(decimal[2]),
        }
    time = _TIME.fullmatch(kind)
    if time and int(time[1]) <= _MICROSECOND_DIGITS:
        return {"type": "long", "logicalType": "time-micros"}
    raise _inexpressible(kind, column)


def _inexpressible(kind: str, column: str) -> SchemaError:
    return SchemaError(f"column {column} is {kind}, which no Avro definition can express; cast it, or drop it")
