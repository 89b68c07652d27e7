"""Kernels from stored entries to the entry table: headers and MessageMetadata, without touching payloads."""

from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at
from spark_pulsar.wire.columns.kernels.varints import as_int32, read_field, read_uint32

_PROPERTIES_TAG = 0x22
_ENCRYPTION_KEYS_TAG = 0x6A
_SLOTTED_TAGS = len(layout.METADATA_SLOTS)
_BROKER_METADATA_MAGIC = 0x02
_CHECKSUM_MAGIC = 0x01
_REQUIRED = 1 << layout.PRODUCER_START | 1 << layout.SEQUENCE_ID | 1 << layout.PUBLISH_TIME


@inlined
def read_headers(data: Bytes, at: int, end: int, table: Table, i: int) -> int:
    """Fills the places of metadata and payload of entry ``i``; returns 0 or a negative code."""
    if end - at >= 6 and byte_at(data, at) == 0x0E and byte_at(data, at + 1) == _BROKER_METADATA_MAGIC:
        size = read_uint32(data, at + 2)
        if size > end - at - 6:
            return layout.TRUNCATED
        at += 6 + size
    if end - at >= 6 and byte_at(data, at) == 0x0E and byte_at(data, at + 1) == _CHECKSUM_MAGIC:
        at += 6
    if end - at < 4:
        return layout.TRUNCATED
    size = read_uint32(data, at)
    if size > end - at - 4:
        return layout.TRUNCATED
    table[layout.METADATA_START, i] = at + 4
    table[layout.METADATA_LENGTH, i] = size
    table[layout.PAYLOAD_START, i] = at + 4 + size
    table[layout.PAYLOAD_LENGTH, i] = end - at - 4 - size
    return 0


@inlined
def read_metadata(data: Bytes, at: int, end: int, table: Table, i: int) -> int:
    """Fills the metadata fields of entry ``i``; returns 0 or a negative code."""
    present = 0
    while at < end:
        tag, value, start, at = read_field(data, at, end)
        if at < 0:
            return at
        if tag >= _SLOTTED_TAGS:
            continue
        slot = layout.METADATA_SLOTS[tag]
        if slot >= 0:
            present |= 1 << slot
            if tag & 7 == 0:
                table[slot, i] = value
            else:
                table[slot, i] = start
                table[slot + 1, i] = value
        elif tag == _PROPERTIES_TAG:
            table[layout.PROPERTY_COUNT, i] += 1
        elif tag == _ENCRYPTION_KEYS_TAG:
            table[layout.ENCRYPTION_KEYS, i] += 1
    table[layout.PRESENT, i] = present
    return 0


@inlined
def classify(table: Table, i: int) -> int:
    """Narrows 32-bit fields, checks counts against sizes, fills kind and count; returns 0 or a negative code."""
    present = table[layout.PRESENT, i]
    if present & _REQUIRED != _REQUIRED:
        return layout.MISSING_FIELD
    table[layout.UNCOMPRESSED_SIZE, i] &= 0xFFFFFFFF
    for field in (layout.COMPRESSION, layout.CHUNK_COUNT, layout.CHUNK_ID, layout.CHUNK_TOTAL_SIZE):
        table[field, i] = as_int32(table[field, i])
    table[layout.KIND, i] = layout.KIND_SINGLE
    table[layout.COUNT, i] = 1
    if present & 1 << layout.MARKER:
        table[layout.KIND, i] = layout.KIND_MARKER
        table[layout.COUNT, i] = 0
    elif table[layout.CHUNK_COUNT, i] > 1:
        table[layout.KIND, i] = layout.KIND_CHUNK
        if table[layout.CHUNK_ID, i] < 0 or table[layout.CHUNK_ID, i] >= table[layout.CHUNK_COUNT, i]:
            return layout.BAD_CHUNK
        table[layout.COUNT, i] = 1 if table[layout.CHUNK_ID, i] == table[layout.CHUNK_COUNT, i] - 1 else 0
    elif present & 1 << layout.MESSAGES_IN_BATCH:
        count = as_int32(table[layout.MESSAGES_IN_BATCH, i])
        body = (
            table[layout.PAYLOAD_LENGTH, i] if table[layout.COMPRESSION, i] == 0 else table[layout.UNCOMPRESSED_SIZE, i]
        )
        if count < 0 or count > body // layout.SMALLEST_ITEM_BYTES:
            return layout.BAD_COUNT
        table[layout.KIND, i] = layout.KIND_BATCH
        table[layout.COUNT, i] = count
    return 0


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_TABLE)
def scan_entries(data: Bytes, starts: Ints, ends: Ints, table: Table) -> tuple[int, int]:
    """Fills the entry table for the entries ``data[starts[i]:ends[i]]``; returns (0, entries) or (code, entry)."""
    size = len(data)
    for i in range(len(starts)):
        if starts[i] < 0 or starts[i] > ends[i] or ends[i] > size:
            return layout.TRUNCATED, i
        for field in range(layout.ENTRY_FIELDS):
            table[field, i] = 0
        for field in (layout.PRODUCER_LENGTH, layout.KEY_LENGTH, layout.UUID_LENGTH, layout.SCHEMA_VERSION_LENGTH):
            table[field, i] = -1
        code = read_headers(data, starts[i], ends[i], table, i)
        if code == 0:
            at = table[layout.METADATA_START, i]
            code = read_metadata(data, at, at + table[layout.METADATA_LENGTH, i], table, i)
        if code == 0:
            code = classify(table, i)
        if code < 0:
            return code, i
    return 0, len(starts)
