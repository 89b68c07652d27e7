"""Kernel that counts the bytes an LZ4 block unpacks to, without unpacking it: the decoder in use does not report it."""

from spark_pulsar.wire.columns.kernels.compiler import READ_BYTES, Bytes, inlined, kernel
from spark_pulsar.wire.columns.kernels.layout import BAD_LENGTH, TRUNCATED
from spark_pulsar.wire.columns.kernels.memory import byte_at

_RUN = 15
_SHORTEST_MATCH = 4


@inlined
def read_run(data: Bytes, at: int, nibble: int) -> tuple[int, int]:
    """Returns a length that begins as a nibble and goes on, when that is full, in bytes; (length, place behind) or a
    code."""
    length = nibble
    if nibble == _RUN:
        byte = 0xFF
        while byte == 0xFF:
            if at >= len(data):
                return 0, TRUNCATED
            byte = byte_at(data, at)
            length += byte
            at += 1
    return length, at


@kernel(READ_BYTES)
def lz4_block_size(data: Bytes) -> int:
    """Returns the bytes that a raw LZ4 block unpacks to, or a negative code. Does not check the offsets of matches."""
    at, size = 0, 0
    while at < len(data):
        token = byte_at(data, at)
        literals, at = read_run(data, at + 1, token >> 4)
        if at < 0:
            return at
        if literals > len(data) - at:
            return BAD_LENGTH
        size += literals
        at += literals
        if at == len(data):
            return size
        if len(data) - at < 2:
            return TRUNCATED
        match, at = read_run(data, at + 2, token & 0xF)
        if at < 0:
            return at
        size += match + _SHORTEST_MATCH
    return size
