"""Rows of durable cursors: one each for where it stands, and one for each block of entries in which it keeps something.

A block is 4,096 entries of a ledger (`cursor.BLOCK_SHIFT`): acked ranges that begin in it, bit sets of partly acked
batches, redelivery counts. So a checkpoint writes what changed, however many holes a cursor has.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from spark_pulsar.ledger.records.codec import BodyReader, RecordDamaged, i64s_from, i64s_packed
from spark_pulsar.ledger.state.cursor import BLOCK_SHIFT, Cursor
from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState

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


def cursor_values(state: DurableState, cursor_id: int) -> tuple[Any, ...] | None:
    """The row of a cursor after its key; None when it is gone."""
    cursor = state.cursors.get(cursor_id)
    if cursor is None:
        return None
    properties = json.dumps(cursor.properties) if cursor.properties else "{}"
    if cursor.ack_properties:
        properties = json.dumps([cursor.properties, cursor.ack_properties])
    times = (cursor.created_ms, cursor.idle_since_ms)
    return (state.cursor_topics[cursor_id], cursor.name, *cursor.mark_delete, *times, properties)


def take_blocks(state: DurableState, cursor_ids: Iterable[int]) -> Iterator[tuple[BlockKey, tuple[Any, ...] | None]]:
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
        cursor.batch_sets.setdefault(ledger_id, {})[entry_id] = int.from_bytes(reader.take(size), "little")
    flat = i64s_from(counts)
    if flat:
        cursor.redelivered.setdefault(ledger_id, {}).update(zip(flat[0::2], flat[1::2], strict=True))
