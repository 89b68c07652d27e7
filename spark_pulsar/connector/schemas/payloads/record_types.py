"""Types of records between a decoder and Spark: what a decoder makes of each Avro type, and its way to Spark's type.

Decoders make plain numbers, text and bytes ("physical"); dates, times and decimals become Spark's types by column.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat
from spark_pulsar.connector.schemas.payloads.written_types import (
    read_as,
    written_branches,
    written_fields,
    written_items,
)
from spark_pulsar.connector.schemas.types.arrow_types import (
    PLAIN,
    OddType,
    arrow_type,
    branches_of,
    decimal_of,
    logical_name,
    widened,
    with_odd_as,
)
from spark_pulsar.wire.columns.arrays import fixed_array

if TYPE_CHECKING:
    from spark_pulsar.model.avro import AvroType

_DAY_NS: Final = 24 * 60 * 60 * 1_000_000_000
_LARGEST: Final = 2**63 - 1
_BOUNDS: Final = {
    "time-millis": (0, _DAY_NS // 1_000_000 - 1),
    "time-micros": (0, _DAY_NS // 1_000 - 1),
    "timestamp-millis": (-(_LARGEST // 1000), _LARGEST // 1000),
    "local-timestamp-millis": (-(_LARGEST // 1000), _LARGEST // 1000),
}
"""Numbers that Spark has a value for."""
_DECIMAL_BITS: Final = 127
_DECIMAL_BYTES: Final = 16
_LONG_BYTES: Final = 8
_LONG_DIGITS: Final = 19
"""Digits that no 64-bit number has more of."""
_MOST_PRECISION: Final = 38
"""Digits that no number of 15 bytes has more of."""
_SIGN: Final = 0x80
_TEXT_BITS: Final = 14_000
"""Bits of decimals that become text, some 4,200 digits: Python makes no numbers of more."""
_EXACTLY: Final = decimal.Context(prec=5_000)
_PARTED: Final = ("record", "array", "map", "union")
_DECIMALS: Final = decimal.Context(prec=80)

Convert = Callable[[Any], Any]


class RecordType:
    """An Avro type as far as Spark's type `arrow` contains it, with the types of its parts.

    `physical` is what a decoder makes, `to_spark` turns an array of that into one of `arrow`. Payloads were written
    with the types `written`; in text, decimals have their own scale and come as they are, and with `is_exact` times are
    microseconds, whatever unit the numbers of payloads have. Raises SchemaError, with the
    path of the field, for a logical type that cannot be converted.
    """

    def __init__(
        self,
        avro: AvroType,
        arrow: Any,
        written: Sequence[AvroType] = (),
        *,
        is_text: bool = False,
        is_exact: bool = False,
        path: str = "",
    ) -> None:
        if isinstance(arrow, OddType):
            raise SchemaError(arrow.reason)
        how = {"is_text": is_text, "is_exact": is_exact}
        branches = branches_of(avro) if avro.kind == "union" else [avro]
        number = widened(branches) if len(branches) > 1 else None
        by_branch = written_branches(avro, written)
        self.avro = branches[0] if len(branches) == 1 else avro
        # whether payloads may hold a value of the type, as far as it is known
        self.arrow, self.is_written = arrow, bool(written)
        self.members: dict[str, RecordType] = {}
        """Types of the fields of a record, or of the branches of a union, that are wanted; by name."""
        self.branches: dict[str, RecordType] = {}
        """Types of all branches of a union, also of those that are not wanted: they determine the type of a value."""
        self.items: RecordType | None = None
        """Type of the items of an array, or of the values of a map."""
        self.is_union = len(branches) > 1 and number is None
        self.is_opaque = False
        """True where Spark lacks the type, and the value becomes JSON text or bytes as a whole."""
        self.written_unit = self.written_kind = ""
        """Unit and Avro type of the numbers of payloads, where `is_exact` makes microseconds of them."""
        self.logical = ""
        """Avro's logical type that payloads were written with, if Spark has a type for it; else empty."""
        self.scale = 0
        """Scale of a decimal that payloads were written with."""
        if not branches or number is not None:
            self.kind = "null" if not branches else "long" if number == pa.int64() else "double"
            self.physical = PLAIN[self.kind]
            return
        self.kind = "union" if self.is_union else self.avro.kind
        if self.kind in _PARTED and (pa.types.is_string(arrow) or pa.types.is_binary(arrow)):
            self.kind, self.physical, self.is_opaque, self.is_union = "opaque", arrow, True, False
            return
        if self.is_union:
            types = {
                f"member{i}": with_odd_as(arrow_type(branch, is_json=is_text), pa.string())
                for i, branch in enumerate(branches)
            }
            types |= {field.name: field.type for field in arrow}
            self.branches = {
                name: RecordType(branch, types[name], behind, path=path, **how)
                for name, branch, behind in zip(types, branches, by_branch, strict=True)
            }
            self.members = {field.name: self.branches[field.name] for field in arrow}
            self.physical = self._struct()
        elif self.kind == "record" and pa.types.is_timestamp(arrow):  # one of JAVA_TIMES
            self._set_moment("long", "timestamp-millis", is_exact)
        elif self.kind == "record":
            fields = {field.name: field for field in self.avro.fields}
            for name, kind in ((field.name, field.type) for field in arrow):
                behind = written_fields(fields[name], by_branch[0])
                self.members[name] = RecordType(fields[name].type, kind, behind, path=f"{path}.{name}", **how)
            self.physical = self._struct()
        elif self.kind in ("array", "map"):
            assert self.avro.items is not None
            is_array = self.kind == "array"
            kind, behind = arrow.value_type if is_array else arrow.item_type, written_items(self.kind, by_branch[0])
            self.items = RecordType(self.avro.items, kind, behind, path=f"{path}[]", **how)
            self.physical = pa.list_(self.items.physical) if is_array else pa.map_(pa.string(), self.items.physical)
        else:
            self._set_value(read_as(self.avro, by_branch[0], path, is_text=is_text), is_text, is_exact)

    def _set_value(self, written: AvroType, is_text: bool, is_exact: bool) -> None:
        """Sets a type without parts."""
        self.logical = logical_name(written)
        self.scale = (decimal_of(written) or (0, 0))[1]
        if is_text and self.logical:
            self.kind = written.kind
        self.physical = self.arrow if is_text and self.logical == "decimal" else PLAIN[self.kind]
        if is_text and self.logical not in ("", "decimal"):
            self._set_moment(self.kind, self.logical, is_exact)

    def _set_moment(self, kind: str, logical: str, is_exact: bool) -> None:
        """Sets a date, time or timestamp."""
        self.kind, self.logical, self.written_kind = kind, logical, kind
        family, _, self.written_unit = logical.rpartition("-")
        if is_exact and family:
            self.kind, self.logical = "long", f"{family}-micros"
        self.physical = PLAIN[self.kind]

    def _struct(self) -> Any:
        return pa.struct([pa.field(name, member.physical) for name, member in self.members.items()])

    def to_spark(self, array: Any) -> Any:
        """Converts an array of `physical` into one of `arrow`. Raises UndecodablePayload for a value that Spark has
        no room for."""
        if self.physical == self.arrow:
            return array
        if self.members:
            parts = [member.to_spark(array.field(i)) for i, member in enumerate(self.members.values())]
            return pa.StructArray.from_arrays(parts, fields=list(self.arrow), mask=array.is_null())
        if self.items is not None:
            return self._nested_to_spark(array)
        try:
            if self.logical == "decimal":
                return _decimal(array, self.arrow, self.scale)
            return _LOGICAL[self.logical](array, self.arrow)
        except (pa.ArrowInvalid, decimal.InvalidOperation, OverflowError) as error:
            raise self._out_of_range(array, error) from error

    def _nested_to_spark(self, array: Any) -> Any:
        assert self.items is not None
        if self.kind == "array":
            inner = self._items_to_spark(array, array.values)
        else:
            fields = [self.arrow.key_field, self.arrow.item_field]
            inner = pa.StructArray.from_arrays([array.keys, self._items_to_spark(array, array.items)], fields=fields)
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            self.arrow, len(array), [validity, offsets], array.null_count, array.offset, [inner]
        )

    def _items_to_spark(self, array: Any, items: Any) -> Any:
        """Converts the items of an array; rows of an error become those of the array."""
        assert self.items is not None
        try:
            return self.items.to_spark(items)
        except UndecodablePayload as error:
            offsets = array.offsets.to_numpy()
            item_rows = np.fromiter(error.rows, np.int64, len(error.rows))
            owners = (np.searchsorted(offsets, item_rows, "right") - 1).tolist()
            rows = {
                row: reason for row, reason in zip(owners, error.rows.values(), strict=True) if 0 <= row < len(array)
            }
            raise (UndecodablePayload.of(rows) if rows else UndecodablePayload(error.reason)) from error

    def _out_of_range(self, array: Any, error: Exception) -> UndecodablePayload:
        """Returns the error of all values that do not fit, by their rows; of none where they are not known."""
        bounds = _BOUNDS.get(self.logical)
        rows: dict[int, str] = {}
        if bounds is not None:
            numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero((numbers < bounds[0]) | (numbers > bounds[1]))
            out_of_range = zip(wrong.tolist(), numbers[wrong].tolist(), strict=True)
            rows = {row: f"a {self.logical} is out of range: {number}" for row, number in out_of_range}
        elif self.logical == "decimal":
            for row in range(len(array)):
                try:
                    _decimal(array.slice(row, 1), self.arrow, self.scale)
                except (pa.ArrowInvalid, decimal.InvalidOperation, OverflowError) as refusal:
                    rows[row] = f"a {self.logical} is out of range: {refusal}"
        return UndecodablePayload.of(rows) if rows else UndecodablePayload(f"a {self.logical} is out of range: {error}")


def _scaled(factor: int) -> Callable[[Any, Any], Any]:
    def convert(array: Any, arrow: Any) -> Any:
        return pc.multiply_checked(array.cast(pa.int64()), factor).view(arrow)

    return convert


def _from_nanos(array: Any, arrow: Any) -> Any:
    numbers = np.floor_divide(array.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(numbers, pa.int64(), mask=~valid).view(arrow)


def _time(factor: int) -> Callable[[Any, Any], Any]:
    def convert(array: Any, arrow: Any) -> Any:
        nanos = pc.multiply_checked(array.cast(pa.int64()), factor)
        bounds = pc.min_max(nanos)
        if len(nanos) > nanos.null_count and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < _DAY_NS:
            raise pa.ArrowInvalid("a time of day lies outside the day")
        return nanos.view(arrow)

    return convert


def _decimal(array: Any, arrow: Any, scale: int) -> Any:
    if pa.types.is_decimal128(arrow) and arrow.scale == scale:
        decimals = _short_decimals(array, arrow)
        if decimals is not None:
            return decimals
    most_bits = _DECIMAL_BITS if pa.types.is_decimal(arrow) else _TEXT_BITS
    numbers = [None if octets is None else int.from_bytes(octets, "big", signed=True) for octets in array.to_pylist()]
    if any(number is not None and number.bit_length() > most_bits for number in numbers):  # hours for a megabyte
        raise pa.ArrowInvalid(f"it has more than {most_bits} bits")
    if not pa.types.is_decimal(arrow):
        digits = [None if number is None else decimal.Decimal(number).scaleb(-scale, _EXACTLY) for number in numbers]
        return pa.array([None if digit is None else format(digit, "f") for digit in digits], arrow)
    values = [None if number is None else decimal.Decimal(number).scaleb(-scale, _DECIMALS) for number in numbers]
    return pa.array(values, arrow)


def _short_decimals(array: Any, arrow: Any) -> Any:
    """Returns unscaled values, big end first, as decimals, by column; None where one may have too many digits."""
    octets, ends = flat(array)
    ends = ends.astype(np.int64)
    lengths = np.diff(ends)
    longest = int(lengths.max(initial=0))
    if longest > _LONG_BYTES and (longest >= _DECIMAL_BYTES or arrow.precision < _MOST_PRECISION):
        return None
    starts, filled = ends[:-1], lengths > 0
    is_negative = np.zeros(len(array), np.bool_)
    is_negative[filled] = octets[starts[filled]] >= _SIGN
    words = np.repeat(np.where(is_negative, 0xFF, 0).astype(np.uint8), _DECIMAL_BYTES)
    lasts = (np.arange(len(array)) + 1) * _DECIMAL_BYTES  # of each value, in place of its end in the payloads
    places = np.arange(ends[0], ends[-1])
    words[places + np.repeat(lasts - ends[1:], lengths)] = octets[ends[0] : ends[-1]]
    words = np.ascontiguousarray(words.reshape(-1, _DECIMAL_BYTES)[:, ::-1])
    if longest <= _LONG_BYTES and arrow.precision < _LONG_DIGITS and len(array):
        values, most = words.view(np.int64)[:, 0], 10**arrow.precision
        if values.max() >= most or values.min() <= -most:
            return None
    return fixed_array(arrow, words, array.is_valid().to_numpy(zero_copy_only=False))


_LOGICAL: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "date": lambda array, arrow: array.view(arrow),
    "time-millis": _time(1_000_000),
    "time-micros": _time(1_000),
    "timestamp-millis": _scaled(1000),
    "timestamp-micros": _scaled(1),
    "timestamp-nanos": _from_nanos,
    "local-timestamp-millis": _scaled(1000),
    "local-timestamp-micros": _scaled(1),
    "local-timestamp-nanos": _from_nanos,
}
