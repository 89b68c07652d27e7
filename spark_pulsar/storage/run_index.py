"""Where the entries that are not settled stand in the journal: three numbers a run, in an array, by ledger."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_SCATTERED: Final = 1 << 32
"""Beside a length, which is a number of 32 bits."""

_WORDS: Final = 3
_RUN: Final = Struct("=QQQ")


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
    """The unsettled runs of one ledger, rising and without gaps between them: they are the end of the ledger.

    Three words a run stand side by side, since those of a thousand ledgers are touched in turn: the first entry, the
    place, the length. A scattered run is one entry.
    """

    __slots__ = ("_end", "words")

    def __init__(self) -> None:
        self.words = array("Q")
        self._end = 0

    def __len__(self) -> int:
        return len(self.words) // _WORDS

    @property
    def first(self) -> int:
        """The first entry of the first run."""
        return self.words[0]

    @property
    def end(self) -> int:
        """One past the last entry."""
        words = self.words
        return words[-_WORDS] + 1 if words and words[-1] & _SCATTERED else self._end

    def add(self, first: int, end: int, segment: int, offset: int, length: int) -> None:
        """Append a run."""
        self.words.extend((first, segment << _OFFSET_BITS | offset, length))
        self._end = end

    def place(self, index: int) -> RunPlace:
        """The run with that index."""
        at = index * _WORDS
        first, place, length = self.words[at : at + _WORDS]
        segment, offset = place >> _OFFSET_BITS, place & _OFFSET_MASK
        is_scattered = bool(length & _SCATTERED)
        return RunPlace(first, self.end_before(index + 1), segment, offset, length & ~_SCATTERED, is_scattered)

    def fill_gap(self, first: int, segment: int, offset: int) -> None:
        """Entries up to `first`, exclusive, are lost: a run of length 0 stands for them."""
        end = self.end
        if self.words and end < first:
            self.add(end, first, segment, offset, 0)

    def spans(self) -> list[tuple[int, int]]:
        """First and end of the runs that are there, rising."""
        firsts, lengths = self.words[::_WORDS], self.words[2::_WORDS]
        columns = zip(firsts, [*firsts[1:], self.end], lengths, strict=True)
        return [(first, end) for first, end, length in columns if length]

    def index_of(self, entry_id: int) -> int:
        """The index of the run that holds the entry, or of the first run after it; the count when it is at the end."""
        if entry_id >= self.end:
            return len(self)
        words = self.words
        return max(0, bisect_right(range(len(self)), entry_id, key=lambda index: words[_WORDS * index]) - 1)

    def count_before_segment(self, segment: int) -> int:
        """How many leading runs stand in segments with a lower number."""
        return self._count_before_place(segment << _OFFSET_BITS)

    def _count_before_place(self, place: int) -> int:
        words = self.words
        return bisect_left(range(len(self)), place, key=lambda index: words[_WORDS * index + 1])

    def end_before(self, count: int) -> int:
        """One past the last entry of the leading runs."""
        return self.words[count * _WORDS] if count < len(self) else self.end

    def move_from(self, place: int, by: int) -> None:
        """Runs at a place (segment and offset in one number) or after it stand that much further on."""
        words = self.words
        for at in range(self._count_before_place(place) * _WORDS + 1, len(words), _WORDS):
            words[at] += by

    def drop_first(self, count: int) -> None:
        """Forget leading runs."""
        self._end = self.end
        del self.words[: count * _WORDS]


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
        words, last = b"", -1
        for ledger_id, entry_id in zip(ledger_ids, entry_ids, strict=True):
            if entry_id != last:  # ledgers that are filled in turn are often equally far
                words, last = _RUN.pack(entry_id, place, length), entry_id
            runs = ledgers.get(ledger_id)
            if runs is None:
                runs = ledgers[ledger_id] = LedgerRuns()
            runs.words.frombytes(words)

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
            if not runs.words:
                del self.ledgers[ledger_id]
