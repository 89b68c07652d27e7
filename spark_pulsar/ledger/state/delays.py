"""Delayed entries of a topic, indexed by position and by delivery time (DEL-3, DEL-4, DEL-8).

The time stands in the entry, so it is one fact for all subscriptions: the index is kept once a topic, when the entry
is appended, and is durable as everything else. A backlog is never read to find it again (DEL-7).

Entries are held in blocks of 4,096 (`BLOCK_SHIFT`). A block keeps its delayed entries in order of time: 10
bytes each. Beside it stands the set of all of them as ranges, which dispatch queries: 16 bytes for each range, so
nothing to speak of where all of a backlog is delayed, and 26 bytes each in the worst case, every other entry.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import (
    DeclaredRecord,
    InvalidRecord,
    Record,
    Table,
    i64s_from,
    i64s_packed,
    u32s,
    u32s_from,
)
from spark_pulsar.model.positions.ranges import RangeSet

if TYPE_CHECKING:
    from .durable_state import DurableState
    from .topics import TopicState

BLOCK_SHIFT: Final = 12
_MASK: Final = (1 << BLOCK_SHIFT) - 1
_SPARE_HEADS: Final = 64
_WORTH_SORTING: Final = 128
"""Entries that come together: sorting them into a block of thousands costs less than as many single insertions."""

BlockKey = tuple[int, int]
"""(ledger id, entry id >> BLOCK_SHIFT)."""


class DelayBlock:
    """The delayed entries of one block, in order of time; those before index `head` are over."""

    __slots__ = ("head", "offsets", "times_ms")

    def __init__(self, times_ms: array[int], offsets: array[int]) -> None:
        self.times_ms = times_ms
        self.offsets = offsets
        """Entry ids less the block's first."""
        self.head = 0

    @property
    def first_ms(self) -> int:
        """The earliest time; there must be one."""
        return self.times_ms[self.head]

    def __len__(self) -> int:
        return len(self.offsets) - self.head

    def add(self, offset: int, time_ms: int) -> None:
        """One more entry, behind those of the same time."""
        times = self.times_ms
        if not times or times[-1] <= time_ms:
            times.append(time_ms)
            self.offsets.append(offset)
            return
        index = bisect_right(times, time_ms, self.head)
        times.insert(index, time_ms)
        self.offsets.insert(index, offset)

    def add_all(self, offsets: Sequence[int], times_ms: Sequence[int]) -> None:
        """More entries, ascending and behind all that are here, so that of one time the order is that of offsets."""
        if len(offsets) < _WORTH_SORTING:
            for offset, time_ms in zip(offsets, times_ms, strict=True):
                self.add(offset, time_ms)
            return
        here = zip(self.times_ms[self.head :], self.offsets[self.head :], strict=True)
        both = [time_ms << BLOCK_SHIFT | offset for time_ms, offset in here]
        both += [time_ms << BLOCK_SHIFT | offset for time_ms, offset in zip(times_ms, offsets, strict=True)]
        both.sort()
        self.times_ms = array("q", [packed >> BLOCK_SHIFT for packed in both])
        self.offsets = array("H", [packed & _MASK for packed in both])
        self.head = 0

    def due(self, time_ms: int) -> array[int]:
        """Returns the offsets of messages that are due at a time, in order of time."""
        return self.offsets[self.head : bisect_right(self.times_ms, time_ms, self.head)]

    def drop(self, entries: int) -> None:
        """Removes the first `entries` ones, which are over."""
        self.head += entries
        if 2 * self.head >= len(self.offsets):
            del self.times_ms[: self.head], self.offsets[: self.head]
            self.head = 0


class Delays:
    """The delayed entries of one topic. Changed by `apply` only; everything else only reads it."""

    __slots__ = ("_heads", "blocks", "held")

    def __init__(self) -> None:
        self.blocks: dict[BlockKey, DelayBlock] = {}
        self.held = RangeSet()
        """All delayed entries: what Shared subscriptions do not get yet."""
        self._heads: list[tuple[int, BlockKey]] = []
        """A heap of the blocks by their first time; items that are no block's first time any more are passed over."""

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __len__(self) -> int:
        return self.held.count()

    # Questions

    def next_block(self) -> tuple[int, BlockKey] | None:
        """The earliest time of all, and the block where it is; None when nothing is delayed."""
        heads = self._heads
        while heads:
            block = self.blocks.get(heads[0][1])
            if block is not None and block.first_ms == heads[0][0]:
                return heads[0]
            heappop(heads)
        return None

    def due(self, key: BlockKey, time_ms: int) -> list[tuple[int, int, int]]:
        """The entries of a block that are due at a time, as ranges in order of position."""
        block = self.blocks.get(key)
        if block is None:
            return []
        ledger_id, first = key[0], key[1] << BLOCK_SHIFT
        return [(ledger_id, first + low, first + high) for low, high in _ranges(block.due(time_ms))]

    # Changes

    def add(self, ledger_id: int, entry_ids: Sequence[int], times_ms: Sequence[int]) -> set[BlockKey]:
        """Entries of a ledger, ascending and not in yet, are delayed; returns the blocks that changed."""
        changed: set[BlockKey] = set()
        low = 0
        while low < len(entry_ids):
            key = (ledger_id, entry_ids[low] >> BLOCK_SHIFT)
            high = bisect_left(entry_ids, (key[1] + 1) << BLOCK_SHIFT, low)
            block = self.blocks.get(key)
            if block is None:
                block = self.blocks[key] = DelayBlock(array("q"), array("H"))
            before_ms = block.first_ms if len(block) else None
            block.add_all([entry_id & _MASK for entry_id in entry_ids[low:high]], times_ms[low:high])
            if before_ms is None or block.first_ms < before_ms:
                self._note_first(key, block)
            changed.add(key)
            low = high
        if entry_ids[-1] - entry_ids[0] + 1 == len(entry_ids):
            self.held.add(ledger_id, entry_ids[0], entry_ids[-1] + 1)
        else:
            for first, end in _ranges(entry_ids):
                self.held.add(ledger_id, first, end)
        return changed

    def elapse(self, key: BlockKey, time_ms: int) -> None:
        """Frees the entries of a block that are due at a time."""
        due = self.due(key, time_ms)
        if not due:
            return
        block, over = self.blocks[key], sum(end - first for _, first, end in due)
        if over == len(block):  # nothing else of the block is held: one range, however many there are
            self.held.remove(key[0], key[1] << BLOCK_SHIFT, (key[1] + 1) << BLOCK_SHIFT)
            del self.blocks[key]
            return
        for entry_range in due:
            self.held.remove(*entry_range)
        block.drop(over)
        self._note_first(key, block)

    def remove_ledger(self, ledger_id: int) -> list[BlockKey]:
        """The ledger is gone; returns the blocks that went with it."""
        if not self.held.discard_ledger(ledger_id):
            return []
        gone = [key for key in self.blocks if key[0] == ledger_id]
        for key in gone:
            del self.blocks[key]
        return gone

    # Rows

    def columns(self, key: BlockKey) -> tuple[array[int], array[int]] | None:
        """Times and offsets of a block, in order of time; None when it has none."""
        block = self.blocks.get(key)
        return None if block is None else (block.times_ms[block.head :], block.offsets[block.head :])

    def load(self, key: BlockKey, times_ms: array[int], offsets: Sequence[int]) -> None:
        """Puts in a block behind all others of its ledger; ValueError for columns that cannot be one."""
        if not times_ms or len(times_ms) != len(offsets) or max(offsets) > _MASK:
            raise ValueError(f"block {key} of delays has columns of {len(times_ms)} and {len(offsets)}")
        block = self.blocks[key] = DelayBlock(times_ms, array("H", offsets))
        self._note_first(key, block)
        ledger_id, first = key[0], key[1] << BLOCK_SHIFT
        ranges = [(first + low, first + high) for low, high in _ranges(offsets)]
        if first and self.held.contains(ledger_id, first - 1):  # one range with that of the block before
            self.held.add(ledger_id, *ranges.pop(0))
        self.held.append(ledger_id, [low for low, _ in ranges], [high for _, high in ranges])

    def _note_first(self, key: BlockKey, block: DelayBlock) -> None:
        heads = self._heads
        heappush(heads, (block.first_ms, key))
        if len(heads) > 2 * len(self.blocks) + _SPARE_HEADS:  # times that fall leave heads that are passed over
            heads[:] = [(other.first_ms, known) for known, other in self.blocks.items()]
            heapify(heads)


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers, each once and in any order, as half-open ranges."""
    ranges: list[tuple[int, int]] = []
    first = end = -1
    for offset in sorted(offsets):
        if offset != end:
            if end >= 0:
                ranges.append((first, end))
            first = offset
        end = offset + 1
    if end >= 0:
        ranges.append((first, end))
    return ranges


@dataclass(frozen=True, slots=True)
class EntriesDelayed(DeclaredRecord):
    """Entries of a ledger, ascending and appended just before, are not to be delivered before their times."""

    ledger_id: int
    entry_ids: Sequence[int]
    times_ms: Sequence[int]
    TYPE: ClassVar[int] = 100


@dataclass(frozen=True, slots=True)
class DelaysElapsed(DeclaredRecord):
    """Entries of a block that were held back until this time are free. Nothing happens when the block is gone."""

    ledger_id: int
    block: int
    through_ms: int
    TYPE: ClassVar[int] = 101


def _entries_delayed(state: DurableState, record: EntriesDelayed) -> None:
    info = state.ledgers.get(record.ledger_id)
    entry_ids = record.entry_ids
    if info is None or len(entry_ids) != len(record.times_ms) or not entry_ids:
        raise InvalidRecord(f"delays for ledger {record.ledger_id}, which does not exist, or without entries")
    topic = state.topics[info.topic_id]
    delays = Delays() if topic.delays is None else topic.delays
    last = delays.held.last() or (-1, -1)
    if entry_ids[-1] >= info.entries or (record.ledger_id, entry_ids[0]) <= last:
        raise InvalidRecord(f"delays for entries {entry_ids[0]} … {entry_ids[-1]} of {info} after those of {last}")
    topic.delays = delays
    state.dirty["delays"].update(delays.add(record.ledger_id, entry_ids, record.times_ms))


def _delays_elapsed(state: DurableState, record: DelaysElapsed) -> None:
    info = state.ledgers.get(record.ledger_id)
    delays = None if info is None else state.topics[info.topic_id].delays
    if delays is not None:
        key = (record.ledger_id, record.block)
        delays.elapse(key, record.through_ms)
        state.dirty["delays"].add(key)


def remove_ledgers(state: DurableState, topic: TopicState, ledger_ids: Iterable[int]) -> None:
    """Ledgers of a topic are gone."""
    if topic.delays is not None:
        for ledger_id in ledger_ids:
            state.dirty["delays"].update(topic.delays.remove_ledger(ledger_id))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    EntriesDelayed: _entries_delayed,
    DelaysElapsed: _delays_elapsed,
}
"""Effects of the records, by type."""


def _values(state: DurableState, key: BlockKey) -> tuple[bytes, bytes] | None:
    """The row of a block of delayed entries after its key; None when it has none."""
    info = state.ledgers.get(key[0])
    delays = None if info is None else state.topics[info.topic_id].delays
    columns = None if delays is None else delays.columns(key)
    return None if columns is None else (i64s_packed(columns[0]), u32s(columns[1]))


def load(state: DurableState, rows: Iterable[tuple[int, int, bytes, bytes]]) -> None:
    """Gives topics the blocks of their rows. ValueError when a row holds something else."""
    for ledger_id, block, times_ms, offsets in sorted(rows):
        topic = state.topics[state.ledgers[ledger_id].topic_id]
        if topic.delays is None:
            topic.delays = Delays()
        topic.delays.load((ledger_id, block), i64s_from(times_ms), u32s_from(offsets))


TABLES: Final = (Table("delays", 2, ("ledger_id INTEGER", "block INTEGER", "times_ms BLOB", "offsets BLOB"), _values),)
