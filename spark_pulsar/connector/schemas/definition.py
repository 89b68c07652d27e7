"""Definitions of schemas: what the registry of a broker has about the messages of a topic, parsed within bounds.

Stable for both halves of the connector: `Definition` is made of a `RegisteredSchema` (reading) or of a type and its
bytes (writing); `avro()` gives the Avro type of AVRO and JSON, `key_value()` both parts of KEY_VALUE.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.model.schemas import InvalidKeyValue, Schema, SchemaType, key_and_value

if TYPE_CHECKING:
    from spark_pulsar.client.schema_requests import RegisteredSchema
    from spark_pulsar.model.avro import AvroType

MAX_DEFINITION_BYTES: Final = 1024 * 1024
"""Bytes of a definition that are parsed."""

KEY_VALUE_ENCODING: Final = "kv.encoding.type"
"""Property of a KEY_VALUE schema that names its encoding."""


class KeyValueEncoding(StrEnum):
    """Encoding of a KEY_VALUE: both in the payload, or the key as the message's key."""

    INLINE = "INLINE"
    SEPARATED = "SEPARATED"


@dataclass(frozen=True, slots=True)
class Definition:
    """A schema of a topic: its type, its definition in the form of the type, properties, name, and its version as
    messages carry it (empty for one that no registry has given yet)."""

    schema: Schema
    name: str = ""
    version: bytes = b""
    is_of_several: bool = False
    """True for the one of several topics that differ: a message without version was not written with it."""

    @staticmethod
    def of(registered: RegisteredSchema) -> Definition:
        """Returns the definition that a registry gave."""
        return Definition(registered.schema, registered.name, registered.version)

    @property
    def type(self) -> SchemaType:
        """Type of the schema."""
        return self.schema.type

    def avro(self) -> AvroType:
        """Parses the Avro type of an AVRO, JSON or PROTOBUF schema. Raises SchemaError when there is none.

        Depth and size are bounded. Types may contain themselves: that is for the caller to refuse.
        """
        from spark_pulsar.model import avro

        if len(self.schema.data) > MAX_DEFINITION_BYTES:
            raise SchemaError(
                f"the {self.type.name} schema has {len(self.schema.data)} bytes, more than {MAX_DEFINITION_BYTES}"
            )
        try:
            return avro.parse(self.schema.data)
        except avro.InvalidAvro as error:
            raise SchemaError(f"the {self.type.name} schema cannot be read as an Avro definition: {error}") from error

    def key_value(self) -> tuple[Definition, Definition, KeyValueEncoding]:
        """Splits a KEY_VALUE schema into key, value and their encoding; INLINE where it says nothing.

        Raises SchemaError when the definition does not hold two, or names an encoding or type that is unknown.
        """
        encoding = self.schema.properties.get(KEY_VALUE_ENCODING, KeyValueEncoding.INLINE).upper()
        if encoding not in KeyValueEncoding.__members__:
            raise SchemaError(
                f"the KEY_VALUE schema has {KEY_VALUE_ENCODING} = {encoding}; known are {', '.join(KeyValueEncoding)}"
            )
        try:
            key, value = key_and_value(self.schema)
        except InvalidKeyValue as error:
            raise SchemaError(f"the KEY_VALUE schema cannot be read: {error}") from error
        key_name, value_name = (self.schema.properties.get(f"{part}.schema.name", "") for part in ("key", "value"))
        parts = Definition(key, key_name, self.version), Definition(value, value_name, self.version)
        return *parts, KeyValueEncoding(encoding)
