"""Payloads of primitive schemas: a column of big-endian numbers becomes an Arrow array without work per row.

Widths and meanings are those of the official Java client: DATE, TIME and TIMESTAMP are milliseconds since 1970, INSTANT
is seconds and nanoseconds, LOCAL_DATE days, LOCAL_TIME nanoseconds of the day, LOCAL_DATE_TIME days and nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_pulsar.connector.schemas.payloads.decoder import Decoder, UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat, invalid_texts, without
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.connector.schemas.types.arrow_types import PRIMITIVES
from spark_pulsar.model.schemas import SchemaType

Ints = npt.NDArray[np.int64]

_DAY_MS: Final = 24 * 60 * 60 * 1000
_DAY_NS: Final = _DAY_MS * 1_000_000
_MOST_MICROS: Final = 2**63 - 1
_DAYS: Final = 2**31 - 1


def primitive_decoder(kind: SchemaType) -> Decoder:
    """Returns the decoder of a primitive type."""
    if kind in (SchemaType.NONE, SchemaType.BYTES):
        return BytesDecoder()
    return TextDecoder() if kind is SchemaType.STRING else NumberDecoder(kind)


class BytesDecoder:
    """Payloads as they are."""

    type = pa.binary()

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads."""
        return payloads


class TextDecoder:
    """Payloads as UTF-8."""

    type = pa.string()

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as strings."""
        try:
            return payloads.cast(pa.string())
        except pa.ArrowInvalid:
            reasons = Reasons.alike(invalid_texts(payloads), ["it is no UTF-8"])
            texts = without(payloads, reasons.are_of(len(payloads))).view(pa.string())
            raise UndecodablePayload.of(reasons, texts) from None


class NumberDecoder:
    """Payloads of a fixed width."""

    def __init__(self, kind: SchemaType) -> None:
        self._kind = kind
        self._width_bytes, self._values = _NUMBERS[kind]
        self.type: Any = PRIMITIVES[kind]

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as numbers of `type`."""
        octets, offsets = flat(payloads)
        sizes = np.diff(offsets)
        is_right = sizes == self._width_bytes
        if is_right.all():
            return self._of_width(octets[offsets[0] : offsets[-1]])
        reasons = self._reasons(np.flatnonzero(~is_right), sizes[~is_right])
        right = np.zeros(len(payloads), f"V{self._width_bytes}")
        right[is_right] = octets[offsets[0] : offsets[-1]][np.repeat(is_right, sizes)].view(right.dtype)
        try:
            values = self._of_width(right.view(np.uint8), ~is_right)
        except UndecodablePayload as error:
            raise UndecodablePayload.of(reasons) from error
        raise UndecodablePayload.of(reasons, values)

    def _reasons(self, rows: Ints, sizes: npt.NDArray[np.int32]) -> Reasons:
        width = f"{self._kind.name} has {self._width_bytes} bytes, not"
        if (sizes == sizes[0]).all():
            return Reasons.alike(rows, [f"{width} {sizes[0]}"])
        known, places = np.unique(sizes, return_inverse=True)
        return Reasons.alike(rows, [f"{width} {size}" for size in known.tolist()], places.reshape(-1))

    def _of_width(self, octets: npt.NDArray[np.uint8], nulls: npt.NDArray[np.bool_] | None = None) -> Any:
        values = pa.array(self._values(octets.reshape(-1, self._width_bytes)), mask=nulls)
        return values.view(self.type) if self.type != pa.bool_() else values


def _numbers(kind: str) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]]:
    def values(rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        return rows.reshape(-1).view(f">{kind}").astype(kind)

    return values


def _longs(rows: npt.NDArray[np.uint8], first: int = 0) -> Ints:
    return np.ascontiguousarray(rows[:, first : first + 8]).view(">i8")[:, 0].astype(np.int64)


def _within(values: Ints, low: int, high: int, what: str) -> Ints:
    wrong = np.flatnonzero((values < low) | (values > high))
    if len(wrong):
        reasons = zip(wrong.tolist(), values[wrong].tolist(), strict=True)
        raise UndecodablePayload.of({row: f"{value} is no {what}" for row, value in reasons})
    return values


def _micros(millis: Ints) -> Ints:
    return _within(millis, -_MOST_MICROS // 1000 + 1, _MOST_MICROS // 1000, "time that Spark has") * 1000


def _days(days: Ints) -> npt.NDArray[np.int32]:
    return _within(days, -_DAYS, _DAYS, "date that Spark has").astype(np.int32)


def _micros_of_days(rows: npt.NDArray[np.uint8]) -> Ints:
    most = _MOST_MICROS // (_DAY_MS * 1000) - 1
    days = _within(_longs(rows), -most, most, "date that Spark has a time for")
    return days * (_DAY_MS * 1000) + _within(_longs(rows, 8), 0, _DAY_NS - 1, "time of a day") // 1000


def _micros_of_seconds(rows: npt.NDArray[np.uint8]) -> Ints:
    most = _MOST_MICROS // 1_000_000 - 1
    seconds = _within(_longs(rows), -most, most, "time that Spark has")
    nanos = np.ascontiguousarray(rows[:, 8:]).view(">i4")[:, 0].astype(np.int64)
    return seconds * 1_000_000 + _within(nanos, 0, 999_999_999, "part of a second") // 1000


_NUMBERS: Final[dict[SchemaType, tuple[int, Callable[[npt.NDArray[np.uint8]], npt.NDArray[Any]]]]] = {
    SchemaType.BOOLEAN: (1, lambda rows: rows[:, 0] != 0),
    SchemaType.INT8: (1, _numbers("i1")),
    SchemaType.INT16: (2, _numbers("i2")),
    SchemaType.INT32: (4, _numbers("i4")),
    SchemaType.INT64: (8, _numbers("i8")),
    SchemaType.FLOAT: (4, _numbers("f4")),
    SchemaType.DOUBLE: (8, _numbers("f8")),
    SchemaType.DATE: (8, lambda rows: _days(np.floor_divide(_longs(rows), _DAY_MS))),
    SchemaType.TIME: (8, lambda rows: np.mod(_longs(rows), _DAY_MS) * 1_000_000),
    SchemaType.TIMESTAMP: (8, lambda rows: _micros(_longs(rows))),
    SchemaType.INSTANT: (12, _micros_of_seconds),
    SchemaType.LOCAL_DATE: (8, lambda rows: _days(_longs(rows))),
    SchemaType.LOCAL_TIME: (8, lambda rows: _within(_longs(rows), 0, _DAY_NS - 1, "time of a day")),
    SchemaType.LOCAL_DATE_TIME: (16, _micros_of_days),
}
"""Width in bytes and reader of each type, from a matrix of bytes with a row for each payload."""
