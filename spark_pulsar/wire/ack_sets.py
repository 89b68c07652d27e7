"""Batch bitmaps: a Python int in here, 64-bit signed words on the wire (wire-protocol 5.7).

Bit i stands for batch index i. 1 = not acked (in MESSAGE: deliver it), 0 = acked (skip it).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_pulsar.model.ids import signed, unsigned

_WORD = (1 << 64) - 1


def words(mask: int) -> list[int]:
    """The bitmap as signed 64-bit words, least significant first, without trailing zero words (so 0 gives none)."""
    out: list[int] = []
    while mask:
        out.append(signed(mask & _WORD))
        mask >>= 64
    return out


def mask(words: Iterable[int]) -> int:
    """The bitmap that signed 64-bit `words` stand for."""
    value = 0
    for index, word in enumerate(words):
        value |= unsigned(word) << (64 * index)
    return value


def full(batch_size: int) -> int:
    """Nothing of a batch of `batch_size` is acked yet."""
    return (1 << batch_size) - 1


def from_index(batch_index: int, batch_size: int) -> int:
    """Indexes `batch_index` and later are not acked: what a seek into a batch asks for (wire-protocol 5.9)."""
    return full(batch_size) & ~full(batch_index)


def indexes(mask: int) -> Iterator[int]:
    """The indexes whose bit is set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
