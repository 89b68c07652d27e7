"""Arrow arrays as kernels want them: bytes, 64-bit offsets, one byte of validity per row; slices and nulls resolved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_pulsar.wire.columns.entries import ByteArray, IntArray

NO_BYTES: ByteArray = np.zeros(0, np.uint8)
NO_INTS: IntArray = np.zeros(0, np.int64)

_MS_AS_FRACTION = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


class FlatBytes(NamedTuple):
    """A column of byte strings: item i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: ByteArray
    offsets: IntArray
    """n + 1 items; a column that is not there has none at all."""
    valid: ByteArray
    """1 per row that is not null; empty when no row is null."""

    def item(self, row: int) -> bytes | None:
        """Returns the bytes of one row, None when it is null or the column is not there."""
        if not len(self.offsets) or (len(self.valid) and not self.valid[row]):
            return None
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()


NO_COLUMN = FlatBytes(NO_BYTES, NO_INTS, NO_BYTES)


class FlatProperties(NamedTuple):
    """A column of maps: the properties of row r are items ``bounds[2 * r]`` to ``bounds[2 * r + 1]`` (exclusive)."""

    bounds: IntArray
    keys: FlatBytes
    values: FlatBytes


NO_PROPERTIES = FlatProperties(NO_INTS, NO_COLUMN, NO_COLUMN)


def one_array(column: Any) -> Any:
    """Returns a column in one piece (chunked arrays are put together)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # pyarrow keeps it chunked when there is not exactly one chunk left
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def validity(array: Any) -> ByteArray:
    """1 per row that is not null; empty when no row is null."""
    if array.null_count == 0:
        return NO_BYTES
    bits = array.buffers()[0]
    if bits is None:  # an array of type null, or a union
        return np.ascontiguousarray(array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8))
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return np.ascontiguousarray(unpacked[array.offset : array.offset + len(array)])


def _is_wide(arrow_type: Any) -> bool:
    return bool(pa.types.is_large_binary(arrow_type) or pa.types.is_large_string(arrow_type))


def _is_plain(arrow_type: Any) -> bool:
    return bool(pa.types.is_binary(arrow_type) or pa.types.is_string(arrow_type)) or _is_wide(arrow_type)


_TEXT_KINDS = [  # views are of Arrow 16 and newer
    getattr(pa.types, name) for name in ("is_string", "is_large_string", "is_string_view") if hasattr(pa.types, name)
]


def is_text(arrow_type: Any) -> bool:
    """Returns whether the type is one of Arrow's string types, or a dictionary of them."""
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return any(is_kind(arrow_type) for is_kind in _TEXT_KINDS)


def flat_bytes(column: Any) -> FlatBytes:
    """Returns a binary or string column (also large, view, fixed-size or dictionary) without copying its bytes if it
    can.

    :raises TypeError: the column is of another type
    """
    array = one_array(column)
    if pa.types.is_null(array.type):
        return FlatBytes(NO_BYTES, np.zeros(len(array) + 1, np.int64), np.zeros(len(array), np.uint8))
    if not _is_plain(array.type):
        try:
            array = one_array(array.cast(pa.large_string() if is_text(array.type) else pa.large_binary()))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as unsuited:
            raise TypeError(f"a column of strings or bytes is needed, not {array.type}") from unsuited
    _, offsets_buffer, data_buffer = array.buffers()
    data = NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    if len(array) == 0:
        return FlatBytes(data, np.zeros(1, np.int64), NO_BYTES)
    raw: npt.NDArray[Any] = np.frombuffer(offsets_buffer, np.int64 if _is_wide(array.type) else np.int32)
    return FlatBytes(data, raw[array.offset : array.offset + len(array) + 1].astype(np.int64), validity(array))


def flat_properties(column: Any) -> FlatProperties:
    """Returns a ``map<string, string>`` column; null maps have no properties.

    :raises TypeError: the column is of another type
    :raises ValueError: a property's value is null, which Pulsar cannot carry
    """
    array = one_array(column)
    if pa.types.is_null(array.type):
        return FlatProperties(np.zeros(2 * len(array), np.int64), NO_COLUMN, NO_COLUMN)
    if not pa.types.is_map(array.type):
        raise TypeError(f"properties are a map of strings to strings, not {array.type}")
    offsets = array.offsets.to_numpy().astype(np.int64)
    bounds = np.empty(2 * len(array), np.int64)
    bounds[0::2], bounds[1::2] = offsets[:-1], offsets[1:]
    valid = validity(array)
    if len(valid):
        bounds[1::2] = np.where(valid == 1, bounds[1::2], bounds[0::2])
    keys, values = flat_bytes(array.keys), flat_bytes(array.items)
    _refuse_null_values(bounds, keys, values)
    return FlatProperties(bounds, keys, values)


def _refuse_null_values(bounds: IntArray, keys: FlatBytes, values: FlatBytes) -> None:
    """Raises when a property that belongs to a row has a null value."""
    if not len(values.valid):
        return
    nulls_until = np.concatenate((np.zeros(1, np.int64), np.cumsum(values.valid == 0)))
    bad = np.flatnonzero(nulls_until[bounds[1::2]] > nulls_until[bounds[0::2]])
    if len(bad):
        first, end = bounds[2 * bad[0]], bounds[2 * bad[0] + 1]
        place = int(first + np.flatnonzero(values.valid[first:end] == 0)[0])
        name = (keys.item(place) or b"").decode(errors="replace")
        raise ValueError(f"row {bad[0]}: the property {name!r} is null; properties of messages are strings")


def event_times_ms(column: Any) -> IntArray:
    """Returns a timestamp column (any unit, any zone) or one of integers in milliseconds → int64 milliseconds, 0 for
    null (SINK-1).

    Fractions are rounded down. Pulsar's event time 0 means "none", also for the first instant of 1970.

    :raises TypeError: the column is of another type
    """
    array = one_array(column)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    numbers: IntArray
    if pa.types.is_timestamp(array.type):
        numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        multiplier, divisor = _MS_AS_FRACTION[array.type.unit]
        return numbers * multiplier // divisor
    if not pa.types.is_integer(array.type):
        raise TypeError(f"event times are timestamps or integers in milliseconds, not {array.type}")
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers
