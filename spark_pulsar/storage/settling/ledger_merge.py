"""Merges the entries of many ledgers, read from the journal in the order they were written, by ledger.

It sorts `EntryColumns` by column, many at a time, and checks once for all of them, when it writes them, whether each
ledger's entries are complete.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.ledger.entries import EntryColumns, EntryRun, Extents
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.model import array_library
from spark_pulsar.model.column_store import bounds_of
from spark_pulsar.storage.disk.disk import Buffer
from spark_pulsar.storage.journal.salvage import EntrySpan
from spark_pulsar.storage.ledgers.lost_entries import LostEntries
from spark_pulsar.storage.ledgers.writing import MergedEntries, cut_out

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ENTRY_OVERHEAD_BYTES: Final = 64

_MOST_WAITING: Final = 16_384
"""Most entries of `EntryColumns` that wait to be sorted by ledger."""
_NEVER: Final = (1 << 63) - 1


class Place(NamedTuple):
    """Place of a group: a file as messages name it, and an offset."""

    name: str
    offset: int


class _LedgerEntries:
    """The entries of one ledger that were added since it was last written; its entries before `end` are written or
    lost."""

    __slots__ = ("counts", "end", "entries", "ids")

    def __init__(self, end: int) -> None:
        self.end = end
        self.entries: list[Buffer] = []
        self.ids = array("q")
        self.counts: list[int] = []

    def clear(self) -> None:
        """Everything is written. The columns stay the same objects."""
        self.entries.clear()
        self.counts.clear()
        del self.ids[:]


class _Waiting(NamedTuple):
    """The columns of needed entries that wait to be sorted by ledger."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class LedgerMerge:
    """Entries on their way to their ledgers' files. `needed` says for each ledger that is settled from which entry on;
    everything else is passed over. `write` is called with consecutive entries. An entry that is missing and not known
    to be lost is StorageDamaged from `drain` or `must_be_whole`."""

    def __init__(self, needed: Mapping[int, int], lost: LostEntries, write: Callable[[MergedEntries], object]) -> None:
        self._needed = needed
        self._lost = lost
        self._write = write
        self._ledgers = {ledger_id: _LedgerEntries(first) for ledger_id, first in needed.items()}
        self._waiting: list[_Waiting] = []
        self._waiting_entries: list[Buffer] = []
        """Entries that are not yet with their ledgers."""
        self._counted = False
        self._sources: list[tuple[Place, Iterable[int], Iterable[int]]] = []
        self.size_bytes = 0

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._needed

    def wants(self, extents: Extents) -> bool:
        """Returns whether an entry may be needed; does not check entries of several extents."""
        ledger_ids, firsts, entries = extents
        return len(ledger_ids) > 1 or firsts[0] + entries > self._needed.get(ledger_ids[0], _NEVER)

    def add(self, place: Place, entries: EntryRun | EntryColumns) -> None:
        """Takes the needed ones of entries that stand at a place."""
        if isinstance(entries, EntryColumns):
            if array_library.HAS_NUMPY:
                self._add_columns(place, entries)
            else:
                self._add_in_turn(place, entries)
        elif self.wants(entries.extents()):
            self._add_run(place, entries)

    def _add_run(self, place: Place, run: EntryRun) -> None:
        if self._waiting:  # which came before it
            self._hand_out()
        run = run.slice(self._needed[run.ledger_id], run.end_entry_id)
        columns = self._ledgers[run.ledger_id]
        if run.message_counts is not None:
            self._begin_to_count()
        self._sources.append((place, (run.ledger_id,), (run.first_entry_id,)))
        self.size_bytes += run.size_bytes + ENTRY_OVERHEAD_BYTES * len(run)
        if self._counted:
            columns.counts.extend(run.message_counts or repeat(1, len(run)))
        columns.entries += cut_out(run.buffer, run.starts, run.ends)
        columns.ids.extend(range(run.first_entry_id, run.end_entry_id))

    def _add_columns(self, place: Place, record: EntryColumns) -> None:
        import numpy as np

        counted = record.message_counts or (1,) * len(record)
        columns = (record.ledger_ids, record.entry_ids, record.starts, record.ends, counted)
        ledger_ids, entry_ids, starts, ends, counts = (np.asarray(column, np.int64) for column in columns)
        firsts = np.fromiter(map(self._needed.get, record.ledger_ids, repeat(_NEVER)), np.int64, len(record))
        needed = np.flatnonzero(entry_ids >= firsts)
        if not len(needed):
            return
        if record.message_counts is not None:
            self._begin_to_count()
        starts, ends = starts[needed], ends[needed]
        taken = _Waiting(ledger_ids[needed], entry_ids[needed], counts[needed])
        self._sources.append((place, taken.ledger_ids, taken.entry_ids))
        self._waiting.append(taken)
        self._waiting_entries += cut_out(record.buffer, starts.tolist(), ends.tolist())
        self.size_bytes += int((ends - starts).sum()) + ENTRY_OVERHEAD_BYTES * len(needed)
        if len(self._waiting_entries) >= _MOST_WAITING:
            self._hand_out()

    def _add_in_turn(self, place: Place, record: EntryColumns) -> None:
        """Takes the needed entries of a record one by one, without NumPy: each goes to its ledger at once."""
        pairs = zip(record.ledger_ids, record.entry_ids, strict=True)
        needed = [at for at, (ledger, entry) in enumerate(pairs) if entry >= self._needed.get(ledger, _NEVER)]
        if not needed:
            return
        if record.message_counts is not None:
            self._begin_to_count()
        counts = record.message_counts or (1,) * len(record)
        run_starts, run_ends = [record.starts[at] for at in needed], [record.ends[at] for at in needed]
        for at, entry in zip(needed, cut_out(record.buffer, run_starts, run_ends), strict=True):
            columns = self._ledgers[record.ledger_ids[at]]
            columns.entries.append(entry)
            columns.ids.append(record.entry_ids[at])
            if self._counted:
                columns.counts.append(counts[at])
        self._sources.append((place, [record.ledger_ids[at] for at in needed], [record.entry_ids[at] for at in needed]))
        self.size_bytes += sum(run_ends) - sum(run_starts) + ENTRY_OVERHEAD_BYTES * len(needed)

    def _hand_out(self) -> None:
        """Sorts the entries that wait by ledger."""
        import numpy as np

        waiting, self._waiting = self._waiting, []
        entries, self._waiting_entries = self._waiting_entries, []
        ledger_ids, entry_ids, counts = (np.concatenate(columns) for columns in zip(*waiting, strict=True))
        order = np.argsort(ledger_ids, kind="stable")
        ledger_ids, ids = ledger_ids[order], entry_ids[order].tobytes()
        entries = [entries[index] for index in order.tolist()]
        ordered_counts: list[int] = counts[order].tolist() if self._counted else []
        for low, high in pairwise(bounds_of(ledger_ids)):
            columns = self._ledgers[int(ledger_ids[low])]
            columns.entries += entries[low:high]
            columns.ids.frombytes(ids[8 * low : 8 * high])
            columns.counts += ordered_counts[low:high]

    def _begin_to_count(self) -> None:
        """Counts messages from now on, since an entry holds several; the entries before hold one each."""
        if not self._counted:
            self._counted = True
            for columns in self._ledgers.values():
                columns.counts.extend(repeat(1, len(columns.entries)))

    def drain(self) -> Iterator[None]:
        """Writes the merged entries, ledger by ledger; yields before each."""
        if self._waiting:
            self._hand_out()
        for ledger_id, columns in self._ledgers.items():
            if columns.entries:
                yield
                self._drain_one(ledger_id, columns)
                columns.clear()
        self._sources.clear()
        self._counted = False
        self.size_bytes = 0

    def _drain_one(self, ledger_id: int, columns: _LedgerEntries) -> None:
        ids, entries, counts = columns.ids, columns.entries, columns.counts if self._counted else None
        if not self._lost and ids == array("q", range(columns.end, columns.end + len(ids))):
            self._write(MergedEntries(ledger_id, columns.end, entries, counts))
            columns.end += len(ids)
            return
        # Some are lost, missing, or there twice.
        low = 0
        for high in range(1, len(ids) + 1):
            if high == len(ids) or ids[high] != ids[high - 1] + 1:
                bounds = list(accumulate(map(len, entries[low:high]), initial=0))
                some = None if counts is None else counts[low:high]
                run = EntryRun(ledger_id, ids[low], b"".join(entries[low:high]), bounds[:-1], bounds[1:], some)
                self._drain_run(columns, run)
                low = high

    def _drain_run(self, columns: _LedgerEntries, run: EntryRun) -> None:
        if run.end_entry_id <= columns.end:
            return
        for part in self._lost.without(run.slice(columns.end, run.end_entry_id)):
            first = part.first_entry_id
            if first != columns.end:
                self._must_be_lost(self._place_of(run.ledger_id, first), (run.ledger_id, columns.end, first))
            counts = None if part.message_counts is None else list(part.message_counts)
            self._write(MergedEntries(run.ledger_id, first, cut_out(part.buffer, part.starts, part.ends), counts))
            columns.end = part.end_entry_id

    def _place_of(self, ledger_id: int, entry_id: int) -> Place:
        """Place where an entry, or the run that holds it, was read."""
        latest = self._sources[0][0]
        for place, ledger_ids, entry_ids in self._sources:
            pairs = zip(ledger_ids, entry_ids, strict=True)
            if any(ledger == ledger_id and entry <= entry_id for ledger, entry in pairs):
                latest = place
        return latest

    def must_be_whole(self, ends: Mapping[int, int]) -> None:
        """StorageDamaged unless everything before these ends was written, or is lost."""
        for ledger_id, end in ends.items():
            self._must_be_lost(Place("journal", 0), (ledger_id, self._ledgers[ledger_id].end, end))

    def _must_be_lost(self, place: Place, span: EntrySpan) -> None:
        if not self._lost.covers(*span):
            ledger_id, first, end = span
            text = f"entries {ledger_id}:{first} to {ledger_id}:{end - 1} are not where they were written"
            raise StorageDamaged(place.name, place.offset, text, [span])
