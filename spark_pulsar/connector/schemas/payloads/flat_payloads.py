"""Payload columns as flat memory: bytes and offsets of a binary array, and arrays made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.wire.columns.arrays import validity
from spark_pulsar.wire.columns.kernels.column_kernels import bytes_offsets, gather_bytes, invalid_text_rows

Offsets = npt.NDArray[np.int32]
Octets = npt.NDArray[np.uint8]


def flat(payloads: Any) -> tuple[Octets, Offsets]:
    """Returns the bytes of a binary array and its n + 1 offsets into them, without a copy."""
    if not len(payloads):
        return np.zeros(0, np.uint8), np.zeros(1, np.int32)
    _, offsets, data = payloads.buffers()
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    ends: Offsets = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    return octets, ends


def spread(values: Any, valid: npt.NDArray[np.bool_]) -> Any:
    """Returns an array with an item for each of `valid`: the next of `values` where it is true, else null."""
    if values.null_count or not (pa.types.is_binary(values.type) or pa.types.is_string(values.type)):
        return values.take(pa.array(np.cumsum(valid) - 1, pa.int64(), mask=~valid))
    places = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(valid, out=places[1:])
    octets, offsets = flat(values)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets[places]), pa.py_buffer(octets)]
    return pa.Array.from_buffers(values.type, len(valid), buffers, len(valid) - int(places[-1]))


def without(values: Any, rows: npt.NDArray[np.bool_]) -> Any:
    """Returns an array that is null in `rows`; without a copy where it is one of structs."""
    if not pa.types.is_struct(values.type):
        return pc.if_else(pa.array(rows), pa.scalar(None, values.type), values)
    if values.null_count:
        rows = rows | values.is_null().to_numpy(zero_copy_only=False)
    bits, nulls = pa.py_buffer(np.packbits(~rows, bitorder="little")), int(np.count_nonzero(rows))
    parts = [values.field(i) for i in range(values.type.num_fields)]
    return pa.Array.from_buffers(values.type, len(values), [bits], nulls, 0, parts)


def gathered(octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Any:
    """Returns byte ranges as a binary array; null where a length is -1."""
    offsets = np.empty(len(lengths) + 1, np.int32)
    total, nulls = bytes_offsets(lengths, offsets)
    column = np.empty(total, np.uint8)
    gather_bytes(octets, starts, offsets, column)
    buffers = [validity(lengths, nulls), pa.py_buffer(offsets), pa.py_buffer(column)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, nulls)


def invalid_texts(payloads: Any) -> npt.NDArray[np.int64]:
    """Returns the rows of a binary array that are no UTF-8; a null is none of them."""
    octets, offsets = flat(payloads)
    rows = np.empty(len(payloads), np.int64)
    count = invalid_text_rows(octets, offsets, rows)
    return rows[:count]
