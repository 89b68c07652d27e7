"""Murmur3 hashes of keys, by which a Key_Shared subscription chooses a consumer (KS-3).

The hashes by which a producer chooses a partition are kernels, BoostHash too (SINK-2, SINK-10): `columns.key_hashes`.
"""

from __future__ import annotations

from typing import Final

import mmh3

MASK: Final = 0x7FFFFFFF
"""Official clients use 31 bits, so that a Java int is never negative."""

STICKY_HASHES: Final = 65536
"""Sticky hashes of a Key_Shared subscription."""


def murmur3_32(key: bytes) -> int:
    """Murmur3_32Hash of every client: MurmurHash3 x86 32-bit with seed 0, masked."""
    value: int = mmh3.hash(key, 0, signed=False)
    return value & MASK


def range_hash(key_hash: int) -> int:
    """Returns the sticky hash of AUTO_SPLIT by ranges and of STICKY in 4.x, of a masked Murmur hash; 0 becomes 1 (KS-4,
    KS-7)."""
    return key_hash % STICKY_HASHES or 1


def ring_hash(key_hash: int) -> int:
    """Returns the sticky hash on the ring of consistent hashing in 4.x, 1 to 65535, of a masked Murmur hash (KS-6)."""
    return key_hash % (STICKY_HASHES - 1) + 1
