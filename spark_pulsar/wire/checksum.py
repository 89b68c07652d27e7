"""CRC32C, as Pulsar uses it: over metadataSize + metadata + payload of an entry (wire-protocol 1.2)."""

from __future__ import annotations

from typing import Final

import google_crc32c

_VIEW_FROM_BYTES: Final = 8192


def crc32c(data: bytes | memoryview) -> int:
    """The unsigned checksum of `data`; `crc32c(b"123456789") == 0xe3069283`."""
    checksum: int = google_crc32c.value(data)
    return checksum


def crc32c_of(buffer: bytes, start: int, end: int) -> int:
    """The checksum of a part of `buffer`. A short part is copied, which is cheaper than a view of it."""
    part: bytes | memoryview = buffer[start:end] if end - start < _VIEW_FROM_BYTES else memoryview(buffer)[start:end]
    checksum: int = google_crc32c.value(part)
    return checksum
