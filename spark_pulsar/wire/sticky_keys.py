"""The sticky key of an entry: what decides which consumer of a Key_Shared subscription gets it (KS-2)."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from typing import Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.ids import signed
from spark_pulsar.wire import varint
from spark_pulsar.wire.entries import metadata_of

NONE_KEY: Final = b"NONE_KEY"
"""The key of an entry whose metadata cannot be read."""

_HEAD_BYTES: Final = 10
"""Magic, checksum and size before the metadata."""
_NAME, _SEQUENCE, _TIME, _PROPERTIES, _REPLICATED_FROM, _KEY = 0x0A, 0x10, 0x18, 0x22, 0x2A, 0x32
_B64_FLAG, _ORDERING_KEY = b"\x88\x01", b"\x92\x01"
_SIX_BYTES: Final = 0x008080808080
_SIX_BYTES_MASK: Final = 0x808080808080


def sticky_key(buffer: bytes, start: int, end: int) -> bytes:
    """The ordering key of a stored entry, else its key, else `<producer name>-<sequence id>`.

    Metadata as the official clients write them (fields in the order of their numbers, no ordering key, key not in
    base64) take a short way; all others are parsed.
    """
    at = start + _HEAD_BYTES
    stop = at + int.from_bytes(buffer[start + 6 : at], "big")
    if (
        stop > end
        or buffer[start] != 0x0E
        or stop - at < 12
        or buffer[at] != _NAME
        or buffer.find(_ORDERING_KEY, at, stop) >= 0
        or buffer.find(_B64_FLAG, at, stop) >= 0
    ):
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
        or buffer[at] != _TIME
        or int.from_bytes(buffer[at + 1 : at + 7], "little") & _SIX_BYTES_MASK != _SIX_BYTES
    ):
        return _parsed_key(buffer, start, end)
    at += 7
    while at + 2 <= stop and buffer[at] in (_PROPERTIES, _REPLICATED_FROM) and buffer[at + 1] < 128:
        at += 2 + buffer[at + 1]
    if at + 2 <= stop and buffer[at] <= _KEY:
        size = buffer[at + 1]
        if buffer[at] == _KEY and size < 128 and at + 2 + size <= stop:
            return buffer[at + 2 : at + 2 + size]
        return _parsed_key(buffer, start, end)
    if at > stop:
        return _parsed_key(buffer, start, end)
    sequence_id, _ = varint.decode(buffer, sequence_at, sequence_end)
    return b"%b-%d" % (buffer[name_at:name_end], signed(sequence_id))


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
