"""Starts and ends of a read in options: words, positions and publish times (OFFSET-3), for all partitions or by name.
The end of one read as the start of another leaves out no message and repeats none (READ-47)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.options.serialized_ids import from_base64, from_signed_bytes, position_of, word_of
from spark_pulsar.connector.positions import parse_position
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, InvalidMessageId, MessageId

Endpoint = Literal["earliest", "latest"] | Mapping[str, str]
"""A start or an end: a word, or positions as text by full topic name."""


class SomePositions(dict[str, str]):
    """Positions as StreamNative's connector writes them, arrays of bytes: partitions that they do not name have the
    default (OFFSET-26)."""


Time = int | Mapping[str, int]
"""A start or an end as a publish time in ms since 1970 UTC: for all partitions, or by full topic name."""

LOG: Final = logging.getLogger("spark_pulsar")
_WORDS: Final = ("earliest", "latest")
_MAX_TIME_MS: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def endpoint(text: str) -> Endpoint:
    """Reads a word, or a JSON object of topic partition to position. Raises ValueError, OffsetError."""
    return _endpoint(text, is_end=False)


def _endpoint(text: str, *, is_end: bool) -> Endpoint:
    if text.lower() in _WORDS:
        return "earliest" if text.lower() == "earliest" else "latest"
    try:
        loaded = json.loads(text, object_pairs_hook=_Members)
    except json.JSONDecodeError:
        raise ValueError("expected earliest, latest or a JSON object of topic partition to message id") from None
    if not isinstance(loaded, _Members) or not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    values = _by_topic(loaded)
    texts = {name: _position_text(name, value, is_end) for name, value in values.items()}
    return SomePositions(texts) if all(map(_is_array, values.values())) else texts


def _is_array(value: object) -> bool:
    return isinstance(value, list) and not isinstance(value, _Members)


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


def _position_text(name: str, value: object, is_end: bool) -> str:
    """Returns a word or a position as its own text. Raises ValueError, OffsetError.

    A serialized message id is the last message that is read where it is an end, as for StreamNative's connector
    (OFFSET-26).
    """
    data = None
    if isinstance(value, list) and _is_array(value):
        data = from_signed_bytes(name, value)
    elif isinstance(value, str) and value not in _WORDS and not value.startswith("{"):
        data = from_base64(name, value)
    if data is not None:
        return word_of(data) or str(position_of(data, after=is_end))
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
    end = _endpoint(text, is_end=True)
    if end == "earliest" or (isinstance(end, Mapping) and "earliest" in end.values()):
        raise ValueError("a read cannot end at earliest")
    return end


def publish_time(text: str) -> Time:
    """Reads a publish time, or a JSON object of topic partition to publish time: milliseconds since 1970 UTC, or ISO
    8601 with an offset from UTC. Raises ValueError."""
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
    if re.fullmatch(r"\d{1,19}", text) and int(text) <= _MAX_TIME_MS:
        return int(text)
    try:
        time = datetime.fromisoformat(text) if "-" in text else None
    except ValueError:
        time = None
    if time is None:
        raise ValueError(
            "expected milliseconds since 1970 UTC, a time such as 2024-03-01T01:00:00Z, or a JSON object of topic "
            f"partition to these; not {text}"
        )
    if time.tzinfo is None:
        local = time.isoformat()  # with a time of day, which a date alone lacks
        raise ValueError(f"{text} has no offset from UTC: write {local}Z, or {local}+01:00")
    return max(0, (time - _EPOCH) // timedelta(milliseconds=1))
