"""The journal's records: the only way in which durable state changes.

A record is a past fact. It has a `TYPE` (one byte, never reused), a `VERSION` (of its body's form) and an `encode`;
`decode_record` is the way back. `apply` gives it its effect, live and in recovery alike. Records are
immutable and carry everything their effect needs: no clock is read and no id is chosen while applying.

| types | about |
| --- | --- |
| 1 … 9 | entries, broker-wide counters |
| 10 … 19 | topics, partitioned topics, namespaces |
| 20 … 29 | ledgers |
| 30 … 39 | cursors |
| 40 … 49 | documents: topic policies, tenants, clusters |
| 70 … 79 | de-duplication |
| 80 … 89 | compaction |
| 90 … 99 | damage |
| 110 … 119 | schemas |
| 120 … 129 | transactions |

Times are wall-clock milliseconds. Ranges of entries are `(ledger_id, first, end)`, end exclusive.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Final, Self

from spark_pulsar.ledger.entries import EntryColumns, EntryRun, Extents
from spark_pulsar.model import array_library
from spark_pulsar.model.column_store import column_of

from .codec import FIELDS, BodyReader, Field, RecordDamaged, i64s_from, i64s_packed, u32s, u32s_from


class InvalidRecord(ValueError):
    """The record does not fit the state: it names something unknown, or is out of order. A mistake of its maker."""


class UnknownRecord(RecordDamaged):
    """A type or version of record that this program does not know: written by a newer one, or damaged."""


class Record:
    """Base of all records."""

    __slots__ = ()
    TYPE: ClassVar[int]
    VERSION: ClassVar[int] = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def encode(self) -> bytes:
        """The body."""
        raise NotImplementedError

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        """The record whose body is `body[at:end]`; RecordDamaged when it has another form."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DeclaredRecord(Record):
    """A record whose body is its fields one after the other, each in the form of its annotation (`codec.FIELDS`)."""

    def encode(self) -> bytes:
        return b"".join([field.write(getattr(self, name)) for name, field in self._layout()])

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        reader = BodyReader(body, at, end)
        values: list[Any] = [field.read(reader) for _, field in cls._layout()]
        reader.finish()
        return cls(*values)

    @classmethod
    @cache
    def _layout(cls) -> tuple[tuple[str, Field], ...]:
        return tuple((each.name, FIELDS[str(each.type)]) for each in fields(cls))


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


@dataclass(frozen=True, slots=True)
class CounterSet(DeclaredRecord):
    """A broker-wide counter, such as the number of the next generated producer name, reached a value."""

    name: str
    value: int
    TYPE: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class TopicCreated(DeclaredRecord):
    """A topic (or one partition) exists from now on. `name` is its full name; the id was never used before."""

    topic_id: int
    name: str
    created_ms: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 10


@dataclass(frozen=True, slots=True)
class TopicDeleted(DeclaredRecord):
    """A topic is gone. Its cursors and ledgers went before it, by their own records of the same group."""

    topic_id: int
    TYPE: ClassVar[int] = 11


@dataclass(frozen=True, slots=True)
class TopicPropertiesSet(DeclaredRecord):
    """The topic's properties are these, whatever they were."""

    topic_id: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 12


@dataclass(frozen=True, slots=True)
class PartitionedTopicSet(DeclaredRecord):
    """A partitioned topic exists and has this many partitions and these properties. Its partitions are topics."""

    name: str
    partitions: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 13


@dataclass(frozen=True, slots=True)
class PartitionedTopicDeleted(DeclaredRecord):
    """The partitioned topic's metadata is gone; its partitions have records of their own."""

    name: str
    TYPE: ClassVar[int] = 14


@dataclass(frozen=True, slots=True)
class NamespaceSet(DeclaredRecord):
    """A namespace "tenant/name" exists and has these policies (a JSON object as text)."""

    name: str
    policies: str
    TYPE: ClassVar[int] = 15


@dataclass(frozen=True, slots=True)
class NamespaceDeleted(DeclaredRecord):
    """The namespace is gone."""

    name: str
    TYPE: ClassVar[int] = 16


@dataclass(frozen=True, slots=True)
class LedgerOpened(DeclaredRecord):
    """The topic's next ledger, empty, takes entries from now on. The one before it was sealed."""

    topic_id: int
    ledger_id: int
    opened_ms: int
    TYPE: ClassVar[int] = 20


@dataclass(frozen=True, slots=True)
class LedgerSealed(DeclaredRecord):
    """The ledger takes no more entries. An empty one vanishes (ML-1)."""

    topic_id: int
    ledger_id: int
    sealed_ms: int
    TYPE: ClassVar[int] = 21


@dataclass(frozen=True, slots=True)
class LedgersTrimmed(DeclaredRecord):
    """Ledgers of the topic and all their entries are gone; storage gives their space back."""

    topic_id: int
    ledger_ids: tuple[int, ...]
    TYPE: ClassVar[int] = 22


@dataclass(frozen=True, slots=True)
class EntriesDropped(DeclaredRecord):
    """Entries of the ledger below `first_entry_id` cannot be read any more: all cursors have left the ledger, and
    settling does not copy them."""

    topic_id: int
    ledger_id: int
    first_entry_id: int
    TYPE: ClassVar[int] = 23
