"""Messages as objects of JSON lines: `consume` and `read` print them, `produce --json-lines` takes them back."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.cli.messages.decoding import Decoder
from spark_pulsar.model.positions.ids import MessageId

if TYPE_CHECKING:
    import pulsar

_OF_THE_BROKER: Final = ("topic", "id", "publish_time_ms", "producer", "redelivery_count", "schema")
"""Members that a received message has, and that mean nothing for one that is sent."""
_MEMBERS: Final = (
    *("value", "value_base64", "key", "ordering_key", "properties", "event_time_ms", "deliver_after_ms"),
    "deliver_at_ms",
)
_MOST_MS: Final = (1 << 63) - 1


class InvalidRecord(ValueError):
    """A JSON line that is no message."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be sent; a value of None is a null value, which deletes its key in a compacted topic."""

    value: bytes | None
    key: str | None = None
    ordering_key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int | None = None
    deliver_after_ms: int | None = None
    deliver_at_ms: int | None = None


def id_of(message: pulsar.Message) -> MessageId:
    """Returns the id of a received message."""
    return MessageId.of_client(message.message_id())


def record_of(message: pulsar.Message, decoder: Decoder | None) -> dict[str, Any]:
    """Makes the object of a received message. A payload that is neither decoded by a schema into text nor UTF-8 without
    one is in `value_base64`, byte by byte."""
    key = message.partition_key()
    record = {
        "topic": message.topic_name(),
        "id": str(id_of(message)),
        "key": key or None,
        "ordering_key": message.ordering_key() or None,
        "properties": dict(message.properties()),
        "publish_time_ms": message.publish_timestamp(),
        "event_time_ms": message.event_timestamp() or None,
        "producer": message.producer_name(),
        "redelivery_count": message.redelivery_count(),
        "schema": None,
        "value": None,
    }
    if not is_null(message):
        _add_value(record, message, key, decoder)
    return record


def _add_value(record: dict[str, Any], message: pulsar.Message, key: str, decoder: Decoder | None) -> None:
    payload = message.data()
    decoded = decoder and decoder.decode(message.topic_name(), schema_version(message), key, payload)
    if decoded:
        record["schema"], record["value"] = decoded.schema, decoded.value
        if decoded.schema == "STRING":
            return
    else:
        try:
            record["value"] = payload.decode()
            return
        except UnicodeDecodeError:
            pass
    record["value_base64"] = base64.b64encode(payload).decode()


def is_null(message: pulsar.Message) -> bool:
    """Returns whether a message has a null value; older clients cannot distinguish it from an empty one."""
    return bool(message.has_null_value()) if hasattr(message, "has_null_value") else False


def schema_version(message: pulsar.Message) -> int:
    """Returns the version of a message's schema, -1 for one without; the client's own text of it is not always one."""
    inner = message._message
    return inner.int_schema_version() if hasattr(inner, "int_schema_version") else -1


def outgoing_of(line: bytes, encode: Callable[[Any], bytes] | None = None) -> Outgoing:
    """Reads the message of a JSON line. `value_base64` wins over `value`, which `encode` encodes; without it anything
    but a text and null is sent as JSON. Raises InvalidRecord."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"no JSON: {error}") from None
    if not isinstance(record, dict):
        raise InvalidRecord('want an object such as {"value": "text"}')
    unknown = record.keys() - {*_MEMBERS, *_OF_THE_BROKER}
    if unknown:
        raise InvalidRecord(f"unknown member {sorted(unknown)[0]!r}: known are {', '.join(_MEMBERS)}")
    if not record.keys() & {"value", "value_base64"}:
        raise InvalidRecord("neither value nor value_base64")
    properties = record.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(text, str) for text in properties.values()):
        raise InvalidRecord("properties: want an object of texts")
    texts = (*properties, *properties.values(), *filter(None, map(record.get, ("key", "ordering_key"))))
    for text in texts:
        if isinstance(text, str):
            _encoded(text)
    return Outgoing(
        _value_of(record, encode),
        _text(record, "key"),
        _text(record, "ordering_key"),
        properties,
        _ms(record, "event_time_ms"),
        _ms(record, "deliver_after_ms"),
        _ms(record, "deliver_at_ms"),
    )


def _value_of(record: Mapping[str, Any], encode: Callable[[Any], bytes] | None) -> bytes | None:
    encoded = record.get("value_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise InvalidRecord("value_base64: no base64") from None
    value = record.get("value")
    if value is None:
        return None
    if encode is not None:
        return encode(value)
    return _encoded(value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"half of a UTF-16 pair: {error.object[error.start]!r}") from None


def _text(record: Mapping[str, Any], name: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRecord(f"{name}: want a text or null")
    return value or None


def _ms(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_MS:
        raise InvalidRecord(f"{name}: want milliseconds, a whole number")
    return value
