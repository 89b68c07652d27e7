"""Settling: entries that are still needed move from full segments to ledger files, in the background.

The plan is made on the shell's loop, at one point between two submits: which segments are full, from which entry on
each ledger is needed, which rows changed. The work is done by a thread that gives way after each run. Nothing it writes
counts before the checkpoint's transaction names it, so that a crash at any moment leaves either the segments or the
files as what is read.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.snapshot import Row
from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import StorageDamaged

from .disk import Disk
from .groups import parse_group
from .journal_reader import JournalReader
from .layout import Layout
from .ledger_files import BLOCK_MAX_ENTRIES, Extent, LedgerAppender, load_table
from .run_index import LedgerRuns, RunIndex, RunPlace
from .segments import Segment

_KEPT_COLUMNS: Final = 1024


class SettlingStopped(Exception):
    """The storage is closing; what was begun is left undone."""


@dataclass(slots=True)
class LedgerPlan:
    """What to copy of one ledger: runs in full segments, from an entry on; and whether the file ends with them."""

    runs: LedgerRuns | None
    needed_from: int
    seal: bool


@dataclass(slots=True)
class SettlePlan:
    """One checkpoint: rows to store, ledgers to copy, and the first segment that is needed afterwards."""

    rows: list[Row]
    first_segment: int
    ledgers: dict[int, LedgerPlan] = field(default_factory=dict)
    last_group: int = -1


def plan_ledgers(
    state: DurableState, index: RunIndex, extents: Mapping[int, Extent], first_segment: int
) -> dict[int, LedgerPlan]:
    """What must be done so that no segment before `first_segment` is needed, by ledger. Ledgers that are gone are left
    out."""
    full = {
        ledger_id: runs.first_runs(count)
        for ledger_id, runs in index.ledgers.items()
        if (count := runs.count_before_segment(first_segment))
    }
    plans: dict[int, LedgerPlan] = {}
    for ledger_id in {*full, *(unsealed for unsealed, extent in extents.items() if not extent.sealed)}:
        needed_from = state.first_needed_entry(ledger_id)
        if needed_from is None:
            continue
        info = state.ledgers[ledger_id]
        settling = full.get(ledger_id)
        settled_to = extents[ledger_id].end if settling is None else settling.end
        seal = info.sealed_ms is not None and settled_to == info.entries
        if settling is not None or seal:
            plans[ledger_id] = LedgerPlan(settling, needed_from, seal)
    return plans


class Settler:
    """Copies the ledgers of a plan; `stop` is asked between runs."""

    def __init__(self, disk: Disk, layout: Layout, segments: dict[int, Segment], stop: Callable[[], bool]) -> None:
        self._disk = disk
        self._layout = layout
        self._segments = segments
        self._stop = stop
        self._reader = JournalReader(disk, layout, _KEPT_COLUMNS)
        self._verified: set[tuple[int, int]] = set()

    def settle(self, ledgers: dict[int, LedgerPlan], extents: dict[int, Extent]) -> dict[int, Extent]:
        """Copy what the plans say behind the present extents; the new extents, durable on return. StorageDamaged when
        a group fails its checksum, OSError when the disk does, SettlingStopped when asked to stop."""
        settled: dict[int, Extent] = {}
        created = False
        for ledger_id, plan in ledgers.items():
            extent = extents.get(ledger_id)
            runs = plan.runs
            to_copy = range(0) if runs is None else range(runs.index_of(plan.needed_from), len(runs.firsts))
            if not to_copy and (extent is None or not plan.seal):
                continue
            appender = LedgerAppender(self._disk, self._layout.ledger(ledger_id), ledger_id, extent)
            try:
                for index in to_copy:
                    assert runs is not None, "an empty range has no index"
                    self._copy(ledger_id, runs.place(index), plan.needed_from, appender)
                settled[ledger_id] = self._finish(ledger_id, appender, plan.seal)
            finally:
                appender.close()
            created |= appender.created
        if created:
            self._disk.sync_directory(self._layout.ledgers)
        return settled

    def _finish(self, ledger_id: int, appender: LedgerAppender, seal: bool) -> Extent:
        if not seal:
            return appender.finish(None)
        appender.flush()
        return appender.finish(load_table(self._disk, self._layout, ledger_id, appender.pending_extent))

    def _copy(self, ledger_id: int, place: RunPlace, needed_from: int, appender: LedgerAppender) -> None:
        run = self._read(ledger_id, place)
        first = max(run.first_entry_id, needed_from)
        while first < run.end_entry_id:
            if self._stop():
                raise SettlingStopped
            end = min(first + BLOCK_MAX_ENTRIES // 2, run.end_entry_id)
            appender.append(run.slice(first, end))
            first = end
            time.sleep(0)  # lets a waiting thread have the interpreter

    def _read(self, ledger_id: int, place: RunPlace) -> EntryRun:
        segment = self._segments[place.segment]
        self._verify(segment, place.offset)
        return self._reader.read(segment, ledger_id, place)

    def _verify(self, segment: Segment, offset: int) -> None:
        """Check the group around an offset once, so that damage is never copied into a block with a good checksum."""
        index = bisect_right(segment.group_offsets, offset) - 1
        if (segment.number, index) in self._verified:
            return
        at = segment.group_offsets[index]
        last = index + 1 == len(segment.group_offsets)
        end = segment.write_at if last else segment.group_offsets[index + 1]
        data = self._disk.read(segment.fd, end - at, at)
        if parse_group(memoryview(data), 0, segment.number, segment.salt) is None:
            raise StorageDamaged(self._layout.relative(segment.path), at, "a group fails its checksum")
        self._verified.add((segment.number, index))
