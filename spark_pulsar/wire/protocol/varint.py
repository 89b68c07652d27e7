"""Protobuf's variable-length integers, for the places where a message object per value is too dear.

Seven bits a byte, least significant group first, the top bit says that more follow; at most ten bytes. Negative numbers
travel as their 64-bit two's complement, so -1 takes ten bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from spark_pulsar.model.errors import MalformedFrame

MAX_BYTES: Final = 10
_U64: Final = (1 << 64) - 1

LOW: Final[tuple[bytes, ...]] = tuple(bytes((value,)) for value in range(128))
"""The single byte of a value below 128."""

LOW_CONTINUED: Final[tuple[bytes, ...]] = tuple(bytes((value | 128,)) for value in range(128))
"""The first byte of a longer value, by its seven low bits."""

RAMP: Final = bytes(range(256))
"""All bytes in order: the low bytes of consecutive values are a slice of it."""


def encode(number: int) -> bytes:
    """`number`, signed or unsigned 64-bit, as a varint."""
    if 0 <= number < 128:
        return LOW[number]
    number &= _U64
    if number < 1 << 14:
        return bytes((number & 127 | 128, number >> 7))
    if number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


encode_cached = lru_cache(maxsize=4096)(encode)
"""`encode` for numbers that come again and again: ids of producers, consumers, ledgers."""


def decode(buffer: bytes | memoryview, start: int, end: int) -> tuple[int, int]:
    """(unsigned value, position after it). MalformedFrame when it does not end before `end` or is too long."""
    if end - start > 2:  # most numbers have up to three bytes
        byte = buffer[start]
        if byte < 128:
            return byte, start + 1
        second = buffer[start + 1]
        if second < 128:
            return byte - 128 + (second << 7), start + 2
        third = buffer[start + 2]
        if third < 128:
            return byte - 128 + (second - 128 << 7) + (third << 14), start + 3
    value = 0
    shift = 0
    for position in range(start, min(end, start + MAX_BYTES)):
        byte = buffer[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _U64, position + 1
        shift += 7
    raise MalformedFrame("a number is cut off or longer than ten bytes")
