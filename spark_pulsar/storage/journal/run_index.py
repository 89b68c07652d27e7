"""Index of the unsettled entries in the journal, by ledger: three numbers a run, in an array."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from spark_pulsar.ledger.entries import Extents
from spark_pulsar.model import array_library
from spark_pulsar.model.column_store import bounds_of

_OFFSET_BITS: Final = 32
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_SHARED: Final = 1 << 32
"""Flag beside a length, which is a number of 32 bits: the record has several extents, of one entry each."""

_WORDS: Final = 3
_MOST_WAITING: Final = 32_768
"""Most entries that wait for their ledgers: distributing that number takes some milliseconds."""


class RunPlace(NamedTuple):
    """The place of entries of a ledger: the first, one past the last, and segment, offset and length of the body of
    their record; a length of 0: they are lost. A shared record has other extents, too."""

    first: int
    end: int
    segment: int
    offset: int
    length: int
    shared: bool


class LedgerRuns:
    """The unsettled runs of one ledger, rising and without gaps between them: they are the end of the ledger.

    Three words a run stand side by side, since those of a thousand ledgers are touched in turn: the first entry, the
    place, the length. A run in a shared record is one entry.
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
        return words[-_WORDS] + 1 if words and words[-1] & _SHARED else self._end

    def add(self, first: int, end: int, segment: int, offset: int, length: int) -> None:
        """Appends a run."""
        self.words.extend((first, segment << _OFFSET_BITS | offset, length))
        self._end = end

    def place(self, index: int) -> RunPlace:
        """The run with that index."""
        at = index * _WORDS
        first, place, length = self.words[at : at + _WORDS]
        segment, offset = place >> _OFFSET_BITS, place & _OFFSET_MASK
        shared = bool(length & _SHARED)
        return RunPlace(first, self.end_before(index + 1), segment, offset, length & ~_SHARED, shared)

    def fill_gap(self, first: int, segment: int, offset: int) -> None:
        """Entries up to `first`, exclusive, are lost: a run of length 0 stands for them."""
        end = self.end
        if self.words and end < first:
            self.add(end, first, segment, offset, 0)

    @property
    def has_lost(self) -> bool:
        """Returns whether a run stands for lost entries."""
        return 0 in self.words[2::_WORDS]

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
        """Counts the leading runs in segments with a lower number."""
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
        """Removes leading runs."""
        self._end = self.end
        del self.words[: count * _WORDS]


class RunIndex:
    """The unsettled runs of all ledgers. Guarded by the storage's lock.

    Entries of shared records are distributed to their ledgers later, many at once: most are never read.
    """

    def __init__(self) -> None:
        self._ledgers: dict[int, LedgerRuns] = {}
        self._waiting: list[tuple[Sequence[int], Sequence[int], int, int]] = []
        """Ledger ids, entry ids, place and length of shared records, in order."""
        self._waiting_entries = 0

    @property
    def ledgers(self) -> dict[int, LedgerRuns]:
        """The runs by ledger id. Not to be changed."""
        if self._waiting:
            self._hand_out()
        return self._ledgers

    def add(self, extents: Extents, segment: int, offset: int, length: int, *, shared: bool = False) -> None:
        """Appends the extents of the record whose body stands there; they are not to be changed any more. `shared`: the
        record may have further extents, which are not indexed."""
        ledger_ids, firsts, entries = extents
        if len(ledger_ids) == 1 and not shared:
            first = firsts[0]
            self._runs_of(ledger_ids[0]).add(first, first + entries, segment, offset, length)
            return
        self._waiting.append((ledger_ids, firsts, segment << _OFFSET_BITS | offset, length | _SHARED))
        self._waiting_entries += entries
        if self._waiting_entries >= _MOST_WAITING:
            self._hand_out()

    def _runs_of(self, ledger_id: int) -> LedgerRuns:
        ledgers = self.ledgers
        runs = ledgers.get(ledger_id)
        if runs is None:
            runs = ledgers[ledger_id] = LedgerRuns()
        return runs

    def fill_gap(self, ledger_id: int, first: int, segment: int, offset: int) -> None:
        """Entries between the ledger's last run and `first` are lost."""
        runs = self.ledgers.get(ledger_id)
        if runs is not None:
            runs.fill_gap(first, segment, offset)

    def _hand_out(self) -> None:
        waiting, self._waiting, self._waiting_entries = self._waiting, [], 0
        if not array_library.HAS_NUMPY:
            for ids, firsts, place, length in waiting:
                for ledger_id, first in zip(ids, firsts, strict=True):
                    self._runs_of(ledger_id).words.extend((first, place, length))
            return
        import numpy as np

        counts = [len(entry_ids) for _, entry_ids, _, _ in waiting]
        ledger_ids = np.concatenate([np.asarray(ids, np.int64) for ids, _, _, _ in waiting])
        words = np.empty((len(ledger_ids), _WORDS), np.uint64)
        words[:, 0] = np.concatenate([np.asarray(ids, np.int64) for _, ids, _, _ in waiting])
        words[:, 1] = np.repeat(np.array([place for _, _, place, _ in waiting], np.uint64), counts)
        words[:, 2] = np.repeat(np.array([length for _, _, _, length in waiting], np.uint64), counts)
        order = np.argsort(ledger_ids, kind="stable")
        ledger_ids, data = ledger_ids[order], words[order].tobytes()
        size = 8 * _WORDS
        for low, high in pairwise(bounds_of(ledger_ids)):
            self._runs_of(int(ledger_ids[low])).words.frombytes(data[low * size : high * size])

    def move_from(self, segment: int, offset: int, to_segment: int, to_offset: int) -> None:
        """Notes that the records from this place on were copied to another place, in a later segment."""
        place = segment << _OFFSET_BITS | offset
        by = (to_segment << _OFFSET_BITS | to_offset) - place
        for runs in self.ledgers.values():
            runs.move_from(place, by)

    def drop_ledger(self, ledger_id: int) -> None:
        """Removes a ledger."""
        self.ledgers.pop(ledger_id, None)

    def drop_before_segment(self, ledger_id: int, segment: int) -> None:
        """Removes the ledger's runs in segments with a lower number."""
        runs = self.ledgers.get(ledger_id)
        if runs is not None:
            runs.drop_first(runs.count_before_segment(segment))
            if not runs.words:
                del self.ledgers[ledger_id]
