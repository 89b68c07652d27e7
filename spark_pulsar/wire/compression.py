"""The four codecs, in exactly the framing that official clients use (wire-protocol 4.3).

LZ4 and snappy are raw blocks, zlib a zlib stream, zstd a frame with its content size. pyarrow does the work and is
imported at the first use: a broker never opens a payload and must not carry it.

Decompression is bounded by the size that the metadata declare and exact about it: other lengths are corrupt. pyarrow
would fill up a short LZ4 or snappy block with whatever lies in memory, hence the extra checks here.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire import varint
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

if TYPE_CHECKING:
    import pyarrow

_ARROW_NAMES: Final[dict[int, str]] = {LZ4: "lz4_raw", ZSTD: "zstd", SNAPPY: "snappy"}
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
    compressed: bytes = _arrow_codec(codec).compress(payload, asbytes=True)
    return compressed


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
    if codec == SNAPPY:
        _check_snappy_size(bytes(data[: varint.MAX_BYTES]), uncompressed_size)
    try:
        payload: bytes = _arrow_codec(codec).decompress(data, uncompressed_size, asbytes=True)
    except (OSError, ValueError) as error:
        raise CorruptMessage(f"a {CompressionType.Name(codec)} payload is corrupt: {error}") from None
    if codec == LZ4:
        _check_lz4_size(data, uncompressed_size)
    return payload


@cache
def _arrow_codec(codec: int) -> pyarrow.Codec:
    """pyarrow's codec; CorruptMessage for a number that is none, as it can come from a newer producer."""
    import pyarrow

    name = _ARROW_NAMES.get(codec)
    if name is None:
        raise CorruptMessage(f"compression type {codec} is not known")
    return pyarrow.Codec(name, compression_level=_ZSTD_LEVEL) if codec == ZSTD else pyarrow.Codec(name)


def _inflate(data: bytes | memoryview, uncompressed_size: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed tells "too long"; it is also never 0, which would mean "no limit".
        payload = stream.decompress(data, uncompressed_size + 1)
    except zlib.error as error:
        raise CorruptMessage(f"a ZLIB payload is corrupt: {error}") from None
    if len(payload) != uncompressed_size or not stream.eof or stream.unused_data:
        raise CorruptMessage(f"a ZLIB payload does not hold exactly {uncompressed_size} bytes")
    return payload


def _check_snappy_size(head: bytes, uncompressed_size: int) -> None:
    """A snappy block begins with its size as a varint."""
    shift = size = 0
    for byte in head[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size != uncompressed_size:
        raise CorruptMessage(f"a SNAPPY payload of {size} bytes where {uncompressed_size} were declared")


def _check_lz4_size(data: bytes | memoryview, uncompressed_size: int) -> None:
    """An LZ4 block does not tell its size, but one that fits into one byte less is shorter than declared."""
    if uncompressed_size == 0:
        return
    try:
        _arrow_codec(LZ4).decompress(data, uncompressed_size - 1)
    except (OSError, ValueError):
        return
    raise CorruptMessage(f"an LZ4 payload is shorter than the declared {uncompressed_size} bytes")
