"""Decompression of payloads whose declared size is the sender's word: bounded, and exact or refused.

The decoders for LZ4 and SNAPPY would leave the end of their output uninitialised when a payload unpacks to less than
declared, so the true size is computed first.
"""

import functools
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.columns.kernels.inflate_kernels import lz4_block_size

NONE, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
"""Numbers of CompressionType on the wire."""

_CODEC_NAMES = {LZ4: "lz4_raw", ZSTD: "zstd", SNAPPY: "snappy"}


@functools.cache
def _codec(number: int) -> Any:
    return pa.Codec(_CODEC_NAMES[number])


def _snappy_size(data: npt.NDArray[np.uint8]) -> int:
    """The size that a raw snappy block announces in front, or -1."""
    size = 0
    for i, byte in enumerate(data[:5].tobytes()):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return size
    return -1


def _inflate_zlib(data: npt.NDArray[np.uint8], size: int) -> bytes:
    stream = zlib.decompressobj()
    # One byte more than wanted shows that there is more, and bounds what a hostile stream may unpack.
    unpacked = stream.decompress(data.data, size + 1)
    if len(unpacked) != size or not stream.eof:
        raise CorruptMessage(f"the zlib stream does not unpack to the declared {size} bytes")
    return unpacked


def inflate(codec: int, data: npt.NDArray[np.uint8], size: int) -> Any:
    """The payload before compression: exactly ``size`` bytes (a buffer), as the metadata declared.

    :raises CorruptMessage: unknown codec, damaged data, another size, or more than MAX_DECOMPRESSED_SIZE_BYTES
    """
    if size > MAX_DECOMPRESSED_SIZE_BYTES:
        raise CorruptMessage(f"the declared {size} bytes are above the limit of {MAX_DECOMPRESSED_SIZE_BYTES}")
    if codec not in (LZ4, ZLIB, ZSTD, SNAPPY):
        raise CorruptMessage(f"compression {codec} is unknown")
    if size == len(data) == 0:
        return b""
    try:
        if codec == ZLIB:
            return _inflate_zlib(data, size)
        true_size = size
        if codec == LZ4:
            true_size = lz4_block_size(data)
        elif codec == SNAPPY:
            true_size = _snappy_size(data)
        if true_size != size:
            raise CorruptMessage(f"it does not unpack to the declared {size} bytes")
        return _codec(codec).decompress(pa.py_buffer(data), size)
    except (OSError, pa.ArrowInvalid, zlib.error) as damaged:
        raise CorruptMessage(f"its compressed payload is damaged: {damaged}") from damaged
