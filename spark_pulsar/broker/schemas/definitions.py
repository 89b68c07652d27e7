"""Definitions of schemas: each is checked against its type before a topic gets it (SC-2)."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from spark_pulsar.model import schemas
from spark_pulsar.model.errors import IncompatibleSchema
from spark_pulsar.model.schemas import AVRO_BASED, OF_CLIENTS, UNSTRUCTURED, Schema, SchemaType

_EMPTY_STRINGS: Final = (b"", b"null")
"""Definitions of a STRING; Python and C++ clients send the second."""


class InvalidSchema(IncompatibleSchema):
    """Error 18: the definition is not one of its type."""

    http_status = 422


class SchemaTooLarge(IncompatibleSchema):
    """Error 18: the schema is larger than this broker reads, in the thread that serves all clients."""

    http_status = 413


class TooManySchemas(IncompatibleSchema):
    """Error 18: the topic has as many schemas, or bytes of them, as this broker keeps for one."""

    http_status = 412


def size_of(schema: Schema) -> int:
    """Returns the bytes of definition and properties together."""
    properties = schema.properties.items()
    return len(schema.data) + sum(len(key.encode()) + len(value.encode()) for key, value in properties)


def check_size(schema: Schema, limit_bytes: int) -> None:
    """Raises SchemaTooLarge when a schema exceeds a limit."""
    size_bytes = size_of(schema)
    if size_bytes > limit_bytes:
        raise SchemaTooLarge(
            f"Schema has {size_bytes} bytes, more than {limit_bytes}: make it smaller, or raise schemaMaxSizeBytes"
        )


def check(schema: Schema) -> None:
    """Raises InvalidSchema unless the definition is one of its type."""
    kind = schema.type
    if kind in UNSTRUCTURED:
        return
    if kind in OF_CLIENTS:
        raise InvalidSchema(f"Schema {kind.name} is a client-side schema type")
    if kind is SchemaType.EXTERNAL:
        raise InvalidSchema("Schemas of an external registry are not kept in this one")
    if kind in AVRO_BASED:
        _check_avro(schema)
    elif kind is SchemaType.PROTOBUF_NATIVE:
        root_message(schema)
    elif kind is SchemaType.KEY_VALUE:
        for part in key_and_value(schema):
            check(part)
    elif kind is SchemaType.STRING:
        if schema.data not in _EMPTY_STRINGS:
            shown = schema.data[:80].decode(errors="replace")
            raise InvalidSchema(f"Invalid schema definition data for string schema : '{shown}'")
    elif schema.data:
        raise InvalidSchema(
            "Invalid schema definition data for primitive schemas :length of schema data should be zero, "
            f"but {len(schema.data)} bytes is found"
        )


def _check_avro(schema: Schema) -> None:
    from spark_pulsar.model import avro

    try:
        avro_type = avro.parse(schema.data)
    except avro.InvalidAvro as error:
        if schema.type is SchemaType.JSON and old_json_schema(schema.data) is not None:
            return
        raise InvalidSchema(
            f"Invalid schema definition data for {schema.type.name} schema caused by {error}"
        ) from error
    if schema.type is SchemaType.AVRO and avro_type.kind == "union":
        raise InvalidSchema("Avro schema typed [UNION] is not supported")


def old_json_schema(data: bytes) -> dict[str, Any] | None:
    """Parses the definition of a JSON schema as clients before protocol 13 sent it: a JSON Schema document, not one of
    Avro. None when it is none of those either."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def root_message(schema: Schema) -> str:
    """Reads the full name of the message of a PROTOBUF_NATIVE schema, which its descriptors must describe."""
    try:
        definition = json.loads(schema.data)
        name = definition["rootMessageTypeName"]
        files = FileDescriptorSet.FromString(base64.b64decode(definition["fileDescriptorSet"], validate=True))
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
        raise InvalidSchema(f"deserialize ProtobufNative Schema failed caused by {error!r}") from error
    if not isinstance(name, str) or not _describe(files, name):
        raise InvalidSchema(f"deserialize ProtobufNative Schema failed caused by no descriptor of {name!r}")
    return name


def _describe(files: FileDescriptorSet, name: str) -> bool:
    """Returns whether a message of this full name is among the descriptors. No other full name is put together: a long
    one may have many messages inside."""
    waiting = [(len(file.package) + 1, file.message_type) for file in files.file if name.startswith(f"{file.package}.")]
    waiting += [(0, file.message_type) for file in files.file if not file.package]
    while waiting:
        start, messages = waiting.pop()
        for message in messages:
            end = start + len(message.name)
            if name.startswith(message.name, start) and message.name:
                if end == len(name):
                    return True
                if name[end] == ".":
                    waiting.append((end + 1, message.nested_type))
    return False


def key_and_value(schema: Schema) -> tuple[Schema, Schema]:
    """Splits a KEY_VALUE schema in two. Raises InvalidSchema when it does not hold two."""
    try:
        return schemas.key_and_value(schema)
    except schemas.InvalidKeyValue as error:
        raise InvalidSchema(f"Invalid schema definition data for KEY_VALUE schema caused by {error}") from error
