"""Fingerprints of stored entries: enough to notice that another entry has the same id. Offsets import no protobuf."""

from __future__ import annotations

from typing import NamedTuple


class Fingerprint(NamedTuple):
    """Id of an entry, the publish time in its metadata, and the CRC-32C of its metadata and payload as stored."""

    ledger_id: int
    entry_id: int
    publish_time_ms: int
    checksum: int
