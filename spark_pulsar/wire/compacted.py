"""What compaction must know of an entry, and batches with some of their messages taken out (CMP-C1 … CMP-C3).

A message that is taken out of a batch leaves an item without payload, `compacted_out`, so that the others keep their
index; this is what Apache Pulsar writes and what clients expect.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.compression import compress, decompress
from spark_pulsar.wire.entries import build_entry, metadata_of, text_of
from spark_pulsar.wire.pulsar_api_pb2 import NONE, MessageMetadata, SingleMessageMetadata

NO_BATCH: Final = -1
"""The index of a message that is an entry of its own."""

_SIZE: Final = Struct(">I")
_TAKEN_OUT: Final = SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()
_TAKEN_OUT_ITEM: Final = _SIZE.pack(len(_TAKEN_OUT)) + _TAKEN_OUT


class Item(NamedTuple):
    """One message inside a batch: `data` is its metadata's size, its metadata and its payload, as they stand there.
    `key` is None for one without; one that was taken out before is one without."""

    key: str | None
    is_empty: bool
    is_taken_out: bool
    data: bytes


def unpack_batch(metadata: MessageMetadata, payload: bytes | memoryview) -> list[Item]:
    """The messages of a batch that is not encrypted. CorruptMessage when it is none, or damaged."""
    codec = metadata.compression
    data = bytes(payload) if codec == NONE else decompress(codec, payload, metadata.uncompressed_size)
    items: list[Item] = []
    at = 0
    try:
        for _ in range(metadata.num_messages_in_batch):
            (size,) = _SIZE.unpack_from(data, at)
            single = SingleMessageMetadata.FromString(data[at + 4 : at + 4 + size])
            end = at + 4 + size + single.payload_size
            if single.payload_size < 0 or end > len(data):
                raise CorruptMessage("a message of the batch is longer than the batch")
            key = text_of(single.partition_key) if single.HasField("partition_key") else None
            items.append(Item(key, single.payload_size == 0, single.compacted_out, data[at:end]))
            at = end
    except (StructError, DecodeError) as error:
        raise CorruptMessage(f"unreadable batch: {error}") from None
    return items


def repack_batch(metadata: MessageMetadata, items: list[Item], kept: Collection[int]) -> bytes:
    """The entry of the batch with only these indexes left; id, order, properties and compression stay."""
    body = b"".join([item.data if index in kept else _TAKEN_OUT_ITEM for index, item in enumerate(items)])
    metadata.uncompressed_size = len(body)
    return build_entry(metadata, compress(metadata.compression, body))


def last_index_left(entry: bytes, start: int, end: int) -> int:
    """Index of the last message of a compacted entry that was not taken out; NO_BATCH when it is no batch that can be
    read."""
    metadata = metadata_of(entry, start, end)
    if not is_readable_batch(metadata):
        return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else NO_BATCH
    items = unpack_batch(metadata, payload_of(entry, start, end))
    return max((index for index, item in enumerate(items) if not item.is_taken_out), default=NO_BATCH)


def is_readable_batch(metadata: MessageMetadata) -> bool:
    """Whether the entry is a batch whose messages a broker can read."""
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def payload_of(buffer: bytes, start: int, end: int) -> memoryview:
    """The payload of a stored entry whose metadata can be read."""
    if buffer.startswith(b"\x0e\x01", start):
        start += 6
    (size,) = _SIZE.unpack_from(buffer, start)
    return memoryview(buffer)[start + 4 + size : end]
