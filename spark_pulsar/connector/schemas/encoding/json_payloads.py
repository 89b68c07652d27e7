"""Rows encoded as JSON, column by column, in the form that Pulsar's JSON schemas have.

The definition is one of Avro, and the values are those that it names: a date is a number of days, a timestamp a number
of microseconds (or milliseconds), a decimal a number with all its digits. As Pulsar's Java client and Spark's
`to_json` do, fields that are null are left out, bytes are base64, and NaN and infinities are strings.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.encoding import kernels, member_kernels
from spark_pulsar.connector.schemas.encoding.avro_payloads import without_null
from spark_pulsar.connector.schemas.encoding.columns import (
    binary_array,
    children,
    integers,
    micros,
    offsets_of,
    refuse_nulls,
)
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes, flat_bytes, validity
from spark_pulsar.wire.columns.hashes import text_keys

_NOT_FINITE: Final = {b"nan": b'"NaN"', b"inf": b'"Infinity"', b"-inf": b'"-Infinity"'}
_BRACKETS: Final = {"array": (ord("["), ord("]")), "map": (ord("{"), ord("}"))}


class _Member(Protocol):
    """One member of the objects of all rows."""

    def size(self, sizes: IntArray) -> None:
        """Adds the bytes that the member takes in each row, its comma too."""

    def put(self, starts: IntArray, cursors: IntArray, target: ByteArray) -> None:
        """Writes the member of each row at its cursor, which moves on."""


class _Values:
    """Values that are JSON already."""

    def __init__(self, values: FlatBytes, name: ByteArray) -> None:
        self._values, self._name = values, name

    def size(self, sizes: IntArray) -> None:
        kernels.size_members(self._values.offsets, self._values.valid, len(self._name), sizes)

    def put(self, starts: IntArray, cursors: IntArray, target: ByteArray) -> None:
        data, offsets, valid = self._values
        kernels.put_members(data, offsets, valid, self._name, starts, cursors, target)


class _Integers:
    def __init__(self, values: IntArray, valid: ByteArray, name: ByteArray) -> None:
        self._values, self._valid, self._name = values, valid, name

    def size(self, sizes: IntArray) -> None:
        member_kernels.size_integer_members(self._values, self._valid, len(self._name), sizes)

    def put(self, starts: IntArray, cursors: IntArray, target: ByteArray) -> None:
        member_kernels.put_integer_members(self._values, self._valid, self._name, starts, cursors, target)


class _Texts:
    def __init__(self, texts: FlatBytes, name: ByteArray) -> None:
        self._texts, self._name, self._lengths = texts, name, _text_lengths(texts)

    def size(self, sizes: IntArray) -> None:
        sizes += self._lengths
        sizes += len(self._name) if not len(self._texts.valid) else self._texts.valid * np.int64(len(self._name))

    def put(self, starts: IntArray, cursors: IntArray, target: ByteArray) -> None:
        data, offsets, valid = self._texts
        member_kernels.put_text_members(data, offsets, valid, self._lengths, self._name, starts, cursors, target)


def encode_json(rows: Any, definition: Any) -> FlatBytes:
    """Encodes a column of structs with the definition of a record (parsed JSON); a null struct stays null.

    Raises SchemaError for a null where the definition allows none.
    """
    return _value(rows, ["null", definition], "")


def _value(array: Any, kind: Any, column: str) -> FlatBytes:
    """Returns the JSON text of each row's value; null for null."""
    kind, (null_code, _) = without_null(kind)
    if null_code < 0:
        refuse_nulls(array, column)
    name = kind["type"] if isinstance(kind, dict) else kind
    if name == "record":
        return _object(array, kind, column)
    if name in _BRACKETS:
        return _joined(array, kind, name, column)
    if name == "string":
        return _quoted(flat_bytes(array))
    if name == "bytes" and not pa.types.is_decimal(array.type):
        return _quoted(text_keys(array.cast(pa.large_binary()), "base64").text)
    return flat_bytes(_scalars(array, kind, name, column))


def _object(array: Any, kind: Any, column: str) -> FlatBytes:
    valid = validity(array)
    present = array.drop_null() if len(valid) else array
    names = {present.type.field(index).name: index for index in range(present.type.num_fields)}
    prefix = f"{column}." if column else ""
    members: list[_Member] = []
    sizes = np.zeros(len(present), np.int64)
    for field in kind["fields"]:
        label = np.frombuffer(f",{json.dumps(field['name'])}:".encode(), np.uint8)
        values = present.field(names[field["name"]])
        member = _member(values, field["type"], f"{prefix}{field['name']}", label)
        member.size(sizes)
        members.append(member)
    sizes -= sizes > 0  # the first member has no comma
    offsets = offsets_of(sizes + 2)
    target = np.empty(int(offsets[-1]), np.uint8)
    starts = offsets[:-1] + 1
    cursors = starts.copy()
    for member in members:
        member.put(starts, cursors, target)
    target[offsets[:-1]], target[cursors] = ord("{"), ord("}")
    if not len(valid):
        return FlatBytes(target, offsets, NO_BYTES)
    spread = np.zeros(len(valid), np.int64)
    spread[valid != 0] = sizes + 2
    return FlatBytes(target, offsets_of(spread), valid)


def _member(array: Any, kind: Any, column: str, label: ByteArray) -> _Member:
    """Returns a member that is written straight from the column, where there is a kernel for its type."""
    only, (null_code, _) = without_null(kind)
    name = only["type"] if isinstance(only, dict) else only
    if name not in ("int", "long", "string"):
        return _Values(_value(array, kind, column), label)
    if null_code < 0:
        refuse_nulls(array, column)
    if name == "string":
        return _Texts(flat_bytes(array), label)
    return _Integers(_integers(array, only), validity(array), label)


def _joined(array: Any, kind: Any, name: str, column: str) -> FlatBytes:
    firsts, items = children(array)
    if name == "array":
        parts = _with_null_text(_value(items, kind["items"], f"{column}[]"))
    else:
        keys = _quoted(flat_bytes(items.field(0)))
        values = _with_null_text(_value(items.field(1), kind["values"], f"{column}[]"))
        parts = _side_by_side(keys, values)
    valid = validity(array)
    lengths = np.empty(len(array), np.int64)
    kernels.size_arrays(firsts, parts.offsets, valid, lengths)
    offsets = offsets_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    kernels.put_arrays(parts.data, firsts, parts.offsets, offsets, *_BRACKETS[name], target)
    return FlatBytes(target, offsets, valid)


def _with_null_text(items: FlatBytes) -> FlatBytes:
    """Items of arrays and maps are not left out: a null is told."""
    return (
        flat_bytes(pc.fill_null(binary_array(items), pa.scalar(b"null", pa.large_binary())))
        if len(items.valid)
        else items
    )


def _side_by_side(keys: FlatBytes, values: FlatBytes) -> FlatBytes:
    colon = pa.scalar(b":", pa.large_binary())
    return flat_bytes(pc.binary_join_element_wise(binary_array(keys), binary_array(values), colon))


def _quoted(texts: FlatBytes) -> FlatBytes:
    offsets = offsets_of(_text_lengths(texts))
    target = np.empty(int(offsets[-1]), np.uint8)
    kernels.put_texts(texts.data, texts.offsets, offsets, target)
    return FlatBytes(target, offsets, texts.valid)


def _text_lengths(texts: FlatBytes) -> IntArray:
    """Returns the length of each text as JSON, quotes included; 0 for a null."""
    lengths = np.empty(len(texts.offsets) - 1, np.int64)
    kernels.size_texts(texts.data, texts.offsets, texts.valid, lengths)
    return lengths


def _scalars(array: Any, kind: Any, name: str, column: str) -> Any:
    """Returns the text of numbers and booleans."""
    if name in ("int", "long"):
        return pa.array(_integers(array, kind), mask=_mask(array)).cast(pa.large_string())
    if name in ("float", "double"):
        return _floats(array)
    if name == "boolean" or pa.types.is_decimal(array.type):
        return array.cast(pa.large_string())
    raise SchemaError(f"column {column}: the Avro type {name} cannot be written")


def _integers(array: Any, kind: Any) -> IntArray:
    """Returns what the definition says of integers, dates and times."""
    if not pa.types.is_timestamp(array.type) and not pa.types.is_time(array.type):
        return integers(array)
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    return micros(array) // 1_000 if logical.endswith("-millis") else micros(array)


def _mask(array: Any) -> Any:
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _floats(array: Any) -> Any:
    texts = _with_zeros(flat_bytes(array.cast(pa.string())))
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() is not False:
        return binary_array(texts)
    shown = binary_array(texts)
    for text, quoted in _NOT_FINITE.items():
        shown = pc.if_else(pc.fill_null(pc.equal(shown, text), False), quoted, shown)
    return shown


def _with_zeros(texts: FlatBytes) -> FlatBytes:
    """Adds `.0` to whole numbers: else a reader without the definition takes 1 for an integer."""
    lengths = np.empty(len(texts.offsets) - 1, np.int64)
    member_kernels.size_floats(texts.data, texts.offsets, texts.valid, lengths)
    offsets = offsets_of(lengths)
    if offsets[-1] == texts.offsets[-1] - texts.offsets[0] and not len(texts.valid):
        return texts
    target = np.empty(int(offsets[-1]), np.uint8)
    member_kernels.put_floats(texts.data, texts.offsets, offsets, target)
    return FlatBytes(target, offsets, texts.valid)
