"""The messages inside a batch, read many at a time: keys and places, without an object for each (BAT-1, CMP-C3).

    size SingleMessageMetadata payload | size SingleMessageMetadata payload | …

Metadata as most producers write them (no properties, a key below 128 bytes, a payload below 16 KiB) are walked by hand;
protobuf reads all others, so that both ways find the same, and refuse the same. The core of the broker never does
(BAT-2): compaction does, which runs beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata

PORTION_ITEMS: Final = 256
"""Most messages of a portion: some 0.2 ms of work."""

_HEAD: Final = Struct(">IBB")
"""The size of the metadata, and their first two bytes; no metadata are shorter."""
_KEY_TAG: Final = 0x12
_TAKEN_OUT: Final = SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()
_TAKEN_OUT_ITEM: Final = len(_TAKEN_OUT).to_bytes(4, "big") + _TAKEN_OUT
_VARINT: Final = rb"[\x80-\xff]{0,8}[\x00-\x7f]"
_USUAL_REST: Final = re.compile(
    rb"\x18(?:[\x00-\x7f]|[\x80-\xff][\x00-\x7f])"
    rb"(?:\x28" + _VARINT + rb")?(?:\x30[\x00\x01])?(?:\x40" + _VARINT + rb")?(?:\x48[\x00\x01])?(?:\x50[\x00\x01])?"
)
"""Tags of fields that usually follow the key: the payload size, and, without effect here, event time, key is base64,
sequence id, null value, null key."""


class Portion(NamedTuple):
    """Some messages of a batch, from index `first` on. Message `first + i` is `data[bounds[i]:bounds[i + 1]]`, its size
    and metadata and payload; its key is `keys[i]`, None for one without and for one that was taken out before."""

    first: int
    bounds: list[int]
    keys: list[bytes | None]
    empty: list[int]
    """Indexes `i` of messages without payload that were not taken out."""
    taken_out: list[int]
    """Indexes `i` of messages that were taken out before."""


def portions_of(data: bytes, messages: int) -> Iterator[Portion]:
    """Yields the messages of a batch, in order; `data` is neither compressed nor encrypted. CorruptMessage, after those
    in front of the damage, when they cannot be read; what lies behind the last one does not matter."""
    at = first = 0
    while first < messages:
        portion = Portion(first, [at], [], [], [])
        try:
            _read(data, min(PORTION_ITEMS, messages - first), portion)
        except (StructError, DecodeError) as error:
            if portion.keys:
                yield portion
            raise CorruptMessage(f"unreadable batch: {error}") from None
        yield portion
        first, at = first + len(portion.keys), portion.bounds[-1]
        if first < messages and len(portion.keys) < PORTION_ITEMS:
            raise CorruptMessage("a message of the batch is longer than the batch")


def _read(data: bytes, most: int, portion: Portion) -> None:
    """Reads `most` messages into a portion, fewer when one is longer than the batch."""
    _, bounds, keys, empty, taken_out = portion
    at, limit = bounds[0], len(data)
    head_at, is_usual = _HEAD.unpack_from, _USUAL_REST.fullmatch
    for _ in range(most):
        size, tag, key_size = head_at(data, at)
        end = at + 4 + size
        if end > limit:
            return
        key: bytes | None = None
        key_end = at + 4
        if tag == _KEY_TAG and key_size < 128:
            key_end += 2 + key_size
            key = data[at + 6 : key_end]
        if is_usual(data, key_end, end):
            payload_size = data[key_end + 1]
            if payload_size > 127:
                payload_size += (data[key_end + 2] << 7) - 128
            if not payload_size:
                empty.append(len(keys))
        else:
            key, payload_size, is_taken_out = _read_single(data[at + 4 : end])
            if not 0 <= payload_size <= limit - end:
                return
            if is_taken_out:
                taken_out.append(len(keys))
            elif not payload_size:
                empty.append(len(keys))
        at = end + payload_size
        if at > limit:
            return
        bounds.append(at)
        keys.append(key)


def _read_single(data: bytes) -> tuple[bytes | None, int, bool]:
    """(key, payload size, whether it was taken out before) of one message's metadata, by protobuf."""
    if data == _TAKEN_OUT:
        return None, 0, True
    single = SingleMessageMetadata.FromString(data)
    if not single.IsInitialized():
        raise DecodeError("incomplete metadata of a message")
    if single.compacted_out:
        return None, single.payload_size, True
    return key_of(single), single.payload_size, False


def key_of(metadata: MessageMetadata | SingleMessageMetadata) -> bytes | None:
    """Returns the key as it stands in the metadata: of C++ producers it need not be text. None when there is none."""
    if not metadata.HasField("partition_key"):
        return None
    key: str | bytes = metadata.partition_key
    return key if isinstance(key, bytes) else key.encode()


def pieces_left(data: bytes, first: int, bounds: Sequence[int], kept: Sequence[int]) -> list[bytes]:
    """Messages of a batch, from index `first` on and between these bounds, with only those of the indexes `kept` left
    (they rise). The others leave an item that was taken out, so that these keep their index: Apache Pulsar writes the
    same, and clients expect it."""
    pieces: list[bytes] = []
    at = first
    for index in kept:
        if index > at:
            pieces.append(_TAKEN_OUT_ITEM * (index - at))
        pieces.append(data[bounds[index - first] : bounds[index - first + 1]])
        at = index + 1
    pieces.append(_TAKEN_OUT_ITEM * (first + len(bounds) - 1 - at))
    return pieces
