"""Settling: entries that are still needed move from full segments to ledger files, in the background.

The plan is made on the shell's loop, at one point between two submits: which segments are full, which entries of each
ledger in them are needed, which rows changed. The work is done by a thread: it walks the full segments group by group
and hands each needed entry to its ledger, so that a thousand ledgers cost one pass. Nothing it writes counts before
the checkpoint's transaction names it, so that a crash at any moment leaves either the segments or the files as the
place to read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spark_pulsar.ledger.records import RecordDamaged
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import EntriesDropped
from spark_pulsar.ledger.state.snapshot import Row
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.disk.threads import Threads
from spark_pulsar.storage.journal.groups import parse_group, read_group, records_of
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.journal.salvage import SalvagedGroup, salvage_group
from spark_pulsar.storage.journal.segments import Segment
from spark_pulsar.storage.ledgers.files import Extent
from spark_pulsar.storage.ledgers.lost_entries import LostEntries
from spark_pulsar.storage.ledgers.writing import LedgerWriter, MergedEntries

from .ledger_merge import LedgerMerge, Place

MERGE_BYTES: Final = 8 * 1024 * 1024
"""Entries held in memory before they are written to their ledgers' files."""

MOST_MERGE_BYTES: Final = 32 * 1024 * 1024
"""Entries held in memory with many ledgers, so that each file is opened for more than a few entries."""

_LEDGER_BYTES: Final = 32 * 1024

_READ_BYTES: Final = 1024 * 1024
"""Groups are read together up to this size: most are small, and each hand-over of the interpreter lock costs more than
reading one."""

_TURN_S: Final = 0.001
_PAUSE_S: Final = 0.00005
"""Without really sleeping, the interpreter would be taken back before a waiting thread has woken up."""


class SettlingStopped(Exception):
    """Raised while the storage closes: the settling that was begun is abandoned."""


class LedgerPlan(NamedTuple):
    """Plan for one ledger: its entries `first … end - 1` are in full segments (none if equal), those below
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
    """Plans the ledgers so that no segment before the plan's first one is needed. Ledgers that are gone are left
    out."""
    ledgers = plan.ledgers
    read_from = (plan.first_segment, 0)
    for ledger_id, runs in index.ledgers.items():
        count = runs.count_before_segment(plan.first_segment)
        needed_from = state.first_needed_entry(ledger_id) if count else None
        if needed_from is not None:
            end = runs.end_before(count)
            info = state.ledgers[ledger_id]
            seal = info.sealed_ms is not None and end == info.entries
            ledgers[ledger_id] = LedgerPlan(runs.first, end, needed_from, seal)
            if needed_from < end:
                place = runs.place(runs.index_of(needed_from))
                read_from = min(read_from, (place.segment, place.offset))
    for ledger_id, extent in extents.items():
        if not extent.sealed and ledger_id not in ledgers and ledger_id in state.ledgers:
            info = state.ledgers[ledger_id]
            if info.sealed_ms is not None and extent.end == info.entries:
                ledgers[ledger_id] = LedgerPlan(extent.end, extent.end, extent.end, True)
    plan.read_from = read_from


def entries_left_out(state: DurableState, plan: SettlePlan) -> list[EntriesDropped]:
    """Returns records of the entries of the plan's ledgers that are not copied, since no cursor needs their ledger."""
    dropped: list[EntriesDropped] = []
    for ledger_id, ledger in plan.ledgers.items():
        end = min(ledger.needed_from, ledger.end)
        info = state.ledgers[ledger_id]
        if end > max(ledger.first, info.first_entry_id):
            dropped.append(EntriesDropped(info.topic_id, ledger_id, end))
    return dropped


class Settler:
    """Does the copying of one plan; `stop` is checked between groups and files, `rest` receives every few megabytes how
    many seconds the work took since the last call, and returns when it may go on."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        segments: Iterable[Segment],
        extents: Mapping[int, Extent],
        lost: LostEntries,
        stop: Callable[[], bool],
        rest: Callable[[float], object],
        threads: Threads,
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._segments = sorted(segments, key=lambda segment: segment.number)
        self._extents = extents
        self._lost = lost
        self._stop = stop
        self._rest = rest
        self._threads = threads
        self._writer = LedgerWriter(disk, layout)
        self._rested_at = self._yielded_at = threads.now_s()
        self._settled: dict[int, Extent] = {}

    def settle(self, plan: SettlePlan) -> dict[int, Extent]:
        """Copies what the plan says behind the present extents; the new extents, durable on return. StorageDamaged when
        entries are missing that are not known to be lost, OSError when the disk fails, SettlingStopped after `stop`."""
        try:
            needed = {
                ledger_id: max(ledger.first, ledger.needed_from)
                for ledger_id, ledger in plan.ledgers.items()
                if ledger.needed_from < ledger.end
            }
            if needed:
                self._copy(plan, needed)
            self._finish(plan)
        finally:
            self._writer.close()
        return self._settled

    def _copy(self, plan: SettlePlan, needed: Mapping[int, int]) -> None:
        merge = LedgerMerge(needed, self._lost, self._write_one)
        enough = min(MOST_MERGE_BYTES, max(MERGE_BYTES, _LEDGER_BYTES * len(needed)))
        for segment, at, payload in self._groups(plan):
            self._merge(merge, segment, at, payload)
            if merge.size_bytes >= enough:
                self._write(merge)
        self._write(merge)
        merge.must_be_whole({ledger_id: plan.ledgers[ledger_id].end for ledger_id in needed})

    def _finish(self, plan: SettlePlan) -> None:
        """Makes everything durable."""
        extents = self._extents
        for ledger_id, ledger in plan.ledgers.items():
            extent = self._settled.get(ledger_id) or (extents.get(ledger_id) if ledger.seal else None)
            if extent is not None:
                self._yield_interpreter()
                self._settled[ledger_id] = self._writer.finish(ledger_id, extent, ledger.seal)
        if any(ledger_id not in extents for ledger_id in self._settled):
            self._disk.sync_directory(self._layout.ledgers)

    def _groups(self, plan: SettlePlan) -> Iterator[tuple[Segment, int, bytes | SalvagedGroup]]:
        """The groups of the full segments, from the first needed entry on: segment, offset and verified payload, or
        the remains of one that fails its checksum."""
        first_segment, first_offset = plan.read_from
        for segment in self._segments:
            if not first_segment <= segment.number < plan.first_segment:
                continue
            offsets = segment.group_offsets
            start = bisect_right(offsets, first_offset) - 1 if segment.number == first_segment else 0
            read, read_at = memoryview(b""), 0
            for index in range(max(start, 0), len(offsets)):
                self._yield_interpreter()
                at = offsets[index]
                if index + 1 == len(offsets):
                    end = segment.size
                    payload = read_group(self._disk, segment.fd, at, segment.number, segment.salt)
                else:
                    end = offsets[index + 1]
                    if end > read_at + len(read):
                        upto = offsets[max(bisect_right(offsets, at + _READ_BYTES) - 1, index + 1)]
                        read, read_at = memoryview(self._disk.read(segment.fd, upto - at, at)), at
                    group = parse_group(read, at - read_at, segment.number, segment.salt)
                    payload = None if group is None else group.payload
                if payload is None:
                    yield segment, at, salvage_group(self._disk.read(segment.fd, end - at, at), at)
                else:
                    yield segment, at, payload

    def _merge(self, merge: LedgerMerge, segment: Segment, at: int, payload: bytes | SalvagedGroup) -> None:
        place = Place(self._layout.relative(segment.path), at)
        if isinstance(payload, SalvagedGroup):
            bad = [span for salvaged in payload.records for span in salvaged.bad]
            lost = [span for span in bad if span[0] in merge and not self._lost.covers(*span)]
            if lost:
                raise StorageDamaged(place.name, at, "a group fails its checksum", lost)
            for salvaged in payload.records:
                if isinstance(salvaged.record, EntriesAppended):
                    merge.add(place, salvaged.record.entries)
            return
        try:
            for record_type, version, body_at, end in records_of(payload):
                if record_type in EntriesAppended.TYPES and merge.wants(
                    EntriesAppended.extents_of(record_type, version, payload, body_at)
                ):
                    merge.add(place, EntriesAppended.decode_entries(record_type, version, payload, body_at, end))
        except RecordDamaged as error:
            raise StorageDamaged(place.name, at, str(error)) from error

    def _write(self, merge: LedgerMerge) -> None:
        """Writes the merged entries to the ledgers' files."""
        for _ in merge.drain():
            self._yield_interpreter()
        self._rest(self._threads.now_s() - self._rested_at)
        self._rested_at = self._threads.now_s()

    def _write_one(self, entries: MergedEntries) -> None:
        extent = self._settled.get(entries.ledger_id) or self._extents.get(entries.ledger_id)
        self._settled[entries.ledger_id] = self._writer.append(extent, entries)

    def _yield_interpreter(self) -> None:
        """Yields the interpreter to a waiting thread, once in a while."""
        if self._stop():
            raise SettlingStopped
        if self._threads.now_s() - self._yielded_at >= _TURN_S:
            self._threads.pause(_PAUSE_S)
            self._yielded_at = self._threads.now_s()
