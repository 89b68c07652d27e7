"""Batch bitmaps: a Python int in here, 64-bit signed words on the wire (CUR-3, ACK-9). A cursor ANDs them, so that acks
inside a batch add up and the last one is that of the batch (`Cursor.acknowledge_batch`, A8, BAT-5).

Bit i stands for batch index i. 1 = not acked (in MESSAGE: deliver it), 0 = acked (skip it). Both ways take time that
grows with the length alone: a peer may send half a million words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from spark_pulsar.model.positions.ids import unsigned


def words(mask: int) -> list[int]:
    """Returns the bitmap as signed 64-bit words, least significant first, without trailing zero words (so 0 gives
    none)."""
    count = -(-mask.bit_length() // 64)
    return list(struct.unpack(f"<{count}q", mask.to_bytes(8 * count, "little")))


def mask(words: Iterable[int]) -> int:
    """Returns the bitmap that signed 64-bit `words` stand for."""
    values = [unsigned(word) for word in words]
    return int.from_bytes(struct.pack(f"<{len(values)}Q", *values), "little")


def full(batch_size: int) -> int:
    """Nothing of a batch of `batch_size` is acked yet."""
    return (1 << batch_size) - 1


def from_index(batch_index: int, batch_size: int) -> int:
    """Indexes `batch_index` and later are not acked: what a seek into a batch requires (CUR-11)."""
    return full(batch_size) & ~full(batch_index)


def indexes(mask: int) -> Iterator[int]:
    """Yields the indexes whose bit is set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
