"""Counting messages ahead of a position, for exact row limits.

Positions say nothing about how many messages lie between them, so a limited stream reads forward on the driver: a
non-durable reader for each partition that looks at the metadata of entries only. What was counted is kept, as three
numbers an entry, until the query has passed it; so each entry is looked at once, and no further than the limit asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_pulsar.client.blocks import EntryBlock
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.client.fetch import Fetch
from spark_pulsar.connector.admission import advance, share
from spark_pulsar.connector.blocks import table_of
from spark_pulsar.connector.endpoints import end_positions
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition
from spark_pulsar.model.ids import MessageId

_QUEUED_BYTES = 1 << 20
"""Entries that may wait unread for one partition: little, for a small limit must not pull in a large backlog."""


class Counted(NamedTuple):
    """Entries of one block, and the messages of each: 0 for a marker and for a chunk that is not its message's last."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, block: EntryBlock) -> Counted:
        """The messages of a block's entries."""
        counts = table_of(block).message_counts.copy()  # a view would hold the metadata of all of them
        ids = np.array([block.ledger_ids, block.entry_ids], np.int64)
        return cls(ids[0], ids[1], counts, int(counts.sum()))

    @property
    def first(self) -> ReadPosition:
        """The position before the first entry."""
        return ReadPosition(int(self.ledger_ids[0]), int(self.entry_ids[0]))

    @property
    def after(self) -> ReadPosition:
        """The position after the last entry."""
        return ReadPosition(int(self.ledger_ids[-1]), int(self.entry_ids[-1]) + 1)

    def index_of(self, position: ReadPosition) -> int:
        """How many of the entries lie before the one of `position`."""
        before = (self.ledger_ids < position.ledger_id) | (
            (self.ledger_ids == position.ledger_id) & (self.entry_ids < position.entry_id)
        )
        return int(np.count_nonzero(before))

    def part(self, first: int, stop: int) -> Counted:
        """Entries `first` to `stop` (exclusive)."""
        counts = self.counts[first:stop]
        return Counted(self.ledger_ids[first:stop], self.entry_ids[first:stop], counts, int(counts.sum()))

    def count_in_entry(self, position: ReadPosition) -> int:
        """How many messages of the entry of `position` lie before it; 0 when the entry is not here."""
        index = self.index_of(position)
        here = index < len(self.counts) and (self.ledger_ids[index], self.entry_ids[index]) == position[:2]
        return min(position.batch_index, int(self.counts[index])) if here else 0

    def advance(self, start: ReadPosition, grant: int) -> tuple[ReadPosition, int]:
        """As `admission.advance`."""
        entries = zip(self.ledger_ids.tolist(), self.entry_ids.tolist(), self.counts.tolist(), strict=True)
        return advance(start, entries, grant)


class PartitionLookAhead:
    """Message counts of the entries ahead in one topic partition."""

    def __init__(self, client: PulsarClient, topic: str, timeout_ms: int) -> None:
        self._client = client
        self._topic = topic
        self._timeout_ms = timeout_ms
        self._fetch: Fetch | None = None
        self._blocks: deque[Counted] = deque()
        self._counted = 0
        self._frontier = EARLIEST
        self._seen_entries = 0
        self._seen_messages = 0

    def close(self) -> None:
        """Give up the reader; counts are forgotten."""
        if self._fetch is not None:
            self._fetch.close()
        self._fetch = None
        self._blocks.clear()
        self._counted = 0

    def backlog(self, start: ReadPosition, end: ReadPosition) -> int:
        """Messages from `start` to `end`: counted as far as was looked, estimated by number of entries beyond."""
        if start >= end:
            return 0
        self._drop_before(start)
        ahead = self._counted_between(start, end)
        frontier = max(self._frontier if self._fetch is not None else EARLIEST, start)
        if frontier >= end:
            return max(ahead, 1)
        entries = end.entry_id - (frontier.entry_id if frontier.ledger_id == end.ledger_id else 0)
        entries += 1 if end.batch_index else 0
        per_entry = self._seen_messages / self._seen_entries if self._seen_entries else 1.0
        return max(ahead + int(entries * per_entry), 1)

    def take(self, start: ReadPosition, end: ReadPosition, grant: int) -> tuple[ReadPosition, int]:
        """The position `grant` messages after `start`, at most `end`, and how many messages lie before it.

        It is less far, or `start` itself, when the broker sent nothing more in time although there is more. A range
        whose end is gone from the broker is taken whole, so that the task that reads it says what is missing.
        """
        self._look(start, end, grant)
        position, taken = start, 0
        for block in self._blocks:
            if taken + block.total <= grant and position.batch_index == 0:
                position, taken = block.after, taken + block.total
            else:
                position, more = block.advance(position, grant - taken)
                taken += more
            if taken >= grant:
                break
        if position >= end or (position == start and self._is_beyond(end)):
            return end, self._counted_between(start, end)
        return position, taken

    def _is_beyond(self, end: ReadPosition) -> bool:
        return end_positions(self._client, [self._topic])[self._topic] < end

    def _look(self, start: ReadPosition, end: ReadPosition, grant: int) -> None:
        self._drop_before(start)
        if self._fetch is None or self._frontier[:2] < start[:2]:
            self.close()
            entry = MessageId(start.ledger_id, start.entry_id, -1, -1)
            self._fetch = self._client.fetch(self._topic, entry, max_queued_bytes=_QUEUED_BYTES)
            self._frontier = ReadPosition(start.ledger_id, start.entry_id)
        while self._frontier < end and self._counted - start.batch_index < grant:
            block = self._fetch.next_block(self._timeout_ms)
            if block is None:
                return
            counted = Counted.of(block)
            self._blocks.append(counted)
            self._counted += counted.total
            self._seen_entries += len(block)
            self._seen_messages += counted.total
            self._frontier = counted.after

    def _drop_before(self, start: ReadPosition) -> None:
        while self._blocks:
            block = self._blocks.popleft()
            passed = block.index_of(start)
            self._counted -= block.total
            if passed < len(block.counts):
                rest = block.part(passed, len(block.counts)) if passed else block
                self._blocks.appendleft(rest)
                self._counted += rest.total
                return

    def _counted_between(self, start: ReadPosition, end: ReadPosition) -> int:
        total = 0
        for block in self._blocks:
            if block.first >= start and block.after <= end:
                total += block.total
            else:
                inside = block.part(block.index_of(start), block.index_of(end)).total
                total += inside - block.count_in_entry(start) + block.count_in_entry(end)
        return total


class LookAhead:
    """Row limits for all partitions of a query."""

    def __init__(self, client: PulsarClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._partitions: dict[str, PartitionLookAhead] = {}

    def limit(
        self, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition], max_messages: int
    ) -> dict[str, ReadPosition]:
        """Ends for the next micro-batch: from `start` towards `end`, with at most `max_messages` messages in all.

        Partitions that only `end` knows start at their beginning. What a partition leaves of its share goes to the
        others. OperationTimeout when there are messages, but the broker sent none in time.
        """
        for topic in set(self._partitions) - set(end):
            self._partitions.pop(topic).close()
        position = {topic: start.get(topic, EARLIEST) for topic in end}
        left, first_round = max_messages, True
        silent: set[str] = set()
        while left > 0:
            backlogs = {topic: self._of(topic).backlog(position[topic], end[topic]) for topic in end.keys() - silent}
            grants = share(left, backlogs)
            if not grants:
                break
            for topic in sorted(grants):
                if left <= 0 and not first_round:
                    break
                position[topic], taken = self._of(topic).take(position[topic], end[topic], grants[topic])
                left -= taken
                if taken < grants[topic] and position[topic] < end[topic]:
                    silent.add(topic)
            first_round = False
        if silent and all(position[topic] == start.get(topic, EARLIEST) for topic in end):
            what = f"waiting for the next entry of {', '.join(sorted(silent))}"
            raise OperationTimeout(what, self._client.config.service_url, self._timeout_ms)
        return position

    def close(self) -> None:
        """Give up all readers."""
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()

    def _of(self, topic: str) -> PartitionLookAhead:
        if topic not in self._partitions:
            self._partitions[topic] = PartitionLookAhead(self._client, topic, self._timeout_ms)
        return self._partitions[topic]
