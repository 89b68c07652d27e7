"""Where the entries that are not settled stand in the journal: three numbers a run, in arrays, by ledger."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1


class RunPlace(NamedTuple):
    """A record of entries: its first entry, one past its last, and where its body stands in which segment."""

    first: int
    end: int
    segment: int
    offset: int
    length: int


class LedgerRuns:
    """The unsettled runs of one ledger, rising and without gaps between them: they are the end of the ledger."""

    __slots__ = ("end", "firsts", "lengths", "places")

    def __init__(self) -> None:
        self.firsts = array("Q")
        self.places = array("Q")
        self.lengths = array("I")
        self.end = 0

    def add(self, first: int, end: int, segment: int, offset: int, length: int) -> None:
        """Append a run."""
        self.firsts.append(first)
        self.places.append(segment << _OFFSET_BITS | offset)
        self.lengths.append(length)
        self.end = end

    def place(self, index: int) -> RunPlace:
        """The run with that index."""
        firsts = self.firsts
        end = firsts[index + 1] if index + 1 < len(firsts) else self.end
        place = self.places[index]
        return RunPlace(firsts[index], end, place >> _OFFSET_BITS, place & _OFFSET_MASK, self.lengths[index])

    def index_of(self, entry_id: int) -> int:
        """The index of the run that holds the entry, or of the first run after it; the count when it is at the end."""
        if entry_id >= self.end:
            return len(self.firsts)
        return max(0, bisect_right(self.firsts, entry_id) - 1)

    def count_before_segment(self, segment: int) -> int:
        """How many leading runs stand in segments with a lower number."""
        return bisect_left(self.places, segment << _OFFSET_BITS)

    def first_runs(self, count: int) -> LedgerRuns:
        """A copy of the leading runs."""
        copy = LedgerRuns()
        copy.firsts, copy.places, copy.lengths = self.firsts[:count], self.places[:count], self.lengths[:count]
        copy.end = self.firsts[count] if count < len(self.firsts) else self.end
        return copy

    def drop_first(self, count: int) -> None:
        """Forget leading runs."""
        del self.firsts[:count]
        del self.places[:count]
        del self.lengths[:count]


class RunIndex:
    """The unsettled runs of all ledgers. Guarded by the storage's lock."""

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerRuns] = {}

    def add(self, ledger_id: int, first: int, end: int, segment: int, offset: int, length: int) -> None:
        """Append a run of a ledger."""
        runs = self.ledgers.get(ledger_id)
        if runs is None:
            runs = self.ledgers[ledger_id] = LedgerRuns()
        runs.add(first, end, segment, offset, length)

    def drop_ledger(self, ledger_id: int) -> None:
        """Forget a ledger."""
        self.ledgers.pop(ledger_id, None)

    def drop_before_segment(self, ledger_id: int, segment: int) -> None:
        """Forget the ledger's runs in segments with a lower number."""
        runs = self.ledgers.get(ledger_id)
        if runs is not None:
            runs.drop_first(runs.count_before_segment(segment))
            if not runs.firsts:
                del self.ledgers[ledger_id]
