"""Looking ahead of a position: messages counted for exact row limits, entries kept for small micro-batches, and news.

Positions say nothing about how many messages lie between them, so a limited stream reads forward on the driver: a
non-durable reader for each partition that looks at the metadata of entries only. What was counted is kept, as four
numbers an entry, until the query has passed it; so each entry is looked at once, and no partition further than the
limit asks.

The same readers wait at the end of the partitions while a query is idle, so that the broker tells what is new without
being asked. What they were sent is kept, up to a few bytes, for `small_batches`.
"""

from __future__ import annotations

import logging
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
from spark_pulsar.connector.planning import TopicRange
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.model.ids import MessageId
from spark_pulsar.wire.columns.entries import EntryTable, inspect_block
from spark_pulsar.wire.entry_blocks import EntryBlock

LOG: Final = logging.getLogger("spark_pulsar")

_QUEUED_BYTES: Final = 1 << 20
"""Entries that may wait unread for one partition: little, for a small limit must not pull in a large backlog."""
_ASK_AFTER_MS: Final = 1_000
"""Wait of a micro-batch after which the broker is asked, once, for the ends of the partitions that are waited for."""
_NEXT_ENTRY_MS: Final = 1_000
"""Wait for the entries after a micro-batch, which make a loss of them certain; most are there already."""
_LOOK_AGAIN_MS: Final = 1_000
"""Readers that are silent make sure now and then that they should be; see `Fetch`."""
_MOST_FOLLOWED: Final = 32
"""Partitions that are followed at most for news and small micro-batches: each costs a connection."""
_KEPT_BYTES: Final = 1 << 20
"""Entries that are kept of one partition, for the next micro-batch if that is a small one."""


class Counted(NamedTuple):
    """Entries of one block, and the messages of each: 0 for a marker and for a chunk that is not its message's last."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    publish_times_ms: npt.NDArray[np.int64]
    total: int

    @classmethod
    def of(cls, block: EntryBlock, table: EntryTable | None = None) -> Counted:
        """Returns the messages of a block's entries, by its table if that is at hand."""
        table = table or inspect_block(block)
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
        self._kept: deque[EntryBlock] = deque()
        self._kept_bytes = 0
        self._kept_from = EARLIEST
        self.most_kept_bytes = 0
        """Entries that are kept at most."""

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
        self._keep_from(EARLIEST)

    def follow(self, start: ReadPosition, patience: Deadline) -> None:
        """Attaches a reader at `start`, so that `arrived` is set when there is more. Raises as `look`."""
        self._open(start)
        if self._fetch is not None and not self._fetch.is_attached:
            self._poll(self._fetch, patience)

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
        fetch = self._open(start)
        while self._frontier < end and self._counted_from(start) < grant:
            if not self._poll(fetch, patience):
                return False
        return True

    def _open(self, start: ReadPosition) -> Fetch:
        """Returns the fetch that has sent, or will send, what follows `start`; another one if it is behind."""
        self._drop_before(start)
        if self._fetch is None or self._frontier[:2] < start[:2]:
            self.close()
            entry = MessageId(start.ledger_id, start.entry_id, -1, -1)
            self._fetch = self._client.fetch(self._topic, entry, max_queued_bytes=_QUEUED_BYTES, arrived=self._arrived)
            self._frontier = ReadPosition(start.ledger_id, start.entry_id)
            self._keep_from(self._frontier)
        return self._fetch

    def _poll(self, fetch: Fetch, patience: Deadline) -> bool:
        """Counts the next block; whether one has arrived."""
        block = fetch.poll(patience)
        if block is None:
            return False
        try:
            table = inspect_block(block)
        except PulsarError:
            self.close()  # or this block would be missing among those that are kept
            raise
        counted = Counted.of(block, table)
        self._blocks.append(counted)
        self._counted += counted.total
        self._seen_entries += len(block)
        self._seen_messages += counted.total
        self._frontier = counted.after
        self._kept_bytes += len(block.buffer)
        if self._kept_bytes > self.most_kept_bytes or table.has_chunks:
            self._keep_from(self._frontier)
        else:
            self._kept.append(block)
        return True

    def _keep_from(self, position: ReadPosition) -> None:
        self._kept.clear()
        self._kept_bytes, self._kept_from = 0, position

    def has_kept(self, start: ReadPosition) -> bool:
        """Tells whether the entries from `start` up to the frontier are at hand. Chunks are not kept."""
        return self._fetch is not None and self._kept_from[:2] <= start[:2]

    def arrived_range(self, work: TopicRange) -> ArrivedRange | None:
        """Returns the entries of a range, None if some are not at hand."""
        if not self.has_kept(work.start) or self._frontier < work.end:
            return None
        return ArrivedRange(work, [_part_of(block, work) for block in self._kept])

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

    def look_past(self, position: ReadPosition, end: ReadPosition, patience: Deadline) -> bool:
        """Counts what has arrived up to the first entry at or after `position`; whether that is there, or nothing
        comes before `end`. Forgets nothing. Raises as `look`."""
        if self._fetch is None:
            self._open(position)
        while self._fetch is not None and self._frontier < end and self.following(position) is None:
            if not self._poll(self._fetch, patience):
                return False
        return True

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
        while self._kept and (self._kept[0].ledger_ids[-1], self._kept[0].entry_ids[-1]) < start[:2]:
            self._kept_bytes -= len(self._kept.popleft().buffer)
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


class ArrivedRange:
    """The entries of a range that have arrived already, as blocks; a `Blocks` of `reading`."""

    def __init__(self, work: TopicRange, blocks: list[EntryBlock]) -> None:
        self.position = work.start.message_id
        """Next to read after everything that was handed out."""
        self._end = work.end.message_id
        self._blocks = deque(block for block in blocks if len(block))

    @property
    def finished(self) -> bool:
        """True when every block was handed out."""
        return not self._blocks

    def next_block(self, timeout_ms: int) -> EntryBlock | None:
        """Returns the next block, None after the last."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        after = MessageId(block.ledger_ids[-1], block.entry_ids[-1] + 1, block.partition, -1)
        self.position = after if self._blocks else self._end
        return block


def _part_of(block: EntryBlock, work: TopicRange) -> EntryBlock:
    """Returns the entries of a block that belong to a range, over the same bytes."""
    part = EntryBlock(block.buffer, block.partition)
    part.starts, part.ends = block.starts, block.ends
    part.ledger_ids, part.entry_ids = block.ledger_ids, block.entry_ids
    part.cut_before(*work.start[:2])
    part.cut_from(work.end.ledger_id, work.end.entry_id + (1 if work.end.batch_index else 0))
    if len(part) and (part.ledger_ids[0], part.entry_ids[0]) == work.start[:2]:
        part.first_batch_index = work.start.batch_index
    if len(part) and work.end.batch_index and (part.ledger_ids[-1], part.entry_ids[-1]) == work.end[:2]:
        part.end_batch_index = work.end.batch_index
    return part


class LookAhead:
    """The readers that count ahead in all partitions of a query.

    With `keeps_entries` what they were sent is kept for small micro-batches, while there are few partitions.
    """

    def __init__(self, client: PulsarClient, timeout_ms: int, *, keeps_entries: bool = True) -> None:
        self._client = client
        self._keeps_entries = keeps_entries
        self._most_kept_bytes = 0
        self._timeout_ms = timeout_ms
        self._arrived = threading.Event()
        self._partitions: dict[str, PartitionLookAhead] = {}

    def keep(self, topics: Collection[str]) -> None:
        """Gives up the readers of all other topics."""
        for topic in set(self._partitions) - set(topics):
            self._partitions.pop(topic).close()
        self._most_kept_bytes = _KEPT_BYTES if self._keeps_entries and len(topics) <= _MOST_FOLLOWED else 0
        for partition in self._partitions.values():
            partition.most_kept_bytes = self._most_kept_bytes

    def give_up(self, topics: Collection[str]) -> None:
        """Gives up the readers of topics, and all that is known of these: others have taken their place."""
        for topic in self._partitions.keys() & set(topics):
            self._partitions.pop(topic).close()

    def partition(self, topic: str) -> PartitionLookAhead:
        """Returns the reader of a topic partition, made at the first call."""
        if topic not in self._partitions:
            self._partitions[topic] = PartitionLookAhead(self._client, topic, self._arrived)
            self._partitions[topic].most_kept_bytes = self._most_kept_bytes
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
        deadline = Deadline(
            min(self._timeout_ms, _NEXT_ENTRY_MS), "waiting for the next entry", self._client.config.service_url
        )
        waiting = list(unread)
        while waiting:
            self._arrived.clear()
            waiting = [t for t in waiting if not self._has_next(t, position[t], end[t], deadline)]
            if waiting and (deadline.passed or not self._arrived.wait(deadline.left_ms() / 1000)):
                break
        found = {topic: self.partition(topic).following(position[topic]) for topic in unread}
        return {topic: at for topic, at in found.items() if at is not None}

    def forget_news(self) -> None:
        """Waits anew: news is what arrives from now on."""
        self._arrived.clear()

    def follow(self, positions: Mapping[str, ReadPosition], timeout_ms: int) -> bool:
        """Attaches a reader at each position; whether the broker now tells what arrives after them."""
        self.keep(positions)
        if not positions or len(positions) > _MOST_FOLLOWED:
            return False
        deadline = Deadline(timeout_ms, "following a topic", self._client.config.service_url)
        try:
            for topic, at in positions.items():
                self.partition(topic).follow(at, deadline)
        except PulsarError as error:
            LOG.info("what is new is asked for: %s", error)
            return False
        return True

    def await_news(self, timeout_ms: int) -> bool:
        """Waits for a message in a partition that is followed, or the loss of its reader; whether there was one."""
        return self._arrived.wait(timeout_ms / 1000)

    def has_all(
        self, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition], most_messages: int, timeout_ms: int
    ) -> bool:
        """Waits for all messages from `start` to `end`, if these are `most_messages` at most; whether all are at hand.

        Raises TopicNotFound, OperationTimeout as `PartitionLookAhead.look`.
        """
        begins = {topic: start.get(topic, EARLIEST) for topic, at in end.items() if start.get(topic, EARLIEST) < at}
        if len(end) > _MOST_FOLLOWED:
            return False
        self.keep(end)
        known = {topic: self.partition(topic).counted(at, end[topic]) for topic, at in begins.items()}
        if sum(self.partition(topic).backlog(at, end[topic], known[topic]) for topic, at in begins.items()) > (
            most_messages
        ):
            return False
        deadline = Deadline(timeout_ms, "waiting for the next entry", self._client.config.service_url)
        waiting = list(begins)
        while waiting:
            self._arrived.clear()
            waiting = [t for t in waiting if not self.partition(t).look(begins[t], end[t], most_messages + 1, deadline)]
            if not all(self.partition(topic).has_kept(at) for topic, at in begins.items()):
                return False
            if waiting and (deadline.passed or not self._arrived.wait(deadline.left_ms() / 1000)):
                return False
        return sum(self.partition(topic).counted(at, end[topic]).total for topic, at in begins.items()) <= most_messages

    def arrived_ranges(self, works: Collection[TopicRange]) -> list[ArrivedRange] | None:
        """Returns the entries of each range, None if some are not at hand."""
        found: list[ArrivedRange] = []
        for work in works:
            known = self._partitions.get(work.topic)
            blocks = None if known is None else known.arrived_range(work)
            if blocks is None:
                return None
            found.append(blocks)
        return found

    def _has_next(self, topic: str, position: ReadPosition, end: ReadPosition, patience: Deadline) -> bool:
        try:
            return self.partition(topic).look_past(position, end, patience)
        except (TopicNotFound, OperationTimeout):
            return True  # it is left out

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
