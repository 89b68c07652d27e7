"""Kernel that decodes Avro records: a row is walked once, wanted values are located or read, nothing is copied.

A program has PROGRAM_FIELDS numbers for each instruction, as below; `program` makes it from a writer's schema.
Values go to slots, two numbers each: number and 1, or start and length of bytes; the second is -1 for null. A slot
belongs to a level, and has room for each item of that level: level 0 has an item for each row, every wanted array or
map begins a level of its own, with an item for each of its values in all rows. Its own slot has the number of values.
"""

from spark_pulsar.wire.columns.kernels.compiler import INT as INT64
from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    WRITE_INTS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at, number_at, set_number
from spark_pulsar.wire.columns.kernels.varints import read_varint

# Numbers of an instruction.
OPERATION = 0
NULL_BRANCH = 1  # of a value in a union with null; -1: no union
PLACE = 2  # where the numbers of its slot begin; -1: skipped
ROOM = 3  # how far behind them the second numbers are
SIZE = 4  # bytes of a fixed, symbols of an enum, branches of a union, slots to set; 1: items may take no bytes
TARGET = 5  # place of the instruction to go on with
TABLE = 6  # place in `tables`: where branches go on, or what symbols become; -1: none
LEVEL = 7  # level of the items; 0: skipped
LEVEL_ROOM = 8  # items that it has room for
PROGRAM_FIELDS = 9

# Operations that read a value.
NULL = 0
BOOLEAN = 1
INT = 2
LONG = 3
FLOAT = 4
DOUBLE = 5
BYTES = 6
FIXED = 7
ENUM = 8
# Operations that move on.
UNION = 9
ITEMS = 10  # begins an array or map
NEXT = 11  # stands before the instructions of an item
JUMP = 12
CALL = 13
RETURN = 14
FAIL = 15
# Operations that read nothing.
CHECK_KEY = 16  # stands behind the key of an item
PRESENT = 17  # a record or union is not null
NULLS = 18  # some slots are null
END = 19

TOO_SHORT = -1
NO_BRANCH = -2
NO_VALUE = -3
TOO_LONG = -4
NO_SYMBOL = -5
NO_MATCH = -6
TOO_MANY = -7
TOO_DEEP = -8
NO_ROOM = -9

MAX_EMPTY_ITEMS = 1_000
"""Items without bytes in all arrays of one payload."""
MAX_KEYS_COMPARED = 32
"""Keys of a map that are compared with each further one; of longer maps nothing is known about equal ones."""
MAX_CALLS = 1_000_000
CALLS_A_BYTE = 256
"""Records that are skipped in one payload, and more for each of its bytes: no bytes may still be billions of them."""
FRAME = 3  # numbers that an array or map has on the stack

# Numbers behind the counts of items, and behind what these were where the row began.
FULL_LEVEL = 0  # level that has no room left
FAILED_ROWS = 1
HAS_EQUAL_KEYS = 2  # maps may have equal keys
EMPTY_ITEMS = 3  # of the row
CALLS_LEFT = 4  # of the row
COUNT_FIELDS = 5

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


@inlined
def _read_branch(data: Bytes, at: int, end: int, branches: int) -> tuple[int, int]:
    """Reads the number of a branch: it and the position behind it, or a negative code."""
    raw, at = read_varint(data, at, end)
    if at < 0:
        return 0, TOO_SHORT
    if raw & 1 or raw < 0 or raw >> 1 >= branches:
        return 0, NO_BRANCH
    return raw >> 1, at


@inlined
def _read_count(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads the number of items of a block: it and the position behind it, or a negative code."""
    raw, at = read_varint(data, at, end)
    if at < 0:
        return 0, TOO_SHORT
    count = ((raw >> 1) & _LOW_63_BITS) ^ -(raw & 1)
    if count < 0:
        count = -count
        _, at = read_varint(data, at, end)  # bytes of the block
        if at < 0:
            return 0, TOO_SHORT
        if count < 0 or count > _LOW_63_BITS:
            return 0, NO_VALUE
    return count, at


@inlined
def _repeats_key(data: Bytes, values: Ints, at: int, room: int, first: int, place: int) -> bool:
    """Returns whether the key of an item may be equal to one of the map's items before it."""
    if place - first > MAX_KEYS_COMPARED:
        return True
    start, length = values[at + place], values[at + room + place]
    for item in range(first, place):
        if values[at + room + item] == length:
            other, i = values[at + item], 0
            while i < length and byte_at(data, start + i) == byte_at(data, other + i):
                i += 1
            if i == length:
                return True
    return False


@inlined
def _store(values: Ints, program: Ints, pc: int, place: int, value: int, length: int) -> None:
    """Stores both numbers of an item into the slot of an instruction, if it has one."""
    to = number_at(program, pc + PLACE)
    if to >= 0:
        set_number(values, to + place, value)
        set_number(values, to + number_at(program, pc + ROOM) + place, length)


@inlined
def _store_value(data: Bytes, at: int, end: int, program: Ints, pc: int, tables: Ints, values: Ints, place: int) -> int:
    """Reads a value into its slot; returns the position behind it or a negative code."""
    operation = number_at(program, pc + OPERATION)
    if number_at(program, pc + NULL_BRANCH) >= 0:
        branch, at = _read_branch(data, at, end, 2)
        if at < 0:
            return at
        if branch == number_at(program, pc + NULL_BRANCH):
            operation = NULL
    value, length, at = _read_value(data, at, end, operation, number_at(program, pc + SIZE))
    if at < 0:
        return at
    if operation == ENUM and number_at(program, pc + TABLE) >= 0:
        value = number_at(tables, number_at(program, pc + TABLE) + value)
        if value < 0:
            return NO_SYMBOL
    _store(values, program, pc, place, value, length)
    return at


@inlined
def _begin_block(data: Bytes, at: int, end: int, program: Ints, pc: int, counts: Ints) -> tuple[int, int]:
    """Reads the number of items of a block, 0 behind the last: it and the position behind it, or a negative code."""
    left, at = _read_count(data, at, end)
    if at < 0 or left == 0:
        return left, at
    if number_at(program, pc + SIZE) == 1:
        empty_items = len(counts) - COUNT_FIELDS + EMPTY_ITEMS
        if left > MAX_EMPTY_ITEMS - counts[empty_items]:
            return left, TOO_MANY
        counts[empty_items] += left
    elif left > end - at:
        return left, TOO_SHORT
    return left, at


@inlined
def _next_item(
    data: Bytes,
    at: int,
    end: int,
    program: Ints,
    pc: int,
    stack: Ints,
    top: int,
    counts: Ints,
    values: Ints,
    place: int,
) -> tuple[int, int, int, int]:
    """Goes on to the next item of an array or map, or behind the last: (position or a negative code, instruction, top
    of the stack, place)."""
    left, level = stack[top - 2], number_at(program, pc + LEVEL)
    if left == 0:
        left, at = _begin_block(data, at, end, program, pc, counts)
        if at < 0:
            return at, pc, top, place
        if left == 0:
            first = stack[top - 1]
            place = stack[top - 3]
            _store(values, program, pc, place, first, counts[level] - first)
            return at, number_at(program, pc + TARGET), top - FRAME, place
    stack[top - 2] = left - 1
    if level > 0:
        place = counts[level]
        if place >= number_at(program, pc + LEVEL_ROOM):
            counts[len(counts) - COUNT_FIELDS + FULL_LEVEL] = level
            return NO_ROOM, pc, top, place
        counts[level] = place + 1
    return at, pc + PROGRAM_FIELDS, top, place


@inlined
def _branch_off(
    data: Bytes,
    at: int,
    end: int,
    program: Ints,
    pc: int,
    tables: Ints,
    stack: Ints,
    top: int,
    counts: Ints,
    place: int,
) -> tuple[int, int, int]:
    """Follows an instruction after which another may come than the next: (position or a negative code, instruction,
    top of the stack)."""
    operation = number_at(program, pc + OPERATION)
    if operation == UNION:
        branch, at = _read_branch(data, at, end, number_at(program, pc + SIZE))
        return at, number_at(tables, number_at(program, pc + TABLE) + branch), top
    if operation == RETURN:
        return at, stack[top - 1], top - 1
    if operation == FAIL:
        return NO_MATCH, pc, top
    if top + FRAME > len(stack):
        return TOO_DEEP, pc, top
    if operation == ITEMS:
        stack[top] = place
        stack[top + 1] = 0
        stack[top + 2] = counts[number_at(program, pc + LEVEL)]
        return at, pc + PROGRAM_FIELDS, top + FRAME
    calls_left = len(counts) - COUNT_FIELDS + CALLS_LEFT
    counts[calls_left] -= 1
    if counts[calls_left] < 0:
        return TOO_MANY, pc, top
    stack[top] = pc + PROGRAM_FIELDS
    return at, number_at(program, pc + TARGET), top + 1


@inlined
def _mark(data: Bytes, program: Ints, pc: int, stack: Ints, top: int, counts: Ints, values: Ints, place: int) -> None:
    """Follows an instruction that reads nothing."""
    operation = number_at(program, pc + OPERATION)
    if operation == PRESENT:
        _store(values, program, pc, place, 1, 1)
        return
    to, room = number_at(program, pc + PLACE), number_at(program, pc + ROOM)
    if operation == CHECK_KEY:
        if _repeats_key(data, values, to, room, stack[top - 1], place):
            counts[len(counts) - COUNT_FIELDS + HAS_EQUAL_KEYS] = 1
        return
    to += room + place
    for _ in range(number_at(program, pc + SIZE)):
        set_number(values, to, -1)
        to += 2 * room


@inlined
def _read_record(
    data: Bytes, at: int, end: int, row: int, program: Ints, tables: Ints, stack: Ints, counts: Ints, values: Ints
) -> int:
    """Fills the slots for one record; returns 0 or a negative code."""
    pc, top, place = 0, 0, row
    while True:
        operation = number_at(program, pc + OPERATION)
        if operation <= ENUM:
            at = _store_value(data, at, end, program, pc, tables, values, place)
            pc += PROGRAM_FIELDS
        elif operation == END:
            return 0 if at == end else TOO_LONG
        elif operation == NEXT:
            at, pc, top, place = _next_item(data, at, end, program, pc, stack, top, counts, values, place)
        elif operation == JUMP:
            pc = number_at(program, pc + TARGET)
        elif operation <= FAIL:
            at, pc, top = _branch_off(data, at, end, program, pc, tables, stack, top, counts, place)
        else:
            _mark(data, program, pc, stack, top, counts, values, place)
            pc += PROGRAM_FIELDS
        if at < 0:
            return at


@kernel(
    READ_BYTES, READ_INTS, INT64, READ_INTS, READ_INTS, WRITE_INTS, WRITE_INTS, WRITE_INTS, WRITE_INTS
)  # fmt: skip
def read_records(
    data: Bytes,
    offsets: Ints,
    first: int,
    program: Ints,
    tables: Ints,
    stack: Ints,
    counts: Ints,
    codes: Ints,
    values: Ints,
) -> int:
    """Fills the slots for the records ``data[offsets[i]:offsets[i + 1]]`` from ``first`` on; returns the row that it
    came to: behind the last, or one that a level has no room for.

    ``counts`` has an item for each level, room for as many, and COUNT_FIELDS more. Rows that do not decode have a
    negative code in ``codes`` and no items. Offsets lie inside of the data and grow.
    """
    levels = (len(counts) - COUNT_FIELDS) // 2
    more = 2 * levels
    for row in range(first, len(offsets) - 1):
        for level in range(levels):
            counts[levels + level] = counts[level]
        at, end = offsets[row], offsets[row + 1]
        counts[more + EMPTY_ITEMS] = 0
        counts[more + CALLS_LEFT] = MAX_CALLS + CALLS_A_BYTE * (end - at)
        code = _read_record(data, at, end, row, program, tables, stack, counts, values)
        if code < 0:
            for level in range(levels):
                counts[level] = counts[levels + level]
            if code == NO_ROOM:
                return row
            codes[row] = code
            counts[more + FAILED_ROWS] += 1
    return len(offsets) - 1
