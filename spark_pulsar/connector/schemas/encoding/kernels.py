"""Kernels that encode columns as Avro and JSON: first the size of each row's part, then its bytes at the row's place.

A part of a nullable field begins with the branch of its union, one byte (`null_code` or `value_code`); -1 for
`value_code` says that the field is no union, and that no row is null. Parts are written at `cursors`, which move on.
"""

import numpy as np

from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    WRITE_BYTES,
    WRITE_INTS,
    Bytes,
    Ints,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.memory import byte_at, copy_bytes
from spark_pulsar.wire.columns.kernels.varints import varint_size, write_varint

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_QUOTE = 0x22
_BACKSLASH = 0x5C
_SHORT_ESCAPES = np.zeros(32, np.uint8)
_SHORT_ESCAPES[8], _SHORT_ESCAPES[9], _SHORT_ESCAPES[10] = ord("b"), ord("t"), ord("n")
_SHORT_ESCAPES[12], _SHORT_ESCAPES[13] = ord("f"), ord("r")
_DECIMAL_BYTES = 16


@inlined
def _zigzag(value: int) -> int:
    """Maps an integer to one of the same 64 bits whose small values are those near zero."""
    return (value << 1) ^ (value >> 63)


@inlined
def is_null(valid: Bytes, row: int) -> bool:
    """Returns whether a row is null; an empty array says that none is."""
    return len(valid) > 0 and valid[row] == 0


@inlined
def _begin_part(valid: Bytes, row: int, null_code: int, value_code: int, cursors: Ints, target: Bytes) -> int:
    """Writes the branch of a row's union; returns the place of its value, -1 for a null, which has none."""
    at = cursors[row]
    if is_null(valid, row):
        target[at] = null_code
        cursors[row] = at + 1
        return -1
    if value_code >= 0:
        target[at] = value_code
        at += 1
    return at


@kernel(READ_INTS, READ_BYTES, INT, WRITE_INTS)
def size_longs(values: Ints, valid: Bytes, value_code: int, sizes: Ints) -> None:
    """Adds the size of each row's int or long."""
    branch = 0 if value_code < 0 else 1
    for row in range(len(values)):
        sizes[row] += branch
        if not is_null(valid, row):
            sizes[row] += varint_size(_zigzag(values[row]))


@kernel(READ_INTS, READ_BYTES, INT, INT, WRITE_INTS, WRITE_BYTES)
def put_longs(values: Ints, valid: Bytes, null_code: int, value_code: int, cursors: Ints, target: Bytes) -> None:
    """Writes each row's int or long."""
    for row in range(len(values)):
        at = _begin_part(valid, row, null_code, value_code, cursors, target)
        if at < 0:
            continue
        cursors[row] = write_varint(target, at, _zigzag(values[row]))


@kernel(READ_INTS, READ_BYTES, INT, INT, WRITE_INTS)
def size_items(offsets: Ints, valid: Bytes, has_length: int, value_code: int, sizes: Ints) -> None:
    """Adds the size of each row's item, with its length before it where `has_length` is 1."""
    branch = 0 if value_code < 0 else 1
    for row in range(len(offsets) - 1):
        sizes[row] += branch
        if not is_null(valid, row):
            length = offsets[row + 1] - offsets[row]
            sizes[row] += length
            if has_length:
                sizes[row] += varint_size(_zigzag(length))


@kernel(READ_BYTES, READ_INTS, READ_BYTES, INT, INT, INT, WRITE_INTS, WRITE_BYTES)
def put_items(
    data: Bytes,
    offsets: Ints,
    valid: Bytes,
    has_length: int,
    null_code: int,
    value_code: int,
    cursors: Ints,
    target: Bytes,
) -> None:
    """Writes each row's item."""
    for row in range(len(offsets) - 1):
        at = _begin_part(valid, row, null_code, value_code, cursors, target)
        if at < 0:
            continue
        length = offsets[row + 1] - offsets[row]
        if has_length:
            at = write_varint(target, at, _zigzag(length))
        copy_bytes(target, at, data, offsets[row], length)
        cursors[row] = at + length


@kernel(READ_INTS, READ_INTS, READ_BYTES, INT, WRITE_INTS)
def size_blocks(firsts: Ints, offsets: Ints, valid: Bytes, value_code: int, sizes: Ints) -> None:
    """Adds the size of each row's array: items `firsts[row]` to `firsts[row + 1]` as one block, and the end."""
    branch = 0 if value_code < 0 else 1
    for row in range(len(firsts) - 1):
        sizes[row] += branch
        if not is_null(valid, row):
            first, end = firsts[row], firsts[row + 1]
            sizes[row] += 1
            if end > first:
                sizes[row] += varint_size(_zigzag(end - first)) + offsets[end] - offsets[first]


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_BYTES, INT, INT, WRITE_INTS, WRITE_BYTES)
def put_blocks(
    data: Bytes,
    firsts: Ints,
    offsets: Ints,
    valid: Bytes,
    null_code: int,
    value_code: int,
    cursors: Ints,
    target: Bytes,
) -> None:
    """Writes each row's array, or map."""
    for row in range(len(firsts) - 1):
        at = _begin_part(valid, row, null_code, value_code, cursors, target)
        if at < 0:
            continue
        first, end = firsts[row], firsts[row + 1]
        if end > first:
            at = write_varint(target, at, _zigzag(end - first))
            length = offsets[end] - offsets[first]
            copy_bytes(target, at, data, offsets[first], length)
            at += length
        target[at] = 0
        cursors[row] = at + 1


@kernel(READ_BYTES, INT, WRITE_INTS)
def size_decimals(data: Bytes, first: int, lengths: Ints) -> None:
    """Sets the least bytes that hold each row's unscaled value, two's complement; `data` are Arrow's 128-bit ones."""
    for row in range(len(lengths)):
        start = (first + row) * _DECIMAL_BYTES
        length = _DECIMAL_BYTES
        sign = 0xFF if byte_at(data, start + _DECIMAL_BYTES - 1) >= 0x80 else 0
        while (
            length > 1
            and byte_at(data, start + length - 1) == sign
            and (byte_at(data, start + length - 2) >= 0x80) == (sign != 0)
        ):
            length -= 1
        lengths[row] = length


@kernel(READ_BYTES, INT, READ_INTS, WRITE_BYTES)
def put_decimals(data: Bytes, first: int, offsets: Ints, target: Bytes) -> None:
    """Writes each row's unscaled value, big end first."""
    for row in range(len(offsets) - 1):
        start = (first + row) * _DECIMAL_BYTES
        length = offsets[row + 1] - offsets[row]
        for place in range(length):
            target[offsets[row] + place] = byte_at(data, start + length - 1 - place)


@inlined
def _escaped_size(byte: int) -> int:
    if byte >= 32:
        return 2 if byte in (_QUOTE, _BACKSLASH) else 1
    return 2 if _SHORT_ESCAPES[byte] else 6


@kernel(READ_BYTES, READ_INTS, READ_BYTES, WRITE_INTS)
def size_texts(data: Bytes, offsets: Ints, valid: Bytes, lengths: Ints) -> None:
    """Sets the length of each row's text as JSON, quotes included; 0 for a null."""
    for row in range(len(offsets) - 1):
        length = 0
        if not is_null(valid, row):
            length = 2
            for at in range(offsets[row], offsets[row + 1]):
                length += _escaped_size(byte_at(data, at))
        lengths[row] = length


@inlined
def put_text(target: Bytes, at: int, end: int, data: Bytes, first: int, stop: int) -> None:
    """Writes a text as JSON between two places, as many bytes as it takes there."""
    target[at] = _QUOTE
    at += 1
    if end - at - 1 == stop - first:  # nothing to escape
        copy_bytes(target, at, data, first, stop - first)
    else:
        for place in range(first, stop):
            byte = byte_at(data, place)
            size = _escaped_size(byte)
            if size == 1:
                target[at] = byte
            else:
                target[at] = _BACKSLASH
                if size == 2:
                    target[at + 1] = byte if byte >= 32 else _SHORT_ESCAPES[byte]
                else:
                    target[at + 1] = 0x75
                    target[at + 2] = 0x30
                    target[at + 3] = 0x30
                    target[at + 4] = _HEX[byte >> 4]
                    target[at + 5] = _HEX[byte & 15]
            at += size
    target[end - 1] = _QUOTE


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_BYTES)
def put_texts(data: Bytes, offsets: Ints, text_offsets: Ints, target: Bytes) -> None:
    """Writes each row's text as JSON."""
    for row in range(len(offsets) - 1):
        if text_offsets[row] < text_offsets[row + 1]:
            put_text(target, text_offsets[row], text_offsets[row + 1], data, offsets[row], offsets[row + 1])


@kernel(READ_INTS, READ_BYTES, INT, WRITE_INTS)
def size_members(offsets: Ints, valid: Bytes, name_length: int, sizes: Ints) -> None:
    """Adds the size of each row's member of an object: comma, name and value; nothing for a null."""
    for row in range(len(offsets) - 1):
        if not is_null(valid, row):
            sizes[row] += name_length + offsets[row + 1] - offsets[row]


@kernel(READ_BYTES, READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, WRITE_INTS, WRITE_BYTES)
def put_members(
    data: Bytes, offsets: Ints, valid: Bytes, name: Bytes, starts: Ints, cursors: Ints, target: Bytes
) -> None:
    """Writes each row's member; `name` begins with the comma, which the first member of a row (at `starts`) lacks."""
    for row in range(len(offsets) - 1):
        if is_null(valid, row):
            continue
        at = cursors[row]
        skipped = 1 if at == starts[row] else 0
        copy_bytes(target, at, name, skipped, len(name) - skipped)
        at += len(name) - skipped
        length = offsets[row + 1] - offsets[row]
        copy_bytes(target, at, data, offsets[row], length)
        cursors[row] = at + length


@kernel(READ_INTS, READ_INTS, READ_BYTES, WRITE_INTS)
def size_arrays(firsts: Ints, offsets: Ints, valid: Bytes, lengths: Ints) -> None:
    """Sets the length of each row's JSON array or map: brackets, items, commas; 0 for a null."""
    for row in range(len(firsts) - 1):
        first, end = firsts[row], firsts[row + 1]
        lengths[row] = 0
        if not is_null(valid, row):
            lengths[row] = 2 + offsets[end] - offsets[first] + max(0, end - first - 1)


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_INTS, INT, INT, WRITE_BYTES)
def put_arrays(
    data: Bytes, firsts: Ints, offsets: Ints, text_offsets: Ints, opening: int, closing: int, target: Bytes
) -> None:
    """Writes each row's JSON array or map."""
    for row in range(len(firsts) - 1):
        at = text_offsets[row]
        if at == text_offsets[row + 1]:
            continue
        target[at] = opening
        at += 1
        for item in range(firsts[row], firsts[row + 1]):
            if item > firsts[row]:
                target[at] = 0x2C
                at += 1
            length = offsets[item + 1] - offsets[item]
            copy_bytes(target, at, data, offsets[item], length)
            at += length
        target[at] = closing
