"""Lag of a query: its unread messages, in each partition, for the progress of its micro-batches (READ-4, READ-31).

Answered from what planning knows, without a request: entries by their positions, messages and bytes as far as they were
counted ahead, and beyond that by the mean of the entries that were. A stream without limits leaves nothing: its lag is
the messages published after its last trigger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_pulsar.client.clock import wall_ms
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, entries_between

if TYPE_CHECKING:
    from spark_pulsar.connector.letters.delays import DelayedLetters
    from spark_pulsar.connector.read_limits.counting import PartitionLookAhead
    from spark_pulsar.connector.read_limits.lookahead import LookAhead

MOST_PARTITIONS: Final = 50
"""Partitions that are reported one by one: those with the most messages. Progress is kept, and copied, by Spark."""


class PartitionLag(NamedTuple):
    """Unread part of one partition. `size_bytes` and `oldest_ms` are None where nothing is known."""

    messages: int
    entries: int
    size_bytes: int | None
    oldest_ms: int | None
    is_estimated: bool

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Returns the figures under their names in the progress."""
        return {
            "messages": self.messages,
            "entries": self.entries,
            "bytes": self.size_bytes,
            "seconds": _seconds(self.oldest_ms, now_ms),
        }


class Lag:
    """The lag of one query; known numbers are kept until the next micro-batch is planned."""

    def __init__(self) -> None:
        self._of: tuple[Mapping[str, ReadPosition], Mapping[str, ReadPosition]] | None = None
        self._partitions: dict[str, PartitionLag] = {}

    def to_json(
        self,
        planned: Mapping[str, ReadPosition],
        due: Mapping[str, ReadPosition],
        newest: Mapping[str, ReadPosition],
        look_ahead: LookAhead | None,
        letters: DelayedLetters,
    ) -> dict[str, Any]:
        """Returns the lag from `planned`, the end of the micro-batch, to what is `due`, and the letters that are not
        due up to `newest`."""
        if self._of is None or self._of[0] is not planned or self._of[1] is not due:
            self._of = (planned, due)
            self._partitions = {
                topic: partition_lag(
                    planned.get(topic, EARLIEST), end, None if look_ahead is None else look_ahead.known(topic)
                )
                for topic, end in due.items()
                if topic in newest and planned.get(topic, EARLIEST) < end
            }
        behind = {topic: lag for topic, lag in self._partitions.items() if lag.entries}
        now_ms = wall_ms()
        oldest = min((lag.oldest_ms for lag in behind.values() if lag.oldest_ms is not None), default=None)
        sizes = [lag.size_bytes for lag in behind.values()]
        out: dict[str, Any] = {
            "messages": sum(lag.messages for lag in behind.values()),
            "entries": sum(lag.entries for lag in behind.values()),
            "bytes": None if None in sizes else sum(size for size in sizes if size is not None),
            "seconds": _seconds(oldest, now_ms) if behind else 0.0,
            "estimated": any(lag.is_estimated for lag in behind.values()),
            "partitions": len(behind),
        }
        most = sorted(behind, key=lambda topic: (-behind[topic].messages, topic))[:MOST_PARTITIONS]
        if most:
            out["ofPartitions"] = {topic: behind[topic].to_json(now_ms) for topic in sorted(most)}
        waiting = letters.deliveries_ms
        if waiting:
            entries = sum(entries_between(due.get(topic, EARLIEST), newest[topic]) for topic in waiting.keys() & newest)
            out["delayed"] = {"entries": entries, "secondsToNext": max(0.0, (min(waiting.values()) - now_ms) / 1000)}
        return out


def partition_lag(position: ReadPosition, end: ReadPosition, known: PartitionLookAhead | None) -> PartitionLag:
    """Returns the lag of one partition, which is read up to `position` and has messages up to `end`."""
    entries = entries_between(position, end)
    if known is None:
        return PartitionLag(entries, entries, None, None, True)
    ahead = known.peek(position, end)
    oldest_ms = int(ahead.publish_times_ms.min()) if len(ahead.publish_times_ms) else None
    if ahead.is_all:
        return PartitionLag(ahead.total, len(ahead.counts), int(ahead.costs.sum()), oldest_ms, False)
    beyond = entries_between(max(known.frontier, position), end)
    entries = max(entries, len(ahead.counts) + beyond)
    messages_each, bytes_each = known.means
    size = None if bytes_each is None else int(ahead.costs.sum() + beyond * bytes_each)
    return PartitionLag(max(int(ahead.total + beyond * messages_each), 1), entries, size, oldest_ms, True)


def _seconds(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else max(0.0, (now_ms - since_ms) / 1000)
