"""Hashes of key columns, equal to those of the official clients."""

from spark_pulsar.wire.columns.kernels.column_kernels import utf8_sequence_size
from spark_pulsar.wire.columns.kernels.compiler import READ_BYTES, READ_INTS, WRITE_INTS, Bytes, Ints, inlined, kernel
from spark_pulsar.wire.columns.kernels.memory import byte_at

_MASK_32 = 0xFFFFFFFF
_MASK_31 = 0x7FFFFFFF
_REPLACEMENT = 0xFFFD
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_BOOST_STEP = (0x9E3779B9, 0x7F4A7C15)
_BOOST_FACTOR = (0xDF442D22, 0xCE4859B9)


@inlined
def code_point(data: Bytes, at: int, size: int) -> int:
    """Returns the character of a valid UTF-8 sequence."""
    if size == 1:
        return byte_at(data, at) & 0x7F
    point = byte_at(data, at) & (0xFF >> (size + 1))
    for i in range(1, size):
        point = point << 6 | byte_at(data, at + i) & 0x3F
    return point


@kernel(READ_BYTES, READ_INTS, WRITE_INTS)
def java_string_hashes(data: Bytes, offsets: Ints, hashes: Ints) -> None:
    """``String.hashCode`` of Java, masked to 31 bits, of each UTF-8 text; bytes that are no UTF-8 count as U+FFFD."""
    for i in range(len(hashes)):
        at, end = offsets[i], offsets[i + 1]
        value = 0
        while at < end:
            size = utf8_sequence_size(data, at, end)
            if size == 0:
                point, size = _REPLACEMENT, 1
            else:
                point = code_point(data, at, size)
            if point > 0xFFFF:
                point -= 0x10000
                value = (31 * value + (0xD800 | point >> 10)) & _MASK_32
                point = 0xDC00 | point & 0x3FF
            value = (31 * value + point) & _MASK_32
            at += size
        hashes[i] = value & _MASK_31


@inlined
def rotate_left(value: int, bits: int) -> int:
    """Rotates a 32-bit number."""
    return (value << bits | value >> (32 - bits)) & _MASK_32


@inlined
def scramble(word: int) -> int:
    """Murmur3's treatment of one input word."""
    return rotate_left(word * _C1 & _MASK_32, 15) * _C2 & _MASK_32


@inlined
def word_32(data: Bytes, at: int) -> int:
    """Returns four bytes as an unsigned number, little end first."""
    low = byte_at(data, at) | byte_at(data, at + 1) << 8
    return low | byte_at(data, at + 2) << 16 | byte_at(data, at + 3) << 24


@inlined
def murmur3_32(data: Bytes, at: int, length: int) -> int:
    """MurmurHash3 x86 32-bit with seed 0."""
    value = 0
    tail = at + (length & ~3)
    while at < tail:
        value = (rotate_left(value ^ scramble(word_32(data, at)), 13) * 5 + 0xE6546B64) & _MASK_32
        at += 4
    word = 0
    for i in range(length & 3):
        word |= (byte_at(data, tail + i)) << 8 * i
    value ^= scramble(word)  # scramble(0) is 0: nothing changes without a tail
    value ^= length & _MASK_32
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK_32
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK_32
    return value ^ value >> 16


@kernel(READ_BYTES, READ_INTS, WRITE_INTS)
def murmur3_32_hashes(data: Bytes, offsets: Ints, hashes: Ints) -> None:
    """Murmur3_32 with seed 0, masked to 31 bits, of each item."""
    for i in range(len(hashes)):
        hashes[i] = murmur3_32(data, offsets[i], offsets[i + 1] - offsets[i]) & _MASK_31


@inlined
def add_64(high: int, low: int, other: tuple[int, int]) -> tuple[int, int]:
    """Adds two unsigned 64-bit numbers, each two halves, and drops what passes 64 bits."""
    total = low + other[1]
    return (high + other[0] + (total >> 32)) & _MASK_32, total & _MASK_32


@inlined
def multiply_fold(high: int, low: int) -> tuple[int, int]:
    """Multiplies by Boost's factor: the lower 64 bits of the product, XOR the upper ones, as two halves.

    No sum passes 64 bits, so that it is right in signed numbers that wrap and in Python's.
    """
    product = low * _BOOST_FACTOR[1]
    bits_0 = product & _MASK_32
    product = high * _BOOST_FACTOR[1] + (product >> 32 & _MASK_32)
    carry = product >> 32 & _MASK_32
    product = low * _BOOST_FACTOR[0] + (product & _MASK_32)
    bits_32 = product & _MASK_32
    product = high * _BOOST_FACTOR[0] + carry + (product >> 32 & _MASK_32)
    return bits_32 ^ (product >> 32 & _MASK_32), bits_0 ^ (product & _MASK_32)


@inlined
def last_word(data: Bytes, at: int, size: int) -> tuple[int, int]:
    """Returns the last 0 to 7 bytes of a text as Boost reads them, which is little end first."""
    high, low = 0, 0
    for i in range(size):
        if i < 4:
            low |= byte_at(data, at + i) << 8 * i
        else:
            high |= byte_at(data, at + i) << 8 * (i - 4)
    return high, low


@inlined
def boost_hash(data: Bytes, at: int, length: int) -> int:
    """Hash of a string in Boost 1.81 and later on 64 bits, masked to 31."""
    step_high, step_low = multiply_fold(_BOOST_STEP[0], _BOOST_STEP[1])
    high, low = step_high, step_low ^ length
    tail = at + (length & ~7)
    while True:
        word = (word_32(data, at + 4), word_32(data, at)) if at < tail else last_word(data, at, length & 7)
        step_high, step_low = add_64(step_high, step_low, _BOOST_STEP)
        part_high, part_low = add_64(step_high, step_low, word)
        part_high, part_low = multiply_fold(part_high, part_low)
        high, low = high ^ part_high, low ^ part_low
        if at >= tail:
            break
        at += 8
    high, low = add_64(high, low, (step_high, step_low))
    return multiply_fold(high, low)[1] & _MASK_31


@kernel(READ_BYTES, READ_INTS, WRITE_INTS)
def boost_hashes(data: Bytes, offsets: Ints, hashes: Ints) -> None:
    """BoostHash of the C++ client and those around it, built with Boost 1.81 or later, masked to 31 bits."""
    for i in range(len(hashes)):
        hashes[i] = boost_hash(data, offsets[i], offsets[i + 1] - offsets[i])
