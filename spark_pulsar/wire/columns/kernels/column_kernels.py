"""Kernels from rows to flat columns: offsets and bytes of values and keys, serialised message ids, checked text."""

import numpy as np

from spark_pulsar.wire.columns.kernels.compiler import (
    READ_BYTES,
    READ_INTS,
    READ_OFFSETS,
    READ_TABLE,
    WRITE_BYTES,
    WRITE_INTS,
    WRITE_OFFSETS,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.layout import BAD_BASE64, COUNT, TOO_LARGE
from spark_pulsar.wire.columns.kernels.memory import byte_at, copy_bytes, word_at
from spark_pulsar.wire.columns.kernels.varints import varint_size, write_varint

_LARGEST_OFFSET = 2**31 - 1
_PADDING = 0x3D  # =
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # of eight bytes: set in none of them where all are ASCII
_FIRST_DATE_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
_LAST_DATE_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


def _base64_values() -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Returns the six bits of every character of the standard alphabet, -1 for all others."""
    values = np.full(256, -1, np.int64)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    values[np.frombuffer(alphabet, np.uint8)] = np.arange(64)
    return values


_BASE64_VALUES = _base64_values()

LONGEST_MESSAGE_ID_BYTES = 74
"""Three ids of 10-byte numbers, partition and batch fields, and the id of a first chunk with its frame."""


@kernel(READ_INTS, WRITE_OFFSETS)
def bytes_offsets(lengths: Ints, offsets: Ints) -> tuple[int, int]:
    """Sums lengths (-1 = null) into Arrow offsets; returns (total bytes or a negative code, nulls)."""
    total, nulls = 0, 0
    offsets[0] = 0
    for i in range(len(lengths)):
        length = lengths[i]
        if length < 0:
            nulls += 1
        else:
            total += length
            if total > _LARGEST_OFFSET:
                return TOO_LARGE, nulls
        offsets[i + 1] = total
    return total, nulls


@kernel(READ_BYTES, READ_INTS, READ_OFFSETS, WRITE_BYTES)
def gather_bytes(data: Bytes, starts: Ints, offsets: Ints, column: Bytes) -> None:
    """Copies item i from ``starts[i]`` to ``column[offsets[i]:offsets[i + 1]]``."""
    at = offsets[0]
    for i in range(len(starts)):
        behind = offsets[i + 1]
        copy_bytes(column, at, data, starts[i], behind - at)
        at = behind


@inlined
def base64_value(data: Bytes, at: int) -> int:
    """Returns the six bits of a character of the standard alphabet, -1 for another one."""
    value: int = _BASE64_VALUES[byte_at(data, at)]
    return value


@inlined
def base64_size(data: Bytes, start: int, length: int) -> int:
    """Bytes that this base64 text stands for, with or without its padding; negative when its length is impossible."""
    digits = length
    if length % 4 == 0 and length > 0 and byte_at(data, start + length - 1) == _PADDING:
        digits -= 1
        if byte_at(data, start + length - 2) == _PADDING:
            digits -= 1
    if digits % 4 == 1:
        return BAD_BASE64
    return digits * 6 // 8


@inlined
def decode_base64(data: Bytes, start: int, size: int, column: Bytes, at: int) -> int:
    """Writes the ``size`` bytes of the base64 text at ``start``; returns 0 or a negative code."""
    bits, have = 0, 0
    digits = (size * 8 + 5) // 6
    for i in range(digits):
        value = _BASE64_VALUES[byte_at(data, start + i)]
        if value < 0:
            return BAD_BASE64
        bits = (bits << 6 | value) & 0xFFFFFF
        have += 6
        if have >= 8:
            have -= 8
            column[at] = bits >> have & 0xFF
            at += 1
    return 0


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_INTS, WRITE_OFFSETS)
def key_offsets(data: Bytes, starts: Ints, lengths: Ints, base64: Ints, offsets: Ints) -> tuple[int, int]:
    """Sums lengths of keys, decoded where ``base64[i]`` = 1, into Arrow offsets; (total, nulls) or (code, row)."""
    total, nulls = 0, 0
    offsets[0] = 0
    for i in range(len(lengths)):
        length = lengths[i]
        if length < 0:
            nulls += 1
        else:
            size = length if base64[i] == 0 else base64_size(data, starts[i], length)
            if size < 0:
                return size, i
            total += size
            if total > _LARGEST_OFFSET:
                return TOO_LARGE, i
        offsets[i + 1] = total
    return total, nulls


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_OFFSETS, WRITE_BYTES)
def gather_keys(data: Bytes, starts: Ints, base64: Ints, offsets: Ints, column: Bytes) -> tuple[int, int]:
    """Copies keys as ``gather_bytes`` does, decoding base64 text; returns (0, -1) or (code, row)."""
    at = offsets[0]
    for i in range(len(starts)):
        behind = offsets[i + 1]
        if base64[i] == 0:
            copy_bytes(column, at, data, starts[i], behind - at)
        elif decode_base64(data, starts[i], behind - at, column, at) < 0:
            return BAD_BASE64, i
        at = behind
    return 0, -1


@inlined
def in_micros(time_ms: int) -> int:
    """Milliseconds as microseconds, held within the years 1 to 9999."""
    return min(max(time_ms, _FIRST_DATE_MS), _LAST_DATE_MS) * 1000


@kernel(READ_INTS, WRITE_INTS)
def micros_of(times_ms: Ints, micros: Ints) -> int:
    """Milliseconds since 1970 as microseconds; returns how many are 0."""
    zeros = 0
    for i in range(len(times_ms)):
        zeros += 1 if times_ms[i] == 0 else 0
        micros[i] = in_micros(times_ms[i])
    return zeros


@kernel(READ_INTS, READ_INTS, WRITE_INTS)
def entry_micros_of_rows(entry_times_ms: Ints, row_entries: Ints, micros: Ints) -> None:
    """The time of each row's entry, in microseconds since 1970."""
    for r in range(len(row_entries)):
        micros[r] = in_micros(entry_times_ms[row_entries[r]])


@inlined
def write_number(column: Bytes, at: int, tag: int, value: int) -> int:
    """Writes one varint field with a one-byte tag; returns the place behind it."""
    column[at] = tag
    return write_varint(column, at + 1, value)


@kernel(READ_INTS, READ_INTS, READ_TABLE, READ_TABLE, WRITE_OFFSETS, WRITE_BYTES)
def write_message_ids(
    row_entries: Ints, batch_indexes: Ints, entries: Table, ids: Table, offsets: Ints, column: Bytes
) -> int:
    """Writes a MessageIdData per row as official clients serialise theirs; returns the bytes written.

    ``ids`` = ledger, entry, partition, first chunk's ledger and entry (ledger -1 = none), one item per entry;
    ``column`` has ``LONGEST_MESSAGE_ID_BYTES`` per row. Partition and batch fields are absent when negative.
    """
    at = 0
    offsets[0] = 0
    for r in range(len(row_entries)):
        i = row_entries[r]
        at = write_number(column, at, 0x08, ids[0, i])
        at = write_number(column, at, 0x10, ids[1, i])
        if ids[2, i] >= 0:
            at = write_number(column, at, 0x18, ids[2, i])
        if batch_indexes[r] >= 0:
            at = write_number(column, at, 0x20, batch_indexes[r])
            at = write_number(column, at, 0x30, entries[COUNT, i])
        if ids[3, i] >= 0:
            size = 2 + varint_size(ids[3, i]) + varint_size(ids[4, i])
            if ids[2, i] >= 0:
                size += 1 + varint_size(ids[2, i])
            at = write_number(column, at, 0x3A, size)
            at = write_number(column, at, 0x08, ids[3, i])
            at = write_number(column, at, 0x10, ids[4, i])
            if ids[2, i] >= 0:
                at = write_number(column, at, 0x18, ids[2, i])
        offsets[r + 1] = at
    return at


@inlined
def utf8_sequence_size(data: Bytes, at: int, end: int) -> int:
    """Bytes of the valid UTF-8 sequence of one character at ``at``, or 0 when it is not valid (RFC 3629)."""
    first = byte_at(data, at)
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return 0
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if size > end - at:
        return 0
    for i in range(1, size):
        if byte_at(data, at + i) & 0xC0 != 0x80:
            return 0
    second = byte_at(data, at + 1)
    overlong = (first == 0xE0 and second < 0xA0) or (first == 0xF0 and second < 0x90)
    beyond = (first == 0xED and second > 0x9F) or (first == 0xF4 and second > 0x8F)
    return 0 if overlong or beyond else size


@inlined
def is_text(data: Bytes, at: int, end: int) -> bool:
    """Returns whether bytes are valid UTF-8 (RFC 3629)."""
    while at < end:
        while end - at >= 8 and word_at(data, at) & _HIGH_BITS == 0:
            at += 8
        if at == end:
            return True
        size = utf8_sequence_size(data, at, end)
        if size == 0:
            return False
        at += size
    return True


@kernel(READ_BYTES, READ_OFFSETS)
def first_invalid_text(column: Bytes, offsets: Ints) -> int:
    """Index of the first item that is not valid UTF-8, or -1."""
    high = 0
    for at in range(offsets[0], offsets[len(offsets) - 1]):
        high |= byte_at(column, at) & 0x80
    if high == 0:
        return -1
    for i in range(len(offsets) - 1):
        if not is_text(column, offsets[i], offsets[i + 1]):
            return i
    return -1


@kernel(READ_BYTES, READ_OFFSETS, WRITE_INTS)
def invalid_text_rows(column: Bytes, offsets: Ints, rows: Ints) -> int:
    """Lists the items that are not valid UTF-8 in ``rows``, which has room for all; returns how many there are."""
    count = 0
    for i in range(len(offsets) - 1):
        if not is_text(column, offsets[i], offsets[i + 1]):
            rows[count] = i
            count += 1
    return count
