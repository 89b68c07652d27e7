"""Payloads of KEY_VALUE messages that hold both, as Pulsar's Java client writes them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.schemas.encoding.columns import binary_array, fixed_width
from spark_pulsar.wire.columns.flat import FlatBytes

_NULL_LENGTH: Final = -1


def encode_inline(key: FlatBytes, value: FlatBytes) -> Any:
    """Joins keys and values to payloads: each behind its length of four bytes, -1 for null."""
    nothing = pa.scalar(b"", pa.large_binary())
    parts = [part for items in (key, value) for part in (_lengths(items), binary_array(items).fill_null(nothing))]
    return pc.binary_join_element_wise(*parts, nothing)


def _lengths(items: FlatBytes) -> Any:
    lengths = np.diff(items.offsets)
    if len(items.valid):
        lengths = np.where(items.valid != 0, lengths, _NULL_LENGTH)
    return binary_array(fixed_width(lengths.astype(">i4")))
