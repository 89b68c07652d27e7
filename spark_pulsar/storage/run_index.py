"""Where the entries that are not settled stand in the journal: three numbers a run, in arrays, by ledger."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_SCATTERED: Final = 1 << 31


class RunPlace(NamedTuple):
    """Where entries of a ledger stand: the first, one past the last, and segment, offset and length of the body of
    their record; a length of 0: they are lost. In a scattered record entries of other ledgers stand too."""

    first: int
    end: int
    segment: int
    offset: int
    length: int
    scattered: bool


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
        place, length = self.places[index], self.lengths[index]
        segment, offset = place >> _OFFSET_BITS, place & _OFFSET_MASK
        return RunPlace(firsts[index], end, segment, offset, length & ~_SCATTERED, bool(length & _SCATTERED))

    def fill_gap(self, first: int, segment: int, offset: int) -> None:
        """Entries up to `first`, exclusive, are lost: a run of length 0 stands for them."""
        if self.firsts and self.end < first:
            self.add(self.end, first, segment, offset, 0)

    def spans(self) -> list[tuple[int, int]]:
        """First and end of the runs that are there, rising."""
        ends = [*self.firsts[1:], self.end]
        columns = zip(self.firsts, ends, self.lengths, strict=True)
        return [(first, end) for first, end, length in columns if length]

    def index_of(self, entry_id: int) -> int:
        """The index of the run that holds the entry, or of the first run after it; the count when it is at the end."""
        if entry_id >= self.end:
            return len(self.firsts)
        return max(0, bisect_right(self.firsts, entry_id) - 1)

    def count_before_segment(self, segment: int) -> int:
        """How many leading runs stand in segments with a lower number."""
        return bisect_left(self.places, segment << _OFFSET_BITS)

    def end_before(self, count: int) -> int:
        """One past the last entry of the leading runs."""
        return self.firsts[count] if count < len(self.firsts) else self.end

    def move_from(self, place: int, by: int) -> None:
        """Runs at a place (segment and offset in one number) or after it stand that much further on."""
        places = self.places
        for index in range(bisect_left(places, place), len(places)):
            places[index] += by

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

    def fill_gap(self, ledger_id: int, first: int, segment: int, offset: int) -> None:
        """Entries between the ledger's last run and `first` are lost."""
        runs = self.ledgers.get(ledger_id)
        if runs is not None:
            runs.fill_gap(first, segment, offset)

    def add_scattered(
        self, ledger_ids: Sequence[int], entry_ids: Sequence[int], segment: int, offset: int, length: int
    ) -> None:
        """Append one entry to each of many ledgers, all in one record."""
        ledgers = self.ledgers
        place = segment << _OFFSET_BITS | offset
        length |= _SCATTERED
        for ledger_id, entry_id in zip(ledger_ids, entry_ids, strict=True):
            runs = ledgers.get(ledger_id)
            if runs is None:
                runs = ledgers[ledger_id] = LedgerRuns()
            runs.firsts.append(entry_id)
            runs.places.append(place)
            runs.lengths.append(length)
            runs.end = entry_id + 1

    def move_from(self, segment: int, offset: int, to_segment: int, to_offset: int) -> None:
        """What stands at this place and after it was copied to another one, in a later segment."""
        place = segment << _OFFSET_BITS | offset
        by = (to_segment << _OFFSET_BITS | to_offset) - place
        for runs in self.ledgers.values():
            runs.move_from(place, by)

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
