"""Sorted disjoint intervals of entry ids of one ledger: what `ranges.RangeSet` keeps for each ledger.

They stand in chunks of at most `MAX_CHUNK`: a chunk is two parallel arrays (16 bytes an interval), a place in it is
found by bisection, and adding or removing anywhere moves at most one chunk in memory. So both ends and the middle cost
the same, O(log n), however many intervals there are: a million take 17 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

MAX_CHUNK: Final = 1_024
"""Most intervals of a chunk."""
MIN_CHUNK: Final = 64
"""A chunk smaller than this is joined to the next one when both fit into half a chunk."""


class Intervals:
    """The intervals of one ledger, in chunks: `starts[c][i] <= x < ends[c][i]`. No chunk is empty.

    `lasts[c]` is the last end in chunk c. A place is `(c, i)`; one past the last interval of a chunk is no place.
    """

    __slots__ = ("count", "ends", "lasts", "starts")

    def __init__(self) -> None:
        self.starts: list[array[int]] = []
        self.ends: list[array[int]] = []
        self.lasts: list[int] = []
        self.count = 0

    def copy(self) -> Intervals:
        """Returns an independent copy."""
        other = Intervals()
        other.starts = [chunk[:] for chunk in self.starts]
        other.ends = [chunk[:] for chunk in self.ends]
        other.lasts = self.lasts[:]
        other.count = self.count
        return other

    # ---- changes ----

    def add(self, first: int, end: int) -> int:
        """Puts [first, end) in; returns where the interval begins that holds it now."""
        lasts = self.lasts
        if lasts:
            last = lasts[-1]
            if first < last:
                chunk = bisect_left(lasts, first)
                starts, ends = self.starts[chunk], self.ends[chunk]
                index = bisect_left(ends, first)
                if starts[index] <= end:
                    return self._merge(chunk, index, first, end)
                starts.insert(index, first)
                ends.insert(index, end)
                if len(starts) > MAX_CHUNK:
                    self._split(chunk)
                self.count += end - first
                return first
            if first == last:
                self.ends[-1][-1] = lasts[-1] = end
                self.count += end - first
                return self.starts[-1][-1]
            if len(self.ends[-1]) < MAX_CHUNK:
                self.starts[-1].append(first)
                self.ends[-1].append(end)
                lasts[-1] = end
                self.count += end - first
                return first
        self.append_chunk(array("q", (first,)), array("q", (end,)))
        self.count += end - first
        return first

    def append_chunk(self, starts: array[int], ends: array[int]) -> None:
        """Puts at most `MAX_CHUNK` intervals behind all others, ascending and apart; `count` is the caller's."""
        if self.lasts and len(self.starts[-1]) + len(starts) <= MAX_CHUNK:
            self.starts[-1] += starts
            self.ends[-1] += ends
            self.lasts[-1] = ends[-1]
            return
        self.starts.append(starts)
        self.ends.append(ends)
        self.lasts.append(ends[-1])

    def _merge(self, chunk: int, index: int, first: int, end: int) -> int:
        """Adds [first, end), which touches or overlaps the interval at a place and none before it."""
        starts, ends = self.starts[chunk], self.ends[chunk]
        # The place behind the last interval that it touches.
        stop = bisect_right(starts, end, index)
        stop_chunk = chunk
        if stop == len(starts):
            while stop_chunk + 1 < len(self.starts) and self.starts[stop_chunk + 1][0] <= end:
                stop_chunk += 1
                stop = bisect_right(self.starts[stop_chunk], end)
        merged_first, merged_end = min(first, starts[index]), max(end, self.ends[stop_chunk][stop - 1])
        held = ends[index] - starts[index]
        if stop_chunk != chunk or stop != index + 1:
            held += self._remove_between(*self._after(chunk, index), stop_chunk, stop)
        starts[index], ends[index] = merged_first, merged_end
        self.lasts[chunk] = ends[-1]
        self.count += merged_end - merged_first - held
        return merged_first

    def _split(self, chunk: int) -> None:
        """Makes two of a chunk that has become too large."""
        starts, ends = self.starts[chunk], self.ends[chunk]
        half = len(starts) // 2
        self.starts.insert(chunk + 1, starts[half:])
        self.ends.insert(chunk + 1, ends[half:])
        del starts[half:]
        del ends[half:]
        self.lasts.insert(chunk, ends[-1])

    def remove(self, first: int, end: int) -> int:
        """Takes [first, end) out, holes and all; returns how many entries were in."""
        place = self.place(first)
        if place is None:
            return 0
        chunk, index = place
        starts, ends = self.starts[chunk], self.ends[chunk]
        start, stop = starts[index], ends[index]
        if start >= end:
            return 0
        if stop > end:  # this one interval is all there is of the range
            if start < first:
                ends[index] = first
                starts.insert(index + 1, end)
                ends.insert(index + 1, stop)
                if len(starts) > MAX_CHUNK:
                    self._split(chunk)
            else:
                starts[index] = end
            removed = end - max(first, start)
            self.count -= removed
            return removed
        removed = 0
        if start < first:
            ends[index] = first
            self.lasts[chunk] = ends[-1]
            removed = stop - first
            chunk, index = self._after(chunk, index)
        stop_chunk, stop_index = self._first_starting_at(end, chunk)
        if (chunk, index) < (stop_chunk, stop_index):
            # The last of them may reach beyond the range: what does stays.
            last_chunk, last_index = (
                (stop_chunk, stop_index - 1) if stop_index else (stop_chunk - 1, len(self.starts[stop_chunk - 1]) - 1)
            )
            if self.ends[last_chunk][last_index] > end:
                removed += end - self.starts[last_chunk][last_index]
                self.starts[last_chunk][last_index] = end
                stop_chunk, stop_index = last_chunk, last_index
            removed += self._remove_between(chunk, index, stop_chunk, stop_index)
        self.count -= removed
        return removed

    def _remove_between(self, chunk: int, index: int, stop_chunk: int, stop: int) -> int:
        """Takes out the intervals from one place up to another, exclusive; returns their entries. `count` stays."""
        if chunk < stop_chunk:
            taken = self._remove_between(stop_chunk, 0, stop_chunk, stop) if stop else 0
            for middle in range(chunk + 1, stop_chunk):
                taken += sum(self.ends[middle]) - sum(self.starts[middle])
            del self.starts[chunk + 1 : stop_chunk]
            del self.ends[chunk + 1 : stop_chunk]
            del self.lasts[chunk + 1 : stop_chunk]
            if index < len(self.starts[chunk]):
                taken += self._remove_between(chunk, index, chunk, len(self.starts[chunk]))
            return taken
        if index >= stop:
            return 0
        starts, ends = self.starts[chunk], self.ends[chunk]
        taken = ends[index] - starts[index] if stop == index + 1 else sum(ends[index:stop]) - sum(starts[index:stop])
        if stop - index == len(starts):
            del self.starts[chunk]
            del self.ends[chunk]
            del self.lasts[chunk]
            return taken
        del starts[index:stop]
        del ends[index:stop]
        self.lasts[chunk] = ends[-1]
        if len(starts) < MIN_CHUNK:
            self._join(chunk)
        return taken

    def _join(self, chunk: int) -> None:
        """Puts a small chunk together with the next one, unless that makes it large."""
        if chunk + 1 < len(self.starts) and len(self.starts[chunk]) + len(self.starts[chunk + 1]) <= MAX_CHUNK // 2:
            self.starts[chunk] += self.starts.pop(chunk + 1)
            self.ends[chunk] += self.ends.pop(chunk + 1)
            del self.lasts[chunk]

    # ---- places ----

    def place(self, entry_id: int) -> tuple[int, int] | None:
        """Returns the first interval that holds or follows an entry id; None when there is none."""
        chunk = bisect_right(self.lasts, entry_id)
        if chunk == len(self.lasts):
            return None
        return chunk, bisect_right(self.ends[chunk], entry_id)

    def around(self, entry_id: int) -> tuple[int, int] | None:
        """Returns the first interval that holds or follows an entry id, whole; None when there is none."""
        chunk = bisect_right(self.lasts, entry_id)
        if chunk == len(self.lasts):
            return None
        index = bisect_right(self.ends[chunk], entry_id)
        return self.starts[chunk][index], self.ends[chunk][index]

    def last(self) -> int:
        """Returns the highest entry of the set, which is not empty."""
        return self.lasts[-1] - 1

    def _after(self, chunk: int, index: int) -> tuple[int, int]:
        """Returns the next place, or where it would be."""
        return (chunk, index + 1) if index + 1 < len(self.starts[chunk]) else (chunk + 1, 0)

    def _first_starting_at(self, entry_id: int, chunk: int) -> tuple[int, int]:
        """Returns the first interval, in this chunk or later, that begins at or after an entry id, or where it would
        be."""
        chunk = max(chunk, bisect_right(self.lasts, entry_id))
        while chunk < len(self.starts):
            index = bisect_left(self.starts[chunk], entry_id)
            if index < len(self.starts[chunk]):
                return chunk, index
            chunk += 1
        return chunk, 0

    def first_start(self, entry_id: int) -> int | None:
        """Finds the first interval that begins at or after an entry id, and returns where."""
        chunk, index = self._first_starting_at(entry_id, 0)
        return self.starts[chunk][index] if chunk < len(self.starts) else None

    def starting_in(self, first: int, end: int) -> tuple[array[int], array[int]]:
        """Starts and ends of the intervals that begin in [first, end)."""
        starts, ends = array("q"), array("q")
        chunk, index = self._first_starting_at(first, 0)
        while chunk < len(self.starts):
            stop = bisect_left(self.starts[chunk], end, index)
            starts += self.starts[chunk][index:stop]
            ends += self.ends[chunk][index:stop]
            if stop < len(self.starts[chunk]):
                break
            chunk, index = chunk + 1, 0
        return starts, ends

    def between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the intervals that have entries in [first, end), whole, ascending."""
        place = self.place(first)
        if place is None:
            return
        chunk, index = place
        while chunk < len(self.starts):
            for start, stop in zip(self.starts[chunk][index:], self.ends[chunk][index:], strict=True):
                if start >= end:
                    return
                yield start, stop
            chunk, index = chunk + 1, 0

    def __len__(self) -> int:
        return sum(map(len, self.starts))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for starts, ends in zip(self.starts, self.ends, strict=True):
            yield from zip(starts, ends, strict=True)
