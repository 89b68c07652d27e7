"""Decompression of payloads: the declared size is the sender's word, so it is bounded, and exact or refused.

``wire.compression`` does the work. Only LZ4, the codec of most topics, is unpacked here: its true size, which a block
does not tell, is computed by a kernel in a fraction of the time that the general check takes.
"""

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.columns.kernels.inflate_kernels import lz4_block_size
from spark_pulsar.wire.compression import decompress
from spark_pulsar.wire.pulsar_api_pb2 import LZ4


@functools.cache
def _lz4() -> Any:
    return pa.Codec("lz4_raw")


def inflate(codec: int, data: memoryview, size: int) -> Any:
    """Returns the payload before compression: exactly ``size`` bytes (a buffer), as the metadata declared.

    :param codec: CompressionType, any number but NONE
    :raises CorruptMessage: unknown codec, damaged data, another size, or more than MAX_DECOMPRESSED_SIZE_BYTES
    """
    if not len(data):
        raise CorruptMessage("it is marked compressed but has no payload; even nothing compresses to something")
    if codec != LZ4:
        return decompress(codec, data, size)  # type: ignore[arg-type]
    if size > MAX_DECOMPRESSED_SIZE_BYTES:
        raise CorruptMessage(f"the declared {size} bytes are above the limit of {MAX_DECOMPRESSED_SIZE_BYTES}")
    # Without this check the decoder would leave the end of its output as it finds it in memory.
    if lz4_block_size(np.frombuffer(data, np.uint8)) != size:
        raise CorruptMessage(f"the LZ4 block does not unpack to the declared {size} bytes")
    try:
        return _lz4().decompress(data, size)
    except (OSError, pa.ArrowInvalid) as damaged:
        raise CorruptMessage(f"the LZ4 block is damaged: {damaged}") from damaged
