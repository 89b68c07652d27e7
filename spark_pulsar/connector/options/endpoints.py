"""Starts and ends of a read in options: words, positions and publish times, for all partitions or by name."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.positions import parse_position
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, InvalidMessageId, MessageId

Endpoint = Literal["earliest", "latest"] | Mapping[str, str]
"""A start or an end: a word, or positions as text by full topic name."""

Time = int | Mapping[str, int]
"""A start or an end as a publish time in ms since 1970 UTC: for all partitions, or by full topic name."""

LOG: Final = logging.getLogger("spark_pulsar")
_WORDS: Final = ("earliest", "latest")
_MAX_TIME_MS: Final = 2**63 - 1


def endpoint(text: str) -> Endpoint:
    """Reads a word, or a JSON object of topic partition to position. Raises ValueError, OffsetError."""
    if text.lower() in _WORDS:
        return "earliest" if text.lower() == "earliest" else "latest"
    try:
        loaded = json.loads(text, object_pairs_hook=_Members)
    except json.JSONDecodeError:
        raise ValueError("expected earliest, latest or a JSON object of topic partition to message id") from None
    if not isinstance(loaded, _Members) or not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    return {name: _position_text(name, value) for name, value in _by_topic(loaded).items()}


class _Members(list[tuple[str, object]]):
    """Members of a JSON object as they stand."""


def _by_topic(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Returns the members of a JSON object under the full names of their topics."""
    out: dict[str, object] = {}
    for name, value in pairs:
        full = TopicName.parse(name).full
        if full in out:
            raise ValueError(f"{full} is named more than once")
        out[full] = value
    return out


def _position_text(name: str, value: object) -> str:
    """Returns a word or a position as its own text. Raises ValueError, OffsetError."""
    if isinstance(value, _Members):  # as the admin API returns message ids
        value = json.dumps(dict(value))
    if not isinstance(value, str):
        raise ValueError(
            f'position of {name} must be a message id like "12:34:-1:-1" (ledger:entry:partition:batch), '
            f"not {type(value).__name__}"
        )
    return value if value in _WORDS else named_position(name, value)


def named_position(name: str, text: str) -> str:
    """Returns the message id, or the position of a checkpoint, that a text stands for in the topic partition `name`, as
    text of a position (OFFSET-16). Raises OffsetError.

    Three numbers are a position, `ledger:entry:batch`, but the Java client prints ids as `ledger:entry:partition`: of
    what could be both the log warns.
    """
    partition = TopicName.parse(name).partition
    if text.count(":") == 2 and not text.startswith("{"):
        position = parse_position(text)
        if position.batch_index > 0 and position.batch_index == partition:
            place = f"{position.ledger_id}:{position.entry_id}"
            LOG.warning(
                "%r of %s is read as index %d in a batch: %s:%d:%d; as a message id of this partition it is %s:%d:-1",
                *(text, name, partition, place, partition, partition, place, partition),
            )
        return str(position)
    try:
        message_id = MessageId.parse(text)
    except InvalidMessageId as error:
        raise OffsetError(
            f"{name}: {error}; a message id is ledger:entry:partition:batch, or earliest or latest"
        ) from error
    if message_id.position in (EARLIEST_ID.position, LATEST_ID.position):
        return "earliest" if message_id.position == EARLIEST_ID.position else "latest"
    if message_id.partition not in (-1, partition):
        raise OffsetError(f"{text!r} is a message id of partition {message_id.partition}, not one of {name}")
    if min(message_id.position) < 0:
        raise OffsetError(f"{text!r} of {name} is no message's id: use earliest or latest")
    return f"{message_id.ledger_id}:{message_id.entry_id}:{max(message_id.batch_index, 0)}"


def ending_endpoint(text: str) -> Endpoint:
    """Reads the end of a read, as `endpoint`; a read cannot end where topics begin."""
    end = endpoint(text)
    if end == "earliest" or (isinstance(end, Mapping) and "earliest" in end.values()):
        raise ValueError("a read cannot end at earliest")
    return end


def publish_time(text: str) -> Time:
    """Reads a publish time, or a JSON object of topic partition to publish time. Raises ValueError."""
    if not text.startswith("{"):
        return _time_ms(text)
    try:
        loaded = json.loads(text, object_pairs_hook=_by_topic)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    return {name: _time_ms(str(value)) for name, value in loaded.items()}


def _time_ms(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text) or int(text) > _MAX_TIME_MS:
        raise ValueError(
            f"expected milliseconds since 1970 UTC, or a JSON object of topic partition to these; not {text}"
        )
    return int(text)
