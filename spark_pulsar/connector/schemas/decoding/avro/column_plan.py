"""Avro records by column: the kernel runs over all payloads, and the values it has located become Arrow arrays
(SCHEMA-19).

`ColumnPlan.of` answers None for what only the library decodes: fields without a default that the writer lacks, names
that stand for types of different kinds, and values of several forms in one column, as of a union of float and double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.decoding.avro import kernels
from spark_pulsar.connector.schemas.decoding.avro.matching import mixes_texts_and_bytes
from spark_pulsar.connector.schemas.decoding.avro.program import Node, Program, Unsupported
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat, gathered, invalid_texts
from spark_pulsar.connector.schemas.payloads.nested_arrays import list_array, map_array, struct_array
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.model.avro import AvroType
from spark_pulsar.wire.columns.arrays import fixed_array
from spark_pulsar.wire.columns.kernels.compiler import COMPILED

DefaultValue = Callable[[Any, AvroType, RecordType], Any]
"""Returns the value of a default in the form that Arrow takes."""

_REASONS: Final = {
    kernels.TOO_SHORT: "it ends early",
    kernels.NO_BRANCH: "it names a branch that the union has not",
    kernels.NO_VALUE: "a value is none of its type",
    kernels.TOO_LONG: "bytes are left over behind the record",
    kernels.NO_SYMBOL: "it has a symbol that the enum of the read has not, and no default",
    kernels.NO_MATCH: "it has a value of a type that the schema of the read has not there",
    kernels.TOO_MANY: f"it declares more than {kernels.MAX_EMPTY_ITEMS} items that take no bytes",
    kernels.TOO_DEEP: "its recursion is nested too deep",
}
_TEXTS: Final = [f"it is no AVRO of its schema: {reason}" for reason in _REASONS.values()]
_TEXT_OF_CODE: Final = np.zeros(1 - min(_REASONS), np.int64)
_TEXT_OF_CODE[[-code for code in _REASONS]] = np.arange(len(_REASONS))
_STACK: Final = 8_192
_LEAST_ROOM: Final = 64


class ColumnPlan:
    """Program of the kernel for one writer's schema, and the way from its slots to the columns of a record."""

    def __init__(self, program: Program, default_value: DefaultValue) -> None:
        self._program = program
        self._default_value = default_value
        self._items_a_row = [1.0] * len(program.slots)
        """Room that the levels needed so far."""

    @staticmethod
    def of(reader: AvroType, writer: AvroType, record: RecordType, default_value: DefaultValue) -> ColumnPlan | None:
        """Returns the plan, None where the library must decode, or is quicker since kernels are not compiled, and as
        good."""
        try:
            program = Program(writer, reader, record)
        except Unsupported:
            return None
        is_due = COMPILED or program.is_flat or mixes_texts_and_bytes(writer, reader)
        return ColumnPlan(program, default_value) if is_due else None

    def decode(self, payloads: Any) -> tuple[Any, Reasons]:
        """Returns the records as an array of physical types, and the reasons of those that do not decode: anything may
        stand in their rows."""
        octets, offsets = flat(payloads)
        rows = _Rows(self._program, octets, offsets.astype(np.int64), self._rooms(len(payloads), octets))
        self._items_a_row = [max(1.0, count / max(1, len(payloads))) for count in rows.counts]
        built = _Building(rows, self._default_value)
        array = built.array(self._program.root)
        return array, rows.reasons.and_of(built.errors)

    def _rooms(self, rows: int, octets: Any) -> list[int]:
        rooms = [int(rows * items * 1.25) + _LEAST_ROOM for items in self._items_a_row]
        rooms[0] = max(1, rows)
        return rooms


class _Rows:
    """Places that the kernel has located in payloads: nulls in rows that do not decode, with their `reasons`."""

    def __init__(self, program: Program, octets: Any, offsets: Any, rooms: list[int]) -> None:
        self.octets = octets
        self.parents = program.parents
        levels, rows = len(rooms), len(offsets) - 1
        counts = np.zeros(2 * levels + kernels.COUNT_FIELDS, np.int64)
        codes, stack = np.zeros(rows, np.int64), np.empty(_STACK, np.int64)
        placed, starts = program.placed(rooms)
        values, row = np.empty(starts[-1], np.int64), 0
        self.tables: list[Any] = []
        while True:
            self.tables = [
                values[starts[level] : starts[level + 1]].reshape(-1, rooms[level]) for level in range(levels)
            ]
            row = kernels.read_records(octets, offsets, row, placed, program.tables, stack, counts, codes, values)
            if row == rows:
                break
            level = int(counts[2 * levels + kernels.FULL_LEVEL])
            rooms[level] = max(2 * rooms[level], int(1.1 * rooms[level] * rows / (row + 1)))
            placed, starts = program.placed(rooms)
            values, known = np.empty(starts[-1], np.int64), self.tables
            for level, table in enumerate(known):
                grown = values[starts[level] : starts[level + 1]].reshape(-1, rooms[level])
                grown[:, : table.shape[1]] = table
        self.reasons = Reasons()
        if counts[2 * levels + kernels.FAILED_ROWS]:
            failed = np.flatnonzero(codes)
            self.tables[0][1::2, failed] = -1
            self.reasons = Reasons.alike(failed, _TEXTS, _TEXT_OF_CODE[-codes[failed]])
        self.counts: list[int] = [rows, *counts[1:levels].tolist()]
        self.has_equal_keys = bool(counts[2 * levels + kernels.HAS_EQUAL_KEYS])

    def slot(self, level: int, slot: int) -> tuple[Any, Any]:
        """Returns the numbers of a slot: values or starts, and lengths."""
        table, count = self.tables[level], self.counts[level]
        return table[2 * slot, :count], table[2 * slot + 1, :count]

    def rows_of(self, level: int) -> Any:
        """Returns the row of each item of a level."""
        if level == 0:
            return np.arange(self.counts[0])
        parent, slot = self.parents[level]
        return np.repeat(self.rows_of(parent), np.maximum(self.slot(parent, slot)[1], 0))


class _Building:
    """Arrow arrays of the nodes; `errors` has the rows with texts that are none, which stand empty there."""

    def __init__(self, rows: _Rows, default_value: DefaultValue) -> None:
        self._rows = rows
        self._default_value = default_value
        self.errors = Reasons()

    def array(self, node: Node, name: str = "") -> Any:
        """Returns the values of a node as an array of its physical type."""
        kind, count = node.type, self._rows.counts[node.level]
        if node.default is not None:
            value = self._default_value(*node.default, kind)
            return pa.array([value], kind.physical).take(pa.array(np.zeros(count, np.int64)))
        if node.item is not None:
            return self._items(node, name)
        if kind.kind == "record" or kind.is_union:
            parts = [self.array(member, member_name) for member_name, member in node.members.items()]
            lengths = None if node.slot < 0 else self._rows.slot(node.level, node.slot)[1]
            return struct_array(kind.physical, count, parts, lengths)
        if not node.form:  # no branch of the writer's comes here
            return pa.nulls(count, kind.physical)
        return self._leaf(node, name)

    def _leaf(self, node: Node, name: str) -> Any:
        kind, form = node.type, node.form
        values, lengths = self._rows.slot(node.level, node.slot)
        if form == "bytes":
            column = gathered(self._rows.octets, values, lengths)
            return self._text(column, node.level, name) if kind.kind == "string" else column
        valid = lengths >= 0
        if form == "enum":
            places = pa.array(values, mask=~valid)
            return pa.array(node.symbols, pa.string()).take(places)
        if form == "boolean":
            return pa.array(values != 0, mask=~valid)
        if form == "float":
            values = values.astype(np.int32).view(np.float32)
        elif form == "double":
            values = values.view(np.float64)
        elif kind.kind == "float":
            values = values.astype(np.float64)  # as the library does it, before the number is rounded again
        with np.errstate(over="ignore", invalid="ignore"):  # of what stands where nulls are
            return fixed_array(kind.physical, values.astype(_NUMPY[kind.kind]), valid)

    def _text(self, column: Any, level: int, name: str) -> Any:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            invalid = invalid_texts(column)
            reason = f"field {name} is no UTF-8" if name else "a text is no UTF-8"
            rows = np.unique(self._rows.rows_of(level)[invalid])
            self.errors = Reasons.alike(rows, [reason]).and_of(self.errors)
            return _emptied(column, invalid).cast(pa.string())

    def _items(self, node: Node, name: str) -> Any:
        assert node.item is not None
        lengths = self._rows.slot(node.level, node.slot)[1]
        values = self.array(node.item, name)
        if node.key_slot < 0:
            return list_array(node.type.physical, values, lengths)
        starts, sizes = self._rows.slot(node.item_level, node.key_slot)
        keys = self._text(gathered(self._rows.octets, starts, sizes), node.item_level, name)
        return map_array(node.type.physical, keys, values, lengths, has_equal_keys=self._rows.has_equal_keys)


def _emptied(column: Any, rows: Any) -> Any:
    """Returns a binary array with nothing in some rows, not even null, which keys of maps may not be."""
    octets, offsets = flat(column)
    ends = offsets.astype(np.int64)
    lengths = np.diff(ends)
    lengths[rows] = 0
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return gathered(octets, ends[:-1], lengths)


_NUMPY: Final = {"int": np.int32, "long": np.int64, "float": np.float32, "double": np.float64}
