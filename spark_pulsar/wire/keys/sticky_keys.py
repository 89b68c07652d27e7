"""The sticky key of an entry: what decides which consumer of a Key_Shared subscription gets it (KS-1, KS-2, X5); of a
batch that of its own metadata (BAT-6)."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from functools import lru_cache
from typing import Final

from spark_pulsar.model.errors import CorruptMessage, MalformedFrame
from spark_pulsar.model.positions.ids import signed
from spark_pulsar.wire.entries.entry_bytes import metadata_of
from spark_pulsar.wire.protocol import varint

NONE_KEY: Final = b"NONE_KEY"
"""The key of an entry with unreadable metadata."""

_HEAD_BYTES: Final = 10
"""Magic, checksum and size before the metadata."""
_NAME, _SEQUENCE, _TIME, _PROPERTIES, _REPLICATED_FROM, _KEY = 0x0A, 0x10, 0x18, 0x22, 0x2A, 0x32
_PROPERTY_KEY, _PROPERTY_VALUE = 0x0A, 0x12
_KEY_FIELD, _ENCRYPTION_KEYS, _KEY_IS_BASE64, _ORDERING_KEY = 6, 13, 17, 18
MAX_SEQUENCE_BYTES: Final = 9
"""Most bytes of a sequence id that is not negative."""
_LARGEST_TAG_BYTES: Final = 2
"""Largest tag of the fields that there are. A longer tag is written by no client, and read in its own way by each
library."""
_LONGEST_REMEMBERED_BYTES: Final = 256
_SIX_BYTES: Final = 0x008080808080
_SIX_BYTES_MASK: Final = 0x808080808080


def sticky_key(buffer: bytes, start: int, end: int) -> bytes:
    """Returns the ordering key of a stored entry, else its key, else `<producer name>-<sequence id>`.

    Metadata as the official clients write them (fields in the order of their numbers, no ordering key, key not in
    base64) take a short way; all others are parsed.
    """
    at = start + _HEAD_BYTES
    stop = at + int.from_bytes(buffer[start + 6 : at], "big")
    if stop > end or buffer[start] != 0x0E or stop - at < 12 or buffer[at] != _NAME:
        return _parsed_key(buffer, start, end)
    name_at = at + 2
    at = name_end = name_at + buffer[at + 1]
    if name_end - name_at > 127 or at + 2 >= stop or buffer[at] != _SEQUENCE:
        return _parsed_key(buffer, start, end)
    at = sequence_at = at + 1
    while at < stop and buffer[at] > 127:
        at += 1
    at += 1
    sequence_end = at
    if (
        at + 6 >= stop
        or at - sequence_at > MAX_SEQUENCE_BYTES
        or buffer[at] != _TIME
        or int.from_bytes(buffer[at + 1 : at + 7], "little") & _SIX_BYTES_MASK != _SIX_BYTES
    ):
        return _parsed_key(buffer, start, end)
    at += 7
    while at + 2 <= stop and buffer[at] in (_PROPERTIES, _REPLICATED_FROM) and buffer[at + 1] < 128:
        after = at + 2 + buffer[at + 1]
        if buffer[at] == _PROPERTIES and not _is_usual_property(buffer, at + 2, after):
            return _parsed_key(buffer, start, end)
        at = after
    if at + 2 <= stop and buffer[at] == _KEY and buffer[at + 1] < 128:
        after = at + 2 + buffer[at + 1]
        if after <= stop and is_plain(buffer[after:stop]):
            return buffer[at + 2 : after]
        return _parsed_key(buffer, start, end)
    if at > stop or not is_plain(buffer[at:stop]):
        return _parsed_key(buffer, start, end)
    sequence_id, _ = varint.decode(buffer, sequence_at, sequence_end)
    return b"%b-%d" % (buffer[name_at:name_end], signed(sequence_id))


def _is_usual_property(buffer: bytes, at: int, after: int) -> bool:
    """Returns whether a property is a short key, then a short value, and nothing else."""
    if after - at < 4 or after > len(buffer) or buffer[at] != _PROPERTY_KEY or buffer[at + 1] > 127:
        return False
    at += 2 + buffer[at + 1]
    return at + 2 <= after and buffer[at] == _PROPERTY_VALUE and at + 2 + buffer[at + 1] == after


def is_plain(tail: bytes) -> bool:
    """Returns whether the fields after the key, or in its place, are no other key, do not change it, and are such as
    clients write."""
    return _is_plain_again(tail) if len(tail) <= _LONGEST_REMEMBERED_BYTES else _is_plain(tail)


def _is_plain(tail: bytes) -> bool:
    at, end = 0, len(tail)
    try:
        while at < end:
            began = at
            tag, at = varint.decode(tail, at, end)
            field, kind = tag >> 3, tag & 7
            if at - began > _LARGEST_TAG_BYTES or field <= _KEY_FIELD or field in (_ORDERING_KEY, _ENCRYPTION_KEYS):
                return False
            if kind == 0:
                began = at
                value, at = varint.decode(tail, at, end)
                if at - began > MAX_SEQUENCE_BYTES or (field == _KEY_IS_BASE64 and value):
                    return False
            elif kind == 2 and field != _KEY_IS_BASE64:
                size, at = varint.decode(tail, at, end)
                at += size
            else:
                return False
    except MalformedFrame:
        return False
    return at == end


_is_plain_again = lru_cache(maxsize=1024)(_is_plain)


def _parsed_key(buffer: bytes, start: int, end: int) -> bytes:
    try:
        metadata = metadata_of(buffer, start, end)
    except CorruptMessage:
        return NONE_KEY
    if metadata.HasField("ordering_key"):
        return bytes(metadata.ordering_key)
    if metadata.HasField("partition_key"):
        key = _as_bytes(metadata.partition_key)
        if metadata.partition_key_b64_encoded:
            try:
                return b64decode(key, validate=True)
            except NoBase64:
                return key
        return key
    return b"%b-%d" % (_as_bytes(metadata.producer_name), signed(metadata.sequence_id))


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
