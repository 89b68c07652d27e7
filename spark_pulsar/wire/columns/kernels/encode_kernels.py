"""Kernels from flat columns to batch payloads: base64 text of binary keys, sizes and cuts of batches, the bytes
themselves."""

import numpy as np

from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    WRITE_BYTES,
    WRITE_INTS,
    WRITE_TABLE,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.layout import BATCH_END, BATCH_FIRST, BATCH_GROUP, BATCH_START, BATCH_STOP
from spark_pulsar.wire.columns.kernels.memory import byte_at, copy_bytes
from spark_pulsar.wire.columns.kernels.varints import varint_size, write_varint

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PADDING = 0x3D
_BASE64_FLAG_BYTES = 2
_NULL_VALUE_BYTES = 2


@kernel(READ_BYTES, READ_INTS, READ_INTS, WRITE_BYTES)
def encode_base64(data: Bytes, offsets: Ints, text_offsets: Ints, text: Bytes) -> None:
    """Writes each item of ``data`` as padded base64 to ``text``; item i has 4 * ceil(n / 3) characters there."""
    for i in range(len(offsets) - 1):
        at, end, to = offsets[i], offsets[i + 1], text_offsets[i]
        while at < end:
            have = min(3, end - at)
            bits = (byte_at(data, at)) << 16
            if have > 1:
                bits |= (byte_at(data, at + 1)) << 8
            if have > 2:
                bits |= byte_at(data, at + 2)
            text[to] = _ALPHABET[bits >> 18]
            text[to + 1] = _ALPHABET[bits >> 12 & 63]
            text[to + 2] = _ALPHABET[bits >> 6 & 63] if have > 1 else _PADDING
            text[to + 3] = _ALPHABET[bits & 63] if have > 2 else _PADDING
            at += 3
            to += 4


@kernel(READ_INTS, INT, WRITE_INTS, WRITE_INTS)
def group_by_partition(partitions: Ints, groups: int, offsets: Ints, rows: Ints) -> int:
    """Stable counting sort: row numbers by partition; returns -1, or the first row whose partition is out of range.

    ``offsets`` has groups + 2 items of zero on entry; on return group g is ``rows[offsets[g]:offsets[g + 1]]``.
    """
    for r in range(len(partitions)):
        if partitions[r] < 0 or partitions[r] >= groups:
            return r
        offsets[partitions[r] + 2] += 1
    for g in range(2, groups + 2):
        offsets[g] += offsets[g - 1]
    for r in range(len(partitions)):
        group = partitions[r] + 1
        rows[offsets[group]] = r
        offsets[group] += 1
    return -1


@inlined
def field_size(length: int) -> int:
    """Bytes of a delimited field with a one-byte tag."""
    return 1 + varint_size(length) + length


@inlined
def is_valid(valid: Bytes, r: int) -> bool:
    """Returns whether row ``r`` is not null; an empty array means that none is."""
    return len(valid) == 0 or valid[r] != 0


@inlined
def properties_size(r: int, property_offsets: Ints, key_offsets: Ints, value_offsets: Ints) -> int:
    """Bytes of all properties of a row."""
    size = 0
    for p in range(property_offsets[2 * r], property_offsets[2 * r + 1]):
        size += field_size(
            field_size(key_offsets[p + 1] - key_offsets[p]) + field_size(value_offsets[p + 1] - value_offsets[p])
        )
    return size


@kernel(
    READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, INT, READ_INTS, READ_BYTES, READ_INTS, READ_INTS, READ_INTS,
    READ_INTS, WRITE_INTS,
)  # fmt: skip
def metadata_sizes(
    value_offsets: Ints,
    value_valid: Bytes,
    key_offsets: Ints,
    key_valid: Bytes,
    keys_are_base64: int,
    ordering_key_offsets: Ints,
    ordering_key_valid: Bytes,
    property_offsets: Ints,
    property_key_offsets: Ints,
    property_value_offsets: Ints,
    event_times: Ints,
    sizes: Ints,
) -> None:
    """Bytes of each row's SingleMessageMetadata, except its sequence id.

    Columns that are not given are empty arrays. ``property_offsets`` holds first and end of each row in turn.
    """
    for r in range(len(sizes)):
        valid = is_valid(value_valid, r)
        size = 1 + varint_size(value_offsets[r + 1] - value_offsets[r] if valid else 0)
        if not valid:
            size += _NULL_VALUE_BYTES
        if len(key_offsets) > 0 and is_valid(key_valid, r):
            size += field_size(key_offsets[r + 1] - key_offsets[r])
            if keys_are_base64 != 0:
                size += _BASE64_FLAG_BYTES
        if len(ordering_key_offsets) > 0 and is_valid(ordering_key_valid, r):
            size += field_size(ordering_key_offsets[r + 1] - ordering_key_offsets[r])
        if len(property_offsets) > 0:
            size += properties_size(r, property_offsets, property_key_offsets, property_value_offsets)
        if len(event_times) > 0 and event_times[r] != 0:
            size += 1 + varint_size(event_times[r])
        sizes[r] = size


@kernel(
    READ_INTS, READ_INTS, READ_INTS, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, INT, INT, WRITE_INTS, WRITE_TABLE
)  # fmt: skip
def cut_batches(
    rows: Ints,
    group_offsets: Ints,
    sequence_ids: Ints,
    value_offsets: Ints,
    value_valid: Bytes,
    sizes: Ints,
    cuts: Bytes,
    most_messages: int,
    most_bytes: int,
    item_sizes: Ints,
    batches: Table,
) -> tuple[int, int]:
    """Cuts each group's rows, in order, into batches within both limits; returns (batches, bytes of all).

    ``item_sizes[j]`` becomes the size of the metadata of ``rows[j]`` with its sequence id, ``sequence_ids[j]``. A row
    above ``most_bytes`` becomes a batch of its own. A batch also ends before each ``rows[j]`` with ``cuts[j]``; an
    empty array has none.
    """
    b, at, first, start = 0, 0, 0, 0
    for g in range(len(group_offsets) - 1):
        open_batch = False
        for j in range(group_offsets[g], group_offsets[g + 1]):
            r = rows[j]
            item_sizes[j] = sizes[r] + 1 + varint_size(sequence_ids[j])
            item = 4 + item_sizes[j]
            if is_valid(value_valid, r):
                item += value_offsets[r + 1] - value_offsets[r]
            is_full = j - first >= most_messages or at + item - start > most_bytes
            if open_batch and (is_full or (len(cuts) > 0 and cuts[j] != 0)):
                b += 1
                open_batch = False
            if not open_batch:
                first, start = j, at
                batches[BATCH_GROUP, b] = g
                batches[BATCH_FIRST, b] = j
                batches[BATCH_START, b] = at
                open_batch = True
            at += item
            batches[BATCH_STOP, b] = j + 1
            batches[BATCH_END, b] = at
        if open_batch:
            b += 1
    return b, at


@inlined
def write_delimited(target: Bytes, at: int, tag: int, data: Bytes, start: int, length: int) -> int:
    """Writes a delimited field with a one-byte tag; returns the place behind it."""
    target[at] = tag
    at = write_varint(target, at + 1, length)
    copy_bytes(target, at, data, start, length)
    return at + length


@inlined
def write_properties(
    target: Bytes,
    at: int,
    tag: int,
    r: int,
    property_offsets: Ints,
    keys: Bytes,
    key_offsets: Ints,
    values: Bytes,
    value_offsets: Ints,
) -> int:
    """Writes all properties of a row, as fields of a tag; returns the place behind them."""
    for p in range(property_offsets[2 * r], property_offsets[2 * r + 1]):
        key_length = key_offsets[p + 1] - key_offsets[p]
        value_length = value_offsets[p + 1] - value_offsets[p]
        target[at] = tag
        at = write_varint(target, at + 1, field_size(key_length) + field_size(value_length))
        at = write_delimited(target, at, 0x0A, keys, key_offsets[p], key_length)
        at = write_delimited(target, at, 0x12, values, value_offsets[p], value_length)
    return at


@inlined
def write_uint32(target: Bytes, at: int, value: int) -> int:
    """Writes four big-endian bytes; returns the place behind them."""
    target[at] = value >> 24 & 0xFF
    target[at + 1] = value >> 16 & 0xFF
    target[at + 2] = value >> 8 & 0xFF
    target[at + 3] = value & 0xFF
    return at + 4


@kernel(
    READ_INTS, READ_INTS, READ_INTS, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, READ_BYTES,
    INT, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_INTS,
    WRITE_BYTES,
)  # fmt: skip
def write_batches(
    rows: Ints,
    group_offsets: Ints,
    sequence_ids: Ints,
    item_sizes: Ints,
    values: Bytes,
    value_offsets: Ints,
    value_valid: Bytes,
    keys: Bytes,
    key_offsets: Ints,
    key_valid: Bytes,
    keys_are_base64: int,
    ordering_keys: Bytes,
    ordering_key_offsets: Ints,
    ordering_key_valid: Bytes,
    property_offsets: Ints,
    property_keys: Bytes,
    property_key_offsets: Ints,
    property_values: Bytes,
    property_value_offsets: Ints,
    event_times: Ints,
    target: Bytes,
) -> int:
    """Writes all items in the order of ``rows``, fields in the order of their numbers; returns the bytes written."""
    at = 0
    for g in range(len(group_offsets) - 1):
        for j in range(group_offsets[g], group_offsets[g + 1]):
            r = rows[j]
            valid = is_valid(value_valid, r)
            length = value_offsets[r + 1] - value_offsets[r] if valid else 0
            at = write_uint32(target, at, item_sizes[j])
            if len(property_offsets) > 0:
                at = write_properties(
                    target,
                    at,
                    0x0A,
                    r,
                    property_offsets,
                    property_keys,
                    property_key_offsets,
                    property_values,
                    property_value_offsets,
                )  # fmt: skip
            has_key = len(key_offsets) > 0 and is_valid(key_valid, r)
            if has_key:
                at = write_delimited(target, at, 0x12, keys, key_offsets[r], key_offsets[r + 1] - key_offsets[r])
            target[at] = 0x18
            at = write_varint(target, at + 1, length)
            if len(event_times) > 0 and event_times[r] != 0:
                target[at] = 0x28
                at = write_varint(target, at + 1, event_times[r])
            if has_key and keys_are_base64 != 0:
                target[at] = 0x30
                target[at + 1] = 1
                at += 2
            if len(ordering_key_offsets) > 0 and is_valid(ordering_key_valid, r):
                size = ordering_key_offsets[r + 1] - ordering_key_offsets[r]
                at = write_delimited(target, at, 0x3A, ordering_keys, ordering_key_offsets[r], size)
            target[at] = 0x40
            at = write_varint(target, at + 1, sequence_ids[j])
            if not valid:
                target[at] = 0x48
                target[at + 1] = 1
                at += 2
            copy_bytes(target, at, values, value_offsets[r], length)
            at += length
    return at
