"""Rows encoded as Avro, column by column: sizes of all rows first, then the bytes, without a Python object for a row.

The definition decides: order of fields, order of union branches, logical types. It is the one derived from the
DataFrame, or the topic's where that takes the rows, and their values (SCHEMA-7: `branches`). Definitions are linked
(`linked_definition`).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.encoding import kernels
from spark_pulsar.connector.schemas.encoding.branches import (
    check_size,
    members_of_union,
    rescaled,
    symbol_places,
)
from spark_pulsar.connector.schemas.encoding.columns import (
    binary_array,
    children,
    fixed_width,
    moments,
    offsets_of,
    refuse_nulls,
)
from spark_pulsar.connector.schemas.encoding.missing_fields import avro_of_field, repeated
from spark_pulsar.connector.schemas.extended_definition import column_of
from spark_pulsar.connector.schemas.linked_definition import kind_of
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes, flat_bytes, validity

_NO_UNION = (-1, -1)
_Codes = tuple[int, int]
_MOST_BRANCHES = 64
"""Branches of a union whose number takes one byte."""


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
    """Encodes a column of structs with the definition of a record (linked); a null struct stays null.

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
    """Splits a union of null and one type: that type, and the codes of both branches; (-1, -1) for no union, and None
    for a union of several types."""
    if not isinstance(kind, list):
        return kind, _NO_UNION
    others = [index for index, branch in enumerate(kind) if kind_of(branch) != "null"]
    if len(others) != 1:
        return None, _NO_UNION
    if len(kind) == 1:  # a union of one type still has its branch
        return kind[0], (-1, 0)
    return kind[others[0]], (2 - 2 * others[0], 2 * others[0])


def _part(array: Any, kind: Any, column: str) -> _Part:
    kind, codes = without_null(union := kind)
    if kind is None:
        return _union(array, union, column)
    if codes[0] < 0:
        refuse_nulls(array, column)
    return _value(array, kind, column, codes)


def _value(array: Any, kind: Any, column: str, codes: _Codes) -> _Part:
    name = kind_of(kind)
    valid = validity(array)
    if name in ("int", "long"):
        return _Longs(moments(array, kind), valid, codes)
    if name == "enum":
        return _Longs(symbol_places(array, kind, column), valid, codes)
    if name in ("string", "bytes", "fixed"):
        return _Items(_bytes(array, kind, name, column), valid, codes, name != "fixed")
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
    parts: list[_Part] = []
    for field in kind["fields"]:
        name = f"{prefix}{field['name']}"
        source = column_of(field, names, kind)
        if source is not None:
            parts.append(_part(present.field(names[source]), field["type"], name))
        elif item := avro_of_field(field, name):
            parts.append(_Items(repeated(item, len(present)), NO_BYTES, _NO_UNION, False))
    fields = _Fields(parts)
    if codes == _NO_UNION:
        return fields
    items = _encoded(fields, len(present))
    return _Items(_spread(items, valid) if len(valid) else items, valid, codes, False)


def _union(array: Any, union: list[Any], column: str) -> _Part:
    """A union of several types: each row has its branch and the value behind it."""
    if len(union) > _MOST_BRANCHES:
        raise SchemaError(f"column {column}: a union of {len(union)} types cannot be written")
    columns = []
    for index, values in members_of_union(array, union, column):
        present = values.drop_null()
        items = _encoded(_value(present, union[index], column, (0, 2 * index)), len(present))
        columns.append(binary_array(_spread(items, values.is_valid().to_numpy(zero_copy_only=False))))
    kinds = [kind_of(branch) for branch in union]
    null = bytes([2 * kinds.index("null")]) if "null" in kinds else b""
    coalesced = pc.coalesce(*columns, pa.scalar(null, pa.large_binary()))
    return _Items(flat_bytes(coalesced), NO_BYTES, _NO_UNION, False)


def _bytes(array: Any, kind: Any, name: str, column: str) -> FlatBytes:
    if pa.types.is_decimal(array.type):
        items = _decimals(rescaled(array, kind, column))
        return _widened(items, kind["size"], column) if name == "fixed" else items
    if name == "fixed":
        check_size(array, kind, column)
    return flat_bytes(array)


def _widened(items: FlatBytes, size: int, column: str) -> FlatBytes:
    """Returns unscaled values in `size` bytes each: the sign stands before them."""
    lengths = np.diff(items.offsets)
    if len(lengths) and lengths.max() > size:
        raise SchemaError(f"column {column} holds a decimal of {lengths.max()} bytes, the topic's fixed has {size}")
    signs = np.zeros(len(lengths), np.uint8)
    if len(items.data):
        signs[lengths > 0] = np.where(items.data[items.offsets[:-1][lengths > 0]] >= 0x80, 0xFF, 0)
    target = np.repeat(signs, size)
    ends = (np.arange(len(lengths), dtype=np.int64) + 1) * size
    places = np.arange(len(items.data)) + np.repeat(ends - items.offsets[1:], lengths)
    target[places] = items.data
    return FlatBytes(target, np.concatenate((np.zeros(1, np.int64), ends)), NO_BYTES)


def _decimals(array: Any) -> FlatBytes:
    """Returns unscaled values in as few bytes as hold them, big end first."""
    data = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else NO_BYTES
    lengths = np.zeros(len(array), np.int64)
    kernels.size_decimals(data, array.offset, lengths)
    offsets = offsets_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    kernels.put_decimals(data, array.offset, offsets, target)
    return FlatBytes(target, offsets, NO_BYTES)
