"""What compaction must know of an entry, and batches with some of their messages taken out (CMP-C1 … CMP-C3).

A message that is taken out of a batch leaves an item without payload, `compacted_out`, so that the others keep their
index; this is what Apache Pulsar writes and what clients expect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
_KEY_TAG, _PAYLOAD_SIZE_TAG, _TAKEN_OUT_TAG = 0x12, 0x18, 0x20
_TAKEN_OUT: Final = SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()
_TAKEN_OUT_ITEM: Final = _SIZE.pack(len(_TAKEN_OUT)) + _TAKEN_OUT


class Item(NamedTuple):
    """One message inside a batch: `data` is its metadata's size, its metadata and its payload, as they stand there.
    `key` is None for one without; one that was taken out before is one without."""

    key: str | None
    is_empty: bool
    is_taken_out: bool
    data: bytes


def items_of(metadata: MessageMetadata, payload: bytes | memoryview) -> Iterator[Item]:
    """The messages of a batch that is not encrypted, one by one. CorruptMessage when it is none, or damaged."""
    codec = metadata.compression
    data = bytes(payload) if codec == NONE else decompress(codec, payload, metadata.uncompressed_size)
    at = 0
    try:
        for _ in range(metadata.num_messages_in_batch):
            (size,) = _SIZE.unpack_from(data, at)
            start, after = at + 4, at + 4 + size
            plain = _read_plain(data, start, after)
            if plain is None:
                single = SingleMessageMetadata.FromString(data[start:after])
                key = text_of(single.partition_key) if single.HasField("partition_key") else None
                payload_size, is_taken_out = single.payload_size, single.compacted_out
            else:
                (key, payload_size), is_taken_out = plain, False
            end = after + payload_size
            if payload_size < 0 or end > len(data):
                raise CorruptMessage("a message of the batch is longer than the batch")
            yield Item(key, payload_size == 0, is_taken_out, data[at:end])
            at = end
    except (StructError, DecodeError) as error:
        raise CorruptMessage(f"unreadable batch: {error}") from None


def _read_plain(data: bytes, at: int, end: int) -> tuple[str, int] | None:
    """Key and payload size of metadata that begin with a short key and a payload below 16 KiB, as most do; None for
    others. What was taken out has no key, and protobuf reads it."""
    if end - at < 4 or end > len(data) or data[at] != _KEY_TAG or data[at + 1] > 127:
        return None
    key_end = at + 2 + data[at + 1]
    if key_end + 2 > end or data[key_end] != _PAYLOAD_SIZE_TAG:
        return None
    payload_size, last = data[key_end + 1], key_end + 2
    if payload_size > 127:
        if last >= end or data[last] > 127:
            return None
        payload_size += (data[last] << 7) - 128
        last += 1
    if last < end and data[last] == _TAKEN_OUT_TAG:
        return None
    try:
        return data[at + 2 : key_end].decode(), payload_size
    except UnicodeDecodeError:
        return None


def repack_batch(metadata: MessageMetadata, items: Sequence[Item], kept: Collection[int]) -> bytes:
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
    items = items_of(metadata, payload_of(entry, start, end))
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
