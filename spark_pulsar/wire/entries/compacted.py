"""Compacted entries: the keys that compaction reads, and batches with some messages taken out (CMP-C1 … CMP-C3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spark_pulsar.model.limits import MAX_BROKER_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.entries.compression import compress, decompress
from spark_pulsar.wire.entries.delivery_times import metadata_end
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import NONE, MessageMetadata

NO_BATCH: Final = -1
"""The index of a message that is an entry of its own."""


def is_readable_batch(metadata: MessageMetadata) -> bool:
    """Returns whether the entry is a batch whose messages a broker can read."""
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def unpacked_payload(metadata: MessageMetadata, buffer: bytes, start: int, end: int) -> bytes:
    """Returns the payload of a stored entry whose metadata are these, not compressed any more. CorruptMessage when it
    is not what they say, or too large for a broker to inflate."""
    payload_at = metadata_end(buffer, start, end)
    if metadata.compression == NONE:
        return buffer[payload_at:end]
    data, limit_bytes = memoryview(buffer)[payload_at:end], MAX_BROKER_DECOMPRESSED_SIZE_BYTES
    return decompress(metadata.compression, data, metadata.uncompressed_size, limit_bytes)


def repack_batch(metadata: MessageMetadata, pieces: Iterable[bytes]) -> bytes:
    """Returns the entry of a batch with this content instead of its own; id, order, properties and compression stay."""
    body = b"".join(pieces)
    metadata.uncompressed_size = len(body)
    return build_entry(metadata, compress(metadata.compression, body))
