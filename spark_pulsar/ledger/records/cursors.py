"""Records of cursors (CUR-1 ... CUR-6). See `records` for what all records have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final

from spark_pulsar.model.positions.singles import Singles

from .base import DeclaredRecord, Record
from .codec import RecordDamaged, i64s_from, i64s_packed

_ACKED_HEAD: Final = Struct("<QII")
_ACKED_ONE: Final = Struct("<QIIqqq")
_BATCH_HEAD: Final = Struct("<qqI")
_RANGE_BYTES: Final = 24

EntryRange = tuple[int, int, int]
"""`(ledger_id, first_entry_id, end_entry_id)`, end exclusive, of one ledger."""

BatchSet = tuple[int, int, int]
"""`(ledger_id, entry_id, bits)`: bit i = 1 means index i of the batch is still unacked (CUR-3)."""


@dataclass(frozen=True, slots=True)
class CursorCreated(DeclaredRecord):
    """A durable subscription exists. `ledger_id:entry_id` is its mark-delete position, the last entry not wanted."""

    cursor_id: int
    topic_id: int
    name: str
    ledger_id: int
    entry_id: int
    created_ms: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 30


@dataclass(frozen=True, slots=True)
class CursorDeleted(DeclaredRecord):
    """The subscription is gone."""

    cursor_id: int
    TYPE: ClassVar[int] = 31


@dataclass(slots=True, eq=False)
class CursorAcked(Record):
    """Entries were acked one by one (as ranges), and parts of batches (as bit sets to AND in).

    A bit set of 0 acks the whole entry. What is acked already stays acked.
    """

    cursor_id: int
    ranges: Sequence[EntryRange]
    batch_sets: Sequence[BatchSet] = ()
    TYPE: ClassVar[int] = 32

    def encode(self) -> bytes:
        ranges, batch_sets = self.ranges, self.batch_sets
        if not batch_sets:
            if len(ranges) == 1:
                return _ACKED_ONE.pack(self.cursor_id, 1, 0, *ranges[0])
            return _ACKED_HEAD.pack(self.cursor_id, len(ranges), 0) + _packed(ranges)
        parts = [_ACKED_HEAD.pack(self.cursor_id, len(ranges), len(batch_sets)), _packed(ranges)]
        for ledger_id, entry_id, bits in batch_sets:
            data = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
            parts += (_BATCH_HEAD.pack(ledger_id, entry_id, len(data)), data)
        return b"".join(parts)

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> CursorAcked:
        try:
            cursor_id, range_count, set_count = _ACKED_HEAD.unpack_from(body, at)
            at += _ACKED_HEAD.size
            stop = at + range_count * _RANGE_BYTES
            if stop > end:
                raise RecordDamaged("acks: ranges are cut")
            flat = i64s_from(body[at:stop])
            at = stop
            batch_sets = []
            for _ in range(set_count):
                ledger_id, entry_id, size = _BATCH_HEAD.unpack_from(body, at)
                at += _BATCH_HEAD.size + size
                if at > end:
                    raise RecordDamaged("acks: bit set is cut")
                batch_sets.append((ledger_id, entry_id, int.from_bytes(body[at - size : at], "little")))
        except StructError as error:
            raise RecordDamaged("acks: head is cut") from error
        if at != end:
            raise RecordDamaged("acks: bytes left over")
        return cls(cursor_id, list(zip(flat[0::3], flat[1::3], flat[2::3], strict=True)), batch_sets)


def _packed(ranges: Sequence[EntryRange]) -> bytes:
    return i64s_packed(ranges.flat() if isinstance(ranges, Singles) else list(chain.from_iterable(ranges)))


@dataclass(frozen=True, slots=True)
class CursorMarkDeleted(DeclaredRecord):
    """Everything at or before the position is acked (cumulative ack, skip, expiry). Never moves backwards."""

    cursor_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 33


@dataclass(frozen=True, slots=True)
class CursorReset(DeclaredRecord):
    """Seek (CUR-11): mark-delete is this position, forwards or backwards; acked ranges, bit sets and redelivery
    counts are removed."""

    cursor_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 34


@dataclass(slots=True, eq=False)
class CursorRedelivered(Record):
    """The redelivery count of every unacked entry in the ranges rose by one (RC-3)."""

    cursor_id: int
    ranges: Sequence[EntryRange]
    TYPE: ClassVar[int] = 35

    def encode(self) -> bytes:
        return CursorAcked(self.cursor_id, self.ranges).encode()

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> CursorRedelivered:
        same_form = CursorAcked.decode(body, at, end)
        return cls(same_form.cursor_id, same_form.ranges)


@dataclass(frozen=True, slots=True)
class CursorPropertiesSet(DeclaredRecord):
    """The subscription's properties are these, whatever they were (CUR-19)."""

    cursor_id: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 36


@dataclass(frozen=True, slots=True)
class CursorAckProperties(DeclaredRecord):
    """The last cumulative ack came with these numbers, in decimal; a reset removes them (ACK-5)."""

    cursor_id: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 37


IN_USE: Final = -1
"""Stands in place of a time: a consumer is connected."""


@dataclass(frozen=True, slots=True)
class CursorIdle(DeclaredRecord):
    """Since this time no consumer is connected, or `IN_USE`. Nothing happens when the cursor is gone."""

    cursor_id: int
    since_ms: int
    TYPE: ClassVar[int] = 60
