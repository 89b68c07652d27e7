"""Entries that are too large for their topic, in parts: the messages of a batch in two smaller ones (SINK-11); a single
row goes in chunks, or is an error, in `entry_sender` (SINK-7, SINK-12).

The messages keep their bytes, order and sequence ids. An entry is taken apart, rather than its rows kept until the
receipt comes: refusals are rare, and rows of all entries under way would fill the memory. What must be an entry of its
own (SINK-5, BAT-4) comes out of `entry_sender`; batches by key (SINK-8), out of `routing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spark_pulsar.client.publishing.attached_producer import SentEntry
from spark_pulsar.wire.entries.batch_items import portions_of
from spark_pulsar.wire.entries.compression import compress, decompress
from spark_pulsar.wire.entries.entry_bytes import build_entry, parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import NONE, MessageMetadata, SingleMessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.client.encryption.encryptor import Encryptor


def payload_of(sent: SentEntry, encryptor: Encryptor | None) -> tuple[MessageMetadata, bytes]:
    """Returns the metadata of an entry, and its payload neither encrypted nor compressed."""
    entry = parse_entry(bytes(sent.entry))
    metadata, payload = entry.metadata, entry.payload
    if entry.is_encrypted:
        assert encryptor is not None, "only its own encryptor has encrypted it"
        payload = memoryview(encryptor.decrypt(metadata, payload))
    return metadata, decompress(metadata.compression, payload, metadata.uncompressed_size)


def halves(
    metadata: MessageMetadata, payload: bytes, producer_name: str, encryptor: Encryptor | None
) -> Iterator[SentEntry]:
    """Yields the messages of a batch of two or more as two entries of about the same size, in order."""
    bounds = [0]
    for portion in portions_of(payload, metadata.num_messages_in_batch):
        bounds += portion.bounds[1:]
    middle = min(range(1, len(bounds) - 1), key=lambda place: abs(2 * bounds[place] - bounds[-1]))
    for first, last in ((0, middle), (middle, len(bounds) - 1)):
        begin = _single(payload, bounds[first])
        part = MessageMetadata()
        part.CopyFrom(metadata)
        part.producer_name = producer_name
        part.num_messages_in_batch = last - first
        part.sequence_id = begin.sequence_id
        part.ClearField("highest_sequence_id")
        highest = None
        if last - first > 1:
            highest = part.highest_sequence_id = _single(payload, bounds[last - 1]).sequence_id
        _describe_key(begin, part)
        entry = _built(part, payload[bounds[first] : bounds[last]], encryptor)
        yield SentEntry(begin.sequence_id, highest, last - first, False, entry)


def alone(metadata: MessageMetadata, payload: bytes) -> tuple[MessageMetadata, bytes]:
    """Returns metadata and payload of a single message without a batch around it, neither encrypted nor compressed."""
    if not metadata.HasField("num_messages_in_batch"):
        return metadata, payload
    size = int.from_bytes(payload[:4], "big")
    single = _single(payload, 0)
    metadata.ClearField("num_messages_in_batch")
    metadata.properties.extend(single.properties)
    if single.HasField("event_time"):
        metadata.event_time = single.event_time
    if single.null_value:
        metadata.null_value = True
    return metadata, payload[4 + size :]


def _built(metadata: MessageMetadata, payload: bytes, encryptor: Encryptor | None) -> bytes:
    if metadata.compression != NONE:
        metadata.uncompressed_size = len(payload)
        payload = compress(metadata.compression, payload)
    return build_entry(metadata, payload if encryptor is None else encryptor.encrypt(metadata, payload))


def _single(payload: bytes, at: int) -> SingleMessageMetadata:
    size = int.from_bytes(payload[at : at + 4], "big")
    return SingleMessageMetadata.FromString(payload[at + 4 : at + 4 + size])


def _describe_key(first: SingleMessageMetadata, metadata: MessageMetadata) -> None:
    """Sets the key of a batch, which is that of its first message (BAT-6)."""
    for name in ("partition_key", "partition_key_b64_encoded", "ordering_key"):
        metadata.ClearField(name)
        if first.HasField(name):
            setattr(metadata, name, getattr(first, name))
