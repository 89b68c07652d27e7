"""Protobuf's smallest parts, for kernels: variable-length integers, tags, fields.

Readers answer with the position after what they read, or with a negative code of ``layout`` instead of a position.
They accept what protobuf's own parsers accept (also integers written longer than needed), except groups, which the
protocol never used.
"""

from spark_pulsar.wire.columns.kernels.compiler import Bytes, inlined
from spark_pulsar.wire.columns.kernels.layout import BAD_LENGTH, BAD_TAG, BAD_VARINT, MIN_INT64, TRUNCATED
from spark_pulsar.wire.columns.kernels.memory import byte_at

_LONGEST_32_BIT_VARINT = 5
_LARGEST_UINT32 = 0xFFFFFFFF


@inlined
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads one integer of up to 64 bits (as two's complement); returns it and the position behind it."""
    if at >= end:
        return 0, BAD_VARINT
    byte = byte_at(data, at)
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if at >= end or shift > 63:
            return 0, BAD_VARINT
        byte = byte_at(data, at)
        at += 1
        if shift < 63:
            value |= (byte & 0x7F) << shift
        elif byte & 1:  # the 64th bit is the sign; protobuf drops the bits above it
            value += MIN_INT64
        shift += 7
    return value, at


@inlined
def read_length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads the length of a delimited field; returns it and the position of its first byte. It ends within ``end``."""
    if at >= end:
        return 0, BAD_VARINT
    byte = byte_at(data, at)
    if byte < 0x80:
        if byte > end - at - 1:
            return 0, BAD_LENGTH
        return byte, at + 1
    length, after = read_varint(data, at, end)
    if after < 0:
        return 0, after
    if after - at > _LONGEST_32_BIT_VARINT or length < 0 or length > end - after:
        return 0, BAD_LENGTH
    return length, after


@inlined
def read_field(data: Bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Reads one field: (tag, value, start, position behind it).

    ``value`` is the number of a varint field or the length of a delimited one, whose bytes begin at ``start``;
    fields of fixed width are stepped over with value 0.
    """
    tag, after = byte_at(data, at), at + 1
    if tag >= 0x80:
        tag, after = read_varint(data, at, end)
        if after < 0:
            return 0, 0, 0, after
        if after - at > _LONGEST_32_BIT_VARINT or tag > _LARGEST_UINT32:
            return 0, 0, 0, BAD_TAG
    if tag < 8:
        return 0, 0, 0, BAD_TAG
    wire_type = tag & 7
    if wire_type == 0:
        value, behind = read_varint(data, after, end)
        return tag, value, after, behind
    if wire_type == 2:
        length, start = read_length(data, after, end)
        if start < 0:
            return 0, 0, 0, start
        return tag, length, start, start + length
    width = 8 if wire_type == 1 else 4
    if wire_type != 1 and wire_type != 5:
        return 0, 0, 0, BAD_TAG
    if width > end - after:
        return 0, 0, 0, TRUNCATED
    return tag, 0, after, after + width


@inlined
def read_uint32(data: Bytes, at: int) -> int:
    """Reads four big-endian bytes, which must be there."""
    high = byte_at(data, at) << 24 | byte_at(data, at + 1) << 16
    return high | byte_at(data, at + 2) << 8 | byte_at(data, at + 3)


@inlined
def as_int32(value: int) -> int:
    """Returns an integer as an int32 field holds it: the lowest 32 bits, signed."""
    low = value & _LARGEST_UINT32
    return low - (1 << 32) if low >= 1 << 31 else low


@inlined
def varint_size(value: int) -> int:
    """Bytes that ``write_varint`` takes: 1 to 10 (10 for negative numbers)."""
    if value < 0:
        return 10
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@inlined
def write_varint(target: Bytes, at: int, value: int) -> int:
    """Writes an integer in its shortest form, negative ones as 64-bit two's complement; returns the place behind it."""
    if value < 0:
        low = value - MIN_INT64  # the lower 63 bits
        for _ in range(9):
            target[at] = low & 0x7F | 0x80
            low >>= 7
            at += 1
        target[at] = 1
        return at + 1
    while value >= 0x80:
        target[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    target[at] = value
    return at + 1
