"""Commands of a consumer's client, as JSON: acknowledgements, permits and the like (WS-11). What is refused comes again
after its delay in `consuming` (NACK-1)."""

from __future__ import annotations

from typing import Final, NamedTuple

from spark_pulsar.admin.http.answers import parse_body
from spark_pulsar.admin.http.refusals import Refused

from .message_ids import BadMessageId, WebSocketMessageId

_MOST_PERMITS: Final = (1 << 31) - 1


class BadCommand(ValueError):
    """A text that is no command."""


class ConsumerCommand(NamedTuple):
    """A command; one without a type, or with one that is not known, acknowledges its message, as in Apache Pulsar."""

    type: str
    message_id: WebSocketMessageId | None
    permits: int


_WITHOUT_MESSAGE: Final = frozenset({"permit", "unsubscribe", "isEndOfTopic"})


def parse(text: str) -> ConsumerCommand:
    """Reads a command. Raises BadCommand."""
    try:
        value = parse_body(text.encode())
    except (Refused, UnicodeEncodeError) as error:
        raise BadCommand(str(error).replace("request body", "command")) from None
    if not isinstance(value, dict):
        raise BadCommand("The command is no JSON object")
    kind = value.get("type")
    kind = kind if isinstance(kind, str) else ""
    permits = value.get("permitMessages", 0)
    if kind == "permit" and (type(permits) is not int or not 0 < permits <= _MOST_PERMITS):
        raise BadCommand("permit: want permitMessages, a number from 1 on")
    message_id: WebSocketMessageId | None = None
    if kind not in _WITHOUT_MESSAGE:
        encoded = value.get("messageId")
        if not isinstance(encoded, str):
            raise BadCommand("The command has no messageId")
        try:
            message_id = WebSocketMessageId.parse(encoded)
        except BadMessageId as error:
            raise BadCommand(str(error)) from None
    return ConsumerCommand(kind, message_id, permits if kind == "permit" else 0)
