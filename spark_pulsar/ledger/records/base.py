"""The journal's records: the only way in which durable state changes.

A record is a past fact. It has a `TYPE` (one byte, never reused), a `VERSION` (of its body's form) and an `encode`;
`decode_record` is the way back. `DurableState.apply` gives it its effect, live and in recovery alike. Records are
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

Times are wall-clock milliseconds. Ranges of entries are `(ledger_id, first, end)`, end exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import sub
from struct import Struct
from struct import error as StructError
from typing import Any, ClassVar, Final, Self

from spark_pulsar.ledger.entries import EntryRun

from .codec import I64, I64S, TEXT, TEXT_MAP, BodyReader, Field, RecordDamaged, u32s, u32s_from


class InvalidRecord(ValueError):
    """The record does not fit the state: it names something unknown, or is out of order. A mistake of its maker."""


class UnknownRecord(RecordDamaged):
    """A type or version of record that this program does not know: written by a newer one, or damaged."""


class Record:
    """Base of all records."""

    __slots__ = ()
    TYPE: ClassVar[int]
    VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        """The body."""
        raise NotImplementedError

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        """The record whose body is `body[at:end]`; RecordDamaged when it has another form."""
        raise NotImplementedError


class DeclaredRecord(Record):
    """A record whose body is its fields one after the other, as `LAYOUT` lists them."""

    __slots__ = ()
    LAYOUT: ClassVar[tuple[tuple[str, Field], ...]]

    def encode(self) -> bytes:
        return b"".join([field.write(getattr(self, name)) for name, field in self.LAYOUT])

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        reader = BodyReader(body, at, end)
        values: list[Any] = [field.read(reader) for _, field in cls.LAYOUT]
        reader.finish()
        return cls(*values)


_ENTRIES_HEAD: Final = Struct("<QQIIIB")
_ENTRY_ALONE: Final = Struct("<QQIIIBII")
_OFFSETS_ALONE: Final = Struct("<II")
_ALL_SINGLE: Final = 1
_MAX_WASTE_SHIFT: Final = 3


class EntriesAppended(Record):
    """A run of entries became the end of its ledger. The first entry id must be the ledger's count of entries.

    Body: ledger id, first entry id, number of entries, where the stored region begins in the offsets' buffer, the
    region's length, flags (1: every entry holds one message); then starts, ends and, without the flag, message counts
    as u32 each; then the region. The offsets are those of the run's own buffer, so that nothing is recomputed on the
    way in.
    """

    __slots__ = ("run",)
    TYPE = 1

    def __init__(self, run: EntryRun) -> None:
        self.run = run

    def __repr__(self) -> str:
        return f"EntriesAppended({self.run!r})"

    def __len__(self) -> int:
        return len(self.run.starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntriesAppended) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash((self.run.ledger_id, self.run.first_entry_id))

    def encode_parts(self) -> tuple[bytes, bytes]:
        """The body as two buffers: everything before the region, and the region (not copied when it is most of the
        run's buffer)."""
        run = self.run
        starts, ends, counts, buffer = run.starts, run.ends, run.message_counts, run.buffer
        low, high = starts[0], ends[-1]
        size = high - low
        region = buffer
        if len(buffer) - size > size >> _MAX_WASTE_SHIFT:
            region = buffer[low:high]
        else:
            low, size = 0, len(buffer)
        number = len(starts)
        if counts is None or counts.count(1) == number:
            if number == 1:
                return _ENTRY_ALONE.pack(
                    run.ledger_id, run.first_entry_id, 1, low, size, _ALL_SINGLE, starts[0], ends[0]
                ), region
            head = _ENTRIES_HEAD.pack(run.ledger_id, run.first_entry_id, number, low, size, _ALL_SINGLE)
            return head + u32s(starts) + u32s(ends), region
        head = _ENTRIES_HEAD.pack(run.ledger_id, run.first_entry_id, number, low, size, 0)
        return head + u32s(starts) + u32s(ends) + u32s(counts), region

    def encode(self) -> bytes:
        return b"".join(self.encode_parts())

    @staticmethod
    def place_of(body: bytes, at: int) -> tuple[int, int, int]:
        """Ledger id, first entry id and one past the last entry id of the encoded run at `body[at:]`, without decoding
        the rest."""
        ledger_id, first, number, _, _, _ = _ENTRIES_HEAD.unpack_from(body, at)
        return ledger_id, first, first + number

    @staticmethod
    def columns_size(entries: int) -> int:
        """How many leading bytes of the body of a run of so many entries tell their sizes."""
        return _ENTRIES_HEAD.size + 8 * entries

    @staticmethod
    def sizes_of(columns: bytes) -> list[int]:
        """The size of each entry of the run whose body begins with these bytes, `columns_size` of them."""
        starts_at, ends_at = _ENTRIES_HEAD.size, (_ENTRIES_HEAD.size + len(columns)) // 2
        return list(map(sub, u32s_from(columns[ends_at:]), u32s_from(columns[starts_at:ends_at])))

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> EntriesAppended:
        """The run lies over `body` itself: the region is not copied."""
        try:
            ledger_id, first, number, base, size, flags = _ENTRIES_HEAD.unpack_from(body, at)
            if number == 1 and flags & _ALL_SINGLE:
                start, stop = _OFFSETS_ALONE.unpack_from(body, at + _ENTRIES_HEAD.size)
                region_at = at + _ENTRY_ALONE.size
                if region_at + size != end or end > len(body) or not base <= start <= stop <= base + size:
                    raise RecordDamaged("entries: a lone entry does not fill its body")
                shift = region_at - base
                return cls(EntryRun(ledger_id, first, body, (start + shift,), (stop + shift,)))
        except StructError as error:
            raise RecordDamaged("entries: head is cut") from error
        arrays_at = at + _ENTRIES_HEAD.size
        width = 4 * number
        arrays = 2 if flags & _ALL_SINGLE else 3
        region_at = arrays_at + arrays * width
        if number == 0 or region_at + size != end or end > len(body):
            raise RecordDamaged(f"entries: {number} entries and {size} bytes do not fill a body of {end - at} bytes")
        shift = region_at - base
        starts = u32s_from(body[arrays_at : arrays_at + width])
        ends = u32s_from(body[arrays_at + width : arrays_at + 2 * width])
        if starts[0] < base or ends[-1] > base + size:
            raise RecordDamaged("entries: offsets point outside the region")
        counts = u32s_from(body[arrays_at + 2 * width : region_at]) if arrays == 3 else None
        if shift:
            return cls(
                EntryRun(
                    ledger_id, first, body, [start + shift for start in starts], [stop + shift for stop in ends], counts
                )
            )
        return cls(EntryRun(ledger_id, first, body, starts, ends, counts))


@dataclass(frozen=True, slots=True)
class CounterSet(DeclaredRecord):
    """A broker-wide counter, such as the number of the next generated producer name, reached a value."""

    name: str
    value: int
    TYPE: ClassVar[int] = 2
    LAYOUT: ClassVar = (("name", TEXT), ("value", I64))


@dataclass(frozen=True, slots=True)
class TopicCreated(DeclaredRecord):
    """A topic (or one partition) exists from now on. `name` is its full name; the id was never used before."""

    topic_id: int
    name: str
    created_ms: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 10
    LAYOUT: ClassVar = (("topic_id", I64), ("name", TEXT), ("created_ms", I64), ("properties", TEXT_MAP))


@dataclass(frozen=True, slots=True)
class TopicDeleted(DeclaredRecord):
    """A topic is gone. Its cursors and ledgers went before it, by their own records of the same group."""

    topic_id: int
    TYPE: ClassVar[int] = 11
    LAYOUT: ClassVar = (("topic_id", I64),)


@dataclass(frozen=True, slots=True)
class TopicPropertiesSet(DeclaredRecord):
    """The topic's properties are these, whatever they were."""

    topic_id: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 12
    LAYOUT: ClassVar = (("topic_id", I64), ("properties", TEXT_MAP))


@dataclass(frozen=True, slots=True)
class PartitionedTopicSet(DeclaredRecord):
    """A partitioned topic exists and has this many partitions and these properties. Its partitions are topics."""

    name: str
    partitions: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 13
    LAYOUT: ClassVar = (("name", TEXT), ("partitions", I64), ("properties", TEXT_MAP))


@dataclass(frozen=True, slots=True)
class PartitionedTopicDeleted(DeclaredRecord):
    """The partitioned topic's metadata is gone; its partitions have records of their own."""

    name: str
    TYPE: ClassVar[int] = 14
    LAYOUT: ClassVar = (("name", TEXT),)


@dataclass(frozen=True, slots=True)
class NamespaceSet(DeclaredRecord):
    """A namespace "tenant/name" exists and has these policies (a JSON object as text)."""

    name: str
    policies: str
    TYPE: ClassVar[int] = 15
    LAYOUT: ClassVar = (("name", TEXT), ("policies", TEXT))


@dataclass(frozen=True, slots=True)
class NamespaceDeleted(DeclaredRecord):
    """The namespace is gone."""

    name: str
    TYPE: ClassVar[int] = 16
    LAYOUT: ClassVar = (("name", TEXT),)


@dataclass(frozen=True, slots=True)
class LedgerOpened(DeclaredRecord):
    """The topic's next ledger, empty, takes entries from now on. The one before it was sealed."""

    topic_id: int
    ledger_id: int
    opened_ms: int
    TYPE: ClassVar[int] = 20
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_id", I64), ("opened_ms", I64))


@dataclass(frozen=True, slots=True)
class LedgerSealed(DeclaredRecord):
    """The ledger takes no more entries. An empty one vanishes (ML-1)."""

    topic_id: int
    ledger_id: int
    sealed_ms: int
    TYPE: ClassVar[int] = 21
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_id", I64), ("sealed_ms", I64))


@dataclass(frozen=True, slots=True)
class LedgersTrimmed(DeclaredRecord):
    """These ledgers of the topic and all their entries are gone; storage gives their space back."""

    topic_id: int
    ledger_ids: tuple[int, ...]
    TYPE: ClassVar[int] = 22
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_ids", I64S))


@dataclass(frozen=True, slots=True)
class EntriesDropped(DeclaredRecord):
    """Entries of the ledger below `first_entry_id` cannot be read any more: consumed by all, not copied on settling."""

    topic_id: int
    ledger_id: int
    first_entry_id: int
    TYPE: ClassVar[int] = 23
    LAYOUT: ClassVar = (("topic_id", I64), ("ledger_id", I64), ("first_entry_id", I64))
