"""Counting ahead in one topic partition: the messages and bytes of its entries, and the entries themselves while few
(READ-16).

A non-durable reader parses the metadata of entries only. It keeps the counts, as a few numbers an entry, until the
query has passed it; so each entry is counted once, and no partition further than requested.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.reading.fetch import Fetch
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import Ahead, Wanted
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.columns.entries import EntryTable, inspect_block
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, message_count_of
from spark_pulsar.wire.entries.entry_bytes import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC

_HEAD_BYTES: Final = 6
"""Magic and checksum, or size, in front of an entry."""
_QUEUED_BYTES: Final = 1 << 20
"""Entries that may wait unread for one partition: little, for a small limit must not pull in a large backlog."""
_LEAST_QUEUED_BYTES: Final = 64 << 10
_ALL_QUEUED_BYTES: Final = 64 << 20
"""Entries that may wait unread for all partitions together, if each may have the least."""


def queued_bytes(partitions: int) -> int:
    """Returns the bytes that may wait unread for each of `partitions` partitions."""
    return max(min(_QUEUED_BYTES, _ALL_QUEUED_BYTES // max(partitions, 1)), _LEAST_QUEUED_BYTES)


class Counted(NamedTuple):
    """Entries of one block, and the messages of each: 0 for a marker and for a chunk that is not its message's last.

    Costs are the bytes of these messages: where there are none, they go to the entry of the next message.
    """

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    costs: npt.NDArray[np.int64]
    publish_times_ms: npt.NDArray[np.int64]
    checksums: npt.NDArray[np.int64]
    """Checksums that the entries were sent with; -1 where there is none."""
    total: int
    size_bytes: int

    @classmethod
    def of(cls, block: EntryBlock, table: EntryTable, begun_bytes: int = 0) -> Counted:
        """Returns the messages of a block's entries; `begun_bytes` are those of the first one in earlier blocks."""
        counts, times = table.message_counts.copy(), table.publish_times.copy()  # views would hold all metadata
        ids = np.array([block.ledger_ids, block.entry_ids], np.int64)
        through = np.cumsum(np.array(block.ends, np.int64) - np.array(block.starts, np.int64)) + begun_bytes
        costs = np.zeros(len(counts), np.int64)
        filled = counts.nonzero()[0]
        costs[filled] = np.diff(through[filled], prepend=0)
        return cls(ids[0], ids[1], counts, costs, times, _checksums(block), int(counts.sum()), int(costs.sum()))

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
        ids, entry_ids, counts, costs, times, checksums = (column[first:stop] for column in self[:6])
        return Counted(ids, entry_ids, counts, costs, times, checksums, int(counts.sum()), int(costs.sum()))

    def fingerprint(self, entry: ReadPosition) -> Fingerprint | None:
        """Returns the fingerprint of an entry; None when it is not here, or was sent without a checksum."""
        index = self.index_of(entry)
        if index == len(self.counts) or (self.ledger_ids[index], self.entry_ids[index]) != entry[:2]:
            return None
        checksum = int(self.checksums[index])
        return None if checksum < 0 else Fingerprint(*entry[:2], int(self.publish_times_ms[index]), checksum)

    def count_in_entry(self, position: ReadPosition) -> int:
        """Counts the messages before `position` in its entry; 0 when the entry is not here."""
        index = self.index_of(position)
        here = index < len(self.counts) and (self.ledger_ids[index], self.entry_ids[index]) == position[:2]
        return min(position.batch_index, int(self.counts[index])) if here else 0

    def cost_in_entry(self, position: ReadPosition) -> int:
        """Bytes of the messages before `position` in its entry."""
        count = self.count_in_entry(position)
        index = self.index_of(position)
        return int(self.costs[index]) * count // int(self.counts[index]) if count else 0


def _checksums(block: EntryBlock) -> npt.NDArray[np.int64]:
    """Returns the checksum in front of each entry of a block; -1 where there is none."""
    data = np.frombuffer(block.buffer, np.uint8)
    starts, ends = np.array(block.starts, np.int64), np.array(block.ends, np.int64)
    magics, values = _heads(data, starts, ends)
    behind = magics == int.from_bytes(BROKER_METADATA_MAGIC, "big")
    if behind.any():
        starts = np.where(behind, starts + _HEAD_BYTES + values, starts)
        magics, values = _heads(data, starts, ends)
    return np.where(magics == int.from_bytes(CHECKSUM_MAGIC, "big"), values, -1)


def _heads(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the magic, 0 where there is no room for one, and the number behind it at each start."""
    fits = starts + _HEAD_BYTES <= ends
    at = np.where(fits, starts, 0)[:, None] + np.arange(_HEAD_BYTES)
    heads = data[at if len(data) >= _HEAD_BYTES else np.zeros_like(at)].astype(np.int64)
    magics = np.where(fits, heads[:, 0] << 8 | heads[:, 1], 0)
    return magics, heads[:, 2] << 24 | heads[:, 3] << 16 | heads[:, 4] << 8 | heads[:, 5]


def _ahead_of(parts: Sequence[Counted], *, is_all: bool) -> Ahead:
    nothing = [np.zeros(0, np.int64)]
    ledger_ids, entry_ids, counts, costs, times = (
        np.concatenate([part[column] for part in parts] if parts else nothing) for column in range(5)
    )
    return Ahead(ledger_ids, entry_ids, counts, costs, times, is_all)


NOTHING_AHEAD: Final = _ahead_of([], is_all=True)


class PartitionLookAhead:
    """Message counts of the entries ahead in one topic partition. `arrived` is set when there may be more."""

    def __init__(self, client: PulsarClient, topic: str, arrived: threading.Event) -> None:
        self._client = client
        self._topic = topic
        self._arrived = arrived
        self._fetch: Fetch | None = None
        self._uncounted: EntryBlock | None = None
        """The next block, of which `begins` has seen the first entry."""
        self._blocks: deque[Counted] = deque()
        self._counted = self._counted_bytes = 0
        self._begun_bytes = 0
        """Bytes behind the last message that is whole: of chunks, or markers."""
        self._frontier = self._passed = EARLIEST
        self._seen_entries = 0
        self._seen_messages = 0
        self._seen_bytes = 0
        self._kept: deque[EntryBlock] = deque()
        self._kept_bytes = 0
        self._kept_from = EARLIEST
        self.most_queued_bytes = _QUEUED_BYTES
        """Entries that may wait unread at about."""
        self.most_kept_bytes = 0
        """Entries that are kept at most."""

    @property
    def frontier(self) -> ReadPosition:
        """Everything that the broker sent lies before this."""
        return self._frontier

    @property
    def is_attached(self) -> bool:
        """Returns whether counting can begin without a new connection."""
        return self._fetch is not None

    def close(self) -> None:
        """Closes the reader and discards the counts."""
        if self._fetch is not None:
            self._fetch.close()
        self._fetch = self._uncounted = None
        self._blocks.clear()
        self._counted = self._counted_bytes = self._begun_bytes = 0
        self._keep_from(EARLIEST)

    def follow(self, start: ReadPosition, patience: Deadline) -> None:
        """Attaches a reader at `start`, so that `arrived` is set when there is more. Raises as `count`."""
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
        return max(known.total + int(entries * self.means[0]), 1)

    def count(self, start: ReadPosition, end: ReadPosition, wanted: Wanted, patience: Deadline) -> bool:
        """Counts the messages that have arrived. Returns whether they are all between `start` and `end`, or as many as
        wanted.

        Raises TopicNotFound; OperationTimeout when the broker could not be reached for more until `patience`.
        """
        fetch = self._open(start)
        while self._frontier < end and self._lacks(start, wanted):
            if not self._poll(fetch, patience):
                return False
        return True

    def begins(self, start: ReadPosition, patience: Deadline) -> bool:
        """Returns whether the first entry at or after `start` has arrived, which is what an estimate needs. Entries are
        not counted for it: that would compile, or load, what counts them. Raises as `count`."""
        fetch = self._open(start)
        if not self._seen_entries and self._uncounted is None:
            self._uncounted = fetch.poll(patience)
        return bool(self._seen_entries) or self._uncounted is not None

    def _open(self, start: ReadPosition) -> Fetch:
        """Returns the fetch that has sent, or will send, what follows `start`; another one if it is behind."""
        self._drop_before(start)
        if self._fetch is None or self._frontier[:2] < start[:2]:
            self.close()
            entry = MessageId(start.ledger_id, start.entry_id, -1, -1)
            self._fetch = self._client.fetch(
                self._topic, entry, max_queued_bytes=self.most_queued_bytes, arrived=self._arrived, is_shared=True
            )
            self._frontier = ReadPosition(start.ledger_id, start.entry_id)
            self._keep_from(self._frontier)
        return self._fetch

    def _poll(self, fetch: Fetch, patience: Deadline) -> bool:
        """Counts the next block. Returns whether one has arrived."""
        block = self._uncounted or fetch.poll(patience)
        self._uncounted = None
        if block is None:
            return False
        try:
            table = inspect_block(block)
        except PulsarError:
            self.close()  # or this block would be missing among those that are kept
            raise
        counted = Counted.of(block, table, self._begun_bytes)
        self._begun_bytes += block.size_bytes - counted.size_bytes
        self._blocks.append(counted)
        self._counted += counted.total
        self._counted_bytes += counted.size_bytes
        self._seen_entries += len(block)
        self._seen_messages += counted.total
        self._seen_bytes += block.size_bytes
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
        """Returns whether the entries from `start` up to the frontier are kept. Chunks never are."""
        return self._fetch is not None and self._kept_from[:2] <= start[:2]

    def arrived_range(self, work: TopicRange) -> ArrivedRange | None:
        """Returns the entries of a range, None if some are not kept."""
        if not self.has_kept(work.start) or self._frontier < work.end:
            return None
        return ArrivedRange(work, [_part_of(block, work) for block in self._kept])

    def counted(self, start: ReadPosition, end: ReadPosition) -> Ahead:
        """Returns the counts of the entries from `start` to `end`, as far as known."""
        self._drop_before(start)
        return self.peek(start, end)

    def peek(self, start: ReadPosition, end: ReadPosition) -> Ahead:
        """Returns the counts as `counted`, and discards nothing."""
        inside: list[Counted] = []
        for counted in self._blocks:
            first = 0 if counted.first[:2] >= start[:2] else counted.index_of(start)
            block = counted.part(first, len(counted.counts)) if first else counted
            of_last, cost_of_last = block.count_in_entry(end), block.cost_in_entry(end)
            part = block.part(0, block.index_of(end) + (1 if of_last else 0))
            if of_last and of_last < part.counts[-1]:
                part = part._replace(counts=part.counts.copy(), costs=part.costs.copy())
                part.counts[-1], part.costs[-1] = of_last, cost_of_last
            if start.batch_index and len(part.counts) and part.first[:2] == start[:2]:
                before = block.cost_in_entry(start)
                part = part._replace(counts=part.counts.copy(), costs=part.costs.copy())
                part.counts[0] = max(int(part.counts[0]) - start.batch_index, 0)
                part.costs[0] = max(int(part.costs[0]) - before, 0)
            inside.append(part)
        is_all = self._fetch is not None and self._frontier >= end
        return _ahead_of(inside, is_all=is_all)

    @property
    def means(self) -> tuple[float, float | None]:
        """Messages and bytes of an entry, by those that were counted. Before that the first entry stands for all, and
        bytes are None."""
        if not self._seen_entries:
            first = 1.0 if self._uncounted is None else float(message_count_of(self._uncounted, 0))
            return first, None
        return self._seen_messages / self._seen_entries, self._seen_bytes / self._seen_entries

    def count_past(self, position: ReadPosition, end: ReadPosition, patience: Deadline) -> bool:
        """Counts the messages that have arrived, up to the first entry at or after `position`. Returns whether that
        entry has arrived, or none comes before `end`. Discards nothing. Raises as `count`."""
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

    def fingerprint(self, entry: ReadPosition) -> Fingerprint | None:
        """Returns the fingerprint of an entry that was counted; None when it was not, or was sent without a
        checksum."""
        fingerprints = (block.fingerprint(entry) for block in self._blocks if block.first <= entry < block.after)
        return next(fingerprints, None)

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
            self._counted_bytes -= block.size_bytes
            if passed < len(block.counts):
                rest = block.part(passed, len(block.counts)) if passed else block
                self._blocks.appendleft(rest)
                self._counted += rest.total
                self._counted_bytes += rest.size_bytes
                return

    def _lacks(self, start: ReadPosition, wanted: Wanted) -> bool:
        """Returns whether more is to be counted from `start` on, which is in the first block or before it."""
        inside = self._blocks[0] if self._blocks and start.batch_index else None
        if self._counted - (inside.count_in_entry(start) if inside else 0) >= wanted.messages:
            return False
        if wanted.size_bytes is None:
            return True
        return self._counted_bytes - (inside.cost_in_entry(start) if inside else 0) < wanted.size_bytes


class ArrivedRange:
    """The entries of a range that have arrived already, as blocks; a `Blocks` of `range_reading`."""

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
