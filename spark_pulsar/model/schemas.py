"""Schemas as values: types, definitions with properties, strategies of compatibility (SC-2, SC-4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class SchemaType(IntEnum):
    """Types of schemas with Pulsar's names; the numbers are those of the wire, below zero where it has none."""

    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    AUTO_CONSUME = 21
    EXTERNAL = 22
    BYTES = -1
    AUTO = -2
    AUTO_PUBLISH = -4


OF_CLIENTS: Final = frozenset({SchemaType.AUTO, SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH})
"""Types by which clients request something; no topic has them."""
AVRO_BASED: Final = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})
"""Types whose definition is one of Avro."""
UNSTRUCTURED: Final = frozenset({SchemaType.NONE, SchemaType.BYTES})
"""Types without any structure of messages."""


class Compatibility(StrEnum):
    """A strategy: the schemas that may follow those of a topic; UNDEFINED is that of the next level up."""

    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Returns whether a schema must fit all that the topic has, not only the last."""
        return self.name.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        """Returns whether readers with the new schema must understand messages of the old one."""
        return self.name.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        """Returns whether readers with the old schema must understand messages of the new one."""
        return self.name.startswith(("FORWARD", "FULL"))


AUTO_UPDATE_STRATEGIES: Final[Mapping[str, Compatibility]] = {
    "AutoUpdateDisabled": Compatibility.ALWAYS_INCOMPATIBLE,
    "Backward": Compatibility.BACKWARD,
    "Forward": Compatibility.FORWARD,
    "Full": Compatibility.FULL,
    "AlwaysCompatible": Compatibility.ALWAYS_COMPATIBLE,
    "BackwardTransitive": Compatibility.BACKWARD_TRANSITIVE,
    "ForwardTransitive": Compatibility.FORWARD_TRANSITIVE,
    "FullTransitive": Compatibility.FULL_TRANSITIVE,
}
"""The strategies under the names of the older policy `schemaAutoUpdateCompatibilityStrategy`."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of messages: a type, a definition in the form of its type, and properties, of which the broker reads
    those of KEY_VALUE."""

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A version of the schemas of a topic. A deleted one is the mark that the versions before it are gone (SC-10)."""

    version: int
    schema: Schema
    created_ms: int
    is_deleted: bool = False


# ---- definitions of KEY_VALUE -----------------------------------------------------------------------------------

_LENGTH_BYTES: Final = 4


class InvalidKeyValue(ValueError):
    """Error of a definition that does not hold those of a key and a value, or names an unknown type for one."""


def key_and_value(schema: Schema) -> tuple[Schema, Schema]:
    """Splits a KEY_VALUE schema in two: their definitions stand one after the other behind their lengths, their types
    in its properties. Raises InvalidKeyValue."""
    key, rest = _length_prefixed(schema.data)
    value, _ = _length_prefixed(rest)
    return _part(schema, "key", key), _part(schema, "value", value)


def join_key_and_value(key: bytes, value: bytes) -> bytes:
    """Joins the definitions of a key and a value to that of a KEY_VALUE schema."""
    return b"".join(len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in (key, value))


def _length_prefixed(data: bytes) -> tuple[bytes, bytes]:
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big", signed=True)
    if not _LENGTH_BYTES <= end <= len(data):
        raise InvalidKeyValue("a length that does not fit")
    return data[_LENGTH_BYTES:end], data[end:]


def _part(schema: Schema, which: str, data: bytes) -> Schema:
    name = schema.properties.get(f"{which}.schema.type", SchemaType.BYTES.name)
    if name not in SchemaType.__members__:
        raise InvalidKeyValue(f"the unknown type {name}")
    return Schema(SchemaType[name], data)
