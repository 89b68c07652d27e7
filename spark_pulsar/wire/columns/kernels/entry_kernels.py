"""Kernels from stored entries to the entry table: headers and MessageMetadata, without touching payloads."""

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
from spark_pulsar.wire.columns.kernels.layout import (
    BAD_CHUNK,
    BAD_COUNT,
    CHUNK_COUNT,
    CHUNK_ID,
    CHUNK_TOTAL_SIZE,
    COMPRESSION,
    COUNT,
    ENCRYPTION_KEYS,
    ENTRY_FIELDS,
    KEY_LENGTH,
    KIND,
    KIND_BATCH,
    KIND_CHUNK,
    KIND_MARKER,
    KIND_SINGLE,
    MARKER,
    MESSAGES_IN_BATCH,
    METADATA_LENGTH,
    METADATA_SLOTS,
    METADATA_START,
    MISSING_FIELD,
    ORDERING_KEY_LENGTH,
    PAYLOAD_LENGTH,
    PAYLOAD_START,
    PRESENT,
    PRODUCER_LENGTH,
    PRODUCER_START,
    PROPERTY_COUNT,
    PUBLISH_TIME,
    SEQUENCE_ID,
    SMALLEST_ITEM_BYTES,
    TRUNCATED,
    UNCOMPRESSED_SIZE,
    UUID_LENGTH,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at
from spark_pulsar.wire.columns.kernels.varints import as_int32, read_field, read_uint32

_PROPERTIES_TAG = 0x22
_ENCRYPTION_KEYS_TAG = 0x6A
_SLOTTED_TAGS = len(METADATA_SLOTS)
_BROKER_METADATA_MAGIC = 0x02
_CHECKSUM_MAGIC = 0x01
_REQUIRED = 1 << PRODUCER_START | 1 << SEQUENCE_ID | 1 << PUBLISH_TIME


@inlined
def read_headers(data: Bytes, at: int, end: int, table: Table, i: int) -> int:
    """Fills the places of metadata and payload of entry ``i``; returns 0 or a negative code."""
    if end - at >= 6 and byte_at(data, at) == 0x0E and byte_at(data, at + 1) == _BROKER_METADATA_MAGIC:
        size = read_uint32(data, at + 2)
        if size > end - at - 6:
            return TRUNCATED
        at += 6 + size
    if end - at >= 6 and byte_at(data, at) == 0x0E and byte_at(data, at + 1) == _CHECKSUM_MAGIC:
        at += 6
    if end - at < 4:
        return TRUNCATED
    size = read_uint32(data, at)
    if size > end - at - 4:
        return TRUNCATED
    table[METADATA_START, i] = at + 4
    table[METADATA_LENGTH, i] = size
    table[PAYLOAD_START, i] = at + 4 + size
    table[PAYLOAD_LENGTH, i] = end - at - 4 - size
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
        slot = METADATA_SLOTS[tag]
        if slot >= 0:
            present |= 1 << slot
            if tag & 7 == 0:
                table[slot, i] = value
            else:
                table[slot, i] = start
                table[slot + 1, i] = value
        elif tag == _PROPERTIES_TAG:
            table[PROPERTY_COUNT, i] += 1
        elif tag == _ENCRYPTION_KEYS_TAG:
            table[ENCRYPTION_KEYS, i] += 1
    table[PRESENT, i] = present
    return 0


@inlined
def classify(table: Table, i: int) -> int:
    """Narrows 32-bit fields, checks counts against sizes, fills kind and count; returns 0 or a negative code."""
    present = table[PRESENT, i]
    if present & _REQUIRED != _REQUIRED:
        return MISSING_FIELD
    table[UNCOMPRESSED_SIZE, i] &= 0xFFFFFFFF
    for field in (COMPRESSION, CHUNK_COUNT, CHUNK_ID, CHUNK_TOTAL_SIZE):
        table[field, i] = as_int32(table[field, i])
    table[KIND, i] = KIND_SINGLE
    table[COUNT, i] = 1
    if present & 1 << MARKER:
        table[KIND, i] = KIND_MARKER
        table[COUNT, i] = 0
    elif table[CHUNK_COUNT, i] > 1:
        table[KIND, i] = KIND_CHUNK
        if table[CHUNK_ID, i] < 0 or table[CHUNK_ID, i] >= table[CHUNK_COUNT, i]:
            return BAD_CHUNK
        table[COUNT, i] = 1 if table[CHUNK_ID, i] == table[CHUNK_COUNT, i] - 1 else 0
    elif present & 1 << MESSAGES_IN_BATCH:
        count = as_int32(table[MESSAGES_IN_BATCH, i])
        body = table[PAYLOAD_LENGTH, i] if table[COMPRESSION, i] == 0 else table[UNCOMPRESSED_SIZE, i]
        if count < 0 or count > body // SMALLEST_ITEM_BYTES:
            return BAD_COUNT
        table[KIND, i] = KIND_BATCH
        table[COUNT, i] = count
    return 0


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_TABLE)
def scan_entries(data: Bytes, starts: Ints, ends: Ints, table: Table) -> tuple[int, int]:
    """Fills the entry table for the entries ``data[starts[i]:ends[i]]``; returns (0, entries) or (code, entry)."""
    size = len(data)
    for i in range(len(starts)):
        if starts[i] < 0 or starts[i] > ends[i] or ends[i] > size:
            return TRUNCATED, i
        for field in range(ENTRY_FIELDS):
            table[field, i] = 0
        for field in (PRODUCER_LENGTH, KEY_LENGTH, ORDERING_KEY_LENGTH, UUID_LENGTH):
            table[field, i] = -1
        code = read_headers(data, starts[i], ends[i], table, i)
        if code == 0:
            at = table[METADATA_START, i]
            code = read_metadata(data, at, at + table[METADATA_LENGTH, i], table, i)
        if code == 0:
            code = classify(table, i)
        if code < 0:
            return code, i
    return 0, len(starts)
