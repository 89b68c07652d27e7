"""Columns of Arrow as texts of JSON, a column at once: no value becomes an object of Python."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_CONTROLS: Final = "[\x00-\x1f]"
_NULL: Final = "null"


class NoText(ValueError):
    """A column of bytes that are not UTF-8, which JSON and CSV cannot hold."""


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Returns the rows of a batch as objects of JSON. Raises NoText."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return _objects([(name, json_text(column, name)) for name, column in columns], batch.num_rows)


def json_text(array: pa.Array, name: str) -> pa.Array:
    """Returns each value of a column as JSON, `null` for a null. Raises NoText, which has the column's name."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return json_text(array.dictionary_decode(), name)
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar(_NULL), len(array))
    return pc.fill_null(pc.if_else(pc.is_valid(array), _present(array, kind, name), None), _NULL)


def _present(array: pa.Array, kind: Any, name: str) -> pa.Array:
    """Returns the texts of values that are not null."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        wide = array.cast(pa.float64())
        return pc.if_else(pc.is_finite(wide), wide.cast(pa.string()), _NULL)
    if pa.types.is_struct(kind):
        fields = [(kind.field(at).name, pc.struct_field(array, at)) for at in range(kind.num_fields)]
        return _objects([(field, json_text(column, f"{name}.{field}")) for field, column in fields], len(array))
    if pa.types.is_map(kind):
        return _map(array, name)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _enclosed("[", _joined(array, json_text(pc.list_flatten(array), name)), "]")
    if pa.types.is_timestamp(kind):
        return _quoted(pc.strftime(array, "%Y-%m-%dT%H:%M:%SZ" if kind.tz else "%Y-%m-%dT%H:%M:%S"))
    return _quoted(_escaped(as_text(array, name)))


def as_text(array: pa.Array, name: str) -> pa.Array:
    """Returns values as texts, those of bytes as UTF-8. Raises NoText."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        raise NoText(
            f"column {name} has bytes that are not UTF-8: choose a file .parquet or .arrow, which keep bytes, or leave "
            "the column out"
        ) from None


def _map(array: pa.Array, name: str) -> pa.Array:
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[len(array)].as_py()
    keys = _quoted(_escaped(as_text(array.keys.slice(first, last - first), name)))
    items = json_text(array.items.slice(first, last - first), name)
    members = pc.binary_join_element_wise(keys, items, ":")
    lists = pa.ListArray.from_arrays(pc.subtract(offsets, first).cast(pa.int32()), members)
    return _enclosed("{", pc.binary_join(lists, ","), "}")


def _joined(array: pa.Array, texts: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(array).cast(pa.int32()), 0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _objects(members: list[tuple[str, pa.Array]], rows: int) -> pa.Array:
    if not members:
        return pa.repeat(pa.scalar("{}"), rows)
    parts: list[Any] = []
    for at, (name, texts) in enumerate(members):
        parts += [("," if at else "{") + json.dumps(name, ensure_ascii=False) + ":", texts]
    return pc.binary_join_element_wise(*parts, "}", "")


def _escaped(texts: pa.Array) -> pa.Array:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        texts = pc.replace_substring(texts, plain, escaped)
    if pc.any(pc.match_substring_regex(texts, _CONTROLS)).as_py():
        for code in range(0x20):
            texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    return _enclosed('"', texts, '"')


def _enclosed(begin: str, texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(begin, texts, end, "")
