"""Planning: what the tasks of one read do. Pure functions of two offsets, so that a replay plans the same tasks.

One task reads one range of one topic partition. Ranges come in the order of topic names.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_pulsar.connector.offsets import EARLIEST, ReadPosition, SourceOffset


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Messages of `topic` (a topic partition's full name) from `start` on, up to and without `end`."""

    topic: str
    start: ReadPosition
    end: ReadPosition


@dataclass(frozen=True, slots=True)
class Plan:
    """Ranges to read, and losses between the two offsets: sentences for an error or a warning."""

    ranges: tuple[TopicRange, ...]
    losses: tuple[str, ...]


def plan(start: SourceOffset, end: SourceOffset) -> Plan:
    """Ranges from `start` to `end`.

    A partition that only `end` knows is new and read from its beginning. One that only `start` knows has vanished: a
    loss, and so it is when the options of a restarted query no longer name it. One whose end lies before its start has
    been replaced: a loss too, and the new one is read from its beginning.
    """
    ranges: list[TopicRange] = []
    losses = [
        f"{topic} no longer exists, or is no longer among the topics to read; "
        f"it had been read up to {start.positions[topic]}"
        for topic in sorted(set(start.positions) - set(end.positions))
    ]
    for topic in sorted(end.positions):
        first, last = start.positions.get(topic, EARLIEST), end.positions[topic]
        if last < first:
            losses.append(
                f"{topic} ends at {last}, before {first} where reading stood; "
                "it was deleted and made again, or its data was removed"
            )
            first = EARLIEST
        if first < last:
            ranges.append(TopicRange(topic, first, last))
    return Plan(tuple(ranges), tuple(losses))
