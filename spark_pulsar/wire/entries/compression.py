"""The four codecs, in exactly the framing that official clients use (CMP-1, READ-6).

LZ4 and snappy are raw blocks, zlib a zlib stream, zstd a frame with its content size. cramjam does the work, in brokers
and in the connector; it is imported at the first use, since most brokers never open a payload.

Decompression is bounded by the size that the metadata declare and exact about it: other lengths are corrupt.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

_ZSTD_LEVEL: Final = 3
_MOST_EXPANDING: Final[dict[int, int]] = {LZ4: 255, SNAPPY: 64}
"""Bytes that one byte of a block can become at most; a claim of more is refused before memory is taken."""


def compress(codec: CompressionType.ValueType, payload: bytes | memoryview) -> bytes:
    """Returns the payload as `codec` stores it. The caller sets compression and the exact uncompressed_size in the
    metadata."""
    if codec == NONE:
        return bytes(payload)
    if codec == ZLIB:
        return zlib.compress(payload)
    return bytes(_codec(codec).compress(payload))


def decompress(
    codec: CompressionType.ValueType,
    data: bytes | memoryview,
    uncompressed_size: int,
    limit_bytes: int = MAX_DECOMPRESSED_SIZE_BYTES,
) -> bytes:
    """Returns the payload of exactly `uncompressed_size` bytes; CorruptMessage when it is not that, or more than the
    limit."""
    if codec == NONE:
        return bytes(data)
    if not 0 <= uncompressed_size <= limit_bytes:
        raise CorruptMessage(f"an uncompressed size of {uncompressed_size} bytes is outside 0 to {limit_bytes}")
    if uncompressed_size > len(data) * _MOST_EXPANDING.get(codec, uncompressed_size):
        raise CorruptMessage(f"{len(data)} bytes cannot become {uncompressed_size}")
    if codec == ZLIB:
        return _inflate(data, uncompressed_size)
    decompress_into = _codec(codec).decompress_into
    from cramjam import DecompressionError

    # One byte more than allowed means "too long", where the codec would stop at the end of its output.
    payload = bytearray(uncompressed_size + 1)
    try:
        size = decompress_into(data, payload)
    except DecompressionError as error:
        raise CorruptMessage(f"a {CompressionType.Name(codec)} payload is corrupt: {error}") from None
    if size != uncompressed_size:
        name = CompressionType.Name(codec)
        raise CorruptMessage(f"a {name} payload of {size} bytes where {uncompressed_size} were declared")
    del payload[size:]
    return bytes(payload)


class _Codec(NamedTuple):
    compress: Callable[[bytes | memoryview], Any]
    decompress_into: Callable[[bytes | memoryview, bytearray], int]
    """Returns the size of the payload; raises when its target is too small."""


@cache
def _codec(codec: int) -> _Codec:
    """The codec of a number; CorruptMessage when it is none, as it can come from a newer producer."""
    import cramjam

    if codec == LZ4:
        lz4 = cramjam.lz4
        return _Codec(
            lambda payload: lz4.compress_block(payload, store_size=False),
            lambda data, target: lz4.decompress_block_into(data, target, output_len=len(target)),
        )
    if codec == ZSTD:
        return _Codec(lambda payload: cramjam.zstd.compress(payload, level=_ZSTD_LEVEL), cramjam.zstd.decompress_into)
    if codec == SNAPPY:
        return _Codec(cramjam.snappy.compress_raw, cramjam.snappy.decompress_raw_into)
    raise CorruptMessage(f"compression type {codec} is not known")


def _inflate(data: bytes | memoryview, uncompressed_size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed means "too long"; it is also never 0, which would mean "no limit".
        payload = stream.decompress(data, uncompressed_size + 1)
    except zlib.error as error:
        raise CorruptMessage(f"a ZLIB payload is corrupt: {error}") from None
    if len(payload) != uncompressed_size or not stream.eof or stream.unused_data:
        raise CorruptMessage(f"a ZLIB payload does not hold exactly {uncompressed_size} bytes")
    return payload
