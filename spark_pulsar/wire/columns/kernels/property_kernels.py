"""Properties of messages: found again in their metadata, listed flat, the last of equal keys kept."""

from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    WRITE_OFFSETS,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.layout import MISSING_FIELD
from spark_pulsar.wire.columns.kernels.memory import byte_at
from spark_pulsar.wire.columns.kernels.varints import read_field

# Row of the property table.
PROPERTY_KEY_START = 0
PROPERTY_KEY_LENGTH = 1
PROPERTY_VALUE_START = 2
PROPERTY_VALUE_LENGTH = 3
PROPERTY_FIELDS = 4

MOST_PROPERTIES_COMPARED = 64
"""Rows with more properties are left with equal keys in them: comparing all pairs of a hostile million never ends."""

_IN_MESSAGE_METADATA = 0x22
_IN_BATCH_ITEM = 0x0A
_KEY = 0x0A
_VALUE = 0x12


@inlined
def read_property(data: Bytes, at: int, end: int, table: Table, p: int) -> int:
    """Reads one KeyValue to place ``p``; returns 0 or a negative code."""
    table[PROPERTY_KEY_LENGTH, p] = -1
    table[PROPERTY_VALUE_LENGTH, p] = -1
    while at < end:
        tag, length, start, at = read_field(data, at, end)
        if at < 0:
            return at
        if tag == _KEY:
            table[PROPERTY_KEY_START, p] = start
            table[PROPERTY_KEY_LENGTH, p] = length
        elif tag == _VALUE:
            table[PROPERTY_VALUE_START, p] = start
            table[PROPERTY_VALUE_LENGTH, p] = length
    if table[PROPERTY_KEY_LENGTH, p] < 0 or table[PROPERTY_VALUE_LENGTH, p] < 0:
        return MISSING_FIELD
    return 0


@inlined
def same_key(data: Bytes, table: Table, p: int, q: int) -> bool:
    """Tells whether the properties at two places have equal keys."""
    length = table[PROPERTY_KEY_LENGTH, p]
    if length != table[PROPERTY_KEY_LENGTH, q]:
        return False
    left, right = table[PROPERTY_KEY_START, p], table[PROPERTY_KEY_START, q]
    for i in range(length):  # noqa: SIM110 - kernels cannot close over names
        if byte_at(data, left + i) != byte_at(data, right + i):
            return False
    return True


@inlined
def keep_last_of_equal_keys(data: Bytes, table: Table, first: int, end: int) -> int:
    """Closes up the places ``first`` to ``end``, dropping those whose key comes again; returns the new end."""
    kept = first
    for p in range(first, end):
        repeated = False
        for q in range(p + 1, end):
            if same_key(data, table, p, q):
                repeated = True
                break
        if not repeated:
            for field in range(PROPERTY_FIELDS):
                table[field, kept] = table[field, p]
            kept += 1
    return kept


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_INTS, READ_INTS, WRITE_OFFSETS, WRITE_TABLE)
def list_properties(
    data: Bytes, batch_indexes: Ints, counts: Ints, starts: Ints, ends: Ints, offsets: Ints, table: Table
) -> tuple[int, int]:
    """Lists the properties of rows whose metadata is ``data[starts[r]:ends[r]]``; (properties, -1) or (code, row).

    ``table`` has room for the sum of ``counts``, which the walk over the same bytes has counted.
    """
    p = 0
    offsets[0] = 0
    for r in range(len(counts)):
        wanted = _IN_MESSAGE_METADATA if batch_indexes[r] < 0 else _IN_BATCH_ITEM
        first = p
        at = starts[r]
        while p - first < counts[r]:
            tag, length, start, at = read_field(data, at, ends[r])
            if at < 0:
                return at, r
            if tag == wanted:
                code = read_property(data, start, start + length, table, p)
                if code < 0:
                    return code, r
                p += 1
        if 1 < counts[r] <= MOST_PROPERTIES_COMPARED:
            p = keep_last_of_equal_keys(data, table, first, p)
        offsets[r + 1] = p
    return p, -1
