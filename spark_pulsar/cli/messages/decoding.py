"""Payloads decoded by the schema of their topic, as values of JSON."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.schemas import UNSTRUCTURED, InvalidKeyValue, Schema, SchemaType, key_and_value

Lookup = Callable[[str, bytes | None], Schema | None]
"""Answer of the registry: the schema of a topic with a version, or the last."""
Decode = Callable[[bytes], Any]

_EPOCH: Final = datetime(1970, 1, 1)
_LENGTH: Final = struct.Struct(">i")
_MOST_DEFINITION_BYTES: Final = 1 << 20
_MOST_CACHED: Final = 1000


class Decoded(NamedTuple):
    """A value of JSON, and the name of the schema that gave it."""

    value: Any
    schema: str


class Decoder:
    """Decoders of the topics and versions that were met; the registry gets one request for each."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._decoders: dict[tuple[str, int], tuple[SchemaType, Callable[[bytes, str], Any]] | None] = {}

    def decode(self, topic: str, version: int, key: str, payload: bytes) -> Decoded | None:
        """Decodes a payload; None without a schema, and when it does not fit. A `version` of -1: the topic's last."""
        at = (_whole_topic(topic), version)
        if at not in self._decoders:
            if len(self._decoders) >= _MOST_CACHED:
                self._decoders.clear()
            self._decoders[at] = self._decoder_at(*at)
        decoder = self._decoders[at]
        if decoder is None:
            return None
        kind, decode = decoder
        try:
            value = decode(payload, key)
            json.dumps(value, allow_nan=False)
        except Exception:  # noqa: BLE001 - whatever a payload that does not fit makes of fastavro
            return None
        return Decoded(value, kind.name)

    def _decoder_at(self, topic: str, version: int) -> tuple[SchemaType, Callable[[bytes, str], Any]] | None:
        try:
            schema = self._lookup(topic, None if version < 0 else version.to_bytes(8, "big"))
            if schema is None or schema.type in UNSTRUCTURED or len(schema.data) > _MOST_DEFINITION_BYTES:
                return None
            if schema.type is SchemaType.KEY_VALUE:
                return schema.type, _key_value_decoder(schema)
            decode = _decoder_of(schema)
        except (PulsarError, InvalidKeyValue, ValueError, KeyError, TypeError, LookupError):
            return None  # messages are shown as they are
        return None if decode is None else (schema.type, lambda payload, _key: decode(payload))


def _whole_topic(topic: str) -> str:
    base, separator, number = topic.rpartition("-partition-")
    return base if separator and number.isdecimal() else topic


def _decoder_of(schema: Schema) -> Decode | None:
    if schema.type is SchemaType.AVRO:
        return _avro_decoder(schema.data)
    return _DECODERS.get(schema.type)


def _avro_decoder(definition: bytes) -> Decode:
    import fastavro

    parsed = fastavro.parse_schema(json.loads(definition))

    def decode(payload: bytes) -> Any:
        stream = io.BytesIO(payload)
        value = fastavro.schemaless_reader(stream, parsed, None)
        if stream.read(1):
            raise ValueError("bytes behind the record")
        return _json_value(value)

    return decode


def _key_value_decoder(schema: Schema) -> Callable[[bytes, str], Any]:
    key_schema, value_schema = key_and_value(schema)
    of_key, of_value = _decoder_of(key_schema) or _json_value, _decoder_of(value_schema) or _json_value
    if schema.properties.get("kv.encoding.type", "INLINE").upper() == "SEPARATED":

        def decode_separated(payload: bytes, key: str) -> Any:
            try:
                shown = of_key(base64.b64decode(key, validate=True))  # so the Java client writes keys
            except Exception:  # noqa: BLE001 - whatever a key that does not fit makes of fastavro
                shown = key
            return {"key": shown, "value": of_value(payload)}

        return decode_separated

    def decode(payload: bytes, _key: str) -> Any:
        key, rest = _part(payload)
        value, rest = _part(rest)
        if rest:
            raise ValueError("bytes behind the value")
        return {
            "key": None if key is None else of_key(key),
            "value": None if value is None else of_value(value),
        }

    return decode


def _part(payload: bytes) -> tuple[bytes | None, bytes]:
    """Cuts off a part that stands behind its length; a length of -1 is no part."""
    (length,) = _LENGTH.unpack_from(payload)
    if length == -1:
        return None, payload[4:]
    if length < 0 or 4 + length > len(payload):
        raise ValueError("a length that does not fit")
    return payload[4 : 4 + length], payload[4 + length :]


def _json_value(value: Any) -> Any:
    """Writes what fastavro makes of logical types in JSON."""
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    return value


def _number(form: str) -> Decode:
    layout = struct.Struct(form)
    return lambda payload: layout.unpack(payload)[0]


def _boolean(payload: bytes) -> bool:
    if payload not in (b"\0", b"\1"):
        raise ValueError("no boolean")
    return payload == b"\1"


def _moment(seconds: int, nanos: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)).replace(tzinfo=UTC).isoformat()


def _millis(payload: bytes) -> str:
    seconds, millis = divmod(_number(">q")(payload), 1000)
    return _moment(seconds, millis * 1_000_000)


def _local_date(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def _local_time(nanos: int) -> str:
    if not 0 <= nanos < 86_400 * 10**9:
        raise ValueError("no time of a day")
    return (_EPOCH + timedelta(microseconds=nanos // 1000)).time().isoformat()


def _local_date_time(payload: bytes) -> str:
    days, nanos = struct.unpack(">qq", payload)
    return f"{_local_date(days)}T{_local_time(nanos)}"


_DECODERS: Final[Mapping[SchemaType, Decode]] = {
    SchemaType.STRING: lambda payload: payload.decode(),
    SchemaType.JSON: json.loads,
    SchemaType.BOOLEAN: _boolean,
    SchemaType.INT8: _number(">b"),
    SchemaType.INT16: _number(">h"),
    SchemaType.INT32: _number(">i"),
    SchemaType.INT64: _number(">q"),
    SchemaType.FLOAT: _number(">f"),
    SchemaType.DOUBLE: _number(">d"),
    SchemaType.DATE: lambda payload: _millis(payload)[:10],
    SchemaType.TIME: lambda payload: _local_time(_number(">q")(payload) % 86_400_000 * 1_000_000),
    SchemaType.TIMESTAMP: _millis,
    SchemaType.INSTANT: lambda payload: _moment(*struct.unpack(">qi", payload)),
    SchemaType.LOCAL_DATE: lambda payload: _local_date(_number(">q")(payload)),
    SchemaType.LOCAL_TIME: lambda payload: _local_time(_number(">q")(payload)),
    SchemaType.LOCAL_DATE_TIME: _local_date_time,
}
