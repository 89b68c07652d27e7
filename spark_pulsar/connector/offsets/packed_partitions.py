"""Members of an offset, packed: one text for the partitions of a topic (OFFSET-27).

An offset of 1,000 partitions that names each in full, in every member, is 150 KB, and Spark stores one with each
micro-batch. From `PACKED_FROM` partitions on a member has one line for the topic, under the name that its partitions
share:

    "positions": {"persistent://public/default/t-partition-": "812:34:2 +1:7 +1:0*996 1001=+3:12 earliest"}
    "seen":      {"persistent://public/default/t-partition-": "+1790000000000:1a2b3c4d +12:00ff… 9:3:+0:5e6f7a8b"}

The items are divided by spaces, in the order of the partitions: from 0 on, or from `number=` on. `*996` repeats an item
for so many partitions. An item of positions is ledger, entry and, where it is not 0, the place in the batch; the ledger
is the difference to that of the item before, with its sign. An item of fingerprints is the publish time, as such a
difference, and the checksum, after ledger and entry where these are not the entry before the partition's position.

Fewer partitions, and topics that have none, stay as a reader of the checkpoint would write them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.entry_evidence import last_before
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.names import PARTITION_MARK

PACKED_FROM: Final = 16
"""Partitions of a topic in a member, from which on they are packed."""
MAX_PARTITIONS: Final = 1_000_000
"""More partitions in one packed text are refused, before they are made."""

_PARTITION: Final = re.compile(rf"(.+{PARTITION_MARK})(0|[1-9][0-9]{{0,8}})", re.DOTALL)
_ITEM: Final = re.compile(r"(?:(0|[1-9]\d{0,8})=)?([^=* ]+)(?:\*([1-9]\d{0,8}))?")
_POSITION: Final = re.compile(r"([+-]?\d{1,19}):(\d{1,19})(?::(\d{1,10}))?")
_FINGERPRINT: Final = re.compile(r"(?:(\d{1,19}):(\d{1,19}):)?([+-]\d{1,20}):([0-9a-f]{8})")
_EARLIEST_TEXT: Final = str(EARLIEST)

Value = TypeVar("Value")


def split(values: Mapping[str, Value]) -> tuple[Mapping[str, Value], Mapping[str, Mapping[int, Value]]]:
    """Divides a member into what stays as it is, and the partitions that are packed: by the name that those of a topic
    share, and by number."""
    topics: dict[str, dict[int, Value]] = {}
    for topic, value in values.items():
        match = _PARTITION.fullmatch(topic)
        if match is not None:
            topics.setdefault(match[1], {})[int(match[2])] = value
    packed = {name: partitions for name, partitions in topics.items() if len(partitions) >= PACKED_FROM}
    stays = {
        topic: value
        for topic, value in values.items()
        if (match := _PARTITION.fullmatch(topic)) is None or match[1] not in packed
    }
    return stays, packed


def is_packed(topic: str) -> bool:
    """Returns whether a key of a packed offset names all partitions of a topic."""
    return topic.endswith(PARTITION_MARK)


def packed_positions(partitions: Mapping[int, ReadPosition]) -> str:
    """Returns the text of the positions of a topic's partitions."""

    def texts() -> Iterator[tuple[int, str]]:
        ledger_id: int | None = None
        for number in sorted(partitions):
            position = partitions[number]
            if position == EARLIEST:
                yield number, _EARLIEST_TEXT
                continue
            shown = f"{position.ledger_id}" if ledger_id is None else f"{position.ledger_id - ledger_id:+d}"
            batch = f":{position.batch_index}" if position.batch_index else ""
            yield number, f"{shown}:{position.entry_id}{batch}"
            ledger_id = position.ledger_id

    return _joined(texts())


def unpacked_positions(name: str, text: str) -> dict[str, ReadPosition]:
    """Reads what `packed_positions` wrote, by full name. Raises OffsetError."""
    ledger_id: int | None = None

    def parse(topic: str, item: str) -> ReadPosition:
        nonlocal ledger_id
        if item == _EARLIEST_TEXT:
            return EARLIEST
        match = _POSITION.fullmatch(item)
        if match is None or (ledger_id is None) == match[1].startswith(("+", "-")):
            raise OffsetError(f"{item!r} is not a packed position of {topic}: expected ledger:entry or +ledger:entry")
        ledger_id = int(match[1]) + (ledger_id or 0)
        position = ReadPosition(ledger_id, int(match[2]), int(match[3] or 0))
        if not (0 <= ledger_id < 2**63 and position.entry_id < 2**63 and position.batch_index < 2**31):
            raise OffsetError(f"{item!r} is not a packed position of {topic}: its numbers are out of range")
        return position

    return _values(name, text, parse)


def packed_fingerprints(
    partitions: Mapping[int, Fingerprint], position_of: Callable[[int], ReadPosition | None]
) -> str:
    """Returns the text of the fingerprints of a topic's partitions, beside their positions by number."""

    def texts() -> Iterator[tuple[int, str]]:
        time_ms = 0
        for number in sorted(partitions):
            seen = partitions[number]
            at = position_of(number)
            place = "" if at is not None and _lies_before(seen, at) else f"{seen.ledger_id}:{seen.entry_id}:"
            yield number, f"{place}{seen.publish_time_ms - time_ms:+d}:{seen.checksum:08x}"
            time_ms = seen.publish_time_ms

    return _joined(texts())


def unpacked_fingerprints(name: str, text: str, positions: Mapping[str, ReadPosition]) -> dict[str, Fingerprint]:
    """Reads what `packed_fingerprints` wrote, by full name. Raises OffsetError."""
    time_ms = 0

    def parse(topic: str, item: str) -> Fingerprint:
        nonlocal time_ms
        match = _FINGERPRINT.fullmatch(item)
        before = last_before(positions[topic]) if topic in positions else None
        if match is None or (match[1] is None and before is None):
            raise OffsetError(f"{item!r} is not a packed fingerprint of {topic}: expected +publishTimeMs:checksum")
        time_ms += int(match[3])
        ledger_id, entry_id = (int(match[1]), int(match[2])) if match[1] else (before or EARLIEST)[:2]
        if not 0 <= time_ms < 2**64:
            raise OffsetError(f"{item!r} is not a packed fingerprint of {topic}: its publish time is out of range")
        return Fingerprint(ledger_id, entry_id, time_ms, int(match[4], 16))

    return _values(name, text, parse)


def _lies_before(seen: Fingerprint, position: ReadPosition) -> bool:
    before = last_before(position)
    return before is not None and before[:2] == seen[:2]


def _joined(items: Iterator[tuple[int, str]]) -> str:
    """Joins the items of partitions, in order of their numbers; equal ones that follow each other are one."""
    runs: list[tuple[str, int]] = []  # an item as written, and how many partitions it is for
    last, plain = -1, ""
    for number, text in items:
        follows = number == last + 1
        if follows and runs and text == plain:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((text if follows else f"{number}={text}", 1))
        last, plain = number, text
    return " ".join(text if count == 1 else f"{text}*{count}" for text, count in runs)


def _values(name: str, text: str, parse: Callable[[str, str], Value]) -> dict[str, Value]:
    """Reads the items of a packed text, each partition's by its full name."""
    values: dict[str, Value] = {}
    number = 0
    for written in text.split(" "):
        match = _ITEM.fullmatch(written)
        if match is None or int(match[1] or number) < number:
            raise OffsetError(f"{written!r} is not an item of the packed partitions of {name}")
        number = int(match[1] or number)
        count = int(match[3] or 1)
        if len(values) + count > MAX_PARTITIONS:
            raise OffsetError(f"{name} has more than {MAX_PARTITIONS:,} partitions in this offset: it is damaged")
        for _ in range(count):
            topic = f"{name}{number}"
            values[topic] = parse(topic, match[2])
            number += 1
    return values
