"""Primitive schemas: the bytes of each value as Pulsar's Java client writes them, big end first."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.encoding.columns import fixed_width, integers, micros
from spark_pulsar.connector.schemas.encoding.session_zone import as_instants, as_local_times
from spark_pulsar.model.schemas import SchemaType
from spark_pulsar.wire.columns.flat import FlatBytes, flat_bytes, validity

_DAY_MS: Final = 86_400_000
_DAY_MICROS: Final = 86_400_000_000
_WIDTHS: Final = {
    SchemaType.INT8: ">i1",
    SchemaType.INT16: ">i2",
    SchemaType.INT32: ">i4",
    SchemaType.INT64: ">i8",
    SchemaType.LOCAL_DATE: ">i8",
}


def encode_primitive(array: Any, kind: SchemaType) -> FlatBytes:
    """Encodes a column; a null stays null.

    DATE, TIME and TIMESTAMP are milliseconds as in Java's classes of these names; a DATE is midnight UTC. INSTANT is
    seconds and nanoseconds, LOCAL_DATE days, LOCAL_TIME nanoseconds, LOCAL_DATE_TIME days and nanoseconds.
    """
    if kind in (SchemaType.STRING, SchemaType.BYTES):
        return flat_bytes(array)
    if kind in (SchemaType.TIMESTAMP, SchemaType.INSTANT):
        array = as_instants(array)
    elif kind is SchemaType.LOCAL_DATE_TIME:
        array = as_local_times(array)
    return fixed_width(_numbers(array, kind))._replace(valid=validity(array))


def _numbers(array: Any, kind: SchemaType) -> Any:
    if kind in _WIDTHS:
        return integers(array).astype(_WIDTHS[kind])
    if kind is SchemaType.BOOLEAN:
        return array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
    if kind in (SchemaType.FLOAT, SchemaType.DOUBLE):
        wide, width = (pa.float32(), ">f4") if kind is SchemaType.FLOAT else (pa.float64(), ">f8")
        return array.cast(wide).fill_null(0).to_numpy(zero_copy_only=False).astype(width)
    if kind is SchemaType.DATE:
        return (integers(array) * _DAY_MS).astype(">i8")
    if kind is SchemaType.LOCAL_TIME:
        return (micros(array) * 1_000).astype(">i8")
    if kind in (SchemaType.TIME, SchemaType.TIMESTAMP):
        return (micros(array) // 1_000).astype(">i8")
    wide_part, rest = np.divmod(micros(array), 1_000_000 if kind is SchemaType.INSTANT else _DAY_MICROS)
    nanos = rest * 1_000
    if kind is SchemaType.INSTANT:
        packed = np.zeros(len(nanos), np.dtype([("seconds", ">i8"), ("nanos", ">i4")]))
        packed["seconds"], packed["nanos"] = wide_part, nanos
        return packed
    return np.stack((wide_part, nanos), axis=1).astype(">i8")
