"""Resolution of names: a writer's definition with the names of the reader's, so that decoders compare no others
(SCHEMA-5).

Records, enums and fixed of a writer stand for those of the reader at the same place, whatever they are called: at the
top, inside of others, as items and values; fields by their name, then by the reader's aliases. Of the branches of a
union one of the same full name is chosen, then one that an alias or the short name matches, then the first of the same
structure, as Avro's Java library does. (Java wants equal names of enums and fixed; their values are the same without.)

What Avro cannot read is found on the way, with the names of the fields.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.linked_definition import FULL_NAME, linked_text, unlinked
from spark_pulsar.connector.schemas.types.arrow_types import logical_name
from spark_pulsar.model.avro import NO_DEFAULT, AvroField, AvroType

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_NAMED: Final = ("record", "enum", "fixed")
_MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A place where the writer's type cannot be read as the reader's; `is_certain` where no payload can go without."""

    text: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """Both definitions with the same names, and what contradicts."""

    reader: Definition
    writer: Definition
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def refusal(self) -> str:
        """Reason why no payload can be read; empty if some may."""
        return shown([contradiction.text for contradiction in self.contradictions if contradiction.is_certain])

    @property
    def hint(self) -> str:
        """Likely reason of a payload that cannot be read, with both versions; empty for none."""
        text = shown([contradiction.text for contradiction in self.contradictions])
        return f" ({text}{versions_text(self.writer, self.reader)})" if text else ""


def versions_text(writer: Definition, reader: Definition) -> str:
    """Returns the versions of both definitions, as the end of a sentence; empty where they are not known."""
    if not writer.version:
        return ""
    read = f", read with version {_number(reader)}" if reader.version else ""
    return f"; schema version {_number(writer)}{read}"


def _number(definition: Definition) -> int:
    return int.from_bytes(definition.version, "big", signed=True)


def shown(texts: list[str]) -> str:
    """Returns the first of some texts, and how many more there are."""
    more = [f"and {len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else []
    return "; ".join([*texts[:_MOST_SHOWN], *more])


def resolve_names(reader: Definition, writer: Definition, wanted: Collection[str]) -> Resolution:
    """Gives the definition of a writer the names of the reader's. Fields of the reader's record that are not `wanted`
    contradict nothing. Raises SchemaError for a text that is no definition."""
    reader = _with_unique_names(reader)
    if reader.schema.data == writer.schema.data:
        return Resolution(reader, writer)
    written, read = writer.avro(), reader.avro()
    data = json.dumps(_Naming().type_of(written, read, "", is_certain=True), ensure_ascii=False).encode()
    of_wanted = _Naming(wanted)
    of_wanted.type_of(written, read, "", is_certain=True)
    named = replace(writer, schema=replace(writer.schema, data=data))
    return Resolution(reader, named, tuple(of_wanted.contradictions))


def _with_unique_names(reader: Definition) -> Definition:
    """Returns a definition whose types differ in their short names, by which the library compares."""
    definition = linked_text(reader.schema.data)
    named: dict[str, dict[str, Any]] = {}
    _collect(definition, named)
    short: set[str] = set()
    has_changed = False
    for full, named_type in list(named.items()):
        namespace, _, name = full.rpartition(".")
        if name in short:
            number = 2
            while f"{name}_{number}" in short or f"{namespace}.{name}_{number}" in named:
                number += 1
            name, has_changed = f"{name}_{number}", True
            named_type["aliases"] = [*named_type.get("aliases", ()), full]
            named_type["name"] = named_type[FULL_NAME] = f"{namespace}.{name}" if namespace else name
        short.add(name)
    if not has_changed:
        return reader
    data = json.dumps(unlinked(definition), ensure_ascii=False).encode()
    return replace(reader, schema=replace(reader.schema, data=data))


def _collect(one: Any, named: dict[str, dict[str, Any]]) -> None:
    if isinstance(one, list):
        for branch in one:
            _collect(branch, named)
    elif isinstance(one, dict) and one.get(FULL_NAME) not in named:
        if FULL_NAME in one:
            named[one[FULL_NAME]] = one
        for part in (one.get("items"), one.get("values"), *(field["type"] for field in one.get("fields", ()))):
            _collect(part, named)


class _Naming:
    def __init__(self, wanted: Collection[str] | None = None) -> None:
        """Fields of the reader's record that are not `wanted` are as if it had none; None: all are wanted."""
        self.contradictions: list[Contradiction] = []
        self._wanted = wanted
        self._named: dict[tuple[int, int], str] = {}
        self._taken: set[str] = set()

    def type_of(self, writer: AvroType, reader: AvroType | None, path: str, *, is_certain: bool) -> Any:
        """Returns the JSON of the writer's type with the names of the reader's; the reader has none of its kind where
        that is None."""
        if writer.kind == "union":
            return [
                self.type_of(branch, self._branch(branch, reader, path, is_certain=False), path, is_certain=False)
                for branch in writer.branches
            ]
        if reader is not None:
            reader = self._branch(writer, reader, path, is_certain=is_certain)
        if writer.kind in _NAMED:
            return self._definition(writer, reader, path, is_certain=is_certain)
        if writer.items is not None:
            items = None if reader is None else reader.items
            member = "items" if writer.kind == "array" else "values"
            inner = self.type_of(writer.items, items, f"{path}[]", is_certain=False)
            return {"type": writer.kind, **writer.attributes, member: inner}
        return {"type": writer.kind, **writer.attributes} if writer.attributes else writer.kind

    def _branch(self, writer: AvroType, reader: AvroType | None, path: str, *, is_certain: bool) -> AvroType | None:
        """Returns the type, or the branch of a union, that reads a type which is no union; None if there is none."""
        if reader is None:
            return None
        branch = branch_of_reader(writer, reader)
        if branch is None:
            name = path.lstrip(".") or "the record"
            text = f"field {name} was written as {_described(writer)}, it cannot be read as {_described(reader)}"
            self.contradictions.append(Contradiction(text, is_certain))
        return branch

    def _definition(self, writer: AvroType, reader: AvroType | None, path: str, *, is_certain: bool) -> Any:
        key = (id(writer), id(reader))
        if key in self._named:
            return self._named[key]
        base = (reader or writer).name
        name, number = base if reader is not None else f"written.{writer.short_name}", 1
        while name in self._taken:
            number += 1
            name = f"written{number}.{base.rpartition('.')[2]}"
        self._taken.add(name)
        self._named[key] = name
        short, namespace = name.rpartition(".")[2], name.rpartition(".")[0]
        definition = {"type": writer.kind, **writer.attributes, "name": short, "namespace": namespace}
        if writer.kind == "fixed":
            return {**definition, "size": writer.size_bytes}
        if writer.kind == "enum":
            self._check_symbols(writer, reader, path)
            return {**definition, "symbols": list(writer.symbols)}
        return {**definition, "fields": self._fields(writer, reader, path, is_certain=is_certain)}

    def _is_wanted(self, path: str, name: str) -> bool:
        return bool(path) or self._wanted is None or name in self._wanted

    def _check_symbols(self, writer: AvroType, reader: AvroType | None, path: str) -> None:
        if reader is None or "default" in reader.attributes:
            return
        unknown = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if unknown:
            text = f"field {path.lstrip('.')} may be {shown(unknown)} as written, which its enum has not"
            self.contradictions.append(Contradiction(text, False))

    def _fields(self, writer: AvroType, reader: AvroType | None, path: str, *, is_certain: bool) -> list[Any]:
        pairs = {} if reader is None else fields_of_reader(writer, reader)
        read_names = (
            set()
            if reader is None
            else {name for read_field in reader.fields for name in (read_field.name, *read_field.aliases)}
        )
        fields = []
        for number, field in enumerate(writer.fields):
            read = pairs.pop(field.name, None)
            if read is not None and not self._is_wanted(path, read.name):
                read = None
            name = field.name if read is None else read.name
            if read is None and name in read_names:
                name = f"written_{number}_{name}"  # the library would read it
            kind = self.type_of(
                field.type, None if read is None else read.type, f"{path}.{field.name}", is_certain=is_certain
            )
            fields.append({"name": name, "type": kind})
        there = {definition["name"] for definition in fields}
        for read_field in () if reader is None else reader.fields:
            if (
                read_field.name not in there
                and read_field.default is NO_DEFAULT
                and self._is_wanted(path, read_field.name)
            ):
                text = f"field {f'{path}.{read_field.name}'.lstrip('.')} was not written, and has no default"
                self.contradictions.append(Contradiction(text, is_certain))
        return fields


def fields_of_reader(writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
    """Returns the fields of a reader's record by the names of those that the writer has for them."""
    there = {written_field.name for written_field in writer.fields}
    by_name: dict[str, AvroField] = {}
    for field in reader.fields:
        names = [name for name in (field.name, *sorted(field.aliases)) if name in there and name not in by_name]
        if names:
            by_name[names[0]] = field
    return by_name


def branch_of_reader(writer: AvroType, reader: AvroType) -> AvroType | None:
    """Returns the type that reads a writer's, which is no union: the reader's, or the branch of it; None for none."""
    return _Matching().branch_of(writer, reader)


class _Matching:
    """Structure of a writer's types compared with that of a reader's."""

    def __init__(self) -> None:
        self._assumed: set[tuple[int, int]] = set()

    def branch_of(self, writer: AvroType, reader: AvroType) -> AvroType | None:
        if reader.kind != "union":
            return reader if self._is_of_kind(writer, reader) else None
        alike = [branch for branch in reader.branches if branch.kind == writer.kind]
        if writer.kind in _NAMED and len(alike) > 1:
            return self._named(writer, alike)
        alike = [branch for branch in alike if self._is_of_kind(writer, branch)]
        wider = [branch for branch in reader.branches if branch.kind in _PROMOTIONS.get(writer.kind, ())]
        return next(iter(alike or wider), None)

    def _named(self, writer: AvroType, branches: list[AvroType]) -> AvroType | None:
        short = writer.short_name
        for is_it in (
            lambda branch: branch.name == writer.name,
            lambda branch: writer.name in branch.aliases,
            lambda branch: branch.short_name == short and self._reads(writer, branch),
            lambda branch: short in {alias.rpartition(".")[2] for alias in branch.aliases},
            lambda branch: self._reads(writer, branch),
        ):
            branch = next(filter(is_it, branches), None)
            if branch is not None:
                return branch
        return None

    @staticmethod
    def _is_of_kind(writer: AvroType, reader: AvroType) -> bool:
        if writer.kind == reader.kind:
            return writer.kind != "fixed" or writer.size_bytes == reader.size_bytes
        return reader.kind in _PROMOTIONS.get(writer.kind, ())

    def _reads(self, writer: AvroType, reader: AvroType) -> bool:
        if writer.kind == "union":
            return all(self._reads(branch, reader) for branch in writer.branches)
        branch = self.branch_of(writer, reader)
        if branch is None:
            return False
        if writer.items is not None and branch.items is not None:
            return self._reads(writer.items, branch.items)
        if writer.kind == "enum":
            return set(writer.symbols) <= set(branch.symbols) or "default" in branch.attributes
        if writer.kind != "record" or (id(writer), id(branch)) in self._assumed:
            return True
        self._assumed.add((id(writer), id(branch)))
        pairs = fields_of_reader(writer, branch)
        read = {field.name for field in pairs.values()}
        return all(field.name in read or field.default is not NO_DEFAULT for field in branch.fields) and all(
            self._reads(field.type, pairs[field.name].type) for field in writer.fields if field.name in pairs
        )


def _described(avro: AvroType) -> str:
    if avro.kind == "union":
        return " or ".join(
            _described(branch) for branch in sorted(avro.branches, key=lambda branch: branch.kind == "null")
        )
    if avro.kind == "fixed":
        return f"fixed of {avro.size_bytes} bytes"
    logical = logical_name(avro)
    return f"{logical} ({avro.kind})" if logical else avro.kind
