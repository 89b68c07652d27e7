"""SQL expressions that turn the columns of a read into the columns of a letter (LETTER-1), without a Python worker.

Texts of users are part of the expressions as bytes in hex, which need no quoting under any setting of Spark's parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from spark_pulsar.model.letters import (
    DELAY_TIME,
    FORMER_ORIGIN_MESSAGE_ID,
    ORIGIN_MESSAGE_ID,
    REAL_SUBSCRIPTION,
    REAL_TOPIC,
    RECONSUME_TIMES,
)

PROPERTIES: Final = "coalesce(`__messageProperties`, CAST(map() AS map<string, string>))"

BASE_TOPIC: Final = "regexp_replace(`__topic`, '-partition-(0|[1-9][0-9]*)$', '')"
"""Topic of a row without its partition."""

TIMES: Final = f"(coalesce(try_cast(try_element_at({PROPERTIES}, '{RECONSUME_TIMES}') AS int), 0) + 1L)"
"""Number of the retry that a row is written for, from 1 on."""

TEXT_KEY: Final = (
    "CASE WHEN is_valid_utf8(CAST(`__key` AS string)) THEN CAST(`__key` AS string) ELSE base64(`__key`) END"
)

# The fields of MessageIdData are varints: each byte is a step of this automaton, which knows the field and the wire
# type of the value that it reads, or is at a tag (field 0), and skips what has a length.
_BYTES: Final = (
    "transform(sequence(1, octet_length(`__messageId`)), "
    "i -> CAST(conv(hex(substring(`__messageId`, i, 1)), 16, 10) AS bigint))"
)
_STATE: Final = ("field", "kind", "shift", "value", "skip", "ledger", "entry", "partition", "batch")
_FIELD_NUMBERS: Final = {"ledger": 1, "entry": 2, "partition": 3, "batch": 4}
_VALUE: Final = "(s.value | shiftleft(b & 127L, CAST(s.shift AS int)))"
_AT_TAG: Final = "s.field = 0L"
_LENGTH_DELIMITED: Final = 2


def _struct(values: Mapping[str, str]) -> str:
    fields = ", ".join(f"'{name}', {values[name]}" for name in _STATE)
    return f"named_struct({fields})"


def _step() -> str:
    kept = {name: f"s.{name}" for name in _STATE}
    skipped = _struct({**kept, "skip": "s.skip - 1L"})
    more = _struct({**kept, "value": _VALUE, "shift": "s.shift + 7L"})
    fresh = {"value": "0L", "shift": "0L"}
    tag = _struct({**kept, **fresh, "field": f"shiftright({_VALUE}, 3)", "kind": f"{_VALUE} & 7L"})
    read = {name: f"if(s.field = {number}L, {_VALUE}, s.{name})" for name, number in _FIELD_NUMBERS.items()}
    value = _struct(
        {**kept, **fresh, **read, "field": "0L", "skip": f"if(s.kind = {_LENGTH_DELIMITED}L, {_VALUE}, 0L)"}
    )
    return f"CASE WHEN s.skip > 0L THEN {skipped} WHEN b >= 128L THEN {more} WHEN {_AT_TAG} THEN {tag} ELSE {value} END"


_FIRST: Final = _struct({**dict.fromkeys(_STATE, "0L"), "partition": "-1L", "batch": "-1L"})

MESSAGE_ID: Final = (
    f"aggregate({_BYTES}, {_FIRST}, (s, b) -> {_step()}, "
    "s -> concat_ws(':', s.ledger, s.entry, s.partition, if(s.batch >= 0L, s.batch, NULL)))"
)
"""The column `__messageId` as text: `ledger:entry:partition`, inside a batch with the index behind it."""


def text(value: str) -> str:
    """Returns a text as an expression."""
    return f"CAST(X'{value.encode().hex()}' AS string)"


def letter_topic(subscription: str, ending: str, named: str | None, retry_letter_topic: str | None) -> str:
    """Names the retry letter topic (`ending` RETRY) or dead letter topic (DLQ) of each row.

    It belongs to the topic of the row, that of a row from the retry letter topic to the topic that this belongs to.
    """
    if named is not None:
        return text(named)
    own = text(f"-{subscription}-RETRY")
    base = f"if(endswith({BASE_TOPIC}, {own}), left({BASE_TOPIC}, length({BASE_TOPIC}) - length({own})), {BASE_TOPIC})"
    if retry_letter_topic is not None:
        base = f"if({BASE_TOPIC} = {text(retry_letter_topic)}, {_kept(REAL_TOPIC, BASE_TOPIC)}, {base})"
    return f"concat({base}, {text(f'-{subscription}-{ending}')})"


def _kept(name: str, otherwise: str) -> str:
    return f"coalesce(try_element_at({PROPERTIES}, '{name}'), {otherwise})"


def origin(subscription: str) -> dict[str, str]:
    """Returns the properties that say where a message came from: kept from the first time on."""
    return {
        REAL_TOPIC: _kept(REAL_TOPIC, BASE_TOPIC),
        REAL_SUBSCRIPTION: _kept(REAL_SUBSCRIPTION, text(subscription)),
        ORIGIN_MESSAGE_ID: _kept(ORIGIN_MESSAGE_ID, MESSAGE_ID),
        FORMER_ORIGIN_MESSAGE_ID: _kept(FORMER_ORIGIN_MESSAGE_ID, MESSAGE_ID),
    }


def retry(delay_ms: str) -> dict[str, str]:
    """Returns the properties that count a retry."""
    return {RECONSUME_TIMES: f"CAST({TIMES} AS string)", DELAY_TIME: f"CAST({delay_ms} AS string)"}


def with_properties(added: Mapping[str, str]) -> str:
    """Returns the properties of a row with others added, expressions of texts, which replace those of the same name."""
    pairs = ", ".join(f"{text(name)}, {value}" for name, value in added.items())
    return f"map_concat({without_properties(added)}, map({pairs}))"


def without_properties(names: Iterable[str]) -> str:
    """Returns the properties of a row without those of these names."""
    return f"map_filter({PROPERTIES}, (name, value) -> name NOT IN ({', '.join(map(text, names))}))"
