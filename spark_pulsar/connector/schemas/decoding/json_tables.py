"""JSON payloads in the tables of the kernel, and the Arrow arrays that they become."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.schemas.decoding import json_kernels as kernels
from spark_pulsar.connector.schemas.decoding import json_scalar_kernels as scalars
from spark_pulsar.connector.schemas.decoding.json_program import Node, Program
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat, gathered
from spark_pulsar.connector.schemas.payloads.nested_arrays import list_array, map_array, struct_array
from spark_pulsar.wire.columns.arrays import fixed_array

_STACK: Final = 1_024
_KEYS: Final = 1_024
_LEAST_ROOM: Final = 64
_NUMPY: Final = {"int": np.int32, "long": np.int64, "float": np.float32, "double": np.float64}
_MOST_REAL: Final = {"float": 3.4028235677973366e38, "double": np.inf}
"""Numbers from which on the nearest one of a type is infinite."""
_POWERS: Final = 10.0 ** np.arange(23)


class OutOfRange(Exception):
    """A number is larger than its type has."""


class JsonRows:
    """Payloads that one program reads. It needs as much room as the payloads before."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._items_a_row = [1.0] * len(program.slots)

    def read(self, payloads: Any) -> JsonTables:
        """Reads a binary array without nulls."""
        octets, offsets = flat(payloads)
        program, count = self._program, len(payloads)
        rooms = [int(count * items * 1.25) + _LEAST_ROOM for items in self._items_a_row]
        rooms[0] = max(1, count)
        levels = np.zeros((len(rooms), kernels.LEVEL_FIELDS), np.int64)
        progress, counts = np.zeros(kernels.PROGRESS_FIELDS, np.int64), np.zeros(len(rooms), np.int64)
        is_read, text = np.zeros(count, np.int64), octets.copy()
        ends, stack, keys = offsets.astype(np.int64), np.empty(_STACK, np.int64), np.empty(_KEYS, np.int64)
        seen, tables = np.full(max(1, len(program.members)), -1, np.int64), [np.empty((0, 0), np.int64)] * len(rooms)
        while True:
            values, tables, starts = self._room(rooms, tables)
            levels[:, kernels.LEVEL_START], levels[:, kernels.LEVEL_ROOM] = starts, rooms
            levels[:, kernels.LEVEL_SLOTS] = program.slots
            kernels.read_rows(
                octets, ends, count, program.nodes(rooms, starts), program.members, program.names, stack, seen,
                text, is_read, levels.reshape(-1), values, keys, counts, progress,
            )  # fmt: skip
            row = int(progress[kernels.NEXT_ROW])
            if row == count:
                break
            level = int(progress[kernels.FULL_LEVEL])
            rooms[level] = max(2 * rooms[level], int(1.1 * rooms[level] * count / (row + 1)))
        items = levels[:, kernels.COUNT].tolist()
        self._items_a_row = [max(1.0, item_count / max(1, count)) for item_count in items]
        return JsonTables(octets, text, is_read != 0, tables, items, bool(progress[kernels.HAS_EQUAL_KEYS]))

    def _room(self, rooms: list[int], known: list[Any]) -> tuple[Any, list[Any], list[int]]:
        """Returns the memory of all tables, the tables, with what they held, and where they begin."""
        sizes = [2 * slots * room for slots, room in zip(self._program.slots, rooms, strict=True)]
        starts = [0, *np.cumsum(sizes).tolist()]
        values = np.empty(starts[-1], np.int64)
        tables = [values[starts[i] : starts[i + 1]].reshape(-1, room) for i, room in enumerate(rooms)]
        for table, held in zip(tables, known, strict=True):
            table[: len(held), : held.shape[1]] = held
        return values, tables, starts[:-1]


class JsonTables:
    """Tables of payloads, which lie in `octets`: those that are not of `is_read` are null."""

    def __init__(
        self, octets: Any, text: Any, is_read: Any, tables: list[Any], counts: list[int], has_equal_keys: bool
    ) -> None:
        self.octets = octets
        self.is_read = is_read
        self._text = text
        self._tables = tables
        self._counts = counts
        self._has_equal_keys = has_equal_keys

    def slot(self, node: Node) -> tuple[Any, Any]:
        """Returns the two numbers of each item."""
        return self._slot(node.level, node.slot)

    def _slot(self, level: int, slot: int) -> tuple[Any, Any]:
        table, count = self._tables[level], self._counts[level]
        return table[2 * slot, :count], table[2 * slot + 1, :count]

    def array(self, node: Node) -> Any:
        """Returns the values of a node as an array of its physical type. Raises OutOfRange."""
        kind = node.type
        assert kind is not None
        values, lengths = self.slot(node)
        if node.item is not None:
            return self._items(node, lengths)
        if kind.kind == "record" or kind.is_union:
            parts = [self.array(member) for member in node.members.values()]
            return struct_array(kind.physical, len(lengths), parts, lengths)
        if kind.kind == "null":
            return pa.nulls(len(lengths), kind.physical)
        if kind.logical == "decimal":
            return self._decimals(values, lengths, kind.physical)
        if pa.types.is_binary(kind.physical):
            return gathered(self._text, values, lengths)
        if pa.types.is_string(kind.physical):
            return gathered(self._text, values, lengths).view(pa.string())  # the kernel has checked it
        if kind.kind == "boolean":
            return pa.array(values != 0, mask=lengths < 0)
        if kind.kind in _MOST_REAL:
            values = self._reals(values, lengths, _MOST_REAL[kind.kind])
        return fixed_array(kind.physical, values.astype(_NUMPY[kind.kind]), lengths >= 0)

    def _items(self, node: Node, lengths: Any) -> Any:
        assert node.item is not None
        assert node.type is not None
        items = self.array(node.item)
        if node.type.kind != "map":
            return list_array(node.type.physical, items, lengths)
        keys = gathered(self._text, *self._slot(node.item_level, 0)).view(pa.string())
        return map_array(node.type.physical, keys, items, lengths, has_equal_keys=self._has_equal_keys)

    def _decimals(self, values: Any, lengths: Any, kind: Any) -> Any:
        words = np.empty((len(values), 2), np.int64)
        words[:, 0], words[:, 1] = values, values >> 63
        numbers = fixed_array(kind, words, lengths == scalars.VALUE)
        texts = np.where(lengths >= scalars.DECIMAL_TEXT, lengths - scalars.DECIMAL_TEXT, -1)
        if not (texts >= 0).any():
            return numbers
        long_ones = gathered(self._text, values, texts).view(pa.string()).cast(kind)
        return pc.coalesce(long_ones, numbers)

    def _reals(self, values: Any, lengths: Any, most: float) -> Any:
        """Returns doubles: of numbers and powers of ten that doubles have, so that one rounding makes the nearest one,
        and of texts."""
        is_text = lengths >= scalars.REAL_TEXT
        powers = np.where(is_text | (lengths < 0), 0, lengths - scalars.REAL)
        reals = np.where(is_text, 0, values).astype(np.float64)
        reals = np.where(powers < 0, reals / _POWERS[np.maximum(-powers, 0)], reals * _POWERS[np.maximum(powers, 0)])
        places = np.flatnonzero(is_text)
        if len(places):
            texts = gathered(self._text, values[places], lengths[places] - scalars.REAL_TEXT).view(pa.string())
            reals[places] = texts.cast(pa.float64()).to_numpy()
        if (np.abs(reals[lengths >= 0]) >= most).any():
            raise OutOfRange
        return reals
