"""Kernel that decodes flat Avro records: a row is walked once, wanted fields are located or read, nothing is copied.

A program has a column for each field of the writer's record, in order, with the rows below. The result is a table with
two rows for each slot: number and 1, or start and length of bytes; the second is -1 for null.
"""

from spark_pulsar.wire.columns.kernels.compiler import INT as INT64
from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    READ_TABLE,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at
from spark_pulsar.wire.columns.kernels.varints import read_varint

# Rows of a program.
OPERATION = 0
NULL_BRANCH = 1  # -1: no union
SLOT = 2  # -1: skipped
SIZE = 3  # bytes of a fixed, symbols of an enum
PROGRAM_FIELDS = 4

# Operations.
NULL = 0
BOOLEAN = 1
INT = 2
LONG = 3
FLOAT = 4
DOUBLE = 5
BYTES = 6
FIXED = 7
ENUM = 8

TOO_SHORT = -1
NO_BRANCH = -2
NO_VALUE = -3
TOO_LONG = -4

_LOW_63_BITS = 0x7FFFFFFFFFFFFFFF
_INT_MOST = 2**31 - 1


@inlined
def _little_endian(data: Bytes, at: int, size: int) -> int:
    value = 0
    for i in range(size):
        value |= byte_at(data, at + i) << (8 * i)
    # the sign of a double, which is the number's own sign only where numbers have 64 bits, as in compiled code
    return (value & _LOW_63_BITS) | -(((value >> 63) & 1) << 63)


@inlined
def _read_value(data: Bytes, at: int, end: int, operation: int, size: int) -> tuple[int, int, int]:
    """Reads one value: (number or start, 1 or length, position behind it or a negative code)."""
    if operation == NULL:
        return 0, -1, at
    if operation == BOOLEAN:
        if at >= end:
            return 0, 0, TOO_SHORT
        value = byte_at(data, at)
        return value, 1, at + 1 if value <= 1 else NO_VALUE
    if operation in (FLOAT, DOUBLE, FIXED):
        width = 4 if operation == FLOAT else 8 if operation == DOUBLE else size
        if end - at < width:
            return 0, 0, TOO_SHORT
        if operation == FIXED:
            return at, size, at + size
        return _little_endian(data, at, width), 1, at + width
    raw, at = read_varint(data, at, end)
    if at < 0:
        return 0, 0, TOO_SHORT
    value = ((raw >> 1) & _LOW_63_BITS) ^ -(raw & 1)
    if operation == BYTES:
        if value < 0:
            return 0, 0, NO_VALUE
        if value > end - at:
            return 0, 0, TOO_SHORT
        return at, value, at + value
    if operation == INT and (value > _INT_MOST or value < -_INT_MOST - 1):
        return 0, 0, NO_VALUE
    if operation == ENUM and (value < 0 or value >= size):
        return 0, 0, NO_VALUE
    return value, 1, at


@kernel(READ_BYTES, READ_INTS, READ_TABLE, INT64, WRITE_TABLE)
def read_records(data: Bytes, offsets: Ints, program: Table, fields: int, table: Table) -> tuple[int, int]:
    """Fills the table for the records ``data[offsets[i]:offsets[i + 1]]``; returns (0, rows) or (code, row).

    Offsets lie inside of the data and grow.
    """
    for row in range(len(offsets) - 1):
        at, end = offsets[row], offsets[row + 1]
        for field in range(fields):
            operation = program[OPERATION, field]
            if program[NULL_BRANCH, field] >= 0:
                if at >= end:
                    return TOO_SHORT, row
                branch = byte_at(data, at)
                at += 1
                if branch != 0 and branch != 2:
                    return NO_BRANCH, row
                if branch >> 1 == program[NULL_BRANCH, field]:
                    operation = NULL
            value, length, at = _read_value(data, at, end, operation, program[SIZE, field])
            if at < 0:
                return at, row
            slot = program[SLOT, field]
            if slot >= 0:
                table[2 * slot, row] = value
                table[2 * slot + 1, row] = length
        if at != end:
            return TOO_LONG, row
    return 0, len(offsets) - 1
