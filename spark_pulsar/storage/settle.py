"""Settling: entries that are still needed move from full segments to ledger files, in the background.

The plan is made on the shell's loop, at one point between two submits: which segments are full, which entries of each
ledger in them are needed, which rows changed. The work is done by a thread: it walks the full segments group by group
and hands each needed entry to its ledger, so that a thousand ledgers cost one pass. Nothing it writes counts before
the checkpoint's transaction names it, so that a crash at any moment leaves either the segments or the files as what is
read.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.record_codec import RecordDamaged
from spark_pulsar.ledger.records import EntriesAppended
from spark_pulsar.ledger.scattered import EntriesScattered
from spark_pulsar.ledger.snapshot import Row
from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import StorageDamaged

from .direct import DirectWriter
from .disk import Disk
from .groups import read_group, records_of
from .layout import Layout
from .ledger_files import Extent, GatheredEntries, append_entries, finish_file
from .lost_entries import LostEntries
from .run_index import RunIndex
from .salvage import EntrySpan, SalvagedGroup, salvage_group
from .segments import Segment

GATHER_BYTES: Final = 8 * 1024 * 1024
"""Entries gathered in memory before they are written to their ledgers' files."""

MOST_GATHER_BYTES: Final = 32 * 1024 * 1024
"""The same with many ledgers, so that each file is opened for more than a few entries."""

_LEDGER_BYTES: Final = 32 * 1024

_ENTRY_OVERHEAD_BYTES: Final = 64
_PAUSE_S: Final = 0.00005
"""Without really sleeping, the interpreter would be taken back before a waiting thread has woken up."""


class SettlingStopped(Exception):
    """The storage is closing; what was begun is left undone."""


class LedgerPlan(NamedTuple):
    """What happens to one ledger: its entries `first … end - 1` are in full segments (none if equal), those below
    `needed_from` are not copied; `seal` says that its file is complete afterwards."""

    first: int
    end: int
    needed_from: int
    seal: bool


@dataclass(slots=True)
class SettlePlan:
    """One checkpoint: rows to store, ledgers to copy, and the first segment that is needed afterwards. `read_from` is
    the lowest place (segment, offset) of a needed entry."""

    rows: list[Row]
    first_segment: int
    ledgers: dict[int, LedgerPlan] = field(default_factory=dict)
    read_from: tuple[int, int] = (0, 0)
    last_group: int = -1


def plan_ledgers(state: DurableState, index: RunIndex, extents: Mapping[int, Extent], plan: SettlePlan) -> None:
    """Fill in what must be done so that no segment before the plan's first one is needed. Ledgers that are gone are
    left out."""
    ledgers = plan.ledgers
    read_from = (plan.first_segment, 0)
    for ledger_id, runs in index.ledgers.items():
        count = runs.count_before_segment(plan.first_segment)
        needed_from = state.first_needed_entry(ledger_id) if count else None
        if needed_from is not None:
            end = runs.end_before(count)
            info = state.ledgers[ledger_id]
            seal = info.sealed_ms is not None and end == info.entries
            ledgers[ledger_id] = LedgerPlan(runs.firsts[0], end, needed_from, seal)
            if needed_from < end:
                place = runs.place(runs.index_of(needed_from))
                read_from = min(read_from, (place.segment, place.offset))
    for ledger_id, extent in extents.items():
        if not extent.sealed and ledger_id not in ledgers and ledger_id in state.ledgers:
            info = state.ledgers[ledger_id]
            if info.sealed_ms is not None and extent.end == info.entries:
                ledgers[ledger_id] = LedgerPlan(extent.end, extent.end, extent.end, True)
    plan.read_from = read_from


class Settler:
    """Does the copying of one plan; `stop` is asked between groups and files, `rest` is told every few megabytes how
    many seconds the work took since it was told last, and returns when it may go on."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        segments: Iterable[Segment],
        extents: Mapping[int, Extent],
        lost: LostEntries,
        stop: Callable[[], bool],
        rest: Callable[[float], object],
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._segments = sorted(segments, key=lambda segment: segment.number)
        self._extents = extents
        self._lost = lost
        self._stop = stop
        self._rest = rest
        self._writer = DirectWriter(disk)
        self._rested_at = time.monotonic()
        self._settled: dict[int, Extent] = {}
        self._gathered: dict[int, GatheredEntries] = {}
        self._gathered_bytes = 0

    def settle(self, plan: SettlePlan) -> dict[int, Extent]:
        """Copy what the plan says behind the present extents; the new extents, durable on return. StorageDamaged when
        entries are missing that are not known to be lost, OSError when the disk fails, SettlingStopped when asked to
        stop."""
        extents = self._extents
        wanted = {
            ledger_id: max(ledger.first, ledger.needed_from)
            for ledger_id, ledger in plan.ledgers.items()
            if ledger.needed_from < ledger.end
        }
        if wanted:
            ends = {ledger_id: plan.ledgers[ledger_id].end for ledger_id in wanted}
            self._gathered = {ledger_id: GatheredEntries(ledger_id, first) for ledger_id, first in wanted.items()}
            enough = min(MOST_GATHER_BYTES, max(GATHER_BYTES, _LEDGER_BYTES * len(wanted)))
            for segment, at, payload in self._groups(plan):
                self._gather(segment, at, payload)
                if self._gathered_bytes >= enough:
                    self._write()
            self._write()
            for ledger_id, end in ends.items():
                self._must_be_lost("journal", 0, (ledger_id, self._gathered[ledger_id].end, end))
        for ledger_id, ledger in plan.ledgers.items():
            extent = self._settled.get(ledger_id) or (extents.get(ledger_id) if ledger.seal else None)
            if extent is not None:
                self._give_way()
                self._settled[ledger_id] = finish_file(self._disk, self._layout, ledger_id, extent, ledger.seal)
        if any(ledger_id not in extents for ledger_id in self._settled):
            self._disk.sync_directory(self._layout.ledgers)
        return self._settled

    def _groups(self, plan: SettlePlan) -> Iterator[tuple[Segment, int, bytes | SalvagedGroup]]:
        """The groups of the full segments, from the first needed entry on: segment, offset and verified payload, or
        what is left of one that fails its checksum."""
        first_segment, first_offset = plan.read_from
        for segment in self._segments:
            if not first_segment <= segment.number < plan.first_segment:
                continue
            offsets = segment.group_offsets
            start = bisect_right(offsets, first_offset) - 1 if segment.number == first_segment else 0
            for index in range(max(start, 0), len(offsets)):
                self._give_way()
                at = offsets[index]
                payload = read_group(self._disk, segment.fd, at, segment.number, segment.salt)
                if payload is not None:
                    yield segment, at, payload
                    continue
                end = offsets[index + 1] if index + 1 < len(offsets) else segment.size
                yield segment, at, salvage_group(self._disk.read(segment.fd, end - at, at), at)

    def _gather(self, segment: Segment, at: int, payload: bytes | SalvagedGroup) -> None:
        name = self._layout.relative(segment.path)
        if isinstance(payload, SalvagedGroup):
            found = [span for salvaged in payload.records for span in salvaged.bad]
            lost = [span for span in found if span[0] in self._gathered and not self._lost.covers(*span)]
            if lost:
                raise StorageDamaged(name, at, "a group fails its checksum", lost)
            for salvaged in payload.records:
                record = salvaged.record
                if isinstance(record, EntriesAppended):
                    self._gather_run(name, at, record.run)
                elif isinstance(record, EntriesScattered):
                    self._gather_scattered(name, at, record)
            return
        try:
            for record_type, _, body_at, end in records_of(payload):
                if record_type == EntriesAppended.TYPE:
                    ledger_id, _, last = EntriesAppended.place_of(payload, body_at)
                    known = self._gathered.get(ledger_id)
                    if known is not None and last > known.end:
                        self._gather_run(name, at, EntriesAppended.decode(payload, body_at, end).run)
                elif record_type == EntriesScattered.TYPE:
                    self._gather_scattered(name, at, EntriesScattered.decode(payload, body_at, end))
        except RecordDamaged as error:
            raise StorageDamaged(name, at, str(error)) from error

    def _gather_run(self, name: str, at: int, run: EntryRun) -> None:
        known = self._gathered.get(run.ledger_id)
        if known is None or run.end_entry_id <= known.end:
            return
        for part in self._lost.without(run.slice(known.end, run.end_entry_id)):
            if part.first_entry_id != known.end:
                known = self._pass_over(name, at, known, part.first_entry_id)
            known.add(part)
            self._gathered_bytes += part.size_bytes + _ENTRY_OVERHEAD_BYTES * len(part)

    def _gather_scattered(self, name: str, at: int, record: EntriesScattered) -> None:
        gathered, buffer = self._gathered, memoryview(record.buffer)
        counts = record.message_counts or [1] * len(record)
        columns = zip(record.ledger_ids, record.entry_ids, record.starts, record.ends, counts, strict=True)
        size = 0
        for index, (ledger_id, entry_id, start, end, count) in enumerate(columns):
            known = gathered.get(ledger_id)
            if known is None or entry_id < known.end:
                continue
            if entry_id > known.end or self._lost:
                self._gather_run(name, at, record.run(index))
                continue
            known.entries.append(buffer[start:end])
            known.counts.append(count)
            known.end = entry_id + 1
            size += end - start + _ENTRY_OVERHEAD_BYTES
        self._gathered_bytes += size

    def _pass_over(self, name: str, at: int, known: GatheredEntries, first: int) -> GatheredEntries:
        """Entries before `first` are lost: what was gathered is a block of its own."""
        self._must_be_lost(name, at, (known.ledger_id, known.end, first))
        self._write_one(known)
        fresh = self._gathered[known.ledger_id] = GatheredEntries(known.ledger_id, first)
        return fresh

    def _must_be_lost(self, name: str, at: int, span: EntrySpan) -> None:
        if not self._lost.covers(*span):
            ledger_id, first, end = span
            text = f"entries {ledger_id}:{first} to {ledger_id}:{end - 1} are not where they were written"
            raise StorageDamaged(name, at, text, [span])

    def _write(self) -> None:
        """Write what is gathered to the ledgers' files."""
        for ledger_id, gathered in self._gathered.items():
            if gathered.entries:
                self._give_way()
                self._write_one(gathered)
                self._gathered[ledger_id] = GatheredEntries(ledger_id, gathered.end)
        self._gathered_bytes = 0
        self._rest(time.monotonic() - self._rested_at)
        self._rested_at = time.monotonic()

    def _write_one(self, gathered: GatheredEntries) -> None:
        ledger_id = gathered.ledger_id
        if gathered.entries:
            extent = self._settled.get(ledger_id) or self._extents.get(ledger_id)
            self._settled[ledger_id] = append_entries(
                self._disk, self._layout.ledger(ledger_id), extent, gathered, self._writer
            )

    def _give_way(self) -> None:
        """Let a waiting thread have the interpreter."""
        if self._stop():
            raise SettlingStopped
        time.sleep(_PAUSE_S)
