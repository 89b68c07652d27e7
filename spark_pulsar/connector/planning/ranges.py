"""Planning: what the tasks of one read do. Pure functions of two offsets, so that a replay plans the same tasks.

One task reads one range of one topic partition, or a part of it (see `splitting`, READ-18, READ-19). Ranges come in the
order of topic names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, entries_between


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Messages of `topic` (a topic partition's full name) from `start` on, up to and without `end`.

    With `known_end`, the entry at `start` is known to have existed, and so are those up to `known_end`: if it is not
    there any more, messages were lost. Without, what comes first after `start` may have any id.
    """

    topic: str
    start: ReadPosition
    end: ReadPosition
    known_end: ReadPosition | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranges to read, and losses between the two offsets: sentences for an error or a warning."""

    ranges: tuple[TopicRange, ...]
    losses: tuple[str, ...]


def plan(start: SourceOffset, end: SourceOffset) -> Plan:
    """Ranges from `start` to `end` (OFFSET-6).

    A partition that only `end` knows is new and read from its beginning. One that only `start` knows has vanished: a
    loss, and so it is when the options of a restarted query no longer name it. One whose end lies before its start has
    been replaced: a loss too, and the new one is read from its beginning. So is one that `end` says was replaced, which
    was reported before.
    """
    ranges: list[TopicRange] = []
    losses = [
        f"{topic} no longer exists, or is no longer among the topics to read; "
        f"it had been read up to {start.positions[topic]}"
        for topic in sorted(set(start.positions) - set(end.positions))
    ]
    for topic in sorted(end.positions):
        first, last = start.positions.get(topic, EARLIEST), end.positions[topic]
        if topic in end.replaced:
            first = EARLIEST
        if last < first:
            losses.append(
                f"{topic} ends at {last}, before {first} where reading stood; "
                "it was deleted and made again, or its data was removed"
            )
            first = EARLIEST
        if first < last:
            ranges.append(_range(topic, first, start, end))
    return Plan(tuple(ranges), tuple(losses))


def _range(topic: str, begin: ReadPosition, start: SourceOffset, end: SourceOffset) -> TopicRange:
    last = end.positions[topic]
    known_end = start.newest.get(topic) if begin == start.positions.get(topic) else None
    if known_end is None and begin.ledger_id == last.ledger_id:
        known_end = last  # entries of one ledger follow one another
    first = end.first.get(topic)
    if known_end is None and first is not None and begin <= first < last:
        begin, known_end = first, last
    return TopicRange(topic, begin, last, known_end)


def shrunken(start: SourceOffset, ends: Mapping[str, ReadPosition]) -> list[str]:
    """Losses of entries that were known to lie behind `start`, in partitions that now end before them (OFFSET-5).

    A partition that ends before the start itself is left to `plan`, unless it is empty.
    """
    return [
        f"{topic} was known to reach {known}, and {_ending(ends[topic])} now: at least "
        f"{entries_between(max(ends[topic], start.positions[topic]), known)} entries that were not read yet are gone"
        for topic, known in sorted(start.newest.items())
        if topic in ends and ends[topic] < known and not EARLIEST < ends[topic] < start.positions[topic]
    ]


def _ending(end: ReadPosition) -> str:
    return "is empty" if end == EARLIEST else f"ends at {end}"
