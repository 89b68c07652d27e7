"""Chunking: large messages are cut into entries that a broker takes, as official clients do (CHK-1)."""

from __future__ import annotations

from collections.abc import Iterator

from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.limits import (
    MAX_CHUNKED_MESSAGE_SIZE_BYTES,
    MAX_CHUNKS_PER_MESSAGE,
    MAX_MESSAGE_SIZE_BYTES,
)
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata


def split(
    metadata: MessageMetadata, payload: bytes | memoryview, max_message_size_bytes: int = MAX_MESSAGE_SIZE_BYTES
) -> Iterator[tuple[MessageMetadata, memoryview]]:
    """Yields the entries of one message, as (metadata, payload): itself when it fits, else its chunks in the order to
    send.

    `payload` is compressed already and `metadata` says so. Official clients measure the metadata *before* the chunk
    fields are in, so an entry may exceed the limit by those few bytes, which brokers allow for. NotAllowed when the
    metadata alone fill an entry, or the message would need too many chunks.
    """
    room = max_message_size_bytes - metadata.ByteSize()
    view = memoryview(payload)
    total = len(view)
    if total <= room:
        yield metadata, view
        return
    if room <= 0:
        raise NotAllowed(f"the metadata of a message take {metadata.ByteSize()} of {max_message_size_bytes} bytes")
    count = -(-total // room)
    if count > MAX_CHUNKS_PER_MESSAGE or total > MAX_CHUNKED_MESSAGE_SIZE_BYTES:
        raise NotAllowed(f"a message of {total} bytes is too large even in chunks")
    for chunk_id in range(count):
        chunk = MessageMetadata()
        chunk.CopyFrom(metadata)
        chunk.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
        chunk.num_chunks_from_msg = count
        chunk.total_chunk_msg_size = total
        chunk.chunk_id = chunk_id
        yield chunk, view[chunk_id * room : (chunk_id + 1) * room]
