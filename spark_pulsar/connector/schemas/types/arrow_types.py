"""Arrow types of definitions: the columns that Spark shows for a schema, in Spark's exact Arrow types (SCHEMA-14).

Every column and nested field is nullable: a tombstone, an older version of the schema or an undecodable payload leaves
nulls where the definition has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_pulsar.model.schemas import SchemaType

if TYPE_CHECKING:
    from spark_pulsar.model.avro import AvroType

MAX_TYPES: Final = 10_000
"""Types of one record, those of nested fields counted as often as they occur."""

MAX_DECIMAL_DIGITS: Final = 38
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
TIME: Final = pa.time64("ns")

JAVA_TIMES: Final = frozenset(
    {
        "java.util.Date",
        "java.sql.Date",
        "java.sql.Timestamp",
        "java.time.OffsetDateTime",
        "java.time.ZonedDateTime",
    }
)
"""Classes of Java that its client defines as records without fields, and writes as times in JSON."""

ODD: Final = (
    "; leave it out by .schema(...), name it there as string to read it as JSON text, or set unsupportedFields to JSON"
)

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
"""Types of Avro's logical types but decimal; one that is not here, such as `uuid`, is read as its plain type."""


class OddType(pa.ExtensionType):  # type: ignore[misc]
    """Stand-in for a type that Spark lacks; `reason` names the field. It is read as text or bytes, or not at all."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(pa.null(), "spark_pulsar.odd")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.reason.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> OddType:
        return cls(serialized.decode())


def odd_type(path: str, reason: str) -> OddType:
    """Returns the stand-in for the type of a field."""
    return OddType(f"field {path.lstrip('.') or 'value'}: {reason}{ODD}")


def with_odd_as(kind: Any, plain: Any) -> Any:
    """Returns a type with `plain` in place of each type that Spark lacks."""
    return _replaced(kind, lambda part: isinstance(part, OddType), plain)


def with_times_as(kind: Any, plain: Any) -> Any:
    """Returns a type with `plain` in place of each time of a day."""
    return _replaced(kind, lambda part: bool(part == TIME), plain)


def _replaced(kind: Any, is_one: Callable[[Any], bool], plain: Any) -> Any:
    if is_one(kind):
        return plain
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_replaced(field.type, is_one, plain)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _replaced(kind.item_type, is_one, plain))
    return pa.list_(_replaced(kind.value_type, is_one, plain)) if pa.types.is_list(kind) else kind


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


def arrow_type(avro: AvroType, *, is_json: bool = False) -> Any:
    """Returns the Arrow type of an Avro type, of JSON payloads where that is said; a record becomes a struct.

    OddType stands for a record that contains itself, a decimal of too many digits, a union with branches that nothing
    distinguishes, and all types beyond MAX_TYPES.
    """
    return _Typing(is_json).type_of(avro, "")


class _TooManyTypes(Exception):
    """A field has too many types."""


class _Typing:
    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._count = 0
        self._inside: list[str] = []

    def type_of(self, avro: AvroType, path: str) -> Any:
        self._count += 1
        if self._count > MAX_TYPES:
            raise _TooManyTypes
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
                reason = f"decimal({decimal[0]},{decimal[1]}) has more digits than the {MAX_DECIMAL_DIGITS} of Spark"
                return odd_type(path, reason)
            return pa.decimal128(*decimal)
        logical = avro.attributes.get("logicalType")
        return LOGICAL.get((avro.kind, logical) if isinstance(logical, str) else ("", ""), PLAIN[avro.kind])

    def _record(self, avro: AvroType, path: str) -> Any:
        if avro.name in self._inside:
            return odd_type(path, f"the record {avro.name} contains itself, and Spark has no recursive types")
        if self._is_json and not avro.fields and path:
            return TIMESTAMP if avro.name in JAVA_TIMES else pa.string()  # JSON text: it may be anything
        self._inside.append(avro.name)
        fields = [pa.field(field.name, self._field(field.type, f"{path}.{field.name}")) for field in avro.fields]
        self._inside.pop()
        return pa.struct(fields)

    def _field(self, avro: AvroType, path: str) -> Any:
        if len(self._inside) > 1:
            return self.type_of(avro, path)
        count = self._count
        try:
            return self.type_of(avro, path)
        except _TooManyTypes:
            self._count, self._inside = count, self._inside[:1]
            return odd_type(path, f"with it the schema has more than {MAX_TYPES} types")

    def _union(self, branches: list[AvroType], path: str) -> Any:
        if not branches:
            return pa.null()
        number = widened(branches)
        if number is not None:
            return number
        if len(branches) == 1:
            return self.type_of(branches[0], path)
        if not self._is_json and (alike := _alike(branches)):
            return odd_type(
                path, f"a union of {' and '.join(alike)} does not distinguish them: their values are of one type"
            )
        types = [self.type_of(branch, path) for branch in branches]
        return pa.struct([pa.field(f"member{i}", member_type) for i, member_type in enumerate(types)])


def _alike(branches: list[AvroType]) -> tuple[str, str] | None:
    """Returns two branches of a union whose decoded values have one type; records carry their names."""
    seen: dict[str, str] = {}
    for branch in branches:
        kind = _PYTHON_KINDS.get(branch.kind, branch.kind)
        if kind in seen and branch.kind != "record":
            return seen[kind], branch.kind
        seen.setdefault(kind, branch.kind)
    return None


_PYTHON_KINDS: Final = {
    "int": "whole",
    "long": "whole",
    "float": "real",
    "double": "real",
    "fixed": "bytes",
    "enum": "string",
}
"""Type of the Python objects that the library makes of the values of a kind."""
