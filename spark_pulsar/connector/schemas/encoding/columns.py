"""Columns on their way to bytes that official consumers read (SCHEMA-2): what the encoders of Avro, JSON and primitives
share. Values that are encoded already do not come here (`writing.encoded_values`, SCHEMA-3)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.encoding.session_zone import as_instants, as_local_times
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes

_MICROS: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_MOST_NANOS: Final = 2**63 - 1


def offsets_of(lengths: IntArray) -> IntArray:
    """Returns where items of these lengths begin, and the end of the last one."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def integers(array: Any) -> IntArray:
    """Returns a column of integers (or what Arrow stores as such) as 64-bit ones, 0 for null."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.view(pa.int32())
    elif not pa.types.is_integer(array.type):
        array = array.view(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    values: IntArray = np.ascontiguousarray(array.to_numpy(zero_copy_only=False), np.int64)
    return values


def micros(array: Any) -> IntArray:
    """Returns a column of timestamps or times in microseconds, rounded down; 0 for null."""
    multiplier, divisor = _MICROS[array.type.unit]
    values = integers(array)
    return values if multiplier == divisor else values * multiplier // divisor


def moments(array: Any, kind: Any) -> IntArray:
    """Returns what an Avro type says of integers, dates, times and timestamps: timestamps in its unit, and those of the
    other kind, with or without time zone, as Spark casts them (SCHEMA-11); finer ones are rounded down.

    Raises SchemaError for a time whose number of nanoseconds has more than 64 bits.
    """
    if not pa.types.is_timestamp(array.type) and not pa.types.is_time(array.type):
        return integers(array)
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    if logical.startswith("timestamp-"):
        array = as_instants(array)
    elif logical.startswith("local-timestamp-"):
        array = as_local_times(array)
    values = micros(array)
    if logical.endswith("-millis"):
        return values // 1_000
    if not logical.endswith("-nanos"):
        return values
    if len(values) and max(-int(values.min()), int(values.max())) > _MOST_NANOS // 1_000:
        raise SchemaError(f"a {logical} of the topic's schema has no room for a year before 1678 or after 2261")
    return values * 1_000


def fixed_width(values: Any) -> FlatBytes:
    """Returns each row's number, or row of numbers, as it lies in memory."""
    values = np.ascontiguousarray(values)
    width = values.dtype.itemsize * (values.shape[1] if values.ndim == 2 else 1)
    data: ByteArray = values.view(np.uint8).reshape(-1) if len(values) else NO_BYTES
    return FlatBytes(data, np.arange(len(values) + 1, dtype=np.int64) * width, NO_BYTES)


def children(array: Any) -> tuple[IntArray, Any]:
    """Returns where the items of each row of a list or map begin (and the end of the last), and just these items."""
    firsts = array.offsets.to_numpy().astype(np.int64)
    first, end = (int(firsts[0]), int(firsts[-1])) if len(firsts) else (0, 0)
    if pa.types.is_map(array.type):
        items = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    else:
        items = array.values
    return firsts - first, items.slice(first, end - first)


def binary_array(items: FlatBytes) -> Any:
    """Returns items as an Arrow column, without copying them."""
    count = len(items.offsets) - 1
    bitmap = None
    if len(items.valid):
        bitmap = pa.py_buffer(np.packbits(items.valid.astype(np.uint8), bitorder="little"))
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(items.offsets)), pa.py_buffer(items.data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, buffers)


def refuse_nulls(array: Any, column: str) -> None:
    """Raises SchemaError for a null in a field that takes none."""
    if array.null_count:
        raise SchemaError(f"column {column} holds a null, but the topic's schema allows none there")
