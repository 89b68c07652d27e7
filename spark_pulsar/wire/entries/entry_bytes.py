"""Entries: the bytes that one SEND stores and a MESSAGE delivers (A10, BAT-1).

[0x0e02 size BrokerEntryMetadata] only in front of a delivered entry, and only to clients that request it 0x0e01 crc32c
checksum of everything after it; may be absent metadataSize MessageMetadata payload

An entry is one message, a batch of messages, or a chunk of one; its metadata say which.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c
from google.protobuf.message import DecodeError, EncodeError

from spark_pulsar.model.errors import CorruptMessage, MalformedFrame
from spark_pulsar.wire.protocol import varint
from spark_pulsar.wire.pulsar_api_pb2 import BrokerEntryMetadata, MessageMetadata

CHECKSUM_MAGIC: Final = b"\x0e\x01"
BROKER_METADATA_MAGIC: Final = b"\x0e\x02"

_SIZE: Final = Struct(">I")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PUBLISH_TIME: Final = 3

_HEAD_BYTES: Final = 10
"""Magic, checksum and size before the metadata."""
_NAME_TAG, _SEQUENCE_TAG, _TIME_TAG = 0x0A, 0x10, 0x18
_MAX_SEQUENCE_BYTES: Final = 9
_USUAL_BYTES: Final = 24
"""More than the longest sequence id and publish time take."""
_SIX_BYTES: Final = 0x008080808080
_SIX_BYTES_MASK: Final = 0x808080808080
"""Continuation bits of a varint of six bytes, which times from 2004 to 2109 have."""


class Checksum(Enum):
    """State of an entry's checksum."""

    OK = "ok"
    WRONG = "wrong"
    ABSENT = "absent"


class Kind(Enum):
    """Kind of an entry; the payload of a chunk makes sense only after reassembly."""

    SINGLE = "single"
    BATCH = "batch"
    CHUNK = "chunk"


class Entry(NamedTuple):
    """A parsed entry. `payload` is a view: still encrypted, compressed, batched or chunked, as the metadata say.

    Text fields of the metadata that are not UTF-8, which C++ producers can write, come out as bytes; see `text_of`.
    """

    metadata: MessageMetadata
    payload: memoryview
    checksum: Checksum
    broker_metadata: BrokerEntryMetadata | None

    @property
    def kind(self) -> Kind:
        """The kind of the entry. The *presence* of num_messages_in_batch makes a batch, even one of 1."""
        if self.metadata.num_chunks_from_msg > 1:
            return Kind.CHUNK
        return Kind.BATCH if self.metadata.HasField("num_messages_in_batch") else Kind.SINGLE

    @property
    def message_count(self) -> int:
        """Messages in the entry, for permits and counters; at least 1."""
        return max(1, self.metadata.num_messages_in_batch)

    @property
    def is_encrypted(self) -> bool:
        """Returns whether the payload is ciphertext."""
        return len(self.metadata.encryption_keys) > 0


def text_of(value: str | bytes) -> str:
    """Returns a text field of metadata as text, bytes that are not UTF-8 replaced, as Java does."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def build_entry(metadata: MessageMetadata, payload: bytes | memoryview, with_checksum: bool = True) -> bytes:
    """Returns the bytes of an entry, as a SEND carries them; CorruptMessage when `metadata` lack a required field.

    Leave the checksum out only for peers below protocol version 6.
    """
    try:
        head = metadata.SerializeToString()
    except EncodeError as error:
        raise CorruptMessage(f"incomplete metadata: {error}") from None
    head = _SIZE.pack(len(head)) + head
    if not with_checksum:
        return b"".join((head, payload))
    return b"".join((CHECKSUM_MAGIC, _SIZE.pack(crc32c(payload, crc32c(head))), head, payload))


def parse_entry(buffer: bytes, start: int = 0, end: int | None = None) -> Entry:
    """Takes apart the entry in `buffer[start:end]`; CorruptMessage, but a wrong checksum is only reported (PR-12)."""
    end = len(buffer) if end is None else end
    broker_metadata = None
    if buffer.startswith(BROKER_METADATA_MAGIC, start, end):
        after = _sized(buffer, start + 2, end, "broker entry metadata")
        broker_metadata = BrokerEntryMetadata()
        _merge(broker_metadata, buffer[start + 6 : after], "broker entry metadata")
        start = after
    checksum, start = _verify(buffer, start, end)
    payload_start = _sized(buffer, start, end, "metadata")
    metadata = MessageMetadata()
    _merge(metadata, buffer[start + 4 : payload_start], "metadata")
    return Entry(metadata, memoryview(buffer)[payload_start:end], checksum, broker_metadata)


def metadata_of(buffer: bytes, start: int, end: int) -> MessageMetadata:
    """Returns the metadata of a stored entry, its checksum taken on trust. CorruptMessage when they cannot be read."""
    start = _skip_checksum(buffer, start, end)
    metadata = MessageMetadata()
    _merge(metadata, buffer[start + 4 : _sized(buffer, start, end, "metadata")], "metadata")
    return metadata


def payload_bytes_of(buffer: bytes, start: int, end: int) -> int:
    """Returns the size of a stored entry's payload. CorruptMessage when its metadata have no end in it."""
    return end - _sized(buffer, _skip_checksum(buffer, start, end), end, "metadata")


def publish_time_of(buffer: bytes, start: int, end: int) -> int:
    """Returns the publish time in ms of a stored entry, without reading the rest of it; CorruptMessage when it has
    none.

    For what walks many entries: seeking by time, expiry. Metadata as the official clients write them (producer name,
    sequence id, publish time, in this order) take a short way.
    """
    at = start + _HEAD_BYTES
    if end - at > _USUAL_BYTES and buffer[start] == 0x0E and buffer[at] == _NAME_TAG and buffer[at + 1] < 0x80:
        at += 2 + buffer[at + 1]
        if end - at > _USUAL_BYTES and buffer[at] == _SEQUENCE_TAG:
            at += 1
            stop = at + _MAX_SEQUENCE_BYTES
            while at < stop and buffer[at] & 0x80:
                at += 1
            if buffer[at + 1] == _TIME_TAG:
                value = int.from_bytes(buffer[at + 2 : at + 8], "little")
                if value & _SIX_BYTES_MASK == _SIX_BYTES:
                    return (
                        value & 0x7F
                        | value >> 1 & 0x3F80
                        | value >> 2 & 0x1FC000
                        | value >> 3 & 0xFE00000
                        | value >> 4 & 0x7F0000000
                        | value >> 5 & 0x3F800000000
                    )
    start = _skip_checksum(buffer, start, end)
    stop = _sized(buffer, start, end, "metadata")
    at = start + 4
    try:
        while at < stop:
            tag, at = varint.decode(buffer, at, stop)
            wire_type = tag & 7
            if wire_type == _VARINT:
                value, at = varint.decode(buffer, at, stop)
                if tag >> 3 == _PUBLISH_TIME:
                    return value
            elif wire_type == _BYTES:
                size, at = varint.decode(buffer, at, stop)
                at += size
            elif wire_type in (_FIXED32, _FIXED64):
                at += 4 if wire_type == _FIXED32 else 8
            else:
                break
    except MalformedFrame as error:
        raise CorruptMessage(f"unreadable metadata: {error}") from None
    raise CorruptMessage("metadata without a publish time")


def _verify(buffer: bytes, start: int, end: int) -> tuple[Checksum, int]:
    """(state of the checksum at `start`, index of metadataSize)."""
    checked = _skip_checksum(buffer, start, end)
    if checked == start:
        return Checksum.ABSENT, start
    (expected,) = _SIZE.unpack_from(buffer, start + 2)
    return Checksum.OK if crc32c(buffer[checked:end]) == expected else Checksum.WRONG, checked


def _skip_checksum(buffer: bytes, start: int, end: int) -> int:
    if not buffer.startswith(CHECKSUM_MAGIC, start, end):
        return start
    if end - start < 6:
        raise CorruptMessage("the entry ends inside its checksum")
    return start + 6


def _sized(buffer: bytes, start: int, end: int, what: str) -> int:
    """Finds the end of the part that begins with its size at `start`."""
    if end - start < 4:
        raise CorruptMessage(f"the entry ends where the size of its {what} should be")
    (size,) = _SIZE.unpack_from(buffer, start)
    after: int = start + 4 + size
    if after > end:
        raise CorruptMessage(f"{what} of {size} bytes in an entry that has {end - start - 4} left")
    return after


def _merge(message: MessageMetadata | BrokerEntryMetadata, body: bytes, what: str) -> None:
    try:
        message.MergeFromString(body)
    except DecodeError as error:
        raise CorruptMessage(f"unreadable {what}: {error}") from None
    if not message.IsInitialized():
        raise CorruptMessage(f"incomplete {what}")
