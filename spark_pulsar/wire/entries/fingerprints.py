"""Fingerprints of the entries of a block, as they are stored."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, head_of
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

_CHECKSUM_BYTES: Final = 6
"""Magic and checksum in front of the bytes that the checksum is of."""


def fingerprint_of(block: EntryBlock, index: int) -> Fingerprint:
    """Returns the fingerprint of one entry of a block. It excludes the broker's metadata in front of the entry."""
    buffer, start, end = block.buffer, block.starts[index], block.ends[index]
    first, checksum = head_of(buffer, start, end)
    if checksum is None:  # the producer sent none
        checksum = crc32c(buffer[first:end])
    else:
        first += _CHECKSUM_BYTES
    size = int.from_bytes(buffer[first : first + 4], "big")
    try:
        publish_time_ms = MessageMetadata.FromString(buffer[first + 4 : min(first + 4 + size, end)]).publish_time
    except DecodeError:
        publish_time_ms = 0
    return Fingerprint(block.ledger_ids[index], block.entry_ids[index], publish_time_ms, checksum)
