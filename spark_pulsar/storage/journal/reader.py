"""Reading entries back from segments: whole runs, and single entries out of scattered records."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.records.base import EntriesAppended
from spark_pulsar.ledger.records.codec import RecordDamaged
from spark_pulsar.ledger.records.multi_ledger import EntriesScattered, ScatterHead
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout

from .run_index import RunPlace
from .segments import Segment

_HEAD_BYTES: Final = 64


class _Columns:
    """The columns of one scattered record, and where each entry stands in them."""

    __slots__ = ("head", "index", "record")

    def __init__(self, head: ScatterHead, record: EntriesScattered) -> None:
        self.head = head
        self.record = record
        self.index = {key: index for index, key in enumerate(zip(record.ledger_ids, record.entry_ids, strict=True))}


class JournalReader:
    """Reads the places that the run index names. Any thread may call; the caller keeps the segment alive.

    Columns of scattered records are kept, because neighbouring entries of a ledger stand in records that other
    ledgers are read from too.
    """

    def __init__(self, disk: Disk, layout: Layout, kept_columns: int) -> None:
        self._disk = disk
        self._layout = layout
        self._kept_columns = kept_columns
        self._columns: OrderedDict[tuple[int, int], _Columns] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun:
        """The run that stands at a place. StorageDamaged when something else does."""
        try:
            if not place.length:
                raise RecordDamaged("these entries are lost")
            if place.scattered:
                run = self._scattered(segment, ledger_id, place)
            else:
                run = _decoded(self._disk.read(segment.fd, place.length, place.offset), place)
            _check(run, ledger_id, place)
        except RecordDamaged as error:
            lost = [(ledger_id, place.first, place.end)]
            raise StorageDamaged(self._layout.relative(segment.path), place.offset, str(error), lost) from error
        return run

    def read_from_memory(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun | None:
        """The run that stands at a place if that needs no waiting for the disk. None else, and when something is wrong:
        `read` says what."""
        if place.scattered or not place.length:
            return None
        body = self._disk.read_from_memory(segment.fd, place.length, place.offset)
        if body is None:
            return None
        try:
            run = _decoded(body, place)
            _check(run, ledger_id, place)
        except RecordDamaged:
            return None
        return run

    def sizes(self, segment: Segment, ledger_id: int, place: RunPlace) -> list[int]:
        """The sizes of the entries of the run that stands at a place. StorageDamaged when something else does; else
        what stands there is not verified."""
        entries = place.end - place.first
        if not place.length or place.scattered:
            run = self.read(segment, ledger_id, place)
            return [run.size_bytes]
        columns = self._disk.read(segment.fd, EntriesAppended.columns_size(entries), place.offset)
        if EntriesAppended.place_of(columns, 0) != (ledger_id, place.first, place.end):
            lost = [(ledger_id, place.first, place.end)]
            raise StorageDamaged(self._layout.relative(segment.path), place.offset, "no run stands here", lost)
        return EntriesAppended.sizes_of(columns)

    def _scattered(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun:
        columns = self._columns_of(segment, place)
        index = columns.index.get((ledger_id, place.first))
        if index is None:
            raise RecordDamaged(f"entry {ledger_id}:{place.first} is not in the record")
        record, head = columns.record, columns.head
        start, end = record.starts[index], record.ends[index]
        if not head.base <= start <= end <= head.base + head.size:
            raise RecordDamaged("scattered entries: offsets point outside the region")
        at = place.offset + head.columns_end + start - head.base
        data = self._disk.read(segment.fd, end - start, at)
        counts = None if record.message_counts is None else (record.message_counts[index],)
        return EntryRun(ledger_id, place.first, data, (0,), (end - start,), counts)

    def _columns_of(self, segment: Segment, place: RunPlace) -> _Columns:
        key = (segment.number, place.offset)
        with self._lock:
            known = self._columns.get(key)
            if known is not None:
                self._columns.move_to_end(key)
                return known
        head = EntriesScattered.head_of(self._disk.read(segment.fd, min(_HEAD_BYTES, place.length), place.offset), 0)
        if head.columns_end + head.size != place.length:
            raise RecordDamaged(f"scattered entries: {head.entries} entries do not fill {place.length} bytes")
        body = self._disk.read(segment.fd, head.columns_end, place.offset)
        columns = _Columns(head, EntriesScattered.decode_columns(body, 0, head))
        with self._lock:
            self._columns[key] = columns
            if len(self._columns) > self._kept_columns:
                self._columns.popitem(last=False)
        return columns


def _decoded(body: bytes, place: RunPlace) -> EntryRun:
    return EntriesAppended.decode(body, 0, place.length).run


def _check(run: EntryRun, ledger_id: int, place: RunPlace) -> None:
    if (run.ledger_id, run.first_entry_id, run.end_entry_id) != (ledger_id, place.first, place.end):
        raise RecordDamaged(f"{run!r} stands where {ledger_id}:{place.first} should")
