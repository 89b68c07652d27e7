"""Programs of the JSON kernel: a record as nodes, with slots for what of it is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.options.decode_mode import TEXT
from spark_pulsar.connector.schemas.decoding import json_kernels as kernels
from spark_pulsar.connector.schemas.decoding import json_scalar_kernels as scalars
from spark_pulsar.connector.schemas.decoding.json_values import CHARACTER
from spark_pulsar.connector.schemas.payloads.record_types import RecordType

_KINDS: Final = {
    "null": 0,
    "boolean": scalars.BOOLEAN,
    "int": scalars.INT_32,
    "long": scalars.INT_32 | scalars.INT_64,
    "float": scalars.NUMBER,
    "double": scalars.NUMBER,
    "string": scalars.STRING,
    "enum": scalars.STRING,
    "bytes": scalars.STRING,
    "fixed": scalars.STRING,
    "record": scalars.OBJECT,
    "array": scalars.ARRAY,
    "map": scalars.MAP,
    "union": scalars.UNION,
}
_BEGINS: Final = {
    "null": 0,
    "boolean": kernels.BEGINS_WORD,
    "int": kernels.BEGINS_NUMBER,
    "long": kernels.BEGINS_NUMBER,
    "float": kernels.BEGINS_NUMBER | kernels.NUMBER_WORDS,
    "double": kernels.BEGINS_NUMBER | kernels.NUMBER_WORDS,
    "string": kernels.BEGINS_STRING,
    "enum": kernels.BEGINS_STRING,
    "bytes": kernels.BEGINS_STRING,
    "fixed": kernels.BEGINS_STRING,
    "record": kernels.BEGINS_OBJECT,
    "array": kernels.BEGINS_ARRAY,
    "map": kernels.BEGINS_OBJECT,
}
"""Beginnings of the values that Python takes for ones of a type in a union."""
_TIMES: Final = {
    "timestamp-micros": scalars.INSTANT,
    "local-timestamp-micros": scalars.LOCAL,
    "time-micros": scalars.CLOCK,
}


def is_by_column(record: RecordType) -> bool:
    """Returns whether the kernel reads values of a type: all but those that Spark has no type for."""
    if record.is_opaque:
        return False
    if record.is_union:
        return bool(record.members) and all(map(is_by_column, record.branches.values()))
    if record.logical == "decimal":
        return bool(pa.types.is_decimal128(record.physical))
    if record.members:
        return all(map(is_by_column, record.members.values()))
    return record.kind in _KINDS and (record.items is None or is_by_column(record.items))


def has_times(record: RecordType) -> bool:
    """Returns whether a type has times that clients write as ISO 8601."""
    parts = [*record.branches.values(), *record.members.values(), *([record.items] if record.items else [])]
    return record.logical in _TIMES or any(map(has_times, parts))


@dataclass(slots=True, eq=False)
class Node:
    """A value, and its slot in the tables of `level`, -1 where it is not wanted."""

    type: RecordType | None
    level: int = 0
    slot: int = -1
    members: dict[str, Node] = field(default_factory=dict)
    item: Node | None = None
    item_level: int = 0
    """Level of the items, whose slot 0 has the keys of a map."""


class Program:
    """Nodes of a record. Members named in `located` are any values, whose places are stored; where it `is_closed`, a
    record with a member that the schema does not name is in doubt. Where the record's times are microseconds,
    `with_text_times`, they are ISO 8601 in payloads, else numbers."""

    def __init__(
        self,
        record: RecordType,
        located: tuple[str, ...],
        json_bytes: str,
        *,
        is_closed: bool = False,
        with_text_times: bool = False,
    ) -> None:
        self._is_closed = is_closed
        self._json_bytes = json_bytes
        self._with_text_times = with_text_times
        self._fields: list[list[int]] = []
        self._members: list[int] = []
        self._names = b""
        self.slots: list[int] = [0]
        """Number of slots of each level."""
        self._add_any(Node(None))
        self.root = Node(record)
        self._fill(self._add(self.root), self.root, located)
        self._nodes = np.array(self._fields, np.int64)
        self.members = np.array(self._members, np.int64)
        self.names = np.frombuffer(self._names, np.uint8)

    def nodes(self, rooms: list[int], starts: list[int]) -> Any:
        """Returns the nodes for tables that begin there, and have that room for items."""
        nodes = self._nodes.copy()
        levels, slots = nodes[:, kernels.LEVEL], nodes[:, kernels.PLACE]
        room = np.array(rooms, np.int64)[levels]
        nodes[:, kernels.ROOM] = room
        nodes[:, kernels.PLACE] = np.where(slots < 0, -1, np.array(starts, np.int64)[levels] + 2 * slots * room)
        return nodes.reshape(-1)

    def _add(self, node: Node) -> int:
        fields = [0] * kernels.NODE_FIELDS
        fields[kernels.LEVEL], fields[kernels.PLACE] = node.level, node.slot
        self._fields.append(fields)
        return len(self._fields) - 1

    def _add_any(self, node: Node) -> int:
        number = self._add(node)
        self._fields[number][kernels.KINDS] = scalars.ANY
        return number

    def _slot(self, level: int) -> int:
        self.slots[level] += 1
        return self.slots[level] - 1

    def _part(self, record: RecordType, level: int, is_wanted: bool) -> tuple[int, Node]:
        """Adds the node of a part of a type."""
        node = Node(record, level, self._slot(level) if is_wanted else -1)
        number = self._add(node)
        self._fill(number, node, ())
        return number, node

    def _fill(self, number: int, node: Node, located: tuple[str, ...]) -> None:
        record, fields = node.type, self._fields[number]
        assert record is not None
        kinds, first, end = _KINDS[record.kind], 0, 0
        if record.logical == "decimal":
            end = record.physical.scale
            kinds, first = scalars.DECIMAL, record.physical.precision - end
        elif self._with_text_times and record.logical in _TIMES:
            kinds, first = scalars.TIME, _TIMES[record.logical]
        elif record.kind in ("bytes", "fixed") and (self._json_bytes != TEXT or record.kind == "fixed"):
            kinds = scalars.SIZED if self._json_bytes == TEXT else scalars.BASE64
            first = (record.avro.size_bytes or 0) if record.kind == "fixed" else -1
        elif record.items is not None:
            if node.slot >= 0:
                self.slots.append(int(record.kind == "map"))
                node.item_level = fields[kernels.ITEM_LEVEL] = len(self.slots) - 1
            first, node.item = self._part(record.items, node.item_level, node.slot >= 0)
        elif record.is_union:
            first, end = self._added_branches(record, node)
        elif record.kind == "record":
            first, end = self._added_members(record, node, located)
            fields[kernels.CLOSED] = int(self._is_closed)
        fields[kernels.KINDS], fields[kernels.FIRST], fields[kernels.END] = kinds, first, end

    def _added_members(self, record: RecordType, node: Node, located: tuple[str, ...]) -> tuple[int, int]:
        """Adds the members of a record; returns the first, and the end."""
        is_wanted = node.slot >= 0 or node is self.root
        numbers: dict[str, int] = {}
        for name, member in record.members.items():
            if name in located:
                node.members[name] = Node(None, 0, self._slot(0))
                numbers[name] = self._add_any(node.members[name])
            else:
                numbers[name], node.members[name] = self._part(member, node.level, is_wanted)
        if self._is_closed:
            others = (member.name for member in record.avro.fields if member.name not in record.members)
            numbers |= {name: self._add_any(Node(None)) for name in others}
        members = []
        for name, number in numbers.items():
            text = name.encode()
            members += [len(self._names), len(text), number]
            self._names += text
        return self._added(members)

    def _added_branches(self, record: RecordType, node: Node) -> tuple[int, int]:
        """Adds the branches of a union; returns the first, and the end."""
        members = []
        for name, branch in record.branches.items():
            number, part = self._part(branch, node.level, node.slot >= 0 and name in record.members)
            if name in record.members:
                node.members[name] = part
            members += [_accepted(branch), 0, number]
        return self._added(members)

    def _added(self, members: list[int]) -> tuple[int, int]:
        first = len(self._members) // kernels.MEMBER_FIELDS
        self._members += members
        return first, len(self._members) // kernels.MEMBER_FIELDS


def _accepted(record: RecordType) -> int:
    """Returns the beginnings of values that are of a branch of a union, unless something else about them is wrong."""
    begins = _BEGINS[record.kind]
    if record.logical:
        begins |= kernels.BEGINS_NUMBER | kernels.BEGINS_STRING
        if record.logical != "decimal":
            begins |= kernels.BEGINS_ARRAY
    parts = [record, *([record.items] if record.items else [])]
    if any(part.avro.attributes.get("java-class") == CHARACTER for part in parts):
        begins |= kernels.BEGINS_STRING
    return begins
