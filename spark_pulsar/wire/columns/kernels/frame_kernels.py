"""Kernels that write many small entries one behind the other, and the SENDs that carry them."""

from spark_pulsar.wire.columns.kernels.column_kernels import is_text
from spark_pulsar.wire.columns.kernels.compiler import (
    INT,
    READ_BYTES,
    READ_INTS,
    READ_TABLE,
    WRITE_BYTES,
    WRITE_INTS,
    Bytes,
    Ints,
    Table,
    inlined,
    kernel,
)
from spark_pulsar.wire.columns.kernels.encode_kernels import is_valid, write_delimited, write_properties, write_uint32
from spark_pulsar.wire.columns.kernels.layout import BATCH_END, BATCH_FIRST, BATCH_START, BATCH_STOP
from spark_pulsar.wire.columns.kernels.memory import copy_bytes, item_of
from spark_pulsar.wire.columns.kernels.varints import varint_size, write_varint

MOST_METADATA_BYTES = 80
"""Bytes of an entry's metadata beside its keys and what is written as it is."""
HEAD_BYTES = 10
"""Magic, checksum and size of the metadata."""
MOST_SEND_BYTES = 64
"""Bytes of a SEND beside its entry and what is written as it is."""


@inlined
def _write_long_tag(target: Bytes, at: int, number: int, kind: int) -> int:
    """Writes the tag of a field whose number is above 15; returns the place behind it."""
    return write_varint(target, at, number << 3 | kind)


@inlined
def _write_ordering_key(target: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """Writes the field of an ordering key; returns the place behind it."""
    at = write_varint(target, _write_long_tag(target, at, 18, 2), size)
    copy_bytes(target, at, data, start, size)
    return at + size


@inlined
def _begin_metadata(target: Bytes, at: int, name: Bytes, sequence_id: int, publish_time_ms: int) -> int:
    """Writes the magic of an entry and the first fields of its metadata, as all have them; returns the place behind
    them."""
    target[at], target[at + 1] = 0x0E, 0x01
    at += HEAD_BYTES
    copy_bytes(target, at, name, 0, len(name))
    at += len(name)
    target[at] = 0x10
    at = write_varint(target, at + 1, sequence_id)
    target[at] = 0x18
    return write_varint(target, at + 1, publish_time_ms)


@kernel(
    READ_BYTES, READ_TABLE, INT, INT, READ_INTS, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, INT, READ_BYTES,
    READ_INTS, READ_BYTES, READ_BYTES, READ_BYTES, READ_INTS, READ_INTS, READ_BYTES, INT, WRITE_BYTES, WRITE_INTS,
)  # fmt: skip
def write_entries(
    payloads: Bytes,
    batches: Table,
    first: int,
    stop: int,
    rows: Ints,
    sequence_ids: Ints,
    keys: Bytes,
    key_offsets: Ints,
    key_valid: Bytes,
    keys_are_base64: int,
    ordering_keys: Bytes,
    ordering_key_offsets: Ints,
    ordering_key_valid: Bytes,
    name: Bytes,
    versions: Bytes,
    version_bounds: Ints,
    row_versions: Ints,
    tail: Bytes,
    publish_time_ms: int,
    target: Bytes,
    bounds: Ints,
) -> int:
    """Writes the entries of the batches from ``first`` to ``stop``, entry i from ``bounds[i]`` on, all but their
    checksums; returns 0, or -1 where a key is no text.

    Fields of the metadata come in the order of their numbers, those of the batch's first row as BAT-6 has it. ``name``,
    ``versions`` (by ``row_versions``; none: the first of all) and ``tail`` are fields as they are on the wire. The
    target has room for MOST_METADATA_BYTES, HEAD_BYTES and all that is copied.
    """
    at = 0
    for b in range(first, stop):
        bounds[b - first] = at
        place, last = item_of(batches, BATCH_FIRST, b), item_of(batches, BATCH_STOP, b) - 1
        r = rows[place]
        has_key = len(key_offsets) > 0 and is_valid(key_valid, r)
        start = at + HEAD_BYTES
        at = _begin_metadata(target, at, name, sequence_ids[place], publish_time_ms)
        if has_key:
            if not is_text(keys, key_offsets[r], key_offsets[r + 1]):
                return -1
            at = write_delimited(target, at, 0x32, keys, key_offsets[r], key_offsets[r + 1] - key_offsets[r])
        target[at] = 0x58
        at = write_varint(target, at + 1, last + 1 - place)
        at = _write_version(target, at, r, versions, version_bounds, row_versions)
        if has_key and keys_are_base64 != 0:
            at = write_varint(target, _write_long_tag(target, at, 17, 0), 1)
        if len(ordering_key_offsets) > 0 and is_valid(ordering_key_valid, r):
            size = ordering_key_offsets[r + 1] - ordering_key_offsets[r]
            at = _write_ordering_key(target, at, ordering_keys, ordering_key_offsets[r], size)
        copy_bytes(target, at, tail, 0, len(tail))
        at += len(tail)
        if last > place:
            at = write_varint(target, _write_long_tag(target, at, 24, 0), sequence_ids[last])
        write_uint32(target, start - 4, at - start)
        size = item_of(batches, BATCH_END, b) - item_of(batches, BATCH_START, b)
        copy_bytes(target, at, payloads, item_of(batches, BATCH_START, b), size)
        at += size
    bounds[stop - first] = at
    return 0


@inlined
def _are_texts(
    r: int, property_offsets: Ints, keys: Bytes, key_offsets: Ints, values: Bytes, value_offsets: Ints
) -> bool:
    """Returns whether all properties of a row are texts."""
    for p in range(property_offsets[2 * r], property_offsets[2 * r + 1]):
        if not is_text(keys, key_offsets[p], key_offsets[p + 1]):
            return False
        if not is_text(values, value_offsets[p], value_offsets[p + 1]):
            return False
    return True


@inlined
def _write_version(target: Bytes, at: int, r: int, versions: Bytes, bounds: Ints, row_versions: Ints) -> int:
    """Writes the schema version of a row; returns the place behind it."""
    number = row_versions[r] if len(row_versions) > 0 else 0
    size = bounds[number + 1] - bounds[number]
    copy_bytes(target, at, versions, bounds[number], size)
    return at + size


@kernel(
    READ_TABLE, INT, INT, READ_INTS, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, READ_BYTES,
    INT, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_BYTES, READ_INTS, READ_INTS,
    READ_INTS, READ_BYTES, READ_BYTES, READ_INTS, READ_INTS, READ_BYTES, INT, WRITE_BYTES, WRITE_INTS,
)  # fmt: skip
def write_single_entries(
    batches: Table, first: int, stop: int, rows: Ints, sequence_ids: Ints, values: Bytes, value_offsets: Ints,
    value_valid: Bytes, keys: Bytes, key_offsets: Ints, key_valid: Bytes, keys_are_base64: int, ordering_keys: Bytes,
    ordering_key_offsets: Ints, ordering_key_valid: Bytes, property_offsets: Ints, property_keys: Bytes,
    property_key_offsets: Ints, property_values: Bytes, property_value_offsets: Ints, event_times: Ints,
    deliver_at_times: Ints, name: Bytes, versions: Bytes, version_bounds: Ints, row_versions: Ints, tail: Bytes,
    publish_time_ms: int, target: Bytes, bounds: Ints,
) -> int:  # fmt: skip
    """Writes the entries of batches of one row each as messages that are in no batch; otherwise as ``write_entries``,
    and -1 where a property is no text, too."""
    at = 0
    for b in range(first, stop):
        bounds[b - first] = at
        place = item_of(batches, BATCH_FIRST, b)
        r = rows[place]
        has_key = len(key_offsets) > 0 and is_valid(key_valid, r)
        start = at + HEAD_BYTES
        at = _begin_metadata(target, at, name, sequence_ids[place], publish_time_ms)
        if len(property_offsets) > 0:
            properties = property_keys, property_key_offsets, property_values, property_value_offsets
            if not _are_texts(r, property_offsets, *properties):
                return -1
            at = write_properties(target, at, 0x22, r, property_offsets, *properties)
        if has_key:
            if not is_text(keys, key_offsets[r], key_offsets[r + 1]):
                return -1
            at = write_delimited(target, at, 0x32, keys, key_offsets[r], key_offsets[r + 1] - key_offsets[r])
        if len(event_times) > 0 and event_times[r] != 0:
            target[at] = 0x60
            at = write_varint(target, at + 1, event_times[r])
        at = _write_version(target, at, r, versions, version_bounds, row_versions)
        if has_key and keys_are_base64 != 0:
            at = write_varint(target, _write_long_tag(target, at, 17, 0), 1)
        if len(ordering_key_offsets) > 0 and is_valid(ordering_key_valid, r):
            size = ordering_key_offsets[r + 1] - ordering_key_offsets[r]
            at = _write_ordering_key(target, at, ordering_keys, ordering_key_offsets[r], size)
        if len(deliver_at_times) > 0 and deliver_at_times[r] != 0:
            at = write_varint(target, _write_long_tag(target, at, 19, 0), deliver_at_times[r])
        copy_bytes(target, at, tail, 0, len(tail))
        at += len(tail)
        size = value_offsets[r + 1] - value_offsets[r]
        if not is_valid(value_valid, r):
            at, size = write_varint(target, _write_long_tag(target, at, 25, 0), 1), 0
        write_uint32(target, start - 4, at - start)
        copy_bytes(target, at, values, value_offsets[r], size)
        at += size
    bounds[stop - first] = at
    return 0


@kernel(READ_BYTES, READ_INTS, READ_INTS, READ_INTS, READ_INTS, INT, READ_BYTES, WRITE_BYTES)
def write_sends(
    entries: Bytes,
    bounds: Ints,
    first_ids: Ints,
    last_ids: Ints,
    counts: Ints,
    producer_id: int,
    transaction: Bytes,
    target: Bytes,
) -> int:
    """Writes the SEND of each entry with the entry behind it; returns the bytes written. ``transaction`` has its fields
    as they are on the wire."""
    at = 0
    for i in range(len(first_ids)):
        size = 2 + varint_size(producer_id) + varint_size(first_ids[i]) + len(transaction)
        if counts[i] != 1:
            size += 1 + varint_size(counts[i]) + 1 + varint_size(last_ids[i])
        command = 2 + 1 + varint_size(size) + size
        length = bounds[i + 1] - bounds[i]
        at = write_uint32(target, write_uint32(target, at, 4 + command + length), command)
        target[at], target[at + 1], target[at + 2] = 0x08, 0x06, 0x32
        at = write_varint(target, at + 3, size)
        target[at] = 0x08
        at = write_varint(target, at + 1, producer_id)
        target[at] = 0x10
        at = write_varint(target, at + 1, first_ids[i])
        if counts[i] != 1:
            target[at] = 0x18
            at = write_varint(target, at + 1, counts[i])
        copy_bytes(target, at, transaction, 0, len(transaction))
        at += len(transaction)
        if counts[i] != 1:
            target[at] = 0x30
            at = write_varint(target, at + 1, last_ids[i])
        copy_bytes(target, at, entries, bounds[i], length)
        at += length
    return at
