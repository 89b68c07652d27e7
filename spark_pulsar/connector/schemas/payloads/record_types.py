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

from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.written_types import (
    read_as,
    written_branches,
    written_fields,
    written_items,
)
from spark_pulsar.connector.schemas.types.arrow_types import (
    PLAIN,
    arrow_type,
    branches_of,
    decimal_of,
    logical_name,
    widened,
)

if TYPE_CHECKING:
    from spark_pulsar.model.avro import AvroType

_DAY_NS: Final = 24 * 60 * 60 * 1_000_000_000
_DECIMAL_BITS: Final = 127
_DECIMALS: Final = decimal.Context(prec=80)

Convert = Callable[[Any], Any]


class RecordType:
    """An Avro type as far as Spark's type `arrow` asks for it, with the types of its parts.

    `physical` is what a decoder makes, `to_spark` turns an array of that into one of `arrow`. Payloads were written
    with the types `written`; in text, decimals have their own scale and come as they are. Raises SchemaError, with the
    path of the field, for a logical type that cannot be converted.
    """

    def __init__(
        self, avro: AvroType, arrow: Any, written: Sequence[AvroType] = (), *, is_text: bool = False, path: str = ""
    ) -> None:
        branches = branches_of(avro) if avro.kind == "union" else [avro]
        number = widened(branches) if len(branches) > 1 else None
        by_branch = written_branches(avro, written)
        self.avro = branches[0] if len(branches) == 1 else avro
        self.arrow = arrow
        self.members: dict[str, RecordType] = {}
        """Types of the fields of a record, or of the branches of a union, that are wanted; by name."""
        self.branches: dict[str, RecordType] = {}
        """Types of all branches of a union, also of those that are not wanted: a value is told by them."""
        self.items: RecordType | None = None
        """Type of the items of an array, or of the values of a map."""
        self.is_union = len(branches) > 1 and number is None
        self.logical = ""
        """Avro's logical type that payloads were written with, if Spark has a type for it; else empty."""
        self.scale = 0
        """Scale of a decimal that payloads were written with."""
        if not branches or number is not None:
            self.kind = "null" if not branches else "long" if number == pa.int64() else "double"
            self.physical = PLAIN[self.kind]
            return
        self.kind = "union" if self.is_union else self.avro.kind
        if self.is_union:
            types = {f"member{i}": arrow_type(branch) for i, branch in enumerate(branches)}
            types |= {each.name: each.type for each in arrow}
            self.branches = {
                name: RecordType(branch, types[name], behind, is_text=is_text, path=path)
                for name, branch, behind in zip(types, branches, by_branch, strict=True)
            }
            self.members = {each.name: self.branches[each.name] for each in arrow}
            self.physical = self._struct()
        elif self.kind == "record":
            fields = {each.name: each for each in self.avro.fields}
            for name, kind in ((each.name, each.type) for each in arrow):
                behind = written_fields(fields[name], by_branch[0])
                self.members[name] = RecordType(fields[name].type, kind, behind, is_text=is_text, path=f"{path}.{name}")
            self.physical = self._struct()
        elif self.kind in ("array", "map"):
            assert self.avro.items is not None
            is_array = self.kind == "array"
            kind, behind = arrow.value_type if is_array else arrow.item_type, written_items(self.kind, by_branch[0])
            self.items = RecordType(self.avro.items, kind, behind, is_text=is_text, path=f"{path}[]")
            self.physical = pa.list_(self.items.physical) if is_array else pa.map_(pa.string(), self.items.physical)
        else:
            self._set_value(read_as(self.avro, by_branch[0], path, is_text=is_text), is_text)

    def _set_value(self, written: AvroType, is_text: bool) -> None:
        """Sets a type without parts."""
        self.logical = logical_name(written)
        self.scale = (decimal_of(written) or (0, 0))[1]
        if is_text and self.logical:
            self.kind = written.kind
        self.physical = self.arrow if is_text and self.logical == "decimal" else PLAIN[self.kind]

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
            raise UndecodablePayload(f"a {self.logical} is out of range: {error}") from error

    def _nested_to_spark(self, array: Any) -> Any:
        assert self.items is not None
        if self.kind == "array":
            inner = self.items.to_spark(array.values)
        else:
            fields = [self.arrow.key_field, self.arrow.item_field]
            inner = pa.StructArray.from_arrays([array.keys, self.items.to_spark(array.items)], fields=fields)
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            self.arrow, len(array), [validity, offsets], array.null_count, array.offset, [inner]
        )


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
    numbers = [None if each is None else int.from_bytes(each, "big", signed=True) for each in array.to_pylist()]
    if any(each is not None and each.bit_length() > _DECIMAL_BITS for each in numbers):  # hours for a megabyte
        raise pa.ArrowInvalid(f"it has more than {_DECIMAL_BITS} bits")
    values = [None if each is None else decimal.Decimal(each).scaleb(-scale, _DECIMALS) for each in numbers]
    return pa.array(values, arrow)


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
