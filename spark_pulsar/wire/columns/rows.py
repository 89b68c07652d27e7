"""The rows of many entries: payloads unpacked, batches walked, every part of every message located, nothing copied."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.columns.entries import ByteArray, EntryTable, IntArray, Kind
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.inflate_kernels import lz4_block_size
from spark_pulsar.wire.columns.kernels.row_kernels import group_end, range_end, walk_entries
from spark_pulsar.wire.entries.compression import decompress
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, NONE

_PLACES: Final = 65
"""Properties of a message, and one, whose places help to find those of the next message."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One row per wanted message, in the order of the entries."""

    table: EntryTable
    """The entries; payload places are those inside ``data``."""
    data: ByteArray
    """The entries' own buffer, followed by the unpacked payloads."""
    fields: IntArray
    """``[ROW_FIELDS, n]``, rows as in ``kernels.layout``."""

    def __len__(self) -> int:
        return int(self.fields.shape[1])

    def field(self, number: int) -> IntArray:
        """One field of all rows."""
        row: IntArray = self.fields[number]
        return row

    def refuse(self, row: int, code: int) -> None:
        """Raises the typed error for the entry that ``row`` belongs to."""
        self.table.refuse(int(self.fields[layout.ROW_ENTRY, row]), code)

    def part(self, first: int, end: int) -> Rows:
        """Rows ``first`` to ``end`` (exclusive)."""
        return Rows(self.table, self.data, self.fields[:, first:end])


def _unpacked(table: EntryTable) -> tuple[ByteArray, EntryTable]:
    """Returns the buffer with all payloads as they were before compression, and the table with their places in it."""
    fields = table.fields
    if not fields[layout.COMPRESSION].any():  # the usual case, and NONE is 0
        return table.entries.data, table
    decodable = (fields[layout.KIND] <= Kind.BATCH) & (fields[layout.ENCRYPTION_KEYS] <= 0)
    packed = np.flatnonzero(decodable & (fields[layout.COMPRESSION] != NONE))
    if not len(packed):
        return table.entries.data, table
    payloads: list[Any] = []
    for i in packed.tolist():
        codec, size = int(fields[layout.COMPRESSION, i]), int(fields[layout.UNCOMPRESSED_SIZE, i])
        try:
            payloads.append(inflate(codec, table.payload(i), size))
        except CorruptMessage as damaged:
            table.refuse(i, damaged.message)
    sizes = fields[layout.UNCOMPRESSED_SIZE, packed]
    ends = len(table.entries.data) + np.cumsum(sizes)
    fields = fields.copy()
    fields[layout.PAYLOAD_START, packed] = ends - sizes
    fields[layout.PAYLOAD_LENGTH, packed] = sizes
    data = np.frombuffer(b"".join((table.entries.data.data, *payloads)), np.uint8)
    return data, EntryTable(table.entries, fields)


def read_rows(table: EntryTable) -> Rows:
    """Locates the wanted messages of all entries: within bounds and ack bits, not compacted out, no markers.

    :raises MalformedBatch: a payload does not hold what the metadata promises
    :raises EncryptedEntry: an entry is encrypted
    :raises UnassembledChunk: an entry is a chunk
    """
    data, table = _unpacked(table)
    entries = table.entries
    fields = np.empty((layout.ROW_FIELDS, int(table.message_counts.sum()) + 1), np.int64)
    count, i = walk_entries(
        data,
        table.fields,
        entries.first_indexes,
        entries.stop_indexes,
        entries.ack_word_offsets,
        entries.ack_words,
        np.zeros(_PLACES, np.int64),
        fields,
    )
    if count < 0:
        table.refuse(i, count)
    return Rows(table, data, fields[:, :count])


def entry_groups(table: EntryTable, max_rows: int, max_bytes: int) -> Iterator[EntryTable]:
    """Cuts entries, in order, into groups of at most ``max_rows`` messages and ``max_bytes`` of unpacked payload.

    An entry that is larger than a group may be is one of its own. Groups bound the memory of decoding.
    """
    first = 0
    while first < len(table):
        end = group_end(table.fields, len(table), first, max_rows, max_bytes)
        yield table if end - first == len(table) else table.part(first, end)
        first = end


def row_ranges(rows: Rows, max_rows: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Cuts rows, in order, into ranges of at most ``max_rows`` rows and ``max_bytes`` of values (one row at least)."""
    lengths = rows.field(layout.ROW_VALUE_LENGTH)
    first = 0
    while first < len(rows):
        end = range_end(lengths, first, max_rows, max_bytes)
        yield first, end
        first = end


@functools.cache
def _lz4() -> Any:
    return pa.Codec("lz4_raw")


def inflate(codec: int, data: memoryview, size: int) -> Any:
    """Returns the payload before compression: exactly ``size`` bytes (a buffer), as the metadata declared.

    Only LZ4, the codec of most topics, is unpacked here: its true size, which a block does not state, is computed by a
    kernel in a fraction of the time that the general check takes.

    :param codec: CompressionType, any number but NONE
    :raises CorruptMessage: unknown codec, damaged data, another size, or more than MAX_DECOMPRESSED_SIZE_BYTES
    """
    if not len(data):
        raise CorruptMessage("it is marked compressed but has no payload; even nothing compresses to something")
    if codec != LZ4:
        return decompress(codec, data, size)  # type: ignore[arg-type]
    if size > MAX_DECOMPRESSED_SIZE_BYTES:
        raise CorruptMessage(f"the declared {size} bytes are above the limit of {MAX_DECOMPRESSED_SIZE_BYTES}")
    # Without this check the decoder would leave the end of its output as it finds it in memory.
    if lz4_block_size(np.frombuffer(data, np.uint8)) != size:
        raise CorruptMessage(f"the LZ4 block does not unpack to the declared {size} bytes")
    try:
        return _lz4().decompress(data, size)
    except (OSError, pa.ArrowInvalid) as damaged:
        raise CorruptMessage(f"the LZ4 block is damaged: {damaged}") from damaged
