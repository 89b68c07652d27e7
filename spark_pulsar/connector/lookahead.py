"""Counting messages ahead of a position, for exact row limits.

Positions say nothing about how many messages lie between them, so a limited stream reads forward on the driver: a
non-durable reader for each partition that looks at the metadata of entries only. What was counted is kept, as four
numbers an entry, until the query has passed it; so each entry is looked at once, and no partition further than the
limit asks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.client.fetch import Fetch
from spark_pulsar.connector.admission import Ahead, advance
from spark_pulsar.connector.endpoints import end_positions_of_each
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition
from spark_pulsar.model.errors import TopicNotFound
from spark_pulsar.model.ids import MessageId
from spark_pulsar.wire.columns.entries import inspect_block
from spark_pulsar.wire.entry_blocks import EntryBlock

_QUEUED_BYTES: Final = 1 << 20
"""Entries that may wait unread for one partition: little, for a small limit must not pull in a large backlog."""
_ASK_AFTER_MS: Final = 1_000
"""Wait of a micro-batch after which the broker is asked, once, for the ends of the partitions that are waited for."""
_NEXT_ENTRY_MS: Final = 1_000
"""Wait for the entries after a micro-batch, which make a loss of them certain; most are there already."""
_LOOK_AGAIN_MS: Final = 1_000
"""Readers that are silent make sure now and then that they should be; see `Fetch`."""


class Counted(NamedTuple):
    """Entries of one block, and the messages of each: 0 for a marker and for a chunk that is not its message's last."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    publish_times_ms: npt.NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, block: EntryBlock) -> Counted:
        """Returns the messages of a block's entries."""
        table = inspect_block(block)
        counts, times = table.message_counts.copy(), table.publish_times.copy()  # views would hold all metadata
        ids = np.array([block.ledger_ids, block.entry_ids], np.int64)
        return cls(ids[0], ids[1], counts, times, int(counts.sum()))

    @property
    def first(self) -> ReadPosition:
        """The position before the first entry."""
        return ReadPosition(int(self.ledger_ids[0]), int(self.entry_ids[0]))

    @property
    def after(self) -> ReadPosition:
        """The position after the last entry."""
        return ReadPosition(int(self.ledger_ids[-1]), int(self.entry_ids[-1]) + 1)

    def index_of(self, position: ReadPosition) -> int:
        """Counts the entries before the one of `position`."""
        before = (self.ledger_ids < position.ledger_id) | (
            (self.ledger_ids == position.ledger_id) & (self.entry_ids < position.entry_id)
        )
        return int(np.count_nonzero(before))

    def part(self, first: int, stop: int) -> Counted:
        """Entries `first` to `stop` (exclusive)."""
        counts, times = self.counts[first:stop], self.publish_times_ms[first:stop]
        return Counted(self.ledger_ids[first:stop], self.entry_ids[first:stop], counts, times, int(counts.sum()))

    def count_in_entry(self, position: ReadPosition) -> int:
        """Counts the messages before `position` in its entry; 0 when the entry is not here."""
        index = self.index_of(position)
        here = index < len(self.counts) and (self.ledger_ids[index], self.entry_ids[index]) == position[:2]
        return min(position.batch_index, int(self.counts[index])) if here else 0

    def advance(self, start: ReadPosition, grant: int) -> tuple[ReadPosition, int]:
        """Advances `start` by `grant` messages, as `advance` does."""
        entries = zip(self.ledger_ids.tolist(), self.entry_ids.tolist(), self.counts.tolist(), strict=True)
        return advance(start, entries, grant)


class PartitionLookAhead:
    """Message counts of the entries ahead in one topic partition. `arrived` is set when there may be more."""

    def __init__(self, client: PulsarClient, topic: str, arrived: threading.Event) -> None:
        self._client = client
        self._topic = topic
        self._arrived = arrived
        self._fetch: Fetch | None = None
        self._blocks: deque[Counted] = deque()
        self._counted = 0
        self._frontier = self._passed = EARLIEST
        self._seen_entries = 0
        self._seen_messages = 0

    @property
    def frontier(self) -> ReadPosition:
        """Everything that the broker sent lies before this."""
        return self._frontier

    @property
    def is_attached(self) -> bool:
        """Tells whether looking needs no connection to be made first."""
        return self._fetch is not None

    def close(self) -> None:
        """Gives up the reader; counts are forgotten."""
        if self._fetch is not None:
            self._fetch.close()
        self._fetch = None
        self._blocks.clear()
        self._counted = 0

    def backlog(self, start: ReadPosition, end: ReadPosition, known: Ahead) -> int:
        """Messages from `start` to `end`, which is later: those that are known (see `counted`), and beyond them an
        estimate by the number of entries."""
        frontier = max(self._frontier if self._fetch is not None else EARLIEST, start)
        if frontier >= end:
            return max(known.total, 1)
        entries = end.entry_id - (frontier.entry_id if frontier.ledger_id == end.ledger_id else 0)
        entries += 1 if end.batch_index else 0
        per_entry = self._seen_messages / self._seen_entries if self._seen_entries else 1.0
        return max(known.total + int(entries * per_entry), 1)

    def look(self, start: ReadPosition, end: ReadPosition, grant: int, patience: Deadline) -> bool:
        """Counts what has arrived; whether that is all between `start` and `end`, or `grant` messages of it.

        Raises TopicNotFound; OperationTimeout when the broker could not be asked for more until `patience`.
        """
        self._drop_before(start)
        if self._fetch is None or self._frontier[:2] < start[:2]:
            self.close()
            entry = MessageId(start.ledger_id, start.entry_id, -1, -1)
            self._fetch = self._client.fetch(self._topic, entry, max_queued_bytes=_QUEUED_BYTES, arrived=self._arrived)
            self._frontier = ReadPosition(start.ledger_id, start.entry_id)
        while self._frontier < end and self._counted_from(start) < grant:
            block = self._fetch.poll(patience)
            if block is None:
                return False
            counted = Counted.of(block)
            self._blocks.append(counted)
            self._counted += counted.total
            self._seen_entries += len(block)
            self._seen_messages += counted.total
            self._frontier = counted.after
        return True

    def counted(self, start: ReadPosition, end: ReadPosition) -> Ahead:
        """Returns the counts of the entries from `start` to `end`, as far as known."""
        self._drop_before(start)
        counts, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in self._blocks:
            of_last = block.count_in_entry(end)
            inside = block.part(0, block.index_of(end) + (1 if of_last else 0))
            wanted = inside.counts.copy()
            if of_last:
                wanted[-1] = of_last
            if len(wanted) and inside.first[:2] == start[:2]:
                wanted[0] = max(int(wanted[0]) - start.batch_index, 0)
            counts.append(wanted)
            times.append(inside.publish_times_ms)
        is_all = self._fetch is not None and self._frontier >= end
        return Ahead(np.concatenate(counts), np.concatenate(times), is_all)

    def take(self, start: ReadPosition, grant: int) -> ReadPosition:
        """Returns the position `grant` messages after `start`, which must have been counted."""
        position, taken = start, 0
        for block in self._blocks:
            if taken + block.total <= grant and position.batch_index == 0:
                position, taken = block.after, taken + block.total
            else:
                position, more = block.advance(position, grant - taken)
                taken += more
            if taken >= grant:
                break
        return position

    def following(self, position: ReadPosition) -> ReadPosition | None:
        """Returns the first counted message at or after a position, None if nothing is counted there."""
        for block in self._blocks:
            index = block.index_of(position)
            if index < len(block.counts):
                entry = ReadPosition(int(block.ledger_ids[index]), int(block.entry_ids[index]))
                return position if entry[:2] == position[:2] else entry
        return None

    def _drop_before(self, start: ReadPosition) -> None:
        if start < self._passed:
            self.close()  # backwards: another topic has taken the place of this one
        self._passed = start
        while self._blocks:
            block = self._blocks.popleft()
            passed = block.index_of(start)
            self._counted -= block.total
            if passed < len(block.counts):
                rest = block.part(passed, len(block.counts)) if passed else block
                self._blocks.appendleft(rest)
                self._counted += rest.total
                return

    def _counted_from(self, start: ReadPosition) -> int:
        """Messages counted from `start` on, which is in the first block or before it."""
        return self._counted - (self._blocks[0].count_in_entry(start) if self._blocks and start.batch_index else 0)


class LookAhead:
    """The readers that count ahead in all partitions of a query."""

    def __init__(self, client: PulsarClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._arrived = threading.Event()
        self._partitions: dict[str, PartitionLookAhead] = {}

    def keep(self, topics: Collection[str]) -> None:
        """Gives up the readers of all other topics."""
        for topic in set(self._partitions) - set(topics):
            self._partitions.pop(topic).close()

    def partition(self, topic: str) -> PartitionLookAhead:
        """Returns the reader of a topic partition, made at the first call."""
        if topic not in self._partitions:
            self._partitions[topic] = PartitionLookAhead(self._client, topic, self._arrived)
        return self._partitions[topic]

    def gathering(self, end: Mapping[str, ReadPosition]) -> Gathering:
        """Begins to count for one micro-batch, which goes no further than `end`; its time-out begins now."""
        return Gathering(self._client, self.partition, self._arrived, end, self._timeout_ms)

    def next_entries(
        self, position: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]
    ) -> dict[str, ReadPosition]:
        """Returns what is next to read in each partition whose position lies before `end`: of an entry that exists.

        A position after the last entry of a ledger is told by the first entry of the next one. Partitions that do not
        send it soon are left out.
        """
        unread = {topic for topic, at in position.items() if at < end[topic]}
        missing = {topic: 1 for topic in unread if self.partition(topic).following(position[topic]) is None}
        if missing:
            timeout_ms = min(self._timeout_ms, _NEXT_ENTRY_MS)
            gathering = Gathering(self._client, self.partition, self._arrived, end, timeout_ms)
            gathering.count(position, missing)
        found = {topic: self.partition(topic).following(position[topic]) for topic in unread}
        return {topic: at for topic, at in found.items() if at is not None}

    def close(self) -> None:
        """Gives up all readers."""
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()


class Gathering:
    """Counting for one micro-batch: all partitions at once, within one time-out."""

    def __init__(
        self,
        client: PulsarClient,
        partition: Callable[[str], PartitionLookAhead],
        arrived: threading.Event,
        end: Mapping[str, ReadPosition],
        timeout_ms: int,
    ) -> None:
        self.cut_short: set[str] = set()
        """Partitions whose end is gone from the broker, so that nothing more will come."""
        self._client = client
        self._partition = partition
        self._arrived = arrived
        self._end = end
        url = client.config.service_url
        self._deadline = Deadline(timeout_ms, "waiting for the next entry", url)
        self._ask_after = Deadline(min(timeout_ms // 2, _ASK_AFTER_MS), "waiting for the next entry", url)
        self._asked = False
        self._shorter: set[str] = set()
        self._cause: OperationTimeout | None = None

    def count(self, position: Mapping[str, ReadPosition], grants: Mapping[str, int]) -> set[str]:
        """Looks ahead until every partition has the messages granted to it, or cannot have them; returns the partitions
        that are gone."""
        gone: set[str] = set()
        # A broker that cannot be reached may take all the time: readers that it has not to be asked for come first.
        waiting = sorted(grants, key=lambda topic: (not self._partition(topic).is_attached, topic))
        while waiting:
            self._arrived.clear()
            waiting = [topic for topic in waiting if not self._look(topic, position[topic], grants[topic], gone)]
            if self._deadline.passed:
                self.cut_short |= self._shorter & set(waiting)
                break
            if waiting and self._ask_after.passed and not self._asked:
                self._ask(waiting)
            waiting = [topic for topic in waiting if topic not in self.cut_short]
            pause = self._deadline if self._asked else self._ask_after
            if waiting:
                self._arrived.wait(min(pause.left_ms(), _LOOK_AGAIN_MS) / 1000)
        return gone

    def _look(self, topic: str, start: ReadPosition, grant: int, gone: set[str]) -> bool:
        try:
            return self._partition(topic).look(start, self._end[topic], grant, self._deadline)
        except TopicNotFound:
            gone.add(topic)
            return True
        except OperationTimeout as error:
            self._cause = error
            return False

    def _ask(self, waiting: Collection[str]) -> None:
        """Some are still waited for: find out where nothing can come any more."""
        self._asked = True
        try:
            ends = end_positions_of_each(self._client, waiting, self._deadline.left_ms())
        except OperationTimeout as error:
            self._cause = error
            return
        self._shorter = {topic for topic, at in ends.items() if at < self._end[topic]}
        self.cut_short |= {topic for topic in self._shorter if ends[topic] <= self._partition(topic).frontier}

    def timeout(self, silent: Collection[str]) -> OperationTimeout:
        """Returns the error for a micro-batch without any message."""
        what = f"waiting for the next entry of {', '.join(sorted(silent))}"
        cause = "" if self._cause is None else str(self._cause)
        return OperationTimeout(what, self._deadline.where, self._deadline.timeout_ms, cause)
