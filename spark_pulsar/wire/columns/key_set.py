"""Choice of rows by their keys, for whole columns."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.wire.columns.arrays import bytes_array
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.rows import Rows


class KeySet:
    """Keys that are wanted: text as it stands in ``partition_key``, and base64 text of bytes, which has its flag."""

    def __init__(self, texts: Collection[bytes], encoded: Collection[bytes]) -> None:
        self._texts = pa.array(sorted(texts), pa.binary())
        self._encoded = pa.array(sorted(encoded), pa.binary())

    def chosen(self, rows: Rows) -> Rows:
        """Returns the rows with one of the keys, in order. A row without key has none of them."""
        if not len(rows):
            return rows
        keys = bytes_array(rows, rows.field(layout.ROW_KEY_START), rows.field(layout.ROW_KEY_LENGTH), pa.binary())
        is_base64 = rows.field(layout.ROW_KEY_IS_BASE64) != 0
        wanted = np.where(is_base64, _is_in(keys, self._encoded), _is_in(keys, self._texts))
        if wanted.all():
            return rows
        return Rows(rows.table, rows.data, np.ascontiguousarray(rows.fields[:, wanted]))


def _is_in(keys: pa.Array, wanted: pa.Array) -> npt.NDArray[np.bool_]:
    if not len(wanted):
        return np.zeros(len(keys), np.bool_)
    is_wanted: npt.NDArray[np.bool_] = pc.is_in(keys, value_set=wanted).to_numpy(zero_copy_only=False)
    return is_wanted
