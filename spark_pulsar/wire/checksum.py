"""CRC32C, as Pulsar uses it: over metadataSize + metadata + payload of an entry (wire-protocol 1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def crc32c(data: bytes | npt.NDArray[np.uint8]) -> int:
    """The unsigned checksum of `data`; `crc32c(b"123456789") == 0xe3069283`.

    A part of an array is not copied, which the library's refusal of memoryviews makes unavoidable for bytes.
    """
    checksum: int = google_crc32c.value(data)
    return checksum


def crc32c_of(buffer: bytes, start: int, end: int) -> int:
    """The checksum of a part of `buffer`. The part is copied: the library takes no memoryviews."""
    checksum: int = google_crc32c.value(buffer[start:end])
    return checksum


def topics_hash(topics: Iterable[str]) -> str:
    """The hash of a list of topic names that GET_TOPICS_OF_NAMESPACE and watchers compare (wire-protocol 5.13)."""
    return hash_of_sorted(sorted(topics))


def hash_of_sorted(topics: list[str]) -> str:
    """The same, of names that are in order already."""
    checksum = crc32c(",".join(topics).encode())
    return checksum.to_bytes(4, "little").hex()
