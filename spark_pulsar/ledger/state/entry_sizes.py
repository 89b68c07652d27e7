"""Sizes inside a ledger: how many bytes its first entries take, without a number for each entry.

A *mark* says what the first so many entries take. The ledger notes one for every 64 KiB appended, and few are kept once
it is sealed. Between two marks a *window* tells it for every entry: who must know an exact size has the entries between
two marks measured (`ManagedLedger.unmeasured`, `learn`), which is a small read. Nothing of it is stored: after a
restart the first measurement of a ledger brings its marks back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.model.ids import Position

if TYPE_CHECKING:
    from .ledger import LedgerInfo

MARK_BYTES: Final = 64 * 1024
"""Bytes appended between two marks, about."""
MAX_WINDOW_ENTRIES: Final = 4096
"""Of more entries than this only marks are kept."""
_LEARNED_ENTRIES: Final = 2048
_SEALED_MARKS: Final = 32
_WINDOWS: Final = 2
"""Kept for a topic: one for its slowest mark-delete, one for the place that a quota leaves."""


class SizeSpan(NamedTuple):
    """Entries `first … end - 1` of a ledger, whose sizes are asked for; its first `end` entries take `end_bytes`."""

    ledger_id: int
    first: int
    end: int
    end_bytes: int


class Bounds(NamedTuple):
    """What is known next to some number of entries of a ledger, at or below it and at or above it: so many entries, and
    the bytes that so many first entries take."""

    low: int
    low_bytes: int
    high: int
    high_bytes: int


class SizeMarks:
    """What the first so many entries of one ledger take, for some numbers of entries, rising."""

    __slots__ = ("entries", "sizes")

    def __init__(self) -> None:
        self.entries = array("q")
        self.sizes = array("q")

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
        """Keep a few, evenly: the ledger is sealed."""
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
        if at < len(self.entries):
            end, end_bytes = self.entries[at], self.sizes[at]
            if end == entries:
                return Bounds(end, end_bytes, end, end_bytes)
        return Bounds(self.entries[at - 1], self.sizes[at - 1], end, end_bytes) if at else Bounds(0, 0, end, end_bytes)

    def around_size(self, size_bytes: int, end: int, end_bytes: int) -> Bounds:
        """The last mark below a size, and the first one at or above it."""
        at = bisect_left(self.sizes, size_bytes)
        if at < len(self.entries):
            end, end_bytes = self.entries[at], self.sizes[at]
        return Bounds(self.entries[at - 1], self.sizes[at - 1], end, end_bytes) if at else Bounds(0, 0, end, end_bytes)


class SizeWindow:
    """What the first so many entries of one ledger take, for every number from `first` to `end`."""

    __slots__ = ("end", "first", "ledger_id", "sums")

    def __init__(self, span: SizeSpan, sizes: Sequence[int]) -> None:
        self.ledger_id = span.ledger_id
        self.first = span.first
        self.end = span.end
        self.sums = array("q", accumulate(sizes, initial=span.end_bytes - sum(sizes)))

    def entries_to(self, size_bytes: int) -> int:
        """How many first entries take at least so many bytes."""
        return self.first + bisect_left(self.sums, size_bytes)


def known_around(info: LedgerInfo, windows: Iterable[SizeWindow], entries: int) -> Bounds:
    """What is known of a ledger next to so many entries."""
    if entries in (0, info.entries):
        exact = info.size_bytes if entries else 0
        return Bounds(entries, exact, entries, exact)
    known = Bounds(0, 0, info.entries, info.size_bytes)
    if info.marks is not None:
        known = info.marks.around_entries(entries, info.entries, info.size_bytes)
    for window in windows:
        if window.ledger_id != info.ledger_id:
            continue
        if window.first <= entries <= window.end:
            exact = window.sums[entries - window.first]
            return Bounds(entries, exact, entries, exact)
        if known.low < window.end < entries:
            known = known._replace(low=window.end, low_bytes=window.sums[-1])
        elif entries < window.first < known.high:
            known = known._replace(high=window.first, high_bytes=window.sums[0])
    return known


def entry_at_size(info: LedgerInfo, windows: Iterable[SizeWindow], size_bytes: int, first: int) -> Position | SizeSpan:
    """The entry with which a ledger reaches a size, none before `first`; or what must be measured to know it."""
    known = Bounds(0, 0, info.entries, info.size_bytes)
    if info.marks is not None:
        known = info.marks.around_size(size_bytes, info.entries, info.size_bytes)
    first = max(first, known.low, info.first_entry_id)
    if first + 1 >= known.high:
        return Position(info.ledger_id, known.high - 1)
    for window in windows:
        if window.ledger_id == info.ledger_id and window.first <= first and known.high <= window.end:
            return Position(info.ledger_id, min(window.entries_to(size_bytes), known.high) - 1)
    return SizeSpan(info.ledger_id, first, known.high, known.high_bytes)


def learn(
    info: LedgerInfo, windows: tuple[SizeWindow, ...], span: SizeSpan, sizes: Sequence[int]
) -> tuple[SizeWindow, ...]:
    """A span of a ledger was measured: the windows from now on. Of a long one the ledger gets marks instead, so that
    what is asked next is short."""
    if len(sizes) <= MAX_WINDOW_ENTRIES:
        return SizeWindow(span, sizes), *windows[: _WINDOWS - 1]
    marks = info.marks = info.marks or SizeMarks()
    size_bytes, end = span.end_bytes, span.end
    while end - _LEARNED_ENTRIES > span.first:
        first = end - _LEARNED_ENTRIES
        size_bytes -= sum(sizes[first - span.first : end - span.first])
        end = first
        marks.learn(end, size_bytes)
    return windows
