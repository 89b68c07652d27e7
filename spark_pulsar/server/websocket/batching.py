"""Messages of a producer as entries: single ones, or batches, compressed on request (BAT-1, CMP-1, WS-7)."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType, KeyValue, MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from .producer_messages import OutgoingMessage

COMPRESSION_TYPES: Final = dict(CompressionType.items())
_SIZE: Final = Struct(">I")


def metadata_of(message: OutgoingMessage, now_ms: int) -> MessageMetadata:
    """Returns the metadata of a message, but for its producer and sequence id."""
    metadata = MessageMetadata(publish_time=now_ms, replicate_to=message.replication_clusters)
    metadata.properties.extend(KeyValue(key=key, value=value) for key, value in message.properties.items())
    if message.key is not None:
        metadata.partition_key = message.key
        metadata.partition_key_b64_encoded = False
    if message.event_time_ms is not None:
        metadata.event_time = message.event_time_ms
    if is_delayed(message):
        after = message.deliver_after_ms
        metadata.deliver_at_time = now_ms + after if after > 0 else message.deliver_at_ms
    return metadata


def is_delayed(message: OutgoingMessage) -> bool:
    """Returns whether a message has a time of delivery; it is in no batch then (BAT-4)."""
    return message.deliver_at_ms > 0 or message.deliver_after_ms > 0


def batch_payload(messages: Sequence[OutgoingMessage], first_sequence_id: int) -> bytes:
    """Returns the payload of a batch."""
    pieces: list[bytes] = []
    for index, message in enumerate(messages):
        single = SingleMessageMetadata(payload_size=len(message.payload), sequence_id=first_sequence_id + index)
        single.properties.extend(KeyValue(key=key, value=value) for key, value in message.properties.items())
        if message.key is not None:
            single.partition_key = message.key
            single.partition_key_b64_encoded = False
        if message.event_time_ms is not None:
            single.event_time = message.event_time_ms
        head = single.SerializeToString()
        pieces += (_SIZE.pack(len(head)), head, message.payload)
    return b"".join(pieces)


def compressed(metadata: MessageMetadata, payload: bytes, name: str) -> bytes:
    """Compresses a payload and notes it in its metadata."""
    if name == "NONE":
        return payload
    codec = CompressionType.Value(name)
    metadata.compression = codec
    metadata.uncompressed_size = len(payload)
    return compress(codec, payload)
