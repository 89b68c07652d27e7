"""Entry ids of one ledger that come one by one and in any order, as intervals: `intervals.Intervals` is for ranges.

Among the last entries there is a byte for each (1 = is in), so that putting one in is a store. What lies before them is
kept as intervals; so an entry that is never acked does not keep a million bytes alive behind it.

Between both parts there is always a gap: the first byte of the map is 0, so no interval lies in both.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from .intervals import Intervals

WIDEST: Final = 65_536
"""Most bytes of the map."""
MARGIN: Final = 4_096
"""Number of entries by which a map begins before the first one that comes: those of others come soon."""
_STRETCH: Final = re.compile(rb"\x01+")


class MappedIntervals:
    """See the module; the words are those of `Intervals`."""

    __slots__ = ("_base", "_front", "_map", "count")

    def __init__(self, front: Intervals) -> None:
        """Takes over what there is."""
        self._front = front
        self._map = bytearray()
        """Empty, or from a 0 to a 1."""
        self._base = front.last() + 1 if front.count else 0
        """The entry of the first byte; everything before is in `_front`."""
        self.count = front.count

    def copy(self) -> MappedIntervals:
        """Returns an independent copy."""
        other = MappedIntervals(self._front.copy())
        other._map = self._map[:]
        other._base = self._base
        other.count = self.count
        return other

    # ---- changes ----

    def add_each(self, entry_ids: Sequence[int]) -> None:
        """Puts entries in, which rise."""
        if entry_ids[-1] - self._base >= WIDEST or not self._map:
            self._make_room(entry_ids[0], entry_ids[-1] + 1)
        base, marks = self._base, self._map
        if entry_ids[0] < base or entry_ids[-1] - base >= WIDEST:
            known = bisect_left(entry_ids, base)
            fits = bisect_left(entry_ids, base + WIDEST)
            for entry_id in (*entry_ids[:known], *entry_ids[fits:]):
                self.add(entry_id, entry_id + 1)
            entry_ids = entry_ids[known:fits]
            if not entry_ids:
                return
            base = self._base  # these did not fit, or the map has moved
            if entry_ids[0] < base:
                for entry_id in entry_ids:
                    self.add(entry_id, entry_id + 1)
                return
        missing = entry_ids[-1] + 1 - base - len(marks)
        if missing > 0:
            marks += bytes(missing)
        places = [entry_id - base for entry_id in entry_ids]
        self.count += len(places) - sum(map(marks.__getitem__, places))
        for place in places:
            marks[place] = 1
        self._move_front()

    def add(self, first: int, end: int) -> int:
        """Puts [first, end) in; returns where the interval begins that holds it now."""
        if end - first >= MARGIN:
            self._move_all()
            before = self._front.count
            begin = self._front.add(first, end)
            self.count += self._front.count - before
            self._base = max(self._base, end)
            return begin
        if end - self._base > WIDEST or not self._map:
            self._make_room(first, end)
        base, marks, front = self._base, self._map, self._front
        before = front.count
        if first < base:
            front.add(first, min(end, base))
        self.count += front.count - before
        low, high = max(first - base, 0), end - base
        if high > low:
            if high > len(marks):
                marks += bytes(high - len(marks))
            self.count += high - low - marks.count(1, low, high)
            marks[low:high] = b"\1" * (high - low)
            self._move_front()
        interval = self.around(first)
        assert interval is not None, "it is in now"
        return interval[0]

    def _make_room(self, first: int, end: int) -> None:
        """Entries from `first` on come next: make the map reach `end`, unless that is too far from `first`."""
        if self._map:
            cut = self._map.rfind(0, 0, len(self._map) // 2 + 1)
            if end - self._base - cut > WIDEST:
                self._move_all()
            else:
                self._move(cut)
        if not self._map:
            self._base = max(self._base, first - MARGIN)

    def _move_all(self) -> None:
        self._move(len(self._map))

    def _move(self, cut: int) -> None:
        """Keeps the part of the map before a gap, or its end, as intervals from now on."""
        for start, stop in zip(*self._stretches(0, cut), strict=True):
            self._front.add(start, stop)
        del self._map[:cut]
        self._base += cut

    def _move_front(self) -> None:
        """Moves the beginning of the map to the intervals before it."""
        marks = self._map
        if marks and marks[0]:
            end = marks.find(0)
            if end < 0:
                end = len(marks)
            self._front.add(self._base, self._base + end)
            del marks[:end]
            self._base += end

    def remove(self, first: int, end: int) -> int:
        """Takes [first, end) out, holes and all; returns how many entries were in."""
        base, marks = self._base, self._map
        removed = self._front.remove(first, end) if first < base else 0
        low, high = max(first - base, 0), min(end - base, len(marks))
        if low < high:
            removed += marks.count(1, low, high)
            if high == len(marks):
                del marks[marks.rfind(1, 0, low) + 1 :]
            elif low == 0:
                del marks[:high]
                self._base += high
                self._move_front()
            else:
                marks[low:high] = bytes(high - low)
        self.count -= removed
        return removed

    # ---- questions ----

    def around(self, entry_id: int) -> tuple[int, int] | None:
        """Returns the first interval that holds or follows an entry id, whole; None when there is none."""
        base, marks = self._base, self._map
        place = entry_id - base
        if place < 0:
            interval = self._front.around(entry_id)
            if interval is not None:
                return interval
            place = 0
        start = marks.find(1, place)
        if start < 0:
            return None
        if start == place:
            start = marks.rfind(0, 0, place) + 1
        end = marks.find(0, start)
        return base + start, base + (len(marks) if end < 0 else end)

    def last(self) -> int:
        """Returns the highest entry of the set, which is not empty."""
        return self._base + len(self._map) - 1 if self._map else self._front.last()

    def first_start(self, entry_id: int) -> int | None:
        """Finds the first interval that begins at or after an entry id, and returns where."""
        in_front = self._front.first_start(entry_id)
        if in_front is not None:
            return in_front
        start = self._map.find(b"\0\1", max(entry_id - self._base - 1, 0))
        return None if start < 0 else self._base + start + 1

    def starting_in(self, first: int, end: int) -> tuple[array[int], array[int]]:
        """Starts and ends of the intervals that begin in [first, end)."""
        starts, ends = self._front.starting_in(first, end)
        begin = self.first_start(max(first, self._base))
        if begin is not None and begin < end:
            gap = self._map.find(0, end - self._base)
            more_starts, more_ends = self._stretches(begin - self._base, len(self._map) if gap < 0 else gap)
            count = bisect_left(more_starts, end)
            starts += more_starts[:count]
            ends += more_ends[:count]
        return starts, ends

    def between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the intervals that have entries in [first, end), whole, ascending."""
        interval = self.around(first)
        while interval is not None and interval[0] < end:
            yield interval
            interval = self.around(interval[1])

    def _stretches(self, low: int, high: int) -> tuple[array[int], array[int]]:
        """Starts and ends of the intervals of a part of the map, which begins and ends at a gap."""
        base = self._base
        spans = [match.span() for match in _STRETCH.finditer(self._map, low, high)]
        return array("q", [base + start for start, _ in spans]), array("q", [base + end for _, end in spans])

    def __len__(self) -> int:
        return len(self._front) + self._map.count(b"\0\1")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return chain(self._front, zip(*self._stretches(0, len(self._map)), strict=True))
