"""Programs of the AVRO kernel: a writer's schema, resolved to the reader's, as instructions and slots (SCHEMA-19).

Resolution is Avro's, as the library has it: fields by name or alias, the first branch of a union that takes a type,
numbers that became wider, symbols by name. `Unsupported` names what only the library decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from spark_pulsar.connector.schemas.decoding.avro import kernels
from spark_pulsar.connector.schemas.decoding.avro.bounds import is_empty
from spark_pulsar.connector.schemas.decoding.avro.matching import NAMED, first_match, matches
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.model.avro import NO_DEFAULT, AvroField, AvroType

if TYPE_CHECKING:
    import numpy.typing as npt

_OPERATIONS: Final = {
    "null": kernels.NULL,
    "boolean": kernels.BOOLEAN,
    "int": kernels.INT,
    "long": kernels.LONG,
    "float": kernels.FLOAT,
    "double": kernels.DOUBLE,
    "bytes": kernels.BYTES,
    "string": kernels.BYTES,
    "fixed": kernels.FIXED,
    "enum": kernels.ENUM,
}
_NUMBERS: Final = {"int": "whole", "long": "whole", "string": "bytes", "fixed": "bytes"}
"""Forms of the two numbers of a slot, where they are not the kind itself."""
_MOST_INSTRUCTIONS: Final = 100_000
_SLOT: Final = kernels.PROGRAM_FIELDS
_SLOT_LEVEL: Final = kernels.PROGRAM_FIELDS + 1


class Unsupported(Exception):
    """A definition that only the library decodes."""


@dataclass(slots=True, eq=False)
class Node:
    """A wanted value and its slots: `slot` has the value, or what there is of it, at `level`; -1 without one.

    All its slots of that level are those up to `end_slot`.
    """

    type: RecordType
    level: int
    slot: int = -1
    first_slot: int = 0
    end_slot: int = 0
    members: dict[str, Node] = field(default_factory=dict)
    item: Node | None = None
    item_level: int = 0
    key_slot: int = -1
    form: str = ""
    """Form of the numbers in the slot, once an instruction writes it."""
    symbols: tuple[str, ...] = ()
    default: tuple[Any, AvroType] | None = None
    """Default and its type, where the writer lacks the field."""
    is_written: bool = False


class Program:
    """Instructions for the records of one writer, and the tree of what they write."""

    def __init__(self, writer: AvroType, reader: AvroType, record: RecordType) -> None:
        """Raises Unsupported."""
        self._fields: list[list[int]] = []
        self.slots: list[int] = [0]
        """Number of slots of each level."""
        self.parents: list[tuple[int, int]] = [(0, -1)]
        """Level and slot of the array or map that each level belongs to."""
        self._tables: list[int] = []
        self._skips: dict[AvroType, int] = {}
        self._waiting: list[tuple[int, AvroType]] = []
        self._empty: dict[AvroType, bool] = {}
        self.root = self._node(reader, record, 0)
        if not matches(writer, reader):
            raise Unsupported
        self._value(writer, reader, self.root)
        self._emit(kernels.END)
        while self._waiting:
            self._skip_record(*self._waiting.pop())
        self._instructions = np.array(self._fields, np.int64)
        self.tables: npt.NDArray[np.int64] = np.array(self._tables, np.int64)
        self.is_flat = bool((self._instructions[:, kernels.OPERATION] <= kernels.ENUM).sum() == len(self._fields) - 1)

    def placed(self, rooms: list[int]) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Returns the program for levels of the given room, and where the slots of each level begin."""
        sizes = [2 * slots * room for slots, room in zip(self.slots, rooms, strict=True)]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        program = self._instructions[:, : kernels.PROGRAM_FIELDS].copy()
        slots, levels = self._instructions[:, _SLOT], self._instructions[:, _SLOT_LEVEL]
        room = np.array(rooms, np.int64)
        program[:, kernels.ROOM] = room[levels]
        program[:, kernels.PLACE] = np.where(slots < 0, -1, starts[levels] + 2 * slots * room[levels])
        program[:, kernels.LEVEL_ROOM] = room[program[:, kernels.LEVEL]]
        return program.reshape(-1), starts.tolist()

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _new_slot(self, level: int) -> int:
        self.slots[level] += 1
        return self.slots[level] - 1

    def _node(self, reader: AvroType, record: RecordType, level: int, *, is_branch: bool = False) -> Node:
        """Makes the node of a wanted type, with its slots. One of the branches of a union may be null."""
        if record.is_opaque:
            raise Unsupported
        has_null = is_branch or (reader.kind == "union" and any(branch.kind == "null" for branch in reader.branches))
        node = Node(record, level, first_slot=self.slots[level])
        if record.kind == "record":
            if has_null:
                node.slot = self._new_slot(level)
            fields = {field.name: field for field in record.avro.fields}
            node.members = {
                name: self._node(fields[name].type, member, level) for name, member in record.members.items()
            }
        elif record.is_union:
            node.slot = self._new_slot(level)
            node.members = {
                name: self._node(member.avro, member, level, is_branch=True) for name, member in record.members.items()
            }
        elif record.items is not None:
            assert record.avro.items is not None
            node.slot = self._new_slot(level)
            node.item_level = len(self.slots)
            self.slots.append(0)
            self.parents.append((level, node.slot))
            if record.kind == "map":
                node.key_slot = self._new_slot(node.item_level)
            node.item = self._node(record.avro.items, record.items, node.item_level)
        elif record.kind != "null":
            node.slot = self._new_slot(level)
        node.end_slot = self.slots[level]
        return node

    # ---- instructions -----------------------------------------------------------------------------------------------

    @property
    def _here(self) -> int:
        """Place of the next instruction."""
        return len(self._fields) * kernels.PROGRAM_FIELDS

    def _emit(self, operation: int, *, slot: int = -1, slot_level: int = 0, **fields: int) -> int:
        """Adds an instruction; returns its number."""
        if len(self._fields) >= _MOST_INSTRUCTIONS:
            raise Unsupported
        row = [0] * (kernels.PROGRAM_FIELDS + 2)
        row[kernels.OPERATION] = operation
        row[kernels.NULL_BRANCH] = fields.get("null_branch", -1)
        row[kernels.SIZE] = fields.get("size", 0)
        row[kernels.TABLE] = fields.get("table", -1)
        row[kernels.LEVEL] = fields.get("level", 0)
        row[kernels.TARGET] = fields.get("target", 0)
        row[_SLOT], row[_SLOT_LEVEL] = slot, slot_level
        self._fields.append(row)
        return len(self._fields) - 1

    def _come_here(self, jumps: list[int]) -> None:
        for jump in jumps:
            self._fields[jump][kernels.TARGET] = self._here

    def _value(self, written: AvroType, read: AvroType, node: Node | None) -> None:
        """Reads a value of the writer's type into the node of the reader's; None: it is not wanted."""
        if node is None:
            self._skip(written)
        elif written.kind == "union":
            self._union(written, read, node)
        elif read.kind == "union":
            self._into_union(written, read, node)
        elif written.kind == "null" or not matches(written, read):
            self._null(node) if written.kind == read.kind == "null" else self._emit(kernels.FAIL)
        elif _is_mistaken(written, read):
            raise Unsupported
        elif written.kind == "record":
            self._record(written, read, node)
        elif written.kind in ("array", "map"):
            self._items(written, node, read.items)
        else:
            self._leaf(written, read, node)

    def _union(self, written: AvroType, read: AvroType, node: Node) -> None:
        null, other = _null_and_other(written)
        if other is not None and read.kind == "union" and not node.type.is_union and node.slot >= 0:
            target = first_match(other, read)
            has_null = any(branch.kind == "null" for branch in read.branches)
            if has_null and target is not None and {other.kind, target.kind} <= set(_OPERATIONS):
                if _is_mistaken(other, target):
                    raise Unsupported
                self._leaf(other, target, node, null)
                return
        self._branches(written.branches, lambda branch: self._value(branch, read, node))

    def _branches(self, branches: Sequence[AvroType], emit: Callable[[AvroType], None]) -> None:
        """Reads the branch of a union, and goes on with the instructions that `emit` adds for it."""
        table = len(self._tables)
        self._tables += [0] * len(branches)
        self._emit(kernels.UNION, size=len(branches), table=table)
        jumps = []
        for i, branch in enumerate(branches):
            self._tables[table + i] = self._here
            emit(branch)
            jumps.append(self._emit(kernels.JUMP))
        self._come_here(jumps)

    def _into_union(self, written: AvroType, read: AvroType, node: Node) -> None:
        """Reads a value into the branch of the reader's union that takes it."""
        target = first_match(written, read)
        if target is None:
            self._emit(kernels.FAIL)
        elif target.kind == "null":
            self._null(node)
        elif not node.type.is_union:
            self._value(written, target, node)
        else:
            others = [branch for branch in read.branches if branch.kind != "null"]
            name = list(node.type.branches)[next(i for i, other in enumerate(others) if other is target)]
            self._null(node)
            self._emit(kernels.PRESENT, slot=node.slot, slot_level=node.level)
            self._value(written, target, node.members.get(name))

    def _null(self, node: Node) -> None:
        count = node.end_slot - node.first_slot
        if count:
            self._emit(kernels.NULLS, slot=node.first_slot, slot_level=node.level, size=count)

    def _record(self, written: AvroType, read: AvroType, node: Node) -> None:
        if node.slot >= 0:
            self._emit(kernels.PRESENT, slot=node.slot, slot_level=node.level)
        names = {field.name: field for field in read.fields}
        aliases = {alias: field for field in read.fields for alias in field.aliases}
        seen: set[str] = set()
        for avro_field in written.fields:
            target = names.get(avro_field.name, aliases.get(avro_field.name))
            child = None if target is None else node.members.get(target.name)
            if target is None or child is None:
                self._skip(avro_field.type)
                continue
            if target.name in seen or child.default is not None:
                raise Unsupported
            seen.add(target.name)
            child.is_written = True
            self._value(avro_field.type, target.type, child)
        for name, child in node.members.items():
            if name not in seen:
                self._use_default(names[name], child)

    def _use_default(self, read: AvroField, child: Node) -> None:
        if read.default is NO_DEFAULT or child.is_written:
            raise Unsupported
        child.default = (read.default, read.type)

    def _items(self, written: AvroType, node: Node, read: AvroType | None) -> None:
        assert written.items is not None
        assert read is not None
        self._emit(kernels.ITEMS, level=node.item_level)
        size = int(written.kind == "array" and is_empty(written.items, self._empty))
        head = self._emit(kernels.NEXT, slot=node.slot, slot_level=node.level, level=node.item_level, size=size)
        if written.kind == "map":
            self._emit(kernels.BYTES, slot=node.key_slot, slot_level=node.item_level)
            self._emit(kernels.CHECK_KEY, slot=node.key_slot, slot_level=node.item_level)
        self._value(written.items, read, node.item)
        self._emit(kernels.JUMP, target=head * kernels.PROGRAM_FIELDS)
        self._come_here([head])

    def _leaf(self, written: AvroType, read: AvroType, node: Node, null_branch: int = -1) -> None:
        form, table, size = _NUMBERS.get(written.kind, written.kind), -1, written.size_bytes
        if node.form and node.form != form:
            raise Unsupported
        node.form = form
        if written.kind == "enum":
            size = len(written.symbols)
            if node.symbols and node.symbols != read.symbols:
                raise Unsupported
            node.symbols = read.symbols
            if written.symbols != read.symbols:
                table = len(self._tables)
                self._tables += _symbols(written, read)
        self._emit(
            _OPERATIONS[written.kind],
            slot=node.slot,
            slot_level=node.level,
            null_branch=null_branch,
            size=size,
            table=table,
        )

    # ---- skipped fields ---------------------------------------------------------------------------------------------

    def _skip(self, written: AvroType) -> None:
        """Steps over a value; records are written once, and called."""
        if written.kind == "record":
            self._waiting.append((self._emit(kernels.CALL), written))
        elif written.kind == "union":
            null, other = _null_and_other(written)
            if other is not None and other.kind in _OPERATIONS:
                self._skip_leaf(other, null)
            else:
                self._branches(written.branches, self._skip)
        elif written.items is not None:
            self._emit(kernels.ITEMS)
            size = int(written.kind == "array" and is_empty(written.items, self._empty))
            head = self._emit(kernels.NEXT, size=size)
            if written.kind == "map":
                self._emit(kernels.BYTES)
            self._skip(written.items)
            self._emit(kernels.JUMP, target=head * kernels.PROGRAM_FIELDS)
            self._come_here([head])
        else:
            self._skip_leaf(written, -1)

    def _skip_leaf(self, written: AvroType, null_branch: int) -> None:
        size = len(written.symbols) if written.kind == "enum" else written.size_bytes
        self._emit(_OPERATIONS[written.kind], null_branch=null_branch, size=size)

    def _skip_record(self, call: int, written: AvroType) -> None:
        """Lets a call go to the instructions that step over a record."""
        if written not in self._skips:
            self._skips[written] = self._here
            for avro_field in written.fields:
                self._skip(avro_field.type)
            self._emit(kernels.RETURN)
        self._fields[call][kernels.TARGET] = self._skips[written]


def _is_mistaken(written: AvroType, read: AvroType) -> bool:
    """Returns whether the library takes a named type for one of another kind, since their names are equal."""
    return written.kind != read.kind and bool(NAMED & {written.kind, read.kind})


def _null_and_other(union: AvroType) -> tuple[int, AvroType | None]:
    """Returns the branch of null in a union of it and one other type, and that type; (-1, None) for other unions."""
    kinds = [branch.kind for branch in union.branches]
    if len(kinds) != 2 or kinds.count("null") != 1:
        return -1, None
    null = kinds.index("null")
    return null, union.branches[1 - null]


def _symbols(written: AvroType, read: AvroType) -> list[int]:
    """Returns the reader's symbol for each of the writer's, that of the default where there is none; -1 without."""
    places = {symbol: i for i, symbol in enumerate(read.symbols)}
    default = read.attributes.get("default")
    if default and default not in places:
        raise Unsupported
    other = places[default] if default else -1
    return [places.get(symbol, other) for symbol in written.symbols]
