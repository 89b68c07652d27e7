"""Kernel that finds the place at which a payload is no JSON, by the grammar and the order of Python's reader."""

from spark_pulsar.connector.schemas.decoding.json_scalar_kernels import behind_digits, behind_space, hex4
from spark_pulsar.wire.columns.kernels.column_kernels import is_text
from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    WRITE_BYTES,
    WRITE_INTS,
    WRITE_OFFSETS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at, copy_bytes

# Codes of faults.
UNSURE = 0  # whether it is JSON, or what Python says of it
EXPECTING_VALUE = 1
EXPECTING_NAME = 2
EXPECTING_COLON = 3
EXPECTING_COMMA = 4
UNTERMINATED = 5
INVALID_CONTROL = 6
EXTRA_DATA = 7
_NONE = -1

# Words behind those of the codes.
LINE = 8
COLUMN = 9
CHARACTER = 10  # behind a byte order mark
END = 11
MOST_PLACE_BYTES = 100
"""Bytes that the place of a fault takes in a text."""

MOST_DEPTH = 100
"""Objects and arrays inside each other; of more Python may have enough."""
_MOST_DIGITS = 4_000  # of a number; of more Python has enough
_MOST_EXPONENT_DIGITS = 6
_OBJECT = 1
_ARRAY = 0


@inlined
def _is_mark(data: Bytes, at: int, end: int) -> bool:
    """Returns whether a byte order mark stands at a place."""
    if end - at < 3:
        return False
    return byte_at(data, at) == 0xEF and byte_at(data, at + 1) == 0xBB and byte_at(data, at + 2) == 0xBF


@inlined
def _string(data: Bytes, quote: int, end: int) -> tuple[int, int]:
    """Reads a string from its first quote on: the code of its fault, negative without; place of it or behind it."""
    at = quote + 1
    while at < end:
        byte = byte_at(data, at)
        if byte == 0x22:
            return _NONE, at + 1
        if byte < 0x20:
            return INVALID_CONTROL, at
        at += 1
        if byte == 0x5C:
            if at >= end:
                return UNTERMINATED, quote
            byte = byte_at(data, at)
            at += 1
            if byte == 0x75:
                if end - at <= 4 or hex4(data, at, end) < 0:
                    return UNSURE, at
                at += 4
            elif byte not in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
                return UNSURE, at
    return UNTERMINATED, quote


@inlined
def _number(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """Reads a number, and leaves what is behind the longest one that there is."""
    at = start
    if byte_at(data, at) == 0x2D:
        at += 1
        if at < end and byte_at(data, at) == 0x49:
            return UNSURE, at
    first = at
    if at >= end or not 0x30 <= byte_at(data, at) <= 0x39:
        return EXPECTING_VALUE, start
    at = at + 1 if byte_at(data, at) == 0x30 else behind_digits(data, at, end)
    if end - at > 1 and byte_at(data, at) == 0x2E and 0x30 <= byte_at(data, at + 1) <= 0x39:
        at = behind_digits(data, at + 1, end)
    if at - first > _MOST_DIGITS:
        return UNSURE, at
    if end - at > 1 and byte_at(data, at) | 0x20 == 0x65:
        digits = at + 1
        if end - digits > 1 and (byte_at(data, digits) == 0x2B or byte_at(data, digits) == 0x2D):
            digits += 1
        behind = behind_digits(data, digits, end)
        if behind - digits > _MOST_EXPONENT_DIGITS:
            return UNSURE, at
        if behind > digits:
            at = behind
    return _NONE, at


@inlined
def _scalar(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a value without parts."""
    byte = byte_at(data, at)
    if byte == 0x22:
        return _string(data, at, end)
    if byte in (0x4E, 0x49):  # NaN, Infinity
        return UNSURE, at
    if byte not in (0x6E, 0x74, 0x66):
        return _number(data, at, end)
    size = 5 if byte == 0x66 else 4
    if end - at < size:
        return EXPECTING_VALUE, at
    word = 0
    for i in range(1, size):
        word = word << 8 | byte_at(data, at + i)
    is_word = word == (0x756C6C if byte == 0x6E else 0x727565 if byte == 0x74 else 0x616C7365)
    return (_NONE, at + size) if is_word else (EXPECTING_VALUE, at)


@inlined
def _name(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads the name of a member and the colon behind it, up to the value."""
    if at >= end or byte_at(data, at) != 0x22:
        return EXPECTING_NAME, at
    code, at = _string(data, at, end)
    if code != _NONE:
        return code, at
    at = behind_space(data, at, end)
    if at >= end or byte_at(data, at) != 0x3A:
        return EXPECTING_COLON, at
    return _NONE, behind_space(data, at + 1, end)


@inlined
def _open(data: Bytes, at: int, end: int, stack: Ints, top: int) -> tuple[int, int, int]:
    """Steps into an object or array, to its first value, or behind an empty one: code, place, top."""
    kind = _OBJECT if byte_at(data, at) == 0x7B else _ARRAY
    if top >= len(stack):
        return UNSURE, at, top
    at = behind_space(data, at + 1, end)
    if at < end and byte_at(data, at) == (0x7D if kind == _OBJECT else 0x5D):
        return _NONE, at + 1, top
    stack[top] = kind
    if kind == _ARRAY:
        return _NONE, at, top + 1
    code, at = _name(data, at, end)
    return code, at, top + 1


@inlined
def _next(data: Bytes, at: int, end: int, stack: Ints, top: int) -> tuple[int, int, int]:
    """Steps from behind a value to the next one, out of what ends before it: code, place, top."""
    while top > 0:
        at = behind_space(data, at, end)
        if at >= end:
            return EXPECTING_COMMA, at, top
        kind, byte = stack[top - 1], byte_at(data, at)
        close = 0x7D if kind == _OBJECT else 0x5D
        if byte == 0x2C:
            at = behind_space(data, at + 1, end)
            if at < end and byte_at(data, at) == close:
                return UNSURE, at, top
            code = _NONE
            if kind == _OBJECT:
                code, at = _name(data, at, end)
            return code, at, top
        if byte != close:
            return EXPECTING_COMMA, at, top
        top, at = top - 1, at + 1
    at = behind_space(data, at, end)
    return (UNSURE if at == end else EXTRA_DATA), at, top


@inlined
def _fault(data: Bytes, at: int, end: int, stack: Ints) -> tuple[int, int]:
    """Returns the code of the fault of a text, and its place."""
    top = 0
    at = behind_space(data, at, end)
    while True:
        if at >= end:
            return EXPECTING_VALUE, at
        known = top
        if byte_at(data, at) in (0x7B, 0x5B):
            code, at, top = _open(data, at, end, stack, top)
        else:
            code, at = _scalar(data, at, end)
        if code == _NONE and top == known:
            code, at, top = _next(data, at, end, stack, top)
        if code != _NONE:
            return code, at


@inlined
def _write(target: Bytes, at: int, words: Bytes, bounds: Ints, word: int) -> int:
    """Writes a word; returns the place behind it."""
    start, length = bounds[word], bounds[word + 1] - bounds[word]
    copy_bytes(target, at, words, start, length)
    return at + length


@inlined
def _write_number(target: Bytes, at: int, number: int) -> int:
    """Writes the digits of a number that is not negative; returns the place behind them."""
    size, left = 1, number // 10
    while left > 0:
        size, left = size + 1, left // 10
    for i in range(size - 1, -1, -1):
        target[at + i] = 0x30 + number % 10
        number //= 10
    return at + size


@inlined
def _write_place(data: Bytes, start: int, place: int, target: Bytes, at: int, words: Bytes, bounds: Ints) -> int:
    """Writes line, column and character of a place in a text that begins at `start`, as Python counts them."""
    character, line, column = 0, 1, 1
    for i in range(start, place):
        byte = byte_at(data, i)
        if byte == 0x0A:
            line, column, character = line + 1, 1, character + 1
        elif byte & 0xC0 != 0x80:
            column, character = column + 1, character + 1
    at = _write_number(target, _write(target, at, words, bounds, LINE), line)
    at = _write_number(target, _write(target, at, words, bounds, COLUMN), column)
    at = _write_number(target, _write(target, at, words, bounds, CHARACTER), character)
    return _write(target, at, words, bounds, END)


@kernel(
    READ_BYTES, READ_INTS, READ_INTS, READ_BYTES, READ_INTS, WRITE_INTS, WRITE_BYTES, WRITE_OFFSETS
)  # fmt: skip
def find_faults(
    data: Bytes, offsets: Ints, rows: Ints, words: Bytes, bounds: Ints, stack: Ints, texts: Bytes, ends: Ints
) -> None:
    """Writes what is wrong with the payloads ``data[offsets[row]:offsets[row + 1]]`` into ``texts``, up to ``ends[i]``:
    nothing where it is not sure. ``words`` are in their order, those of codes first, within ``bounds``; texts have room
    for the longest of them and MOST_PLACE_BYTES in each row."""
    to = 0
    ends[0] = 0
    for i in range(len(rows)):
        start, end = offsets[rows[i]], offsets[rows[i] + 1]
        is_sure = is_text(data, start, end)
        if is_sure and _is_mark(data, start, end):
            start += 3
            is_sure = not _is_mark(data, start, end)
        if is_sure:
            code, place = _fault(data, start, end, stack)
            if code != UNSURE:
                to = _write(texts, to, words, bounds, code)
                to = _write_place(data, start, place, texts, to, words, bounds)
        ends[i + 1] = to
