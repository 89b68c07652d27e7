"""The micro-batch that `OffsetPlanner` plans: one value that its steps fill in, in the order of its members. One that
an earlier run has planned is compared with its topics in `offset_planner` (OFFSET-19)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.positions import EARLIEST, ReadPosition

Positions = Mapping[str, ReadPosition]
"""A position of each topic partition, by its full name."""


@dataclass(slots=True)
class PlannedBatch:
    """A micro-batch from the offset that Spark knows to an end that is planned step by step."""

    committed: SourceOffset
    """The start as Spark passes it: everything before it is committed."""
    start: SourceOffset
    """The start without the partitions that hold other messages now."""
    newest: Positions
    """Present ends of the partitions that have rows for the query."""
    passed: Positions
    """Present ends of the partitions that have none: the keys of the query belong to others."""
    partition_counts: Mapping[str, int]
    """Number of partitions of each topic, where keys choose partitions."""
    end: Positions = field(default_factory=dict)
    """End of the micro-batch in each of the partitions of `newest`."""
    unread: Positions = field(default_factory=dict)
    """Present ends of the partitions that the micro-batch does not read to their end."""

    @property
    def replaced(self) -> frozenset[str]:
        """Partitions that hold other messages now, and are read anew."""
        return frozenset(self.committed.positions.keys() - self.start.positions.keys())

    @property
    def begins(self) -> dict[str, ReadPosition]:
        """Starts of the partitions that still exist."""
        return existing(self.start, self.newest)

    @property
    def positions(self) -> dict[str, ReadPosition]:
        """The end of every partition."""
        return {**self.end, **self.passed}

    @property
    def is_empty(self) -> bool:
        """True where the offset would be the start again."""
        start = self.start
        return not start.fresh and self.positions == start.positions and start.newest.keys() <= self.unread.keys()


def existing(start: SourceOffset, ends: Positions) -> dict[str, ReadPosition]:
    """Returns the positions of `start` in partitions that still exist; a replaced partition starts over."""
    return {topic: at for topic, at in start.positions.items() if topic in ends and at <= ends[topic]}


def has_news(begins: Positions, ends: Positions) -> bool:
    """Returns whether any partition has an entry after its start."""
    return any(begins.get(topic, EARLIEST) < at for topic, at in ends.items())
