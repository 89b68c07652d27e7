"""Reading stored entries, wherever settling has them at the moment: in the ledger's file or in the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.journal.entry_reader import JournalReader
from spark_pulsar.storage.journal.run_index import RunIndex, RunPlace
from spark_pulsar.storage.journal.segments import Segment
from spark_pulsar.storage.ledgers.files import Extent, LedgerFiles
from spark_pulsar.storage.ledgers.lost_entries import LostEntries

_MOST_RUNS, _MOST_ENTRIES = 32, 2_048
"""Read at once, and in one run of them: a run is decoded whole, and the loop does nothing else meanwhile."""

_Run = TypeVar("_Run")


class EntryReading:
    """Any thread may read. `lock` guards index and extents; `on_free` is called with a segment that waited to be
    recycled until its last reader left."""

    def __init__(
        self,
        lock: threading.Lock,
        index: RunIndex,
        files: LedgerFiles,
        journal: JournalReader,
        lost: LostEntries,
        on_free: Callable[[Segment], None],
    ) -> None:
        self._lock = lock
        self._index = index
        self._files = files
        self._journal = journal
        self._lost = lost
        self._on_free = on_free
        self.segments: dict[int, Segment] = {}
        """The segments in use, shared with `SegmentFiles`, which changes them."""
        self.read_bytes = self.read_entries = 0
        """Bytes and entries read since opening; about, since no lock guards them."""

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """See `Storage.read`."""
        return self._runs(self._read_one, ledger_id, entry_id, max_entries, max_bytes)

    def read_at_once(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> list[EntryRun]:
        """See `Storage.read_at_once`: reads entries written lately and not settled yet, of `_MOST_RUNS` runs at
        most."""
        find = partial(self._from_memory, max_bytes)
        return self._runs(find, ledger_id, entry_id, max_entries, max_bytes, _MOST_RUNS)

    def _runs(
        self,
        find: Callable[[int, int], EntryRun | None],
        ledger_id: int,
        entry_id: int,
        max_entries: int,
        max_bytes: int,
        most_runs: int | None = None,
    ) -> list[EntryRun]:
        """Consecutive runs from an entry on, as they are found one after the other."""
        runs: list[EntryRun] = []
        while max_entries > 0 and (max_bytes > 0 or not runs) and len(runs) != most_runs:
            try:
                run = find(ledger_id, entry_id)
            except StorageDamaged:
                if runs:
                    break  # readable entries before it first
                raise
            if run is None:
                break
            if runs and (run.first_entry_id != entry_id or run.ends[0] - run.starts[0] > max_bytes):
                break
            run = run.limited(max_entries, max_bytes)
            runs.append(run)
            entry_id = run.end_entry_id
            max_entries -= len(run)
            max_bytes -= run.size_bytes
            self.read_bytes += run.size_bytes
            self.read_entries += len(run)
        return runs

    def _from_memory(self, max_bytes: int, ledger_id: int, entry_id: int) -> EntryRun | None:
        """The run that holds the entry, cut to begin with it; None when the disk would have to be waited for, the lock
        is held, the run is larger than that, and when the entry is gone."""
        if self._lost or not self._lock.acquire(blocking=False):
            return None
        try:
            extent = self._files.extents.get(ledger_id)
            held = None if extent is not None and entry_id < extent.end else self._hold(ledger_id, entry_id)
        finally:
            self._lock.release()
        if held is None:
            return None
        segment, place = held
        try:
            if place.first > entry_id or place.length > max_bytes or place.end - place.first > _MOST_ENTRIES:
                return None
            run = self._journal.read_from_memory(segment, ledger_id, place)
            return None if run is None else run.slice(entry_id, run.end_entry_id)
        finally:
            self._release(segment)

    def _hold(self, ledger_id: int, entry_id: int) -> tuple[Segment, RunPlace] | None:
        """Finds the entry, or the next one, in the journal, and counts one more reader of its segment. Under the
        lock."""
        runs = self._index.ledgers.get(ledger_id)
        if runs is None or entry_id >= runs.end:
            return None
        place = runs.place(runs.index_of(entry_id))
        segment = self.segments[place.segment]
        segment.readers += 1
        return segment, place

    def _read_one(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        """The stored run at or after the entry, cut to begin with it."""
        if not self._lost:
            return self._find(ledger_id, entry_id)
        self._lost.check(ledger_id, entry_id)
        run = self._find(ledger_id, entry_id)
        return None if run is None else self._lost.before(run)

    def sizes(self, ledger_id: int, first: int, end: int) -> list[int]:
        """See `Storage.sizes`."""
        sizes: list[int] = []
        while first + len(sizes) < end:
            at = first + len(sizes)
            try:
                run = self._find_run(ledger_id, at, self._files.sizes, self._sizes_in_journal)
            except StorageDamaged as error:
                # The reader of these entries reports it.
                run = max((lost_end for _, _, lost_end in error.lost), default=end), []
            begin, known = run or (end, [])
            if begin > at:
                sizes += [0] * (min(begin, end) - at)
            sizes += known[max(0, at - begin) : max(0, end - begin)] or [0] * (begin <= at)
        return sizes

    def _sizes_in_journal(self, segment: Segment, ledger_id: int, place: RunPlace) -> tuple[int, list[int]]:
        return place.first, self._journal.sizes(segment, ledger_id, place)

    def _find(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        run = self._find_run(ledger_id, entry_id, self._files.read, self._journal.read)
        return None if run is None else run.slice(entry_id, run.end_entry_id)

    def _find_run(
        self,
        ledger_id: int,
        entry_id: int,
        in_file: Callable[[int, Extent, int], _Run | None],
        in_journal: Callable[[Segment, int, RunPlace], _Run],
    ) -> _Run | None:
        """Finds the stored run at or after an entry, in a file or in the journal; None when there is none."""
        passed: Extent | None = None
        while True:
            # One step under the lock decides between file and journal: settling moves entries from one to the other
            # between two.
            with self._lock:
                extent = self._files.extents.get(ledger_id)
                is_in_file = extent is not None and extent != passed and entry_id < extent.end
                if not is_in_file:
                    held = self._hold(ledger_id, entry_id)
                    break
            assert extent is not None, "it is in the file"
            try:
                run = in_file(ledger_id, extent, entry_id)
            except FileNotFoundError:
                return None
            if run is not None:
                return run
            passed = extent
        if held is None:
            return None
        segment, place = held
        try:
            return in_journal(segment, ledger_id, place)
        finally:
            self._release(segment)

    def _release(self, segment: Segment) -> None:
        with self._lock:
            segment.readers -= 1
            free = segment.retired and segment.readers == 0
        if free:
            self._on_free(segment)
