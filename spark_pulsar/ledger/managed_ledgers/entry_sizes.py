"""Sizes inside a ledger: how many bytes its first entries take, without a number for each entry.

A *mark* holds the bytes of a number of first entries. The ledger notes one for every 64 KiB appended, and keeps few
once it is sealed. Between two marks a *window* holds these bytes for every entry: for an exact size the entries between
two marks are measured (`ManagedLedger.unmeasured`, `learn`), which is a small read. Neither is stored: after a restart
the first measurement of a ledger restores its marks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.positions.ids import Position

from .ledger import Bounds, SizeMarks, SizeSpan

if TYPE_CHECKING:
    from .ledger import LedgerInfo

MAX_WINDOW_ENTRIES: Final = 4096
"""Most entries of a window; of more only marks are kept."""
_LEARNED_ENTRIES: Final = 2048
_WINDOWS: Final = 2
"""Windows kept for a topic: one for its slowest mark-delete, one for the place that a quota leaves."""


class SizeWindow:
    """Bytes that the first entries of one ledger take, for every number of entries from `first` to `end`."""

    __slots__ = ("end", "first", "ledger_id", "sums")

    def __init__(self, span: SizeSpan, sizes: Sequence[int]) -> None:
        self.ledger_id = span.ledger_id
        self.first = span.first
        self.end = span.end
        self.sums = array("q", accumulate(sizes, initial=span.end_bytes - sum(sizes)))

    def entries_to(self, size_bytes: int) -> int:
        """Counts the first entries that take at least `size_bytes`."""
        return self.first + bisect_left(self.sums, size_bytes)


def known_around(info: LedgerInfo, windows: Iterable[SizeWindow], entries: int) -> Bounds:
    """Finds the known sizes of a ledger next to that of its first `entries` entries."""
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
    the next query is short."""
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
