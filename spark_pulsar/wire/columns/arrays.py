"""Arrow arrays from rows: one function per column, none of them with work per message in Python.

Offsets, bytes and validity are made by kernels in NumPy memory and wrapped, not copied. Types are the plain ones
(32-bit offsets), which is what Spark takes.
"""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.column_kernels import (
    LONGEST_MESSAGE_ID_BYTES,
    bytes_offsets,
    entry_micros_of_rows,
    first_invalid_text,
    gather_bytes,
    gather_keys,
    key_offsets,
    micros_of,
    write_message_ids,
)
from spark_pulsar.wire.columns.kernels.property_kernels import (
    KNOWN_OF_PATTERN,
    PATTERN_FIELDS,
    PATTERNS,
    ROOM_BEHIND,
    write_properties,
)
from spark_pulsar.wire.columns.rows import Rows

TIMESTAMP = pa.timestamp("us", tz="UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())
_SCHEMA_VERSION_BYTES = 8


def validity(lengths: IntArray, nulls: int) -> Any:
    """Returns Arrow's validity bitmap for lengths of which -1 means null; None when none is."""
    return pa.py_buffer(np.packbits(lengths >= 0, bitorder="little")) if nulls else None


def fixed_array(arrow_type: Any, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None = None) -> Any:
    """Returns an array of numbers over NumPy memory; items where ``valid`` is false are null."""
    bits, nulls = None, 0
    if valid is not None and not valid.all():
        bits, nulls = pa.py_buffer(np.packbits(valid, bitorder="little")), int(len(valid) - valid.sum())
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow_type, len(values), [bits, pa.py_buffer(values)], nulls)


def bytes_array(rows: Rows, starts: IntArray, lengths: IntArray, arrow_type: Any) -> Any:
    """Byte ranges of ``rows.data`` (length -1 = null) as a binary or string array; text is made valid UTF-8."""
    offsets = np.empty(len(lengths) + 1, np.int32)
    total, nulls = bytes_offsets(lengths, offsets)
    if total < 0:
        rows.refuse(len(lengths) - 1, total)
    column = np.empty(total, np.uint8)
    gather_bytes(rows.data, starts, offsets, column)
    if arrow_type == pa.string():
        offsets, column = _valid_text(offsets, column)
    buffers = [validity(lengths, nulls), pa.py_buffer(offsets), pa.py_buffer(column)]
    return pa.Array.from_buffers(arrow_type, len(lengths), buffers, nulls)


def _valid_text(offsets: npt.NDArray[np.int32], column: ByteArray) -> tuple[npt.NDArray[np.int32], ByteArray]:
    """Replaces bytes that are not UTF-8 by U+FFFD, as Java's clients show it."""
    if first_invalid_text(column, offsets) < 0:
        return offsets, column
    bounds = offsets.tolist()
    text_bytes = column.tobytes()
    texts = [text_bytes[start:end].decode(errors="replace").encode() for start, end in itertools.pairwise(bounds)]
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("text with replaced characters passes 2 GiB")
    return np.concatenate((np.zeros(1, np.int32), ends.astype(np.int32))), np.frombuffer(b"".join(texts), np.uint8)


def value_array(rows: Rows) -> Any:
    """Returns the payload of each message; null where null_value is set (READ-3)."""
    starts, lengths = rows.field(layout.ROW_VALUE_START), rows.field(layout.ROW_VALUE_LENGTH)
    return bytes_array(rows, starts, lengths, pa.binary())


def key_array(rows: Rows) -> Any:
    """Returns the key's bytes: text as UTF-8, base64 keys decoded; null without key or with null_partition_key."""
    starts, lengths = rows.field(layout.ROW_KEY_START), rows.field(layout.ROW_KEY_LENGTH)
    base64 = rows.field(layout.ROW_KEY_IS_BASE64)
    if not base64.any():
        return bytes_array(rows, starts, lengths, pa.binary())
    offsets = np.empty(len(lengths) + 1, np.int32)
    total, nulls = key_offsets(rows.data, starts, lengths, base64, offsets)
    if total < 0:
        rows.refuse(nulls, total)
    column = np.empty(total, np.uint8)
    code, row = gather_keys(rows.data, starts, base64, offsets, column)
    if code < 0:
        rows.refuse(row, code)
    buffers = [validity(lengths, nulls), pa.py_buffer(offsets), pa.py_buffer(column)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, nulls)


def repeated_text_array(text: str, count: int) -> Any:
    """Repeats a string ``count`` times."""
    encoded = text.encode()
    if len(encoded) * count > np.iinfo(np.int32).max:
        raise OverflowError("repeated text passes 2 GiB")
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(encoded * count)], 0)


def publish_time_array(rows: Rows) -> Any:
    """Returns the publish time of each message as UTC timestamps in microseconds, held within the years 1 to 9999."""
    micros = np.empty(len(rows), np.int64)
    entry_micros_of_rows(rows.table.field(layout.PUBLISH_TIME), rows.field(layout.ROW_ENTRY), micros)
    return fixed_array(TIMESTAMP, micros)


def event_time_array(rows: Rows) -> Any:
    """Event times as ``publish_time_array``; null where it is 0 or absent."""
    times_ms = rows.field(layout.ROW_EVENT_TIME)
    micros = np.empty(len(rows), np.int64)
    zeros = micros_of(times_ms, micros)
    return fixed_array(TIMESTAMP, micros, times_ms != 0 if zeros else None)


NO_SCHEMA_VERSION = -1
"""Schema version of a message that carries none, or one that is no number of eight bytes."""


def schema_versions(rows: Rows) -> IntArray:
    """Returns the schema version of each message: that of its entry; NO_SCHEMA_VERSION without."""
    table = rows.table
    versions = np.full(len(table), NO_SCHEMA_VERSION, np.int64)
    places = np.flatnonzero(table.field(layout.SCHEMA_VERSION_LENGTH) == _SCHEMA_VERSION_BYTES)
    if len(places):
        starts = table.field(layout.SCHEMA_VERSION_START)[places]
        octets = table.entries.data[starts[:, None] + np.arange(_SCHEMA_VERSION_BYTES)]
        versions[places] = octets.view(">i8")[:, 0]
    of_rows: IntArray = versions[rows.field(layout.ROW_ENTRY)]
    return of_rows


def message_id_array(rows: Rows) -> Any:
    """Each message's id as the official clients serialise it (MessageIdData)."""
    offsets = np.empty(len(rows) + 1, np.int32)
    column = np.empty(len(rows) * LONGEST_MESSAGE_ID_BYTES, np.uint8)
    used = write_message_ids(
        rows.field(layout.ROW_ENTRY),
        rows.field(layout.ROW_BATCH_INDEX),
        rows.table.fields,
        rows.table.entries.ids,
        offsets,
        column,
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(column[:used].copy())]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers, 0)


_Texts = tuple[npt.NDArray[np.int32], ByteArray]
"""Offsets and bytes."""


def _pooled(count: int, item: Any) -> Any:
    """Returns an array of ``count`` items, not initialised, in memory of Arrow's pool.

    The pool gives the pages of columns that were freed to those of the next batch. Memory that is fresh from the system
    costs more, page by page, than all that kernels do with it.
    """
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(item).itemsize), item)


def properties_array(rows: Rows) -> Any:
    """Returns the properties of each message as a map; empty without any; of equal keys the last one counts."""
    counts = rows.field(layout.ROW_PROPERTY_COUNT)
    if counts.any():
        offsets, columns = _properties(rows, counts)
    else:
        offsets, none = np.zeros(len(rows) + 1, np.int32), (np.zeros(1, np.int32), np.empty(0, np.uint8))
        columns = [none, none]
    items = [
        pa.Array.from_buffers(pa.string(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(column)], 0)
        for bounds, column in columns
    ]
    pairs = pa.StructArray.from_arrays(items, fields=[PROPERTIES.key_field, PROPERTIES.item_field])
    return pa.Array.from_buffers(PROPERTIES, len(rows), [None, pa.py_buffer(offsets)], 0, 0, [pairs])


def _properties(rows: Rows, counts: IntArray) -> tuple[npt.NDArray[np.int32], list[_Texts]]:
    """Returns the offsets of rows in the properties, and the properties' keys and values."""
    starts, ends = rows.field(layout.ROW_METADATA_START), rows.field(layout.ROW_METADATA_END)
    most, total = int(counts.max()), int(counts.sum())
    room = int((ends - starts)[counts > 0].sum()) + ROOM_BEHIND
    offsets, doubts = np.empty(len(rows) + 1, np.int32), np.empty(len(rows), np.int64)
    texts = tuple((_pooled(total + 1, np.int32), _pooled(room, np.uint8)) for _ in range(2))
    (key_offsets, keys), (value_offsets, values) = texts
    written, row, high = write_properties(
        rows.data,
        rows.field(layout.ROW_BATCH_INDEX),
        counts,
        starts,
        ends,
        most + 1,
        np.empty((PATTERN_FIELDS, PATTERNS * (most + 1)), np.int64),
        np.full(PATTERNS * KNOWN_OF_PATTERN, -1, np.int64),
        np.zeros(1 << (2 * most).bit_length(), np.int64),
        offsets,
        key_offsets,
        keys,
        value_offsets,
        values,
        doubts,
    )
    if written < 0:
        rows.refuse(row, written)
    columns = [(bounds[: written + 1], column[: bounds[written]]) for bounds, column in texts]
    if doubts.any():
        offsets, columns = _without_repeated_keys(offsets, columns, doubts)
    return offsets, [_valid_text(*columns[0]) if high else columns[0], _valid_text(*columns[1])]


def _without_repeated_keys(
    offsets: npt.NDArray[np.int32], columns: list[_Texts], doubts: IntArray
) -> tuple[npt.NDArray[np.int32], list[_Texts]]:
    """Drops repeated keys in rows that the kernel has left alone, since their keys are made to collide."""
    (key_bounds, keys), _ = columns
    keep = np.ones(len(key_bounds) - 1, np.bool_)
    for row in np.flatnonzero(doubts).tolist():
        first, end = offsets[row : row + 2].tolist()
        bounds = key_bounds[first : end + 1].tolist()
        last = {keys[start:stop].tobytes(): i for i, (start, stop) in enumerate(itertools.pairwise(bounds), first)}
        keep[first:end] = False
        keep[list(last.values())] = True
    kept_until = np.concatenate((np.zeros(1, np.int32), np.cumsum(keep, dtype=np.int32)))
    return kept_until[offsets], [_filtered(texts, keep) for texts in columns]


def _filtered(texts: _Texts, keep: npt.NDArray[np.bool_]) -> _Texts:
    bounds, column = texts
    lengths = np.diff(bounds)
    kept = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths[keep], dtype=np.int32)))
    return kept, column[np.repeat(keep, lengths)]
