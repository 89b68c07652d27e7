"""Kernels from entries to the row table: one row for each message that is wanted, with the places of its parts.

Batch payloads are walked item by item; single messages take their row from the entry table.
"""

from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    READ_TABLE,
    WRITE_INTS,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at, number_at, put, set_number
from spark_pulsar.wire.columns.kernels.varints import as_int32, read_field, read_uint32

# Tags of SingleMessageMetadata.
_PROPERTIES = 0x0A
_PARTITION_KEY = 0x12
_PAYLOAD_SIZE = 0x18
_COMPACTED_OUT = 0x20
_EVENT_TIME = 0x28
_KEY_IS_BASE64 = 0x30
_SEQUENCE_ID = 0x40
_NULL_VALUE = 0x48
_NULL_KEY = 0x50

_COMPACTED_OUT_FLAG = 1
_NULL_VALUE_FLAG = 2
_NULL_KEY_FLAG = 4


@inlined
def with_flag(flags: int, tag: int, value: int) -> int:
    """Returns the flags after a boolean field: its last occurrence counts. Other fields change nothing."""
    flag = 0
    if tag == _COMPACTED_OUT:
        flag = _COMPACTED_OUT_FLAG
    elif tag == _NULL_VALUE:
        flag = _NULL_VALUE_FLAG
    elif tag == _NULL_KEY:
        flag = _NULL_KEY_FLAG
    return flags | flag if value != 0 else flags & ~flag


@inlined
def skip_properties(data: Bytes, at: int, end: int, places: Ints) -> tuple[int, int]:
    """Steps over the properties that metadata begin with, up to one in an unusual form; (number of them, place behind).

    ``places`` are those of the properties of the item before, counted from the first of them, with that behind the
    last: where the next begins is then known before the length of this one is there.
    """
    known, p = len(places) - 1, 0
    while p < known:
        place = number_at(places, p)
        size = number_at(places, p + 1) - place - 2
        if size < 0 or size >= 0x80 or at + place + 2 + size > end:
            break
        if byte_at(data, at + place) != _PROPERTIES or byte_at(data, at + place + 1) != size:
            break
        p += 1
    begin = at
    at += number_at(places, p)
    if p == known or at >= end or byte_at(data, at) != _PROPERTIES:
        return p, at
    while p < known and at + 2 <= end and byte_at(data, at) == _PROPERTIES:
        size = byte_at(data, at + 1)
        if size >= 0x80 or size > end - at - 2:
            break
        at += 2 + size
        p += 1
        set_number(places, p, at - begin)
    if p < known:
        set_number(places, p + 1, 0)
    return p, at


@inlined
def read_item(data: Bytes, at: int, end: int, places: Ints, rows: Table, r: int) -> tuple[int, int, int]:
    """Reads one SingleMessageMetadata into row ``r``: (payload size, flags, 0), or a negative code as the last.

    Sequence id and the row's identity are set before by the caller.
    """
    put(rows, layout.ROW_METADATA_START, r, at)
    put(rows, layout.ROW_METADATA_END, r, end)
    put(rows, layout.ROW_KEY_LENGTH, r, -1)
    key_is_base64, event_time, properties, flags, size = 0, 0, 0, 0, layout.ABSENT
    if at < end and byte_at(data, at) == _PROPERTIES:
        properties, at = skip_properties(data, at, end, places)
    while at < end:
        tag, value, start, at = read_field(data, at, end)
        if at < 0:
            return 0, 0, at
        if tag == _PAYLOAD_SIZE:
            size = as_int32(value)
        elif tag == _PARTITION_KEY:
            put(rows, layout.ROW_KEY_START, r, start)
            put(rows, layout.ROW_KEY_LENGTH, r, value)
        elif tag == _SEQUENCE_ID:
            put(rows, layout.ROW_SEQUENCE_ID, r, value)
        elif tag == _PROPERTIES:
            properties += 1
        elif tag == _EVENT_TIME:
            event_time = value
        elif tag == _KEY_IS_BASE64:
            key_is_base64 = 1 if value != 0 else 0
        else:
            flags = with_flag(flags, tag, value)
    put(rows, layout.ROW_KEY_IS_BASE64, r, key_is_base64)
    put(rows, layout.ROW_EVENT_TIME, r, event_time)
    put(rows, layout.ROW_PROPERTY_COUNT, r, properties)
    if size == layout.ABSENT:
        return 0, 0, layout.MISSING_FIELD
    if size < 0:
        return 0, 0, layout.NEGATIVE_SIZE
    return size, flags, 0


@inlined
def walk_batch(
    data: Bytes,
    entries: Table,
    i: int,
    first: int,
    stop: int,
    words: Ints,
    word_at: int,
    word_end: int,
    places: Ints,
    rows: Table,
    r: int,
) -> int:
    """Writes the wanted messages of batch ``i`` from row ``r`` on; returns the next free row or a negative code."""
    at = entries[layout.PAYLOAD_START, i]
    end = at + entries[layout.PAYLOAD_LENGTH, i]
    for index in range(min(entries[layout.COUNT, i], stop)):
        if end - at < 4:
            return layout.TRUNCATED
        metadata_size = read_uint32(data, at)
        at += 4
        if metadata_size > end - at:
            return layout.BAD_LENGTH
        put(rows, layout.ROW_ENTRY, r, i)
        put(rows, layout.ROW_BATCH_INDEX, r, index)
        put(rows, layout.ROW_SEQUENCE_ID, r, entries[layout.SEQUENCE_ID, i])
        size, flags, code = read_item(data, at, at + metadata_size, places, rows, r)
        if code < 0:
            return code
        at += metadata_size
        if size > end - at:
            return layout.BAD_LENGTH
        put(rows, layout.ROW_VALUE_START, r, at)
        put(rows, layout.ROW_VALUE_LENGTH, r, -1 if flags & _NULL_VALUE_FLAG else size)
        at += size
        if flags & _NULL_KEY_FLAG:
            put(rows, layout.ROW_KEY_LENGTH, r, -1)
        if index < first or flags & _COMPACTED_OUT_FLAG:
            continue
        if word_end > word_at:  # the broker's bits: 1 = deliver; what lies behind the last word is acked
            word = word_at + (index >> 6)
            if word >= word_end or not (words[word] >> (index & 63)) & 1:
                continue
        r += 1
    return r


@inlined
def single_row(entries: Table, i: int, rows: Table, r: int) -> None:
    """Writes the one message of entry ``i``, which is not a batch, to row ``r``."""
    rows[layout.ROW_ENTRY, r] = i
    rows[layout.ROW_BATCH_INDEX, r] = -1
    rows[layout.ROW_VALUE_START, r] = entries[layout.PAYLOAD_START, i]
    rows[layout.ROW_VALUE_LENGTH, r] = -1 if entries[layout.NULL_VALUE, i] != 0 else entries[layout.PAYLOAD_LENGTH, i]
    rows[layout.ROW_KEY_START, r] = entries[layout.KEY_START, i]
    rows[layout.ROW_KEY_LENGTH, r] = -1 if entries[layout.NULL_KEY, i] != 0 else entries[layout.KEY_LENGTH, i]
    rows[layout.ROW_KEY_IS_BASE64, r] = 1 if entries[layout.KEY_IS_BASE64, i] != 0 else 0
    rows[layout.ROW_SEQUENCE_ID, r] = entries[layout.SEQUENCE_ID, i]
    rows[layout.ROW_EVENT_TIME, r] = entries[layout.EVENT_TIME, i]
    rows[layout.ROW_PROPERTY_COUNT, r] = entries[layout.PROPERTY_COUNT, i]
    rows[layout.ROW_METADATA_START, r] = entries[layout.METADATA_START, i]
    rows[layout.ROW_METADATA_END, r] = entries[layout.METADATA_START, i] + entries[layout.METADATA_LENGTH, i]


@kernel(READ_BYTES, READ_TABLE, READ_INTS, READ_INTS, READ_INTS, READ_INTS, WRITE_INTS, WRITE_TABLE)
def walk_entries(
    data: Bytes,
    entries: Table,
    firsts: Ints,
    stops: Ints,
    word_offsets: Ints,
    words: Ints,
    places: Ints,
    rows: Table,
) -> tuple[int, int]:
    """Fills the row table; returns (rows, -1) or (code, entry).

    ``data`` holds payloads as they are after decompression; ``rows`` has room for the sum of all counts **and one
    more**, where a message that turns out not to be wanted is parsed. ``firsts`` and ``stops`` bound batch indexes;
    the words of entry i are ``words[word_offsets[i]:word_offsets[i + 1]]``, none = all are wanted. ``places`` is room
    for those of properties: zeros, one more than there are places to keep.
    """
    r = 0
    for i in range(len(firsts)):
        kind = entries[layout.KIND, i]
        if kind == layout.KIND_MARKER:
            continue
        if entries[layout.ENCRYPTION_KEYS, i] > 0:
            return layout.ENCRYPTED, i
        if kind == layout.KIND_CHUNK:
            return layout.UNASSEMBLED_CHUNK, i
        if kind == layout.KIND_BATCH:
            first, last = word_offsets[i], word_offsets[i + 1]
            r = walk_batch(data, entries, i, firsts[i], stops[i], words, first, last, places, rows, r)
            if r < 0:
                return r, i
        elif firsts[i] <= 0 < stops[i]:
            single_row(entries, i, rows, r)
            r += 1
    return r, -1


@kernel(READ_TABLE, INT, INT, INT, INT)
def group_end(entries: Table, count: int, first: int, max_rows: int, max_bytes: int) -> int:
    """Finds the end of a group that begins with entry ``first`` of ``count``: within both bounds, but one entry at
    least."""
    rows, size = 0, 0
    for i in range(first, count):
        rows += entries[layout.COUNT, i]
        size += entries[layout.PAYLOAD_LENGTH if entries[layout.COMPRESSION, i] == 0 else layout.UNCOMPRESSED_SIZE, i]
        if i > first and (rows > max_rows or size > max_bytes):
            return i
    return count


@kernel(READ_INTS, INT, INT, INT)
def range_end(lengths: Ints, first: int, max_rows: int, max_bytes: int) -> int:
    """Finds the end of a range of rows that begins with ``first``: within both bounds, but one row at least."""
    size, stop = 0, min(len(lengths), first + max(max_rows, 1))
    for r in range(first, stop):
        size += max(lengths[r], 0)
        if r > first and size > max_bytes:
            return r
    return stop
