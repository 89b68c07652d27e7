"""Records of cursors (CUR-1 ... CUR-6), their effect, and their rows in the checkpoint.

A durable cursor has a row for where it stands, and one for each block of entries in which it keeps something. A block
is 4,096 entries of a ledger (`cursor.BLOCK_SHIFT`): acked ranges that begin in it, bit sets of partly acked
batches, redelivery counts. So a checkpoint writes what changed, however many holes a cursor has.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import (
    BodyReader,
    DeclaredRecord,
    InvalidRecord,
    Record,
    RecordDamaged,
    Table,
    i64s_from,
    i64s_packed,
)
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.model.positions.singles import Singles

from .cursor import BLOCK_SHIFT, Cursor

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import BatchSet, EntryRange
    from spark_pulsar.ledger.state.durable_state import DurableState

_ACKED_HEAD: Final = Struct("<QII")
_ACKED_ONE: Final = Struct("<QIIqqq")
_BATCH_HEAD: Final = Struct("<qqI")
_RANGE_BYTES: Final = 24


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

    A bit set of 0 acks the whole entry. Messages that are acked already stay acked.
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


@dataclass(frozen=True, slots=True)
class CursorIdle(DeclaredRecord):
    """Since this time no consumer is connected, or `IN_USE`. Nothing happens when the cursor is gone."""

    cursor_id: int
    since_ms: int
    TYPE: ClassVar[int] = 60


def _cursor(state: DurableState, cursor_id: int) -> Cursor:
    cursor = state.cursors.get(cursor_id)
    if cursor is None:
        raise InvalidRecord(f"cursor {cursor_id} does not exist")
    state.dirty["cursors"].add(cursor_id)
    return cursor


def _cursor_created(state: DurableState, record: CursorCreated) -> None:
    topic = state.topic(record.topic_id)
    if record.name in topic.cursors:
        raise InvalidRecord(f"subscription {record.name} of {topic.name} exists")
    state.use_cursor_id(record.cursor_id)
    state.add_cursor(
        topic,
        Cursor(
            topic.ledger,
            record.name,
            Position(record.ledger_id, record.entry_id),
            cursor_id=record.cursor_id,
            created_ms=record.created_ms,
            properties=record.properties,
        ),
    )
    state.dirty["cursors"].add(record.cursor_id)


def _cursor_deleted(state: DurableState, record: CursorDeleted) -> None:
    cursor = _cursor(state, record.cursor_id)
    for txn_id in () if cursor.pending is None else list(cursor.pending.of):
        del state.transactions[txn_id].acks[record.cursor_id]
        cursor.release_acks(txn_id)
        state.dirty["transaction_acks"].add((*txn_id, record.cursor_id))
    del state.cursors[record.cursor_id]
    del state.topics[state.cursor_topics.pop(record.cursor_id)].cursors[cursor.name]
    blocks = cursor.blocks() | cursor.changed_blocks
    state.gone_cursor_blocks.update((record.cursor_id, *block) for block in blocks)


def _cursor_acked(state: DurableState, record: CursorAcked) -> None:
    cursor = _cursor(state, record.cursor_id)
    if record.ranges:
        cursor.acknowledge(record.ranges)
    for ledger_id, entry_id, bits in record.batch_sets:
        cursor.acknowledge_batch(ledger_id, entry_id, bits)


def _cursor_mark_deleted(state: DurableState, record: CursorMarkDeleted) -> None:
    _cursor(state, record.cursor_id).advance_mark_delete(Position(record.ledger_id, record.entry_id))


def _cursor_reset(state: DurableState, record: CursorReset) -> None:
    _cursor(state, record.cursor_id).reset(Position(record.ledger_id, record.entry_id))


def _cursor_redelivered(state: DurableState, record: CursorRedelivered) -> None:
    _cursor(state, record.cursor_id).redeliver(record.ranges)


def _cursor_properties_set(state: DurableState, record: CursorPropertiesSet) -> None:
    _cursor(state, record.cursor_id).properties = dict(record.properties)


def _cursor_ack_properties(state: DurableState, record: CursorAckProperties) -> None:
    _cursor(state, record.cursor_id).ack_properties = dict(record.properties) or None


def _cursor_idle(state: DurableState, record: CursorIdle) -> None:
    cursor = state.cursors.get(record.cursor_id)
    if cursor is not None:
        cursor.idle_since_ms = record.since_ms
        state.dirty["cursors"].add(record.cursor_id)


CURSOR_COLUMNS = (
    "cursor_id INTEGER",
    "topic_id INTEGER",
    "name TEXT",
    "ledger_id INTEGER",
    "entry_id INTEGER",
    "created_ms INTEGER",
    "idle_since_ms INTEGER",
    "properties TEXT",
)
"""Columns of table `cursors`; the first is its key. Properties are a JSON object; with those of the last cumulative
ack, which are rare, an array of both."""
BLOCK_COLUMNS = (
    "cursor_id INTEGER",
    "ledger_id INTEGER",
    "block INTEGER",
    "ranges BLOB",
    "batch_sets BLOB",
    "redelivered BLOB",
)
"""Columns of table `cursor_blocks`; the first three are its key."""

RANGE_BYTES = 16
"""Bytes of one acked range in a checkpoint: its first and its end."""

BlockKey = tuple[int, int, int]


def _values(state: DurableState, cursor_id: int) -> tuple[Any, ...] | None:
    """The row of a cursor after its key; None when it is gone."""
    cursor = state.cursors.get(cursor_id)
    if cursor is None:
        return None
    properties = json.dumps(cursor.properties) if cursor.properties else "{}"
    if cursor.ack_properties:
        properties = json.dumps([cursor.properties, cursor.ack_properties])
    times = (cursor.created_ms, cursor.idle_since_ms)
    return (state.cursor_topics[cursor_id], cursor.name, *cursor.mark_delete, *times, properties)


def pop_changed_blocks(
    state: DurableState, cursor_ids: Iterable[int]
) -> Iterator[tuple[BlockKey, tuple[Any, ...] | None]]:
    """Key and values of the blocks that changed (None: nothing is kept there any more); they are unchanged then."""
    for key in state.gone_cursor_blocks:
        yield key, None
    state.gone_cursor_blocks.clear()
    for cursor_id in cursor_ids:
        cursor = state.cursors.get(cursor_id)
        if cursor is not None and cursor.changed_blocks:
            changed, cursor.changed_blocks = cursor.changed_blocks, set()
            for ledger_id, block in changed:
                yield (cursor_id, ledger_id, block), _block_values(cursor, ledger_id, block)


def _block_values(cursor: Cursor, ledger_id: int, block: int) -> tuple[bytes, bytes, bytes] | None:
    first = block << BLOCK_SHIFT
    starts, ends = cursor.acked.starting_in(ledger_id, first, (block + 1) << BLOCK_SHIFT)
    sets = _within(cursor.batch_sets.get(ledger_id), block)
    counts = _within(cursor.redelivered.get(ledger_id), block)
    if not (starts or sets or counts):
        return None
    parts: list[bytes] = []
    for entry_id, bits in sets:
        data = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
        parts += (i64s_packed((entry_id,)), len(data).to_bytes(4, "little"), data)
    flat = array("q", [number for pair in counts for number in pair])
    return i64s_packed(starts) + i64s_packed(ends), b"".join(parts), i64s_packed(flat)


def _within(entries: dict[int, int] | None, block: int) -> list[tuple[int, int]]:
    """Items of a per-entry table in a block, in order."""
    if not entries:
        return []
    inside = range(block << BLOCK_SHIFT, (block + 1) << BLOCK_SHIFT)
    if len(entries) < len(inside):
        return sorted(item for item in entries.items() if item[0] in inside)
    return [(entry_id, entries[entry_id]) for entry_id in inside if entry_id in entries]


def load_cursor(
    state: DurableState,
    cursor_id: int,
    topic_id: int,
    name: str,
    ledger_id: int,
    entry_id: int,
    created_ms: int,
    idle_since_ms: int,
    properties: str,
) -> None:
    """Registers the cursor of a row."""
    topic = state.topics[topic_id]
    mark_delete = Position(ledger_id, entry_id)
    fields, of_ack = json.loads(properties), None
    if isinstance(fields, list):
        fields, of_ack = fields
    cursor = Cursor(topic.ledger, name, mark_delete, cursor_id=cursor_id, created_ms=created_ms, properties=fields)
    cursor.ack_properties = of_ack
    cursor.idle_since_ms = idle_since_ms
    state.add_cursor(topic, cursor)


def load_block(
    state: DurableState, cursor_id: int, ledger_id: int, block: int, ranges: bytes, batch_sets: bytes, counts: bytes
) -> None:
    """Puts the content of a block's row into its cursor, whose earlier blocks of the ledger were loaded before."""
    cursor = state.cursors[cursor_id]
    numbers = i64s_from(ranges)
    half, odd = divmod(len(numbers), 2)
    if odd or (half and numbers[0] >> BLOCK_SHIFT != block):
        raise RecordDamaged(f"block {block} of ledger {ledger_id} holds other ranges")
    cursor.acked.append(ledger_id, numbers[:half], numbers[half:])
    reader = BodyReader(batch_sets)
    while reader.at < reader.end:
        entry_id, size = reader.i64(), reader.u32()
        cursor.batch_sets.setdefault(ledger_id, {})[entry_id] = int.from_bytes(reader.read(size), "little")
    flat = i64s_from(counts)
    if flat:
        cursor.redelivered.setdefault(ledger_id, {}).update(zip(flat[0::2], flat[1::2], strict=True))


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    CursorCreated: _cursor_created,
    CursorDeleted: _cursor_deleted,
    CursorAcked: _cursor_acked,
    CursorMarkDeleted: _cursor_mark_deleted,
    CursorReset: _cursor_reset,
    CursorRedelivered: _cursor_redelivered,
    CursorPropertiesSet: _cursor_properties_set,
    CursorAckProperties: _cursor_ack_properties,
    CursorIdle: _cursor_idle,
}
"""Effects of the records, by type."""

TABLES: Final = (Table("cursors", 1, CURSOR_COLUMNS, _values), Table("cursor_blocks", 3, BLOCK_COLUMNS, None))
