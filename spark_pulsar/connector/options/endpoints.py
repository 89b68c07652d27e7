"""Starts and ends of a read in options: words, positions and publish times, for all partitions or by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from spark_pulsar.connector.positions import parse_position
from spark_pulsar.model.names import TopicName

Endpoint = Literal["earliest", "latest"] | Mapping[str, str]
"""A start or an end: a word, or positions as text by full topic name."""

Time = int | Mapping[str, int]
"""A start or an end as a publish time in ms since 1970 UTC: for all partitions, or by full topic name."""

_WORDS: Final = ("earliest", "latest")
_MAX_TIME_MS: Final = 2**63 - 1


def endpoint(text: str) -> Endpoint:
    """Reads a word, or a JSON object of topic partition to position. Raises ValueError, OffsetError."""
    if text.lower() in _WORDS:
        return "earliest" if text.lower() == "earliest" else "latest"
    try:
        loaded = json.loads(text, object_pairs_hook=_by_topic)
    except json.JSONDecodeError:
        raise ValueError("expected earliest, latest or a JSON object of topic partition to position") from None
    if not isinstance(loaded, dict) or not loaded:
        raise ValueError("expected a JSON object with at least one topic partition")
    return {name: _position_text(name, value) for name, value in loaded.items()}


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
    if not isinstance(value, str):
        raise ValueError(
            f'position of {name} must be a text like "12:34:0" (ledger:entry:batch index), not {type(value).__name__}'
        )
    if value not in _WORDS:
        parse_position(value)
    return value


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
