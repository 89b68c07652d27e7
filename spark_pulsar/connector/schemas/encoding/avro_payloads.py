"""Rows encoded as Avro, column by column: sizes of all rows first, then the bytes, without a Python object for a row.

The definition decides: order of fields, order of union branches, logical types. It is the one derived from the
DataFrame, or the topic's where that says the same.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.encoding import kernels
from spark_pulsar.connector.schemas.encoding.columns import (
    children,
    fixed_width,
    integers,
    micros,
    offsets_of,
    refuse_nulls,
)
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes, flat_bytes, validity

_NO_UNION = (-1, -1)
_Codes = tuple[int, int]


class _Part(Protocol):
    """One field of all rows."""

    def size(self, sizes: IntArray) -> None:
        """Adds the bytes that the field takes in each row."""

    def put(self, cursors: IntArray, target: ByteArray) -> None:
        """Writes the field of each row at its cursor, which moves on."""


class _Longs:
    def __init__(self, values: IntArray, valid: ByteArray, codes: _Codes) -> None:
        self._values, self._valid, self._codes = values, valid, codes

    def size(self, sizes: IntArray) -> None:
        kernels.size_longs(self._values, self._valid, self._codes[1], sizes)

    def put(self, cursors: IntArray, target: ByteArray) -> None:
        kernels.put_longs(self._values, self._valid, *self._codes, cursors, target)


class _Items:
    """Bytes that are there already, with or without a length before them."""

    def __init__(self, items: FlatBytes, valid: ByteArray, codes: _Codes, has_length: bool) -> None:
        self._items, self._valid, self._codes, self._has_length = items, valid, codes, int(has_length)

    def size(self, sizes: IntArray) -> None:
        kernels.size_items(self._items.offsets, self._valid, self._has_length, self._codes[1], sizes)

    def put(self, cursors: IntArray, target: ByteArray) -> None:
        kernels.put_items(
            self._items.data, self._items.offsets, self._valid, self._has_length, *self._codes, cursors, target
        )


class _Blocks:
    """Arrays and maps, whose items are encoded already."""

    def __init__(self, firsts: IntArray, items: FlatBytes, valid: ByteArray, codes: _Codes) -> None:
        self._firsts, self._items, self._valid, self._codes = firsts, items, valid, codes

    def size(self, sizes: IntArray) -> None:
        kernels.size_blocks(self._firsts, self._items.offsets, self._valid, self._codes[1], sizes)

    def put(self, cursors: IntArray, target: ByteArray) -> None:
        kernels.put_blocks(
            self._items.data, self._firsts, self._items.offsets, self._valid, *self._codes, cursors, target
        )


class _Fields:
    """A record, field after field."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def size(self, sizes: IntArray) -> None:
        for part in self._parts:
            part.size(sizes)

    def put(self, cursors: IntArray, target: ByteArray) -> None:
        for part in self._parts:
            part.put(cursors, target)


def encode_avro(rows: Any, definition: Any) -> FlatBytes:
    """Encodes a column of structs with the definition of a record (parsed JSON); a null struct stays null.

    Raises SchemaError for a null where the definition allows none.
    """
    valid = validity(rows)
    if not len(valid):
        return _encoded(_part(rows, definition, ""), len(rows))
    present = rows.drop_null()
    return _spread(_encoded(_part(present, definition, ""), len(present)), valid)


def _encoded(part: _Part, row_count: int) -> FlatBytes:
    sizes = np.zeros(row_count, np.int64)
    part.size(sizes)
    offsets = offsets_of(sizes)
    target = np.empty(int(offsets[-1]), np.uint8)
    part.put(offsets[:-1].copy(), target)
    return FlatBytes(target, offsets, NO_BYTES)


def _spread(items: FlatBytes, valid: ByteArray) -> FlatBytes:
    """Gives each item the row that it belongs to; rows without one are null."""
    sizes = np.zeros(len(valid), np.int64)
    sizes[valid != 0] = np.diff(items.offsets)
    return FlatBytes(items.data, offsets_of(sizes), valid)


def without_null(kind: Any) -> tuple[Any, tuple[int, int]]:
    """Splits a union of null and one type: that type, and the codes of both branches; (-1, -1) for no union."""
    if not isinstance(kind, list):
        return kind, _NO_UNION
    others = [index for index, branch in enumerate(kind) if branch != "null"]
    if len(others) != 1 or len(kind) > 2:
        raise SchemaError(f"a union of {len(others)} types cannot be written")
    if len(kind) == 1:  # a union of one type still has its branch
        return kind[0], (-1, 0)
    return kind[others[0]], (2 - 2 * others[0], 2 * others[0])


def _part(array: Any, kind: Any, column: str) -> _Part:
    kind, codes = without_null(kind)
    if codes[0] < 0:
        refuse_nulls(array, column)
    name = kind["type"] if isinstance(kind, dict) else kind
    valid = validity(array)
    if name in ("int", "long"):
        return _Longs(_longs(array, kind), valid, codes)
    if name in ("string", "bytes"):
        return _Items(_decimals(array) if pa.types.is_decimal(array.type) else flat_bytes(array), valid, codes, True)
    if name in ("float", "double"):
        wide = array.cast(pa.float32() if name == "float" else pa.float64())
        return _Items(fixed_width(wide.to_numpy(zero_copy_only=False)), valid, codes, False)
    if name == "boolean":
        bits = array.fill_null(False).to_numpy(zero_copy_only=False)
        return _Items(fixed_width(bits.astype(np.uint8)), valid, codes, False)
    if name in ("array", "map"):
        firsts, items = children(array)
        if name == "array":
            part = _part(items, kind["items"], f"{column}[]")
        else:
            key, value = items.field(0), items.field(1)
            part = _Fields([_part(key, "string", column), _part(value, kind["values"], f"{column}[]")])
        return _Blocks(firsts, _encoded(part, len(items)), valid, codes)
    if name == "record":
        return _record(array, kind, column, codes, valid)
    raise SchemaError(f"column {column}: the Avro type {name} cannot be written")


def _record(array: Any, kind: Any, column: str, codes: _Codes, valid: ByteArray) -> _Part:
    present = array.drop_null() if len(valid) else array
    names = {present.type.field(index).name: index for index in range(present.type.num_fields)}
    prefix = f"{column}." if column else ""
    parts = [
        _part(present.field(names[field["name"]]), field["type"], f"{prefix}{field['name']}")
        for field in kind["fields"]
    ]
    fields = _Fields(parts)
    if codes == _NO_UNION:
        return fields
    items = _encoded(fields, len(present))
    return _Items(_spread(items, valid) if len(valid) else items, valid, codes, False)


def _longs(array: Any, kind: Any) -> IntArray:
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    if not pa.types.is_timestamp(array.type) and not pa.types.is_time(array.type):
        return integers(array)
    return micros(array) // 1_000 if logical.endswith("-millis") else micros(array)


def _decimals(array: Any) -> FlatBytes:
    """Returns unscaled values in as few bytes as hold them, big end first."""
    data = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else NO_BYTES
    lengths = np.zeros(len(array), np.int64)
    kernels.size_decimals(data, array.offset, lengths)
    offsets = offsets_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    kernels.put_decimals(data, array.offset, offsets, target)
    return FlatBytes(target, offsets, NO_BYTES)
