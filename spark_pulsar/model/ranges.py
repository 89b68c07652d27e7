"""Sets of positions as sorted disjoint intervals: what is acked, pending, or waiting for replay.

Entries of one ledger that are next to each other form one interval, however they were added, so equal sets have equal
intervals. Two parallel arrays per ledger hold them (16 bytes an interval); a place is found by bisection, intervals at
the end are appended, intervals at the front are dropped by moving a start index, so that both ends cost the same
however many intervals there are. Adding or removing in the middle moves the later intervals in memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

_COMPACT_FROM: Final = 64


class _Intervals:
    """The intervals of one ledger: `starts[i] <= x < ends[i]` for `i >= head`; those before `head` are gone."""

    __slots__ = ("count", "ends", "head", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.ends = array("q")
        self.head = 0
        self.count = 0

    def copy(self) -> _Intervals:
        other = _Intervals()
        other.starts = self.starts[self.head :]
        other.ends = self.ends[self.head :]
        other.count = self.count
        return other

    def add(self, first: int, end: int) -> int:
        starts, ends = self.starts, self.ends
        if len(ends) > self.head:
            last = ends[-1]
            if first == last:
                ends[-1] = end
                self.count += end - first
                return end - first
            if first < last:
                return self._merge(first, end)
        starts.append(first)
        ends.append(end)
        self.count += end - first
        return end - first

    def _merge(self, first: int, end: int) -> int:
        """Add [first, end), which begins before the last interval ends."""
        starts, ends = self.starts, self.ends
        # Intervals low ... high-1 touch or overlap the new one and become one with it.
        low = bisect_left(ends, first, self.head)
        high = bisect_right(starts, end, low)
        if low == high:
            starts.insert(low, first)
            ends.insert(low, end)
            self.count += end - first
            return end - first
        merged_first, merged_end = min(first, starts[low]), max(end, ends[high - 1])
        held = sum(ends[low:high]) - sum(starts[low:high]) if high - low > 1 else ends[low] - starts[low]
        starts[low], ends[low] = merged_first, merged_end
        if high - low > 1:
            del starts[low + 1 : high]
            del ends[low + 1 : high]
        added = merged_end - merged_first - held
        self.count += added
        return added

    def remove(self, first: int, end: int) -> int:
        starts, ends = self.starts, self.ends
        low = bisect_right(ends, first, self.head)
        high = bisect_left(starts, end, low)
        if low >= high:
            return 0
        held = sum(ends[low:high]) - sum(starts[low:high])
        left, right = starts[low], ends[high - 1]
        kept = 0
        if right > end:
            high -= 1
            starts[high] = end
            kept += right - end
            if left < first:
                if low == high:
                    starts.insert(low, left)
                    ends.insert(low, first)
                else:
                    ends[low] = first
                low += 1
                kept += first - left
        elif left < first:
            ends[low] = first
            low += 1
            kept += first - left
        self._delete(low, high)
        self.count -= held - kept
        return held - kept

    def _delete(self, low: int, high: int) -> None:
        if low >= high:
            return
        if low == self.head:
            self.head = high
            if high > _COMPACT_FROM and high * 2 > len(self.starts):
                del self.starts[:high]
                del self.ends[:high]
                self.head = 0
        else:
            del self.starts[low:high]
            del self.ends[low:high]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for index in range(self.head, len(self.starts)):
            yield self.starts[index], self.ends[index]


class RangeSet:
    """A set of entry positions, given and returned as half-open ranges `[first, end)` of entry ids in a ledger.

    Empty ranges (`end <= first`) are accepted and change nothing. Iteration is in order of position.
    """

    __slots__ = ("_count", "_ledger_ids", "_ledgers")

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        self._ledgers: dict[int, _Intervals] = {}
        self._ledger_ids: list[int] = []
        self._count = 0
        for ledger_id, first, end in ranges:
            self.add(ledger_id, first, end)

    # ---- changes ----

    def add(self, ledger_id: int, first: int, end: int) -> int:
        """Put a range in; returns how many of its entries were not in yet."""
        if end <= first:
            return 0
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            intervals = self._ledgers[ledger_id] = _Intervals()
            insort(self._ledger_ids, ledger_id)
        added = intervals.add(first, end)
        self._count += added
        return added

    def remove(self, ledger_id: int, first: int, end: int) -> int:
        """Take a range out, holes and all; returns how many entries were in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None or end <= first:
            return 0
        removed = intervals.remove(first, end)
        self._count -= removed
        if not intervals.count:
            self._forget(ledger_id)
        return removed

    def remove_through(self, ledger_id: int, entry_id: int) -> int:
        """Take out everything at or before a position, earlier ledgers included; returns how many entries were in."""
        removed = 0
        while self._ledger_ids and self._ledger_ids[0] < ledger_id:
            removed += self.discard_ledger(self._ledger_ids[0])
        return removed + self.remove(ledger_id, -1, entry_id + 1)

    def discard_ledger(self, ledger_id: int) -> int:
        """Take out a whole ledger; returns how many entries were in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            return 0
        self._count -= intervals.count
        self._forget(ledger_id)
        return intervals.count

    def pop_first(self, limit: int) -> list[tuple[int, int, int]]:
        """Take out the first `limit` entries, or fewer if there are not so many; returns them as ranges."""
        taken: list[tuple[int, int, int]] = []
        while limit > 0 and self._ledger_ids:
            ledger_id = self._ledger_ids[0]
            intervals = self._ledgers[ledger_id]
            first, end = intervals.starts[intervals.head], intervals.ends[intervals.head]
            end = min(end, first + limit)
            self.remove(ledger_id, first, end)
            taken.append((ledger_id, first, end))
            limit -= end - first
        return taken

    def clear(self) -> None:
        """Take out everything."""
        self._ledgers.clear()
        self._ledger_ids.clear()
        self._count = 0

    # ---- questions ----

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        """Whether an entry is in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            return False
        index = bisect_right(intervals.ends, entry_id, intervals.head)
        return index < len(intervals.starts) and intervals.starts[index] <= entry_id

    def covers(self, ledger_id: int, first: int, end: int) -> bool:
        """Whether every entry of a range is in."""
        return end <= first or self.next_gap(ledger_id, first) >= end

    def intersects(self, ledger_id: int, first: int, end: int) -> bool:
        """Whether some entry of a range is in."""
        found = self.next_range(ledger_id, first)
        return found is not None and found[0] < end and first < end

    def count(self) -> int:
        """How many entries are in."""
        return self._count

    def count_of(self, ledger_id: int) -> int:
        """How many entries of a ledger are in."""
        intervals = self._ledgers.get(ledger_id)
        return 0 if intervals is None else intervals.count

    def count_between(self, ledger_id: int, first: int, end: int) -> int:
        """How many entries of a range are in."""
        return sum(piece_end - piece_first for piece_first, piece_end in self.pieces_in(ledger_id, first, end))

    def range_count(self) -> int:
        """How many intervals are held; what memory and a snapshot cost."""
        return sum(len(intervals.starts) - intervals.head for intervals in self._ledgers.values())

    def first(self) -> tuple[int, int] | None:
        """The lowest position, None when empty."""
        if not self._ledger_ids:
            return None
        ledger_id = self._ledger_ids[0]
        intervals = self._ledgers[ledger_id]
        return ledger_id, intervals.starts[intervals.head]

    def last(self) -> tuple[int, int] | None:
        """The highest position, None when empty."""
        if not self._ledger_ids:
            return None
        ledger_id = self._ledger_ids[-1]
        return ledger_id, self._ledgers[ledger_id].ends[-1] - 1

    def next_gap(self, ledger_id: int, entry_id: int) -> int:
        """The first entry id at or after `entry_id` in this ledger that is not in."""
        found = self.next_range(ledger_id, entry_id)
        return found[1] if found is not None and found[0] <= entry_id else entry_id

    def next_range(self, ledger_id: int, entry_id: int) -> tuple[int, int] | None:
        """The first interval of this ledger that holds or follows `entry_id`, whole; None when there is none."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None:
            return None
        index = bisect_right(intervals.ends, entry_id, intervals.head)
        if index == len(intervals.starts):
            return None
        return intervals.starts[index], intervals.ends[index]

    def pieces_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """The parts of a range that are in."""
        intervals = self._ledgers.get(ledger_id)
        if intervals is None or end <= first:
            return []
        low = bisect_right(intervals.ends, first, intervals.head)
        high = bisect_left(intervals.starts, end, low)
        return [(max(intervals.starts[i], first), min(intervals.ends[i], end)) for i in range(low, high)]

    def pieces_not_in(self, ledger_id: int, first: int, end: int) -> list[tuple[int, int]]:
        """The parts of a range that are not in."""
        gaps: list[tuple[int, int]] = []
        for piece_first, piece_end in self.pieces_in(ledger_id, first, end):
            if piece_first > first:
                gaps.append((first, piece_first))
            first = piece_end
        if first < end:
            gaps.append((first, end))
        return gaps

    def ledgers(self) -> list[int]:
        """The ids of the ledgers that have entries in, ascending."""
        return list(self._ledger_ids)

    def ranges_of(self, ledger_id: int) -> Iterator[tuple[int, int]]:
        """The intervals of one ledger, ascending."""
        intervals = self._ledgers.get(ledger_id)
        return iter(()) if intervals is None else iter(intervals)

    def copy(self) -> RangeSet:
        """An independent set with the same entries."""
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

    def _forget(self, ledger_id: int) -> None:
        del self._ledgers[ledger_id]
        del self._ledger_ids[bisect_left(self._ledger_ids, ledger_id)]
