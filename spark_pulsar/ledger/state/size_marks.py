"""Marks of how many bytes a ledger holds up to an entry."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MARK_BYTES: Final = 64 * 1024
"""Bytes appended between two marks, about."""


@dataclass(slots=True, eq=False)
class SizeMarks:
    """Bytes that the first entries of one ledger take, for some numbers of entries, rising."""

    entries: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))

    def add(self, entries: int, size_bytes: int) -> None:
        """The ledger's end is worth remembering."""
        self.entries.append(entries)
        self.sizes.append(size_bytes)

    def learn(self, entries: int, size_bytes: int) -> None:
        """A mark that was found later."""
        at = bisect_left(self.entries, entries)
        if at == len(self.entries) or self.entries[at] != entries:
            self.entries.insert(at, entries)
            self.sizes.insert(at, size_bytes)

    def thin(self, total_entries: int) -> None:
        """Keeps a few, evenly: the ledger is sealed."""
        apart = total_entries // _SEALED_MARKS
        last, kept, self.sizes, sizes = 0, array("q"), array("q"), self.sizes
        for entries, size_bytes in zip(self.entries, sizes, strict=True):
            if entries - last >= apart:
                kept.append(entries)
                self.sizes.append(size_bytes)
                last = entries
        self.entries = kept

    def around_entries(self, entries: int, end: int, end_bytes: int) -> Bounds:
        """The marks next to so many entries; the ledger's end is one."""
        at = bisect_left(self.entries, entries)
        if at < len(self.entries) and self.entries[at] == entries:
            return Bounds(entries, self.sizes[at], entries, self.sizes[at])
        return self._around(at, end, end_bytes)

    def around_size(self, size_bytes: int, end: int, end_bytes: int) -> Bounds:
        """The last mark below a size, and the first one at or above it."""
        return self._around(bisect_left(self.sizes, size_bytes), end, end_bytes)

    def _around(self, at: int, end: int, end_bytes: int) -> Bounds:
        """The marks before and at an index; behind the last one the ledger's end."""
        if at < len(self.entries):
            end, end_bytes = self.entries[at], self.sizes[at]
        return Bounds(self.entries[at - 1], self.sizes[at - 1], end, end_bytes) if at else Bounds(0, 0, end, end_bytes)


_SEALED_MARKS: Final = 32


class SizeSpan(NamedTuple):
    """Entries `first … end - 1` of a ledger, whose sizes are requested; its first `end` entries take `end_bytes`."""

    ledger_id: int
    first: int
    end: int
    end_bytes: int


class Bounds(NamedTuple):
    """Known sizes next to a number of entries of a ledger, at or below it and at or above it: numbers of entries, and
    the bytes that so many first entries take."""

    low: int
    low_bytes: int
    high: int
    high_bytes: int
