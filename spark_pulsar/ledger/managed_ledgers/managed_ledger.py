"""Managed ledgers: the chain of ledgers that holds one topic's entries, and its rules for rolling.

Entry ids run from 0 in each ledger; ledger ids rise along the chain (ML-1, A5), from a number that differs by directory
(ML-6: `server.first_ledger`). Every entry also has an *ordinal*: how many entries the topic had taken up to and
including it. Ordinals make counting between two positions a subtraction, however many ledgers lie between.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position
from spark_pulsar.model.positions.ranges import RangeSet

from .entry_sizes import SizeWindow, entry_at_size, known_around, learn
from .ledger import Bounds, LedgerInfo, RollLimits, SizeSpan, is_full


@dataclass(slots=True, eq=False, repr=False)
class ManagedLedger:
    """The ledgers of one topic, oldest first. Changed by `state.apply` only; everything else only reads them.

    Positions it takes may point anywhere, also to ledgers that are gone; positions it returns may be one past the
    last entry, where the next one will stand (or may, if a new ledger is opened first).
    """

    topic_id: int
    ledgers: dict[int, LedgerInfo] = field(default_factory=dict)
    _ids: list[int] = field(default_factory=list)
    _partly_dropped: set[int] = field(default_factory=set)
    _last: LedgerInfo | None = None
    # Facts of the topic that no ledger holds: entries taken, and the last one before `_last`.
    _gone_entries: int = 0
    _gone_position: Position = EARLIEST
    _windows: tuple[SizeWindow, ...] = ()
    """Windows of the positions that were measured last."""
    lost: list[tuple[int, int, int]] = field(default_factory=list)
    """Entries that storage lost, as (ledger id, first, end), once that is accepted: cursors pass over them."""
    withheld: RangeSet = field(default_factory=RangeSet)
    """Entries that no consumer gets: those of aborted transactions, and markers (TX-10, TX-11). Cursors pass over
    them."""
    open_ledger: LedgerInfo | None = None
    """The ledger that takes entries: the last one, if it was opened by this process (ML-1) and is not sealed."""
    row: int = -1
    """Row of that ledger in `DurableState.open_ledgers`; -1 for a ledger of a topic that is not durable."""

    # Questions

    @property
    def total_entries(self) -> int:
        """Entries ever taken: the ordinal of the last one."""
        last = self._last
        return self._gone_entries if last is None else last.base + last.entries

    @property
    def last_position(self) -> Position:
        """The last entry ever taken (also when trimmed meanwhile), EARLIEST when there was none."""
        last = self._last
        return Position(last.ledger_id, last.entries - 1) if last is not None and last.entries else self._gone_position

    @property
    def appendable(self) -> bool:
        """Returns whether a ledger takes entries."""
        return self.open_ledger is not None

    @property
    def current(self) -> LedgerInfo | None:
        """The ledger that is not sealed, also when it was recovered and takes no more."""
        info = self._last
        return info if info is not None and info.sealed_ms is None else None

    @property
    def front(self) -> LedgerInfo | None:
        """The oldest ledger."""
        return self.ledgers[self._ids[0]] if self._ids else None

    def must_roll(self, now_ms: int, limits: RollLimits) -> bool:
        """Returns whether a new ledger must be opened before the next append: none is open, or it is full (ML-1,
        ML-2)."""
        info = self.open_ledger
        return info is None or is_full(info, now_ms, limits)

    @property
    def first_position(self) -> Position:
        """The oldest readable entry; the end when there is none."""
        return self.at_or_after(EARLIEST)

    @property
    def end_position(self) -> Position:
        """The position of the next entry as far as is known now: in the last ledger, one past its last entry."""
        last = self._last
        if last is not None:
            return Position(last.ledger_id, last.entries)
        return self._gone_position.next_in_ledger

    def at_or_after(self, position: Position) -> Position:
        """The first readable entry at or after the position; the end when there is none (CUR-10, CUR-11, A11)."""
        ledger_id, entry_id = position
        info = self.ledgers.get(ledger_id)
        if info is not None and entry_id < info.entries and info.first_entry_id < info.entries:
            return Position(ledger_id, max(entry_id, info.first_entry_id))
        ids = self._ids
        for index in range(bisect_right(ids, ledger_id), len(ids)):
            info = self.ledgers[ids[index]]
            if info.first_entry_id < info.entries:
                return Position(info.ledger_id, info.first_entry_id)
        return self.end_position

    def next_position(self, after: Position) -> Position:
        """The first readable entry after the position; the end when there is none."""
        return self.at_or_after(Position(after.ledger_id, after.entry_id + 1))

    @staticmethod
    def previous_position(position: Position) -> Position:
        """The mark-delete position with which `position` is the next entry; its entry id may be -1."""
        return Position(position.ledger_id, position.entry_id - 1)

    def last_passed(self, mark_delete: Position) -> Position:
        """The last entry at or before a mark-delete position: of the ledger before, where that is the first of its
        own; the position itself where there is none."""
        if mark_delete.entry_id < 0:
            for ledger_id in reversed(self._ids[: bisect_left(self._ids, mark_delete.ledger_id)]):
                if self.ledgers[ledger_id].entries:
                    return Position(ledger_id, self.ledgers[ledger_id].entries - 1)
        return mark_delete

    def contains(self, position: Position) -> bool:
        """Returns whether the entry exists and is readable."""
        info = self.ledgers.get(position.ledger_id)
        return info is not None and info.first_entry_id <= position.entry_id < info.entries

    def count_between(self, after: Position, through: Position) -> int:
        """Readable entries after one position, up to and including another."""
        low, low_ledger = self._ordinal(after)
        high, high_ledger = self._ordinal(through)
        for ledger_id in self._partly_dropped:
            if low_ledger < ledger_id <= high_ledger:
                high -= self.ledgers[ledger_id].first_entry_id
        return max(0, high - low)

    def count_after(self, after: Position) -> int:
        """Readable entries after the position."""
        return self.count_between(after, LATEST)

    def _ordinal(self, position: Position) -> tuple[int, int]:
        """Counts the entries of the topic up to and including the position, and names the ledger that the count rests
        on. A position before the oldest readable entry of its ledger counts as just before that entry."""
        ledger_id, entry_id = position
        info = self.ledgers.get(ledger_id)
        if info is None:
            index = bisect_right(self._ids, ledger_id)
            if index == len(self._ids):
                return self.total_entries, ledger_id
            info = self.ledgers[self._ids[index]]
            entry_id = -1
        return info.base + max(min(entry_id + 1, info.entries), info.first_entry_id), info.ledger_id

    def advance(self, position: Position, entries: int) -> Position:
        """The readable entry that many entries after the position; the last one when there are fewer."""
        ids = self._ids
        for index in range(bisect_left(ids, position.ledger_id), len(ids)):
            info = self.ledgers[ids[index]]
            first = info.first_entry_id
            if info.ledger_id == position.ledger_id:
                first = max(first, position.entry_id + 1)
            available = info.entries - first
            if entries <= available:
                return Position(info.ledger_id, first + entries - 1)
            entries -= max(0, available)
        return max(position, self.last_position)

    def position_at(self, index: int) -> Position:
        """The readable entry with this index, counted from 0 at the oldest one; the last one when there are fewer."""
        return self.advance(EARLIEST, index + 1)

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries in existing ledgers, acked or not (storageSize)."""
        last = self._last
        return 0 if last is None else last.base_bytes + last.size_bytes - self.ledgers[self._ids[0]].base_bytes

    def bytes_after(self, position: Position) -> int:
        """Bytes of the entries after a position (backlogSize), as well as it is known: entries between two marks
        (`entry_sizes`) count as their average one."""
        around = self._known_around(position)
        if around is None:
            return self._bytes_from(position.ledger_id)
        info, entries, known = around
        inside = known.low_bytes
        if known.high > known.low:
            inside += (known.high_bytes - known.low_bytes) * (entries - known.low) // (known.high - known.low)
        return self._bytes_from(info.ledger_id) - inside

    def bytes_after_at_most(self, position: Position) -> int:
        """An upper bound of the bytes after a position; exact when nothing is `unmeasured`."""
        around = self._known_around(position)
        return self._bytes_from(position.ledger_id) - (0 if around is None else around[2].low_bytes)

    def bytes_after_at_least(self, position: Position) -> int:
        """A lower bound of them."""
        around = self._known_around(position)
        return self._bytes_from(position.ledger_id) - (0 if around is None else around[2].high_bytes)

    def unmeasured(self, position: Position) -> SizeSpan | None:
        """The span to be measured, for `learn`, so that `bytes_after_at_most` is exact; None when it is."""
        around = self._known_around(position)
        if around is None or around[2].low == around[2].high:
            return None
        info, entries, known = around
        return SizeSpan(info.ledger_id, entries, known.high, known.high_bytes)

    def keeping_bytes(self, max_bytes: int, after: Position) -> Position | SizeSpan:
        """The first position behind which at most that many bytes lie: the mark-delete of a cursor that may keep no
        more. Or what must be measured to know it. More than that many bytes lie behind `after`, where entries are
        readable."""
        for ledger_id in reversed(self._ids):
            info = self.ledgers[ledger_id]
            if info.size_bytes > max_bytes:
                first = after.entry_id + 1 if after.ledger_id == ledger_id else 0
                return entry_at_size(info, self._windows, info.size_bytes - max_bytes, first)
            max_bytes -= info.size_bytes
        return EARLIEST

    def learn(self, span: SizeSpan, sizes: Sequence[int]) -> None:
        """The sizes of the entries of a span, as they were measured."""
        info = self.ledgers.get(span.ledger_id)
        if info is None:
            return
        self._windows = learn(info, self._windows, span, sizes)

    def _bytes_from(self, ledger_id: int) -> int:
        """Bytes of a ledger and those after it; of those after it when it is gone."""
        last, ids = self._last, self._ids
        index = bisect_left(ids, ledger_id)
        if last is None or index == len(ids):
            return 0
        return last.base_bytes + last.size_bytes - self.ledgers[ids[index]].base_bytes

    def _known_around(self, position: Position) -> tuple[LedgerInfo, int, Bounds] | None:
        """The ledger of a position, how many of its entries lie at or before it (those that cannot be read any more
        do), and the known sizes next to that number; None when the ledger is gone."""
        info = self.ledgers.get(position.ledger_id)
        if info is None:
            return None
        entries = min(max(position.entry_id + 1, info.first_entry_id), info.entries)
        return info, entries, known_around(info, self._windows, entries)

    def ledger_ids(self) -> list[int]:
        """Ids of all existing ledgers, rising. Not to be changed."""
        return self._ids

    # Changes, for DurableState only

    def restore(self, total_entries: int, last_position: Position) -> None:
        """Restores the totals of a topic whose ledgers are added next."""
        self._gone_entries, self._gone_position = total_entries, last_position

    def add(self, info: LedgerInfo) -> None:
        """Appends a ledger to the chain."""
        assert not self._ids or info.ledger_id > self._ids[-1], "ledger ids rise (ML-1)"
        self._gone_position = self.last_position
        if self._last is not None:
            info.base_bytes = self._last.base_bytes + self._last.size_bytes
        self.ledgers[info.ledger_id] = info
        self._ids.append(info.ledger_id)
        self._last = info

    def remove(self, ledger_ids: Iterable[int]) -> list[int]:
        """Takes ledgers out of the chain; returns those that were there."""
        self._gone_entries, self._gone_position = self.total_entries, self.last_position
        removed = [ledger_id for ledger_id in ledger_ids if self.ledgers.pop(ledger_id, None) is not None]
        self._ids = list(self.ledgers)
        self._last = self.ledgers[self._ids[-1]] if self._ids else None
        if self._last is not self.open_ledger:
            self.open_ledger = None
        self._partly_dropped.difference_update(removed)
        return removed

    def drop_before(self, ledger_id: int, first_entry_id: int) -> None:
        """Entries of the ledger below this id are not readable any more."""
        info = self.ledgers[ledger_id]
        info.first_entry_id = max(info.first_entry_id, min(first_entry_id, info.entries))
        if info.first_entry_id:
            self._partly_dropped.add(ledger_id)
