"""Messages that a WebSocket's client publishes, and the answers to them, as JSON (WS-5, WS-6)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from spark_pulsar.admin.http.answers import parse_body
from spark_pulsar.admin.http.refusals import Refused

NOT_JSON: Final = 3
BAD_PAYLOAD: Final = 7
UNKNOWN: Final = 8
"""Numbers of `send-error`, as Apache Pulsar has them."""
_LARGEST_LONG: Final = (1 << 63) - 1
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d(?::\d\d)?)", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadMessage(ValueError):
    """A text that is no message to publish; `code` is the number of the answer, `context` the client's mark."""

    def __init__(self, code: int, text: str, context: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.context = context


@dataclass(slots=True)
class OutgoingMessage:
    """A message to publish."""

    payload: bytes
    properties: dict[str, str] = field(default_factory=dict)
    context: str | None = None
    """Mark of the client, which the answer repeats."""
    key: str | None = None
    replication_clusters: list[str] = field(default_factory=list)
    event_time_ms: int | None = None
    deliver_at_ms: int = 0
    """Time of delivery; 0 or less: at once."""
    deliver_after_ms: int = 0


def parse(text: str) -> OutgoingMessage:
    """Reads a message; members that it does not have are ignored. Raises BadMessage."""
    try:
        value = parse_body(text.encode())
    except (Refused, UnicodeEncodeError) as error:
        raise BadMessage(NOT_JSON, str(error).replace("request body", "message")) from None
    if not isinstance(value, dict):
        raise BadMessage(NOT_JSON, "The message is no JSON object")
    context = _text(value, "context")
    message = OutgoingMessage(b"", context=context)
    message.key = _text(value, "key")
    message.properties = _properties(value.get("properties"), context)
    message.replication_clusters = _texts(value.get("replicationClusters"))
    message.deliver_at_ms = _number(value, "deliverAt")
    message.deliver_after_ms = _number(value, "deliverAfterMs")
    message.payload = _payload(_text(value, "payload"), context)
    event_time = _text(value, "eventTime")
    if event_time is not None:
        message.event_time_ms = _time_ms(event_time, context)
    return message


def receipt(message_id: str, context: str | None) -> str:
    """Returns the answer to a message that is stored."""
    answer: dict[str, Any] = {"result": "ok", "messageId": message_id}
    return _answer(answer, context)


def refusal(code: int, text: str, context: str | None) -> str:
    """Returns the answer to a message that is not stored."""
    return _answer({"result": f"send-error:{code}", "errorMsg": text}, context)


def _answer(answer: dict[str, Any], context: str | None) -> str:
    if context is not None:
        answer["context"] = context
    answer |= {"errorCode": 0, "schemaVersion": 0}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _scalar(value: object, name: str) -> str:
    """Returns a text; numbers and truth values count as theirs, as in Apache Pulsar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadMessage(NOT_JSON, f"{name}: want a text")


def _text(value: dict[str, Any], name: str) -> str | None:
    member = value.get(name)
    return None if member is None else _scalar(member, name)


def _texts(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadMessage(NOT_JSON, "replicationClusters: want a list of texts")
    return [_scalar(cluster, "replicationClusters") for cluster in value]


def _properties(value: object, context: str | None) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadMessage(NOT_JSON, "properties: want an object of texts", context)
    for key, item in value.items():
        if item is None:
            raise BadMessage(BAD_PAYLOAD, f"properties: {key[:100]} has no value", context)
    return {key: _scalar(item, f"properties.{key[:100]}") for key, item in value.items()}


def _number(value: dict[str, Any], name: str) -> int:
    member = value.get(name)
    if member is None:
        return 0
    try:
        if isinstance(member, bool):
            raise ValueError
        number = int(member)
    except (TypeError, ValueError, OverflowError):
        raise BadMessage(NOT_JSON, f"{name}: want a whole number") from None
    if not -_LARGEST_LONG <= number <= _LARGEST_LONG:
        raise BadMessage(NOT_JSON, f"{name}: want a number of 64 bits")
    return number


def _payload(text: str | None, context: str | None) -> bytes:
    if text is None:
        raise BadMessage(BAD_PAYLOAD, "The message has no payload", context)
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadMessage(BAD_PAYLOAD, f"Invalid Base64 message-payload error={error}", context) from None


def _time_ms(text: str, context: str | None) -> int:
    """Reads an ISO 8601 time with an offset, as milliseconds."""
    match = _TIME.fullmatch(text)
    refused = BadMessage(BAD_PAYLOAD, f"eventTime {text[:100]!r}: want a time as 2024-01-31T12:00:00.000Z", context)
    if match is None:
        raise refused
    *numbers, fraction, offset = match.groups()
    year, month, day, hour, minute, second = (int(digits or 0) for digits in numbers)
    try:
        when = datetime(year, month, day, hour, minute, second, tzinfo=_zone(offset))
    except ValueError:
        raise refused from None
    time_ms = (when - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "").ljust(3, "0")[:3])
    if time_ms <= 0:
        raise refused
    return time_ms


def _zone(offset: str) -> timezone:
    if offset == "Z":
        return UTC
    hours, minutes, *seconds = (int(part) for part in offset[1:].split(":"))
    away = timedelta(hours=hours, minutes=minutes, seconds=sum(seconds))
    return timezone(-away if offset[0] == "-" else away)
