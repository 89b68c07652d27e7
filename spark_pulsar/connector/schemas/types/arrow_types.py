"""Arrow types of definitions: the columns that Spark shows for a schema, in Spark's exact Arrow types.

Every column and nested field is nullable: a tombstone, an older version of the schema or an undecodable payload leaves
nulls where the definition has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.model.schemas import SchemaType

if TYPE_CHECKING:
    from spark_pulsar.model.avro import AvroType

MAX_TYPES: Final = 10_000
"""Types of one record, those of nested fields counted as often as they occur."""

MAX_DECIMAL_DIGITS: Final = 38
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
TIME: Final = pa.time64("ns")

RAW: Final = "; set useTopicSchema to false to read value as bytes"

PRIMITIVES: Final[dict[SchemaType, Any]] = {
    SchemaType.NONE: pa.binary(),
    SchemaType.BYTES: pa.binary(),
    SchemaType.STRING: pa.string(),
    SchemaType.BOOLEAN: pa.bool_(),
    SchemaType.INT8: pa.int8(),
    SchemaType.INT16: pa.int16(),
    SchemaType.INT32: pa.int32(),
    SchemaType.INT64: pa.int64(),
    SchemaType.FLOAT: pa.float32(),
    SchemaType.DOUBLE: pa.float64(),
    SchemaType.DATE: pa.date32(),
    SchemaType.TIME: TIME,
    SchemaType.TIMESTAMP: TIMESTAMP,
    SchemaType.INSTANT: TIMESTAMP,
    SchemaType.LOCAL_DATE: pa.date32(),
    SchemaType.LOCAL_TIME: TIME,
    SchemaType.LOCAL_DATE_TIME: TIMESTAMP_NTZ,
}
"""Types of `value` for schemas without a definition."""

PLAIN: Final[dict[str, Any]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
"""Types of Avro's types without parts, logical types aside."""

LOGICAL: Final[dict[tuple[str, str], Any]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): TIME,
    ("long", "time-micros"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "timestamp-nanos"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-nanos"): TIMESTAMP_NTZ,
}
"""Types of Avro's logical types but decimal; one that is not here, such as `uuid`, is read as what it lies in."""


def branches_of(union: AvroType) -> list[AvroType]:
    """Returns the branches of a union without null."""
    return [branch for branch in union.branches if branch.kind != "null"]


def widened(branches: list[AvroType]) -> Any:
    """Returns the one type of a union of numbers: int and long are long, float and double are double; else None."""
    if any(branch.attributes.get("logicalType") for branch in branches):
        return None
    kinds = {branch.kind for branch in branches}
    return {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}.get(frozenset(kinds))


def decimal_of(avro: AvroType) -> tuple[int, int] | None:
    """Returns precision and scale of a decimal; None for another type, and for one that Avro says to ignore."""
    if avro.kind not in ("bytes", "fixed") or avro.attributes.get("logicalType") != "decimal":
        return None
    digits: list[int] = []
    for number in (avro.attributes.get("precision"), avro.attributes.get("scale", 0)):
        if not isinstance(number, int) or isinstance(number, bool):
            return None
        digits.append(number)
    precision, scale = digits
    return (precision, scale) if precision > 0 and 0 <= scale <= precision else None


def logical_name(avro: AvroType) -> str:
    """Returns Avro's logical type, if Spark has a type for it; else empty."""
    if decimal_of(avro) is not None:
        return "decimal"
    name = avro.attributes.get("logicalType")
    return name if isinstance(name, str) and (avro.kind, name) in LOGICAL else ""


def arrow_type(avro: AvroType) -> Any:
    """Returns the Arrow type of an Avro type; a record becomes a struct.

    Raises SchemaError for a record that contains itself, for a decimal that Spark has no type for, and for a definition
    with more than MAX_TYPES types; each names the field.
    """
    return _Typing().type_of(avro, "")


class _Typing:
    def __init__(self) -> None:
        self._count = 0
        self._inside: list[str] = []

    def type_of(self, avro: AvroType, path: str) -> Any:
        self._count += 1
        if self._count > MAX_TYPES:
            raise SchemaError(f"the schema has more than {MAX_TYPES} types{RAW}")
        if avro.kind == "record":
            return self._record(avro, path)
        if avro.kind == "union":
            return self._union(branches_of(avro), path)
        if avro.kind in ("array", "map"):
            assert avro.items is not None
            items = self.type_of(avro.items, f"{path}[]")
            return pa.list_(items) if avro.kind == "array" else pa.map_(pa.string(), items)
        decimal = decimal_of(avro)
        if decimal is not None:
            if decimal[0] > MAX_DECIMAL_DIGITS:
                raise SchemaError(
                    f"field {path.lstrip('.')} is a decimal of {decimal[0]} digits, Spark has {MAX_DECIMAL_DIGITS}{RAW}"
                )
            return pa.decimal128(*decimal)
        logical = avro.attributes.get("logicalType")
        return LOGICAL.get((avro.kind, logical) if isinstance(logical, str) else ("", ""), PLAIN[avro.kind])

    def _record(self, avro: AvroType, path: str) -> Any:
        if avro.name in self._inside:
            raise SchemaError(
                f"field {path.lstrip('.')} contains the record {avro.name} that it is a part of; "
                f"Spark has no recursive types{RAW}"
            )
        self._inside.append(avro.name)
        fields = [pa.field(each.name, self.type_of(each.type, f"{path}.{each.name}")) for each in avro.fields]
        self._inside.pop()
        return pa.struct(fields)

    def _union(self, branches: list[AvroType], path: str) -> Any:
        if not branches:
            return pa.null()
        number = widened(branches)
        if number is not None:
            return number
        types = [self.type_of(branch, path) for branch in branches]
        if len(types) == 1:
            return types[0]
        return pa.struct([pa.field(f"member{i}", each) for i, each in enumerate(types)])
