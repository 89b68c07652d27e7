"""Appended entries: the record that they became the ends of their ledgers, and its effect."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.entries import EntryColumns, EntryRun, Extents
from spark_pulsar.ledger.records import (
    InvalidRecord,
    Record,
    RecordDamaged,
    UnknownRecord,
    i64s_from,
    i64s_packed,
    u32s,
    u32s_from,
)
from spark_pulsar.model import array_library
from spark_pulsar.model.column_store import column_of

if TYPE_CHECKING:
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo

    from .durable_state import DurableState

_HEAD: Final = Struct("<IIIB")
_EXTENT_HEAD: Final = Struct("<IIIBQQ")
_ENTRY_ALONE: Final = Struct("<IIIBQQII")
_OFFSETS_ALONE: Final = Struct("<II")
_OLD_RUN_HEAD: Final = Struct("<QQIIIB")
_ALL_SINGLE: Final = 1
_ONE_EXTENT: Final = 2
_MAX_WASTE_SHIFT: Final = 3

_Head = tuple[int, int, int, int, int, int]
"""Number of entries, base, size, flags; ledger id and first entry id of the first extent."""


@dataclass(slots=True, eq=False)
class EntriesAppended(Record):
    """Entries became the ends of their ledgers. Each must be the next one of its ledger.

    Body: number of entries, where the stored region begins in the offsets' buffer, the region's length, flags (1: every
    entry holds one message; 2: all entries are one extent, else each is one); ledger ids and first entry ids of the
    extents as u64 each; starts, ends and, without the first flag, message counts of the entries as u32 each; then the
    region. The offsets are those of the entries' own buffer, so that nothing is recomputed on the way in.

    Two older forms are read. Type 1 version 1, a run: ledger id and first entry id stand before the number of entries.
    Type 3 version 1, entries of many ledgers: the form of today, without the second flag.
    """

    entries: EntryRun | EntryColumns
    TYPE: ClassVar[int] = 1
    VERSION: ClassVar[int] = 2
    TYPES: ClassVar = (1, 3)
    """The types under which this record is found."""

    def __len__(self) -> int:
        return len(self.entries.starts)

    def encode_parts(self) -> tuple[bytes, bytes]:
        """The body as two buffers: everything before the region, and the region (not copied when it is most of the
        entries' buffer)."""
        entries = self.entries
        starts, ends, counts, region = entries.starts, entries.ends, entries.message_counts, entries.buffer
        low, high = starts[0], ends[-1]
        size = high - low
        if len(region) - size > size >> _MAX_WASTE_SHIFT:
            region = region[low:high]
        else:
            low, size = 0, len(region)
        number = len(starts)
        flags = _ALL_SINGLE if counts is None or counts.count(1) == number else 0
        if type(entries) is EntryRun:
            flags |= _ONE_EXTENT
            ledger_id, first = entries.ledger_id, entries.first_entry_id
            if number == 1 and flags & _ALL_SINGLE:
                return _ENTRY_ALONE.pack(1, low, size, flags, ledger_id, first, starts[0], ends[0]), region
            head = _EXTENT_HEAD.pack(number, low, size, flags, ledger_id, first)
        else:
            ledger_ids, firsts, _ = entries.extents()
            head = _HEAD.pack(number, low, size, flags) + i64s_packed(ledger_ids) + i64s_packed(firsts)
        if counts is None or flags & _ALL_SINGLE:
            return head + u32s(starts) + u32s(ends), region
        return head + u32s(starts) + u32s(ends) + u32s(counts), region

    def encode(self) -> bytes:
        return b"".join(self.encode_parts())

    @staticmethod
    def extents_of(record_type: int, version: int, body: bytes, at: int) -> Extents:
        """The extents of the record whose body is `body[at:]`, without decoding the rest."""
        number, _, _, flags, ledger_id, first = _head_of(record_type, version, body, at)
        if number == 1 or flags & _ONE_EXTENT:
            return (ledger_id,), (first,), number
        ids_at = at + _HEAD.size
        firsts_at = ids_at + 8 * number
        return i64s_from(body[ids_at:firsts_at]), i64s_from(body[firsts_at : firsts_at + 8 * number]), number

    @staticmethod
    def columns_size(entries: int) -> int:
        """The most bytes before the region of a record with one extent."""
        return _EXTENT_HEAD.size + 12 * entries

    @staticmethod
    def region_of(record_type: int, version: int, body: bytes, at: int) -> int:
        """Returns the offset of the region of the record whose body is `body[at:]`."""
        return at + _columns_end(_head_of(record_type, version, body, at))

    @staticmethod
    def decode_entries(
        record_type: int, version: int, body: bytes, at: int, end: int, *, region: bool = True
    ) -> EntryRun | EntryColumns:
        """The entries of the record whose body is `body[at:end]`, over `body` itself: the region is not copied. Without
        the `region`, the body may end before it."""
        return _entries_of(_head_of(record_type, version, body, at), body, at, end, end if region else at)

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> EntriesAppended:
        return cls(_entries_of(_head_of(1, 2, body, at), body, at, end, end))

    @classmethod
    def decode_old_run(cls, body: bytes, at: int, end: int) -> EntriesAppended:
        """`decode` for type 1 version 1."""
        return cls(_entries_of(_head_of(1, 1, body, at), body, at, end, end))


def _head_of(record_type: int, version: int, body: bytes, at: int) -> _Head:
    try:
        if record_type == 1 and version == 1:
            ledger_id, first, number, base, size, flags = _OLD_RUN_HEAD.unpack_from(body, at)
            return number, base, size, flags | _ONE_EXTENT, ledger_id, first
        if (record_type, version) not in ((1, 2), (3, 1)):
            raise UnknownRecord(f"record type {record_type} version {version} is unknown to this program")
        # In every form what follows the first four fields is at least as long as one extent.
        head: _Head = _EXTENT_HEAD.unpack_from(body, at)
    except StructError as error:
        raise RecordDamaged("entries: the head is cut") from error
    return head


def _columns_end(head: _Head) -> int:
    """Returns the offset of a record's region in its body."""
    number, _, _, flags, _, _ = head
    extents = 1 if flags & _ONE_EXTENT else number
    return _HEAD.size + 16 * extents + (8 if flags & _ALL_SINGLE else 12) * number


def _entries_of(head: _Head, body: bytes, at: int, end: int, needed: int) -> EntryRun | EntryColumns:
    """The entries of the record whose body is `body[at:end]`, of which everything before `needed` must be there."""
    number, base, size, flags, ledger_id, first = head
    if number == 1 and flags & _ALL_SINGLE:
        region_at = at + _ENTRY_ALONE.size
        if region_at + size == end and region_at <= len(body) and needed <= len(body):
            start, stop = _OFFSETS_ALONE.unpack_from(body, at + _EXTENT_HEAD.size)
            if base <= start <= stop <= base + size:
                shift = region_at - base
                return EntryRun(ledger_id, first, body, (start + shift,), (stop + shift,))
        raise RecordDamaged("entries: a lone entry does not fill its body")
    region_at = at + _columns_end(head)
    if number == 0 or region_at + size != end or max(region_at, needed) > len(body):
        raise RecordDamaged(f"entries: {number} entries and {size} bytes do not fill a body of {end - at} bytes")
    shift, width = region_at - base, 4 * number
    arrays_at = region_at - (2 if flags & _ALL_SINGLE else 3) * width
    starts = u32s_from(body[arrays_at : arrays_at + width])
    ends = u32s_from(body[arrays_at + width : arrays_at + 2 * width])
    if starts[0] < base or ends[-1] > base + size:
        raise RecordDamaged("entries: offsets point outside the region")
    counts = None if flags & _ALL_SINGLE else u32s_from(body[arrays_at + 2 * width : region_at])
    if number == 1 or flags & _ONE_EXTENT:
        return EntryRun(
            ledger_id, first, body, [start + shift for start in starts], [stop + shift for stop in ends], counts
        )
    ledger_ids, entry_ids, _ = EntriesAppended.extents_of(1, 2, body, at)
    return EntryColumns(body, ledger_ids, entry_ids, _moved(starts, shift), _moved(ends, shift), counts)


def _moved(offsets: Sequence[int], by: int) -> array[int]:
    if not array_library.HAS_NUMPY:
        return array("q", [offset + by for offset in offsets])
    import numpy as np

    return column_of(np.asarray(offsets, np.int64) + by)


def _entries_appended(state: DurableState, record: EntriesAppended) -> None:
    run = record.entries
    if isinstance(run, EntryColumns):
        _columns_appended(state, run)
        return
    ledger_id = run.ledger_id
    info = state.ledgers.get(ledger_id)
    if info is None:
        raise InvalidRecord(f"entries for ledger {ledger_id}, which does not exist")
    if info.sealed_ms is not None or run.first_entry_id != info.entries:
        raise InvalidRecord(f"{run!r} does not continue {info}")
    count = len(run.starts)
    if count == 1 and run.message_counts is None:
        info.size_bytes += run.ends[0] - run.starts[0]
        info.messages += 1
    else:
        info.size_bytes += run.size_bytes
        info.messages += run.messages
    info.entries += count
    if info.size_bytes >= info.next_mark_bytes:
        info.mark()
    state.dirty_ledgers.add(ledger_id)


def _columns_appended(state: DurableState, entries: EntryColumns) -> None:
    if array_library.HAS_NUMPY:  # which a broker loads when a connection publishes to many topics
        from .columns import append

        append(state, entries)
    else:
        _append_in_turn(state, entries)


def _append_in_turn(state: DurableState, entries: EntryColumns) -> None:
    """Appends entries to their ledgers, entry by entry: the twin of `columns.append` where NumPy is missing."""
    open_ledgers = {ledger_id: _open_ledger(state, ledger_id) for ledger_id in set(entries.ledger_ids)}
    next_ids = {ledger_id: info.entries for ledger_id, info in open_ledgers.items()}
    for ledger_id, entry_id in zip(entries.ledger_ids, entries.entry_ids, strict=True):
        if entry_id != next_ids[ledger_id]:
            raise InvalidRecord(f"entry {ledger_id}:{entry_id} is out of order, {next_ids[ledger_id]} is next")
        next_ids[ledger_id] += 1
    counts = repeat(1, len(entries)) if entries.message_counts is None else entries.message_counts
    for ledger_id, start, end, messages in zip(entries.ledger_ids, entries.starts, entries.ends, counts, strict=True):
        info = open_ledgers[ledger_id]
        info.entries += 1
        info.size_bytes += end - start
        info.messages += messages
    for info in open_ledgers.values():
        if info.size_bytes >= info.next_mark_bytes:
            info.mark()
    state.dirty_ledgers.update(open_ledgers)


def _open_ledger(state: DurableState, ledger_id: int) -> LedgerInfo:
    info = state.ledgers.get(ledger_id)
    ledger = None if info is None else state.topics[info.topic_id].ledger
    if info is None or ledger is None or ledger.current is not info:
        raise InvalidRecord(f"entries for ledger {ledger_id}, which is not open")
    return info


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {EntriesAppended: _entries_appended}
"""Effects of the records, by type."""
