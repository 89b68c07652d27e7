"""Messages for a WebSocket's client: entries opened into messages, and messages as JSON (WS-10)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.compression import decompress
from spark_pulsar.wire.entries.entry_bytes import Checksum, parse_entry, text_of
from spark_pulsar.wire.pulsar_api_pb2 import CommandAck, CompressionType, MessageMetadata, SingleMessageMetadata

from .message_ids import WebSocketMessageId
from .opened_bytes import MAX_OPENED_BYTES

_SIZE: Final = Struct(">I")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999
"""End of the year 9999, the last that a time can name."""


class Unreadable(Exception):
    """An entry that cannot be opened; `reason` goes to the broker with its acknowledgement."""

    def __init__(self, reason: CommandAck.ValidationError.ValueType) -> None:
        super().__init__()
        self.reason = reason


class TooLarge(Exception):
    """An entry that is too large for a WebSocket once it is opened."""


def size_of(metadata: MessageMetadata, payload: bytes | memoryview) -> int:
    """Returns the bytes of an entry once it is opened. Raises TooLarge."""
    is_compressed = metadata.compression and not metadata.encryption_keys
    size_bytes = metadata.uncompressed_size if is_compressed else len(payload)
    if metadata.num_chunks_from_msg > 1:
        size_bytes = max(size_bytes, metadata.total_chunk_msg_size)
    if size_bytes > MAX_OPENED_BYTES:
        raise TooLarge
    return size_bytes


class Opened(NamedTuple):
    """An entry whose checksum holds; its payload is as it was stored."""

    metadata: MessageMetadata
    payload: bytes | memoryview


class Content(NamedTuple):
    """A message as its client gets it."""

    batch_index: int
    """Place in the batch; -1: no batch."""
    payload: bytes
    properties: dict[str, str]
    key: str | None
    event_time_ms: int


def opened(buffer: bytes, start: int, end: int) -> Opened:
    """Returns the metadata and the payload of an entry. Raises Unreadable."""
    try:
        entry = parse_entry(buffer, start, end)
    except CorruptMessage:
        raise Unreadable(CommandAck.DecompressionError) from None
    if entry.checksum is Checksum.WRONG:
        raise Unreadable(CommandAck.ChecksumMismatch)
    return Opened(entry.metadata, entry.payload)


def contents_of(metadata: MessageMetadata, payload: bytes | memoryview, ack_set: int | None) -> Iterator[Content]:
    """Yields the messages of an entry, in order, without those that are acknowledged already or were compacted.

    `ack_set`: 1 = to be delivered; None: all. Raises Unreadable.
    """
    try:
        plain = decompress(metadata.compression, payload, metadata.uncompressed_size, MAX_OPENED_BYTES)
    except CorruptMessage:
        raise Unreadable(CommandAck.DecompressionError) from None
    if not metadata.HasField("num_messages_in_batch") or metadata.num_chunks_from_msg > 1:
        yield _content(-1, metadata, plain)
        return
    at = 0
    for index in range(metadata.num_messages_in_batch):
        try:
            (size,) = _SIZE.unpack_from(plain, at)
            single = SingleMessageMetadata.FromString(plain[at + 4 : at + 4 + size])
            start = at + 4 + size
            at = start + single.payload_size
            if not single.IsInitialized() or single.payload_size < 0 or at > len(plain):
                raise DecodeError
        except (StructError, DecodeError):
            raise Unreadable(CommandAck.BatchDeSerializeError) from None
        if not single.compacted_out and (ack_set is None or ack_set >> index & 1):
            yield _content(index, single, plain[start:at])


def _content(index: int, metadata: MessageMetadata | SingleMessageMetadata, payload: bytes) -> Content:
    properties = {text_of(pair.key): text_of(pair.value) for pair in metadata.properties}
    key = text_of(metadata.partition_key) if metadata.HasField("partition_key") else None
    return Content(index, payload, properties, key, metadata.event_time)


def text_of_message(
    message_id: WebSocketMessageId,
    content: Content,
    publish_time_ms: int,
    redelivery_count: int,
    encryption: dict[str, Any] | None = None,
) -> str:
    """Returns a message as JSON."""
    message: dict[str, Any] = {
        "messageId": message_id.text(),
        "payload": base64.b64encode(content.payload).decode(),
        "properties": content.properties,
        "publishTime": time_text(publish_time_ms),
        "redeliveryCount": redelivery_count,
    }
    if content.event_time_ms:
        message["eventTime"] = time_text(content.event_time_ms)
    if encryption is not None:
        message["encryptionContext"] = encryption
    if content.key is not None:
        message["key"] = content.key
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def time_text(time_ms: int) -> str:
    """Returns a time as Java's ISO_OFFSET_DATE_TIME: the fraction of a second without zeros at its end."""
    when = _EPOCH + timedelta(milliseconds=min(time_ms, _LAST_MS))
    fraction = f".{when.microsecond // 1000:03}".rstrip("0").rstrip(".")
    return f"{when:%Y-%m-%dT%H:%M:%S}{fraction}Z".rjust(20, "0")


def encryption_context(metadata: MessageMetadata) -> dict[str, Any]:
    """Returns what a client needs to open an encrypted payload, as Apache Pulsar names it."""
    keys = {
        text_of(encryption_key.key): {
            "keyValue": base64.b64encode(encryption_key.value).decode(),
            "metadata": {text_of(pair.key): text_of(pair.value) for pair in encryption_key.metadata},
        }
        for encryption_key in metadata.encryption_keys
    }
    algorithm = text_of(metadata.encryption_algo)
    return {
        "keys": keys,
        "param": base64.b64encode(metadata.encryption_param).decode(),
        **({"algorithm": algorithm} if algorithm else {}),
        "compressionType": CompressionType.Name(metadata.compression),
        "uncompressedMessageSize": metadata.uncompressed_size,
        "batchSize": metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None,
    }


def sealed_content(metadata: MessageMetadata, payload: bytes | memoryview) -> Content:
    """Returns an encrypted entry as one message, as it was stored."""
    return _content(-1, metadata, bytes(payload))
