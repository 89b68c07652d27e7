"""Values of JSON encoded by the schema of a topic, for `produce --schema`."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.cli.messages.connecting import failed, official_client
from spark_pulsar.model.schemas import SchemaType

if TYPE_CHECKING:
    from spark_pulsar.client.schema_requests import RegisteredSchema

_NUMBERS: Final[Mapping[SchemaType, str]] = {
    SchemaType.INT8: ">b",
    SchemaType.INT16: ">h",
    SchemaType.INT32: ">i",
    SchemaType.INT64: ">q",
    SchemaType.FLOAT: ">f",
    SchemaType.DOUBLE: ">d",
}
_KNOWN: Final = (SchemaType.AVRO, SchemaType.JSON, SchemaType.STRING, *_NUMBERS)


class Unencodable(ValueError):
    """A value that the schema of a topic does not take."""


class Encoder:
    """Encoder of one schema of a topic."""

    def __init__(self, topic: str, registered: RegisteredSchema | None) -> None:
        if registered is None or registered.schema.type not in _KNOWN:
            has = "no schema" if registered is None else f"a schema of the type {registered.schema.type.name}"
            known = ", ".join(kind.name for kind in _KNOWN)
            raise failed(f"{topic} has {has}: --schema encodes by {known}")
        self._registered = registered
        self.kind = registered.schema.type
        self._encode = self._encoding()

    def encode(self, value: Any) -> bytes:
        """Encodes a value of JSON. Raises Unencodable."""
        try:
            return self._encode(value)
        except Exception as error:  # noqa: BLE001 - whatever a value that does not fit makes of fastavro
            raise Unencodable(f"does not fit the {self.kind.name} schema: {error or type(error).__name__}") from None

    def encode_text(self, text: bytes) -> bytes:
        """Encodes a text: as it is for a STRING schema, else the JSON that it holds. Raises Unencodable."""
        try:
            return self.encode(text.decode() if self.kind is SchemaType.STRING else json.loads(text))
        except (ValueError, RecursionError) as error:
            if isinstance(error, Unencodable):
                raise
            raise Unencodable(f"the {self.kind.name} schema takes JSON: {error}") from None

    def of_producer(self) -> Any:
        """Returns the schema for the official client, whose messages name its version then."""
        pulsar = official_client()
        registered, binding = self._registered, pulsar._pulsar
        schema = pulsar.schema.BytesSchema()  # payloads are bytes already
        kind = getattr(binding.SchemaType, self.kind.name)
        schema._schema_info = binding.SchemaInfo(kind, registered.name, registered.schema.data.decode())
        return schema

    def _encoding(self) -> Callable[[Any], bytes]:
        if self.kind is SchemaType.AVRO:
            return _avro_encoding(self._registered.schema.data)
        if self.kind is SchemaType.STRING:
            return _text
        if self.kind is SchemaType.JSON:
            return lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        layout = struct.Struct(_NUMBERS[self.kind])
        return lambda value: layout.pack(_number(value))


def _avro_encoding(definition: bytes) -> Callable[[Any], bytes]:
    import fastavro

    parsed = fastavro.parse_schema(json.loads(definition))

    def encode(value: Any) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value, strict_allow_default=True)
        return stream.getvalue()

    return encode


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("want a text")
    return value.encode()


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise TypeError("want a number")
    return value
