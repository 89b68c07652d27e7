"""Reads columnar SENDs: the SENDs of several producers, field by field.

Where the frames are is found first: most have the size of the one before, so that stretches of them are found by one
comparison. Then each field of all commands is read at once, whatever its width, and anything but a plain SEND ends the
columns in front of it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from spark_pulsar.model.column_store import bounds_of, column_of

from . import plain_send as layout
from .send_runs import STREAK, ColumnarSends

_SIZE: Final = Struct(">I")
_HEAD_BYTES: Final = 64
"""Bytes that are read of each frame: the longest plain command, and the entry's checksum and metadata size."""
_FEW: Final = 8

_U64 = np.uint64
_CONTINUED: Final = _U64(0x8080808080808080)
_ONE: Final = _U64(1)

_START: Final = _U64(int.from_bytes(layout.START + bytes((0, layout.PRODUCER_ID)), "little"))
_START_MASK: Final = _U64(0xFF_00_FF_FF_FF)
"""All of the start but the size of the content."""

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]


def read_columnar_sends(buffer: bytes, position: int, max_total: int, least: int, most: int) -> ColumnarSends | None:
    """Returns the plain SENDs of several producers from `position` on, up to the first frame that is none of these or
    the first streak of one producer, and not many more than `most`; None when they are fewer than `least`."""
    frames = _frames_at(buffer, position, most)
    if len(frames) < least:
        return None
    heads = _heads(buffer, frames)
    fields = _fields(heads)
    ends = frames + 4 + fields.total
    fits = fields.is_plain & (fields.total <= max_total) & (ends <= len(buffer))
    fits &= fields.metadata_size.view(np.int64) + fields.entry_offset + layout.CHECKED_AT <= fields.total
    count = _before_streak(fields.producer_id[: _leading(fits)])
    if count < least:
        return None
    starts = frames[:count] + fields.entry_offset[:count]
    count = _intact(buffer, starts + layout.CHECKED_AT, ends[:count], fields.checksum[:count])
    if count < least:
        return None
    return ColumnarSends(
        buffer,
        column_of(fields.producer_id[:count]),
        column_of(fields.sequence_id[:count]),
        column_of(fields.message_count[:count], "I"),
        column_of(starts[:count], "I"),
        column_of(ends[:count], "I"),
    )


def _frames_at(buffer: bytes, position: int, most: int) -> _Numbers:
    """Finds the starts of some `most` frames from `position` on, as their sizes say."""
    last = len(buffer) - _SIZE.size
    starts: list[_Numbers] = []
    while position <= last and most > 0:
        size = 4 + _SIZE.unpack_from(buffer, position)[0]
        alike = np.ndarray((min(most, (last - position) // size + 1),), ">u4", buffer, position, (size,)) == size - 4
        count = _leading(alike)
        if count < _FEW:
            some, position = _walk(buffer, position, last)
            count = len(some)
            starts.append(np.array(some))
        else:
            starts.append(np.arange(position, position + count * size, size))
            position += count * size
        most -= count
    return np.concatenate(starts) if starts else np.empty(0, np.int64)


def _walk(buffer: bytes, position: int, last: int) -> tuple[list[int], int]:
    """Returns the next frames, which differ in size, and where the one after them begins."""
    starts: list[int] = []
    add, unpack = starts.append, _SIZE.unpack_from
    while position <= last and len(starts) < 4 * _FEW:
        add(position)
        position += 4 + unpack(buffer, position)[0]
    return starts, position


def _heads(buffer: bytes, frames: _Numbers) -> _Bytes:
    """Returns the first bytes of each frame, a row each."""
    full = max(0, len(buffer) - _HEAD_BYTES + 1)
    count = int(np.searchsorted(frames, full))
    windows = np.ndarray((full, _HEAD_BYTES), np.uint8, buffer, strides=(1, 1))
    if count == len(frames):
        return windows[frames]
    last = b"".join(buffer[at : at + _HEAD_BYTES].ljust(_HEAD_BYTES, b"\0") for at in frames[count:].tolist())
    return np.concatenate((windows[frames[:count]], np.frombuffer(last, np.uint8).reshape(-1, _HEAD_BYTES)))


class _Fields(NamedTuple):
    """Fields of the heads of frames, by column; they mean something where `is_plain` holds."""

    is_plain: npt.NDArray[np.bool_]
    total: _Numbers
    producer_id: _Numbers
    sequence_id: _Numbers
    message_count: _Numbers
    entry_offset: _Numbers
    checksum: _Words
    metadata_size: _Words


def _fields(heads: _Bytes) -> _Fields:
    """Reads a CommandSend with nothing rare in it, its fields in order, and the front of its entry."""
    count = len(heads)
    flat = heads.reshape(-1)
    rows = np.arange(0, count * _HEAD_BYTES, _HEAD_BYTES)
    words = np.ndarray((len(flat) - 7,), "<u8", flat, strides=(1,))
    entry_offset = 8 + _unsigned(heads, 4)
    command_end = rows + np.minimum(entry_offset, _HEAD_BYTES - layout.ENTRY_HEAD_BYTES)
    is_plain = (words[rows + layout.START_AT] & _START_MASK) == _START
    is_plain &= entry_offset == heads[:, layout.SIZE_AT].astype(np.int64) + layout.CONTENT_AT
    is_plain &= entry_offset <= _HEAD_BYTES - layout.ENTRY_HEAD_BYTES
    at = rows + layout.CONTENT_AT + 1
    producers = words[at]
    producer_stop, width = _stops(producers)
    at += width
    is_plain &= (producer_stop != 0) & (flat[at] == layout.SEQUENCE_ID)
    at += 1
    sequences = words[at]
    sequence_stop, width = _stops(sequences)
    at += width
    is_plain &= sequence_stop != 0
    ids = _values(np.concatenate((producers, sequences)), np.concatenate((producer_stop, sequence_stop)))
    message_count = np.ones(count, np.int64)
    ends_here = at == command_end
    if not ends_here.all():
        counts = words[at + 1]
        stop, width = _stops(counts)
        said = _values(counts, stop)
        has_count = (stop != 0) & (flat[at] == layout.MESSAGES) & (at + 1 + width == command_end)
        has_count &= said <= layout.MOST_MESSAGES
        np.copyto(message_count, said, where=has_count & (said > 0))
        ends_here |= has_count
    magic = layout.MAGIC_BYTES
    is_plain &= ends_here & (flat[command_end] == magic[0]) & (flat[command_end + 1] == magic[1])
    sizes = words[command_end + 2].byteswap()
    return _Fields(
        is_plain,
        _unsigned(heads, 0),
        ids[:count],
        ids[count:],
        message_count,
        entry_offset,
        sizes >> _U64(32),
        sizes & _U64(0xFFFFFFFF),
    )


def _unsigned(heads: _Bytes, at: int) -> _Numbers:
    """Returns the number of four bytes in this place of each head."""
    return np.ndarray((len(heads),), ">u4", heads, at, (_HEAD_BYTES,)).astype(np.int64)


def _stops(words: _Words) -> tuple[_Words, _Numbers]:
    """Returns the top bit of the last byte of the varint that each word begins with, and how many bytes that takes; no
    bit when it does not end there."""
    stops = ~words & _CONTINUED
    stop = stops & (~stops + _ONE)
    if hasattr(np, "bitwise_count"):
        return stop, (np.bitwise_count(stop - _ONE).astype(np.int64) + 1) >> 3
    bit_lengths = np.frexp(stop.astype(np.float64))[1].astype(np.int64)  # NumPy 1
    return stop, np.where(bit_lengths == 0, 8, bit_lengths >> 3)


def _values(words: _Words, stop: _Words) -> _Numbers:
    """Returns the numbers of varints that end with these bytes."""
    bits = words & (stop - _ONE) & ~_CONTINUED
    bits = (bits & _U64(0x007F007F007F007F)) | (bits & _U64(0x7F007F007F007F00)) >> _ONE
    bits = (bits & _U64(0x00003FFF00003FFF)) | (bits & _U64(0x3FFF00003FFF0000)) >> _U64(2)
    bits = (bits & _U64(0x000000000FFFFFFF)) | (bits & _U64(0x0FFFFFFF00000000)) >> _U64(4)
    return bits.view(np.int64)


def _leading(holds: npt.NDArray[np.bool_]) -> int:
    """Counts the leading true values."""
    at = int(np.argmin(holds))
    return at if not holds[at] else len(holds)


def _intact(buffer: bytes, starts: _Numbers, ends: _Numbers, checksums: _Words) -> int:
    """Counts the leading entries whose checksum is right; their checked bytes lie between `starts` and `ends`."""
    computed = [crc32c(buffer[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    said = checksums.tolist()
    return len(said) if computed == said else next(at for at, checksum in enumerate(computed) if checksum != said[at])


def _before_streak(producer_ids: _Numbers) -> int:
    """Counts the SENDs before the first streak of one producer."""
    if np.count_nonzero(producer_ids[1:] == producer_ids[:-1]) < STREAK - 1:
        return len(producer_ids)
    bounds = np.array(bounds_of(producer_ids))
    is_streak = bounds[1:] - bounds[:-1] >= STREAK
    return int(bounds[np.argmax(is_streak)]) if is_streak.any() else len(producer_ids)
