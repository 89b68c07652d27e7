"""Arrow arrays of records, lists and maps, from the lengths of their values: -1 is a null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_pulsar.wire.columns.arrays import validity


def struct_array(kind: Any, count: int, parts: list[Any], lengths: Any) -> Any:
    """Returns structs of the type `kind` from the arrays of their fields; `lengths` None: none is a null."""
    nulls = 0 if lengths is None else _nulls(lengths)
    return pa.Array.from_buffers(kind, count, [validity(lengths, nulls)], nulls, 0, parts)


def list_array(kind: Any, items: Any, lengths: Any) -> Any:
    """Returns lists of the type `kind` from the items of all of them, in order."""
    return _with_items(kind, items, np.maximum(lengths, 0), lengths)


def map_array(kind: Any, keys: Any, values: Any, lengths: Any, *, has_equal_keys: bool) -> Any:
    """Returns maps of the type `kind` from the keys and values of all of them, in order. Of a key that a map has twice
    the last value counts, as in a dictionary."""
    counts = np.maximum(lengths, 0)
    if has_equal_keys:
        keys, values, counts = _without_equal_keys(keys, values, counts)
    pairs = pa.StructArray.from_arrays([keys, values], fields=[kind.key_field, kind.item_field])
    return _with_items(kind, pairs, counts, lengths)


def _with_items(kind: Any, items: Any, counts: Any, lengths: Any) -> Any:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    nulls = _nulls(lengths)
    buffers = [validity(lengths, nulls), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(lengths), buffers, nulls, 0, [items])


def _nulls(lengths: Any) -> int:
    return int(np.count_nonzero(lengths < 0))


def _without_equal_keys(keys: Any, values: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Returns maps with the last value of equal keys, at the place of the first, as a dictionary has them: their keys,
    values, and the number of pairs of each."""
    owners = np.repeat(np.arange(len(counts)), counts)
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first, inverse = np.unique(owners * (len(keys) + 1) + codes, return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.int64)
    np.maximum.at(last, inverse.reshape(-1), np.arange(len(keys)))
    order = np.argsort(first)
    first, last = first[order], last[order]
    return keys.take(pa.array(first)), values.take(pa.array(last)), np.bincount(owners[first], minlength=len(counts))
