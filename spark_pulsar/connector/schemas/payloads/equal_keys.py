"""Maps whose payloads have a key twice: the last value counts, as in a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def without_equal_keys(keys: Any, values: Any, counts: Any) -> tuple[Any, Any, Any]:
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
