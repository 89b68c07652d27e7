"""Reads entries back from segments: whole records, and single entries out of records with several extents."""

from __future__ import annotations

import threading
from collections import OrderedDict
from operator import sub
from typing import Final

from spark_pulsar.ledger.entries import EntryColumns, EntryRun
from spark_pulsar.ledger.records import RecordDamaged
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout

from .groups import RECORD, RECORD_HEADER_BYTES
from .run_index import RunPlace
from .segments import Segment

_HEAD_BYTES: Final = 64


class _Columns:
    """The columns of one shared record, and where each entry stands in them."""

    __slots__ = ("columns", "index")

    def __init__(self, columns: EntryColumns) -> None:
        self.columns = columns
        self.index = {key: index for index, key in enumerate(zip(columns.ledger_ids, columns.entry_ids, strict=True))}


class JournalReader:
    """Reads the places that the run index names. Any thread may call; the caller keeps the segment alive.

    Columns of shared records are kept, because neighbouring entries of a ledger stand in records that other ledgers are
    read from too.
    """

    def __init__(self, disk: Disk, layout: Layout, kept_columns: int) -> None:
        self._disk = disk
        self._layout = layout
        self._kept_columns = kept_columns
        self._columns: OrderedDict[tuple[int, int], _Columns] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun:
        """Reads the run at a place. StorageDamaged when another record stands there."""
        try:
            if not place.length:
                raise RecordDamaged("these entries are lost")
            if place.shared:
                return self._entry(segment, ledger_id, place)
            return _decoded(self._record(segment, place, place.length), ledger_id, place)
        except RecordDamaged as error:
            raise self._damaged(segment, ledger_id, place, str(error)) from error

    def read_from_memory(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun | None:
        """Reads the run at a place if that needs no waiting for the disk. None else, and when another record stands
        there: `read` says which."""
        if place.shared or not place.length:
            return None
        at = place.offset - RECORD_HEADER_BYTES
        record = self._disk.read_from_memory(segment.fd, RECORD_HEADER_BYTES + place.length, at)
        if record is None:
            return None
        try:
            return _decoded(record, ledger_id, place)
        except RecordDamaged:
            return None

    def sizes(self, segment: Segment, ledger_id: int, place: RunPlace) -> list[int]:
        """The sizes of the entries of the run at a place; the entries are not verified. StorageDamaged when another
        record stands there."""
        if not place.length or place.shared:
            return [self.read(segment, ledger_id, place).size_bytes]
        size = min(place.length, EntriesAppended.columns_size(place.end - place.first))
        try:
            run = _decoded(self._record(segment, place, size), ledger_id, place, region=False)
        except RecordDamaged as error:
            raise self._damaged(segment, ledger_id, place, str(error)) from error
        return list(map(sub, run.ends, run.starts))

    def _record(self, segment: Segment, place: RunPlace, size: int) -> bytes:
        """The record at a place: its header, and the first bytes of its body."""
        return self._disk.read(segment.fd, RECORD_HEADER_BYTES + size, place.offset - RECORD_HEADER_BYTES)

    def _damaged(self, segment: Segment, ledger_id: int, place: RunPlace, text: str) -> StorageDamaged:
        lost = [(ledger_id, place.first, place.end)]
        return StorageDamaged(self._layout.relative(segment.path), place.offset, text, lost)

    def _entry(self, segment: Segment, ledger_id: int, place: RunPlace) -> EntryRun:
        """The one entry at a place in a shared record."""
        indexed = self._columns_of(segment, place)
        index = indexed.index.get((ledger_id, place.first))
        if index is None:
            raise RecordDamaged(f"entry {ledger_id}:{place.first} is not in the record")
        run = indexed.columns.run(index)
        start, end = run.starts[0], run.ends[0]
        if not 0 <= start <= end <= RECORD_HEADER_BYTES + place.length:
            raise RecordDamaged("entries: offsets point outside the region")
        data = self._disk.read(segment.fd, end - start, place.offset - RECORD_HEADER_BYTES + start)
        return EntryRun(ledger_id, place.first, data, (0,), (end - start,), run.message_counts)

    def _columns_of(self, segment: Segment, place: RunPlace) -> _Columns:
        key = (segment.number, place.offset)
        with self._lock:
            known = self._columns.get(key)
            if known is not None:
                self._columns.move_to_end(key)
                return known
        head = self._record(segment, place, min(_HEAD_BYTES, place.length))
        record_type, version, _ = _header(head, place)
        size = EntriesAppended.region_of(record_type, version, head, RECORD_HEADER_BYTES) - RECORD_HEADER_BYTES
        entries = _entries(self._record(segment, place, min(size, place.length)), place, region=False)
        if isinstance(entries, EntryRun):
            raise RecordDamaged(f"{entries!r} stands where a shared record should")
        columns = _Columns(entries)
        with self._lock:
            self._columns[key] = columns
            if len(self._columns) > self._kept_columns:
                self._columns.popitem(last=False)
        return columns


def _header(record: bytes, place: RunPlace) -> tuple[int, int, int]:
    """Type, version and length of the record at a place."""
    if len(record) < RECORD_HEADER_BYTES:
        raise RecordDamaged("the segment ends before the record")
    header: tuple[int, int, int] = RECORD.unpack_from(record)
    if header[2] != place.length:
        raise RecordDamaged(f"a record of {header[2]} bytes stands where one of {place.length} should")
    return header


def _entries(record: bytes, place: RunPlace, *, region: bool = True) -> EntryRun | EntryColumns:
    """The entries of the record at a place; without the `region`, it need not be there."""
    record_type, version, length = _header(record, place)
    at = RECORD_HEADER_BYTES
    return EntriesAppended.decode_entries(record_type, version, record, at, at + length, region=region)


def _decoded(record: bytes, ledger_id: int, place: RunPlace, *, region: bool = True) -> EntryRun:
    """The run at a place."""
    run = _entries(record, place, region=region)
    if run.extents() != ((ledger_id,), (place.first,), place.end - place.first):
        raise RecordDamaged(f"{run!r} stands where {ledger_id}:{place.first} should")
    assert isinstance(run, EntryRun), "it has one extent"
    return run
