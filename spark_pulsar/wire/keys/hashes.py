"""Hashes of keys, by which a Key_Shared subscription chooses a consumer (KS-3), and of lists of topic names.

The hashes by which a producer chooses a partition are kernels; see `columns.hashes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import mmh3
from crc32c import crc32c

MASK: Final = 0x7FFFFFFF
"""Official clients use 31 bits, so that a Java int is never negative."""

STICKY_HASHES: Final = 65536
"""Sticky hashes of a Key_Shared subscription."""


def murmur3_32(key: bytes) -> int:
    """Murmur3_32Hash of every client: MurmurHash3 x86 32-bit with seed 0, masked."""
    value: int = mmh3.hash(key, 0, signed=False)
    return value & MASK


def range_hash(key_hash: int) -> int:
    """Returns the sticky hash of AUTO_SPLIT by ranges and of STICKY in 4.x, of a masked Murmur hash; 0 becomes 1."""
    return key_hash % STICKY_HASHES or 1


def ring_hash(key_hash: int) -> int:
    """Returns the sticky hash on the ring of consistent hashing in 4.x, 1 to 65535, of a masked Murmur hash."""
    return key_hash % (STICKY_HASHES - 1) + 1


def topics_hash(topics: Iterable[str]) -> str:
    """Hashes a list of topic names, as GET_TOPICS_OF_NAMESPACE and watchers compare it (A20)."""
    return hash_of_sorted(sorted(topics))


def hash_of_sorted(topics: list[str]) -> str:
    """Hashes topic names that are in order already; see `topics_hash`."""
    return crc32c(",".join(topics).encode()).to_bytes(4, "little").hex()


class TopicsHash:
    """A hash of topic names that come piece by piece, in order; see `topics_hash`."""

    __slots__ = ("_crc", "_is_empty")

    def __init__(self) -> None:
        self._crc = 0
        self._is_empty = True

    def add(self, topics: list[str]) -> None:
        """Adds the next names."""
        if topics:
            text = ",".join(topics) if self._is_empty else f",{','.join(topics)}"
            self._crc = crc32c(text.encode(), self._crc)
            self._is_empty = False

    def text(self) -> str:
        """Returns the hash of all names so far."""
        return self._crc.to_bytes(4, "little").hex()
