"""Sets of positions as sorted disjoint intervals: acked, pending, or waiting for replay.

Entries of one ledger that are next to each other form one interval, however they were added, so equal sets have equal
intervals. Every change and question costs O(log n) however many intervals there are (see `intervals`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import ge
from typing import Final

from .intervals import MAX_CHUNK, Intervals
from .mapped_intervals import MappedIntervals

_BEYOND: Final = 1 << 62
"""Past every entry id."""
_THIN: Final = 256
"""Entries that lie farther apart are kept as intervals: a byte for each entry between them would be too much."""


class RangeSet:
    """A set of entry positions, given and returned as half-open ranges `[first, end)` of entry ids in a ledger.

    Empty ranges (`end <= first`) are accepted and change nothing. Iteration is in order of position.
    """

    __slots__ = ("_count", "_ledger_ids", "_ledgers")

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        self._ledgers: dict[int, Intervals | MappedIntervals] = {}
        self._ledger_ids: list[int] = []
        self._count = 0
        for ledger_id, first, end in ranges:
            self.add(ledger_id, first, end)

    # ---- changes ----

    def add(self, ledger_id: int, first: int, end: int) -> int:
        """Puts a range in; returns how many of its entries were not in yet."""
        if end <= first:
            return 0
        intervals = self._intervals(ledger_id)
        before = intervals.count
        intervals.add(first, end)
        added = intervals.count - before
        self._count += added
        return added

    def join(self, ranges: Iterable[tuple[int, int, int]], shift: int, changed: set[tuple[int, int]]) -> None:
        """Puts ranges in that are not empty, and note in `changed`, as `(ledger id, start >> shift)`, the starts of the
        intervals that are other ones now."""
        intervals: Intervals | MappedIntervals = Intervals()
        known, before = -1, 0
        note, blocks = changed.add, self.blocks
        for ledger_id, first, end in ranges:
            if ledger_id != known:
                self._count += intervals.count - before
                intervals, known = self._intervals(ledger_id), ledger_id
                before = intervals.count
            low, high = first >> shift, end >> shift
            note((ledger_id, low))
            if high != low:
                if high - low > 1:
                    changed.update((ledger_id, block) for block in blocks(ledger_id, first, end + 1, shift))
                else:
                    note((ledger_id, high))
            begin = intervals.add(first, end)
            if begin != first:
                note((ledger_id, begin >> shift))
        self._count += intervals.count - before

    def join_each(self, ledger_id: int, entry_ids: Sequence[int], shift: int, changed: set[tuple[int, int]]) -> None:
        """Puts entries in, which rise, seldom next to each other, and note in `changed` what `join` does, perhaps more.
        From now on entries that lie about cost next to nothing in this ledger."""
        intervals = self._intervals(ledger_id)
        if isinstance(intervals, Intervals):
            if entry_ids[-1] - entry_ids[0] > _THIN * len(entry_ids):
                self.join([(ledger_id, entry_id, entry_id + 1) for entry_id in entry_ids], shift, changed)
                return
            intervals = self._ledgers[ledger_id] = MappedIntervals(intervals)
        before = intervals.count
        intervals.add_each(entry_ids)
        self._count += intervals.count - before
        low, high = entry_ids[0] >> shift, (entry_ids[-1] + 1) >> shift
        blocks: Iterable[int] = range(low, high + 1)
        if high - low > len(entry_ids):
            blocks = {edge >> shift for entry_id in entry_ids for edge in (entry_id, entry_id + 1)}
        for block in blocks:
            changed.add((ledger_id, block))
            first = block << shift
            interval = intervals.around(first - 1)
            if interval is not None and interval[0] < first < interval[1]:
                changed.add((ledger_id, interval[0] >> shift))

    def append(self, ledger_id: int, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Puts intervals in, ascending and apart from each other, that lie behind all of the ledger. ValueError when
        they do not."""
        if not starts:
            return
        intervals = self._intervals(ledger_id)
        last = intervals.last() + 1 if intervals.count else -1
        if (
            len(starts) != len(ends)
            or starts[0] <= last
            or any(map(ge, starts, ends))
            or any(map(ge, ends, islice(starts, 1, None)))
        ):
            raise ValueError(f"intervals of ledger {ledger_id} are out of order")
        if isinstance(intervals, MappedIntervals):
            for start, end in zip(starts, ends, strict=True):
                self.add(ledger_id, start, end)
            return
        for at in range(0, len(starts), MAX_CHUNK):
            some_starts, some_ends = starts[at : at + MAX_CHUNK], ends[at : at + MAX_CHUNK]
            intervals.append_chunk(array("q", some_starts), array("q", some_ends))
        added = sum(ends) - sum(starts)
        intervals.count += added
        self._count += added

    def remove(self, ledger_id: int, first: int, end: int) -> int:
        """Takes a range out, holes and all; returns how many entries were in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None or end <= first:
            return 0
        removed = intervals.remove(first, end)
        self._count -= removed
        if not intervals.count:
            self._remove_ledger(ledger_id)
        return removed

    def remove_through(self, ledger_id: int, entry_id: int) -> int:
        """Takes out everything at or before a position, earlier ledgers included; returns how many entries were in."""
        removed = 0
        while self._ledger_ids and self._ledger_ids[0] < ledger_id:
            removed += self.discard_ledger(self._ledger_ids[0])
        return removed + self.remove(ledger_id, -1, entry_id + 1)

    def discard_ledger(self, ledger_id: int) -> int:
        """Takes out a whole ledger; returns how many entries were in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            return 0
        self._count -= intervals.count
        self._remove_ledger(ledger_id)
        return intervals.count

    def clear(self) -> None:
        """Takes out everything."""
        self._ledgers.clear()
        self._ledger_ids.clear()
        self._count = 0

    # ---- questions ----

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Returns whether the set holds an entry."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            return False
        interval = intervals.around(entry_id)
        return interval is not None and interval[0] <= entry_id

    def covers(self, ledger_id: int, first: int, end: int) -> bool:
        """Returns whether the set holds every entry of a range."""
        return end <= first or self.next_gap(ledger_id, first) >= end

    def intersects(self, ledger_id: int, first: int, end: int) -> bool:
        """Returns whether the set holds some entry of a range."""
        interval = self.next_range(ledger_id, first)
        return interval is not None and interval[0] < end and first < end

    def count(self) -> int:
        """Counts the entries of the set."""
        return self._count

    def count_between(self, ledger_id: int, first: int, end: int) -> int:
        """Counts the entries of a range in the set."""
        return sum(piece_end - piece_first for piece_first, piece_end in self.pieces_in(ledger_id, first, end))

    def count_after(self, ledger_id: int, entry_id: int) -> int:
        """Counts the entries behind a position in the set."""
        later = self._ledger_ids[bisect_right(self._ledger_ids, ledger_id) :]
        behind = sum(end - start for start, end in self.pieces_in(ledger_id, entry_id + 1, _BEYOND))
        return behind + sum(self._ledgers[later_id].count for later_id in later)

    def range_count(self) -> int:
        """Counts the intervals: they are what memory and a snapshot cost."""
        return sum(map(len, self._ledgers.values()))

    def first(self) -> tuple[int, int] | None:
        """Returns the lowest position, None when empty."""
        if not self._ledger_ids:
            return None
        ledger_id = self._ledger_ids[0]
        interval = self._ledgers[ledger_id].around(-1)
        assert interval is not None, "the ledger has entries in"
        return ledger_id, interval[0]

    def last(self) -> tuple[int, int] | None:
        """Returns the highest position, None when empty."""
        if not self._ledger_ids:
            return None
        ledger_id = self._ledger_ids[-1]
        return ledger_id, self._ledgers[ledger_id].last()

    def next_gap(self, ledger_id: int, entry_id: int) -> int:
        """Returns the first entry id at or after `entry_id` in this ledger that the set does not hold."""
        interval = self.next_range(ledger_id, entry_id)
        return interval[1] if interval is not None and interval[0] <= entry_id else entry_id

    def next_range(self, ledger_id: int, entry_id: int) -> tuple[int, int] | None:
        """Returns the first interval of this ledger that holds or follows `entry_id`, whole; None when there is
        none."""
        intervals = self._ledgers.get(ledger_id)
        return None if intervals is None else intervals.around(entry_id)

    def pieces_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """Returns the parts of a range that the set holds."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None or end <= first:
            return []
        return [(max(start, first), min(stop, end)) for start, stop in intervals.between(first, end)]

    def pieces_not_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """Returns the parts of a range that the set does not hold."""
        gaps: list[tuple[int, int]] = []
        for piece_first, piece_end in self.pieces_in(ledger_id, first, end):
            if piece_first > first:
                gaps.append((first, piece_first))
            first = piece_end
        if first < end:
            gaps.append((first, end))
        return gaps

    def ledgers(self) -> list[int]:
        """Returns the ids of the ledgers that have entries in, ascending."""
        return list(self._ledger_ids)

    def ledgers_through(self, ledger_id: int) -> list[int]:
        """Returns the ids of the ledgers up to this one that have entries in, ascending."""
        return self._ledger_ids[: bisect_right(self._ledger_ids, ledger_id)]

    def ranges_of(self, ledger_id: int) -> Iterator[tuple[int, int]]:
        """Returns the intervals of one ledger, ascending."""
        intervals = self._ledgers.get(ledger_id)
        return iter(()) if intervals is None else iter(intervals)

    def starting_in(self, ledger_id: int, first: int, end: int) -> tuple[array[int], array[int]]:
        """Starts and ends of the intervals of one ledger that begin in `[first, end)`."""
        intervals = self._ledgers.get(ledger_id)
        return (array("q"), array("q")) if intervals is None else intervals.starting_in(first, end)

    def blocks(self, ledger_id: int, first: int, end: int, shift: int) -> Iterator[int]:
        """Yields the numbers `start >> shift`, each once, of the intervals of one ledger that begin in `[first,
        end)`."""
        intervals = self._ledgers.get(ledger_id)
        while intervals is not None:
            begin = intervals.first_start(first)
            if begin is None or begin >= end:
                return
            yield begin >> shift
            first = ((begin >> shift) + 1) << shift

    def copy(self) -> RangeSet:
        """Returns an independent set with the same entries."""
        other = RangeSet()
        other._ledgers = {ledger_id: intervals.copy() for ledger_id, intervals in self._ledgers.items()}
        other._ledger_ids = list(self._ledger_ids)
        other._count = self._count
        return other

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        for ledger_id in self._ledger_ids:
            for first, end in self._ledgers[ledger_id]:
                yield ledger_id, first, end

    def __bool__(self) -> bool:
        return self._count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._count == other._count and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        shown = ", ".join(f"{ledger_id}:[{first}, {end})" for ledger_id, first, end in self)
        return f"RangeSet({shown})"

    def _intervals(self, ledger_id: int) -> Intervals | MappedIntervals:
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            intervals = self._ledgers[ledger_id] = Intervals()
            insort(self._ledger_ids, ledger_id)
        return intervals

    def _remove_ledger(self, ledger_id: int) -> None:
        del self._ledgers[ledger_id]
        del self._ledger_ids[bisect_left(self._ledger_ids, ledger_id)]
