"""Rows encoded as JSON, column by column, in the form that Pulsar's JSON schemas have (SCHEMA-16).

The definition is one of Avro, and the values are those that it names: a date is a number of days, a decimal a number
with all its digits; a time or timestamp is ISO 8601, or a number of microseconds (or milliseconds). As Pulsar's Java
client and Spark's `to_json` do, fields that are null are left out, bytes are base64, NaN and infinities are strings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64, NUMBER, TEXT
from spark_pulsar.connector.schemas.encoding import kernels, member_kernels
from spark_pulsar.connector.schemas.encoding.avro_payloads import without_null
from spark_pulsar.connector.schemas.encoding.branches import (
    check_size,
    members_of_union,
    rescaled,
    symbol_places,
)
from spark_pulsar.connector.schemas.encoding.columns import (
    binary_array,
    children,
    integers,
    moments,
    offsets_of,
    refuse_nulls,
)
from spark_pulsar.connector.schemas.encoding.missing_fields import json_of_field, repeated
from spark_pulsar.connector.schemas.encoding.session_zone import as_instants, as_local_times
from spark_pulsar.connector.schemas.extended_definition import column_of
from spark_pulsar.connector.schemas.linked_definition import kind_of
from spark_pulsar.wire.columns.entries import ByteArray, IntArray
from spark_pulsar.wire.columns.flat import NO_BYTES, FlatBytes, flat_bytes, validity
from spark_pulsar.wire.columns.key_hashes import text_keys

_NOT_FINITE: Final = {b"nan": b'"NaN"', b"inf": b'"Infinity"', b"-inf": b'"-Infinity"'}
_BRACKETS: Final = {"array": (ord("["), ord("]")), "map": (ord("{"), ord("}"))}


_FIRST_MICROS: Final = -62_135_596_800_000_000
_LAST_MICROS: Final = 253_402_300_799_999_999


@dataclass(frozen=True, slots=True)
class JsonForm:
    """Forms of values that clients write and read in more than one way: the options `jsonBytes` and `jsonTimes`."""

    bytes: str = BASE64
    times: str = TEXT


NUMBERS: Final = JsonForm(times=NUMBER)
"""Times as the numbers of the definition."""


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


def encode_json(rows: Any, definition: Any, form: JsonForm = NUMBERS) -> FlatBytes:
    """Encodes a column of structs with the definition of a record (linked); a null struct stays null.

    Raises SchemaError for a null where the definition allows none, and for bytes that are no UTF-8 where they
    are to be text.
    """
    return _value(rows, ["null", definition], "", form)


def _value(array: Any, kind: Any, column: str, form: JsonForm) -> FlatBytes:
    """Returns the JSON text of each row's value; null for null."""
    kind, (null_code, _) = without_null(union := kind)
    if kind is None:
        columns = members_of_union(array, union, column)
        members = [_value(values, ["null", union[index]], column, form) for index, values in columns]
        return members[0] if len(members) == 1 else flat_bytes(pc.coalesce(*map(binary_array, members)))
    if null_code < 0:
        refuse_nulls(array, column)
    name = kind_of(kind)
    if name == "record":
        return _object(array, kind, column, form)
    if name in _BRACKETS:
        return _joined(array, kind, name, column, form)
    if name == "enum":
        symbol_places(array, kind, column)  # checks them
    if name in ("string", "enum"):
        return _quoted(flat_bytes(array))
    if _is_text_time(array, form):
        return _time_texts(array, kind, column)
    if name == "fixed" and not pa.types.is_decimal(array.type):
        check_size(array, kind, column)
    if name in ("bytes", "fixed") and not pa.types.is_decimal(array.type):
        return _quoted(_byte_texts(array, column, form))
    return flat_bytes(_scalars(array, kind, name, column))


def _object(array: Any, kind: Any, column: str, form: JsonForm) -> FlatBytes:
    valid = validity(array)
    present = array.drop_null() if len(valid) else array
    names = {present.type.field(index).name: index for index in range(present.type.num_fields)}
    prefix = f"{column}." if column else ""
    members: list[_Member] = []
    sizes = np.zeros(len(present), np.int64)
    for field in kind["fields"]:
        label = np.frombuffer(f",{json.dumps(field['name'])}:".encode(), np.uint8)
        column_name = f"{prefix}{field['name']}"
        source = column_of(field, names, kind)
        if source is not None:
            member = _member(present.field(names[source]), field["type"], column_name, label, form)
        elif (text := json_of_field(field, column_name, form.bytes)) is not None:
            member = _Values(repeated(text, len(present)), label)
        else:
            continue
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


def _member(array: Any, kind: Any, column: str, label: ByteArray, form: JsonForm) -> _Member:
    """Returns a member that is written straight from the column, where there is a kernel for its type."""
    only, (null_code, _) = without_null(kind)
    name = "union" if only is None else kind_of(only)
    if name not in ("int", "long", "string") or _is_text_time(array, form):
        return _Values(_value(array, kind, column, form), label)
    if null_code < 0:
        refuse_nulls(array, column)
    if name == "string":
        return _Texts(flat_bytes(array), label)
    return _Integers(moments(array, only), validity(array), label)


def _joined(array: Any, kind: Any, name: str, column: str, form: JsonForm) -> FlatBytes:
    firsts, items = children(array)
    if name == "array" and _is_java_map(kind, items):
        name, parts = "map", _java_map(items, kind["items"], column, form)
    elif name == "array":
        parts = _with_null_text(_value(items, kind["items"], f"{column}[]", form))
    else:
        keys = _quoted(flat_bytes(items.field(0)))
        values = _with_null_text(_value(items.field(1), kind["values"], f"{column}[]", form))
        parts = _side_by_side(keys, values)
    valid = validity(array)
    lengths = np.empty(len(array), np.int64)
    kernels.size_arrays(firsts, parts.offsets, valid, lengths)
    offsets = offsets_of(lengths)
    target = np.empty(int(offsets[-1]), np.uint8)
    kernels.put_arrays(parts.data, firsts, parts.offsets, offsets, *_BRACKETS[name], target)
    return FlatBytes(target, offsets, valid)


def _is_java_map(kind: Any, items: Any) -> bool:
    """Returns whether an array of keys and values is a map to Java's client, which has an object of it in JSON."""
    if not str(kind.get("java-class", "")).endswith("Map") or not pa.types.is_struct(items.type):
        return False
    names = {field.name: field.type for field in items.type}
    plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean)
    return names.keys() == {"key", "value"} and any(is_plain(names["key"]) for is_plain in plain)


def _java_map(items: Any, kind: Any, column: str, form: JsonForm) -> FlatBytes:
    key, value = items.field("key"), items.field("value")
    if items.null_count or key.null_count:
        raise SchemaError(f"column {column} holds a null key, and a map of Java's client has none; leave it out")
    kinds = {field["name"]: field["type"] for field in kind["fields"]}
    values = _with_null_text(_value(value, kinds["value"], f"{column}[]", form))
    return _side_by_side(_quoted(flat_bytes(key.cast(pa.large_string()))), values)


def _with_null_text(items: FlatBytes) -> FlatBytes:
    """Items of arrays and maps are not left out: a null is written."""
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


def _is_text_time(array: Any, form: JsonForm) -> bool:
    return form.times == TEXT and bool(pa.types.is_timestamp(array.type) or pa.types.is_time(array.type))


def _time_texts(array: Any, kind: Any, column: str) -> FlatBytes:
    """Returns times and timestamps as ISO 8601, in quotes."""
    if pa.types.is_time(array.type):
        return _quoted(flat_bytes(array.cast(pa.time64("us")).cast(pa.large_string())))
    logical = kind.get("logicalType", "") if isinstance(kind, dict) else ""
    is_local = logical.startswith("local-") or (array.type.tz is None and not logical)
    array = as_local_times(array) if is_local else as_instants(array)
    values, valid = integers(array.cast(pa.timestamp("us", array.type.tz))), validity(array)
    if len(array) and not _FIRST_MICROS <= values.min() <= values.max() <= _LAST_MICROS:
        raise SchemaError(
            f"column {column} holds a timestamp that is not in the years 1 to 9999, which ISO 8601 has no text for; "
            "set jsonTimes to NUMBER"
        )
    length = member_kernels.LOCAL_TIME_BYTES if is_local else member_kernels.INSTANT_BYTES
    offsets = offsets_of(valid * np.int64(length)) if len(valid) else np.arange(len(array) + 1, dtype=np.int64) * length
    target = np.empty(int(offsets[-1]), np.uint8)
    member_kernels.put_times(values, valid, length, target)
    return FlatBytes(target, offsets, valid)


def _byte_texts(array: Any, column: str, form: JsonForm) -> FlatBytes:
    if form.bytes != TEXT:
        return text_keys(array.cast(pa.large_binary()), "base64").text
    try:
        return flat_bytes(array.cast(pa.large_binary()).cast(pa.large_string()))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {column} holds bytes that are no UTF-8, which JSON has no text for; set jsonBytes to BASE64"
        ) from error


def _scalars(array: Any, kind: Any, name: str, column: str) -> Any:
    """Returns the text of numbers and booleans."""
    if name in ("int", "long"):
        return pa.array(moments(array, kind), mask=_mask(array)).cast(pa.large_string())
    if name in ("float", "double"):
        return _floats(array)
    if name == "boolean" or pa.types.is_decimal(array.type):
        return (array if name == "boolean" else rescaled(array, kind, column)).cast(pa.large_string())
    raise SchemaError(f"column {column}: the Avro type {name} cannot be written")


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
