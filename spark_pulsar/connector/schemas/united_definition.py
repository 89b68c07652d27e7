"""One definition for topics whose definitions differ: what all of them can be read as (SCHEMA-8).

Fields are those of the first topic in its order, then those that only later ones have. A field that a topic lacks has
its default, or becomes nullable. Numbers are widened, enums have the symbols of all, units and scales are the finest.
Names of records do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.linked_definition import (
    FULL_NAME,
    attribute,
    kind_of,
    linked_text,
    names_in,
    unlinked,
    without_null,
)
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

_WIDER: Final = {
    frozenset({"int", "long"}): "long",
    frozenset({"int", "float"}): "double",
    frozenset({"int", "double"}): "double",
    frozenset({"long", "float"}): "double",
    frozenset({"long", "double"}): "double",
    frozenset({"float", "double"}): "double",
    frozenset({"string", "bytes"}): "bytes",
}
_UNITS: Final = ("millis", "micros", "nanos")
_OF_TIME: Final = ("time", "timestamp", "local-timestamp")
_MAX_DIGITS: Final = 38
_ORDERS: Final = (
    (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64),
    (SchemaType.FLOAT, SchemaType.DOUBLE),
    (SchemaType.DATE, SchemaType.LOCAL_DATE),
    (SchemaType.TIME, SchemaType.LOCAL_TIME),
    (SchemaType.TIMESTAMP, SchemaType.INSTANT),
)
"""Primitives that have a column in common: that of the last one."""


class Contradiction(SchemaError):
    """Error of two definitions that nothing can be read as (SCHEMA-9); `place` names the field, `types` both types."""

    def __init__(self, place: str, types: tuple[str, str]) -> None:
        super().__init__(f"{place or 'the schema'}: {types[0]} and {types[1]}")
        self.place = place
        self.types = types


def united(definitions: Sequence[Definition]) -> Definition:
    """Returns the definition that payloads of all definitions can be read with: the first where it is that of all.

    Raises Contradiction when there is none, SchemaError for a definition that cannot be parsed.
    """
    first, *others = definitions
    merged = first
    for other in others:
        merged = _of_two(merged, other)
    return merged


def with_fields(definition: Definition, names: Collection[str]) -> Definition:
    """Returns the definition of a record with the named fields alone; any other as it is."""
    if definition.type not in (SchemaType.AVRO, SchemaType.JSON) or definition.avro().kind != "record":
        return definition
    record = linked_text(definition.schema.data)
    if not isinstance(record, dict):
        return definition
    fields = [field for field in record["fields"] if field["name"] in names]
    data = json.dumps(unlinked({**record, "fields": fields}), ensure_ascii=False).encode()
    return replace(definition, schema=replace(definition.schema, data=data))


def primitive_of_both(one: SchemaType, other: SchemaType) -> SchemaType | None:
    """Returns the primitive that has the column of both; None where they have none in common."""
    for order in _ORDERS:
        if one in order and other in order:
            return order[max(order.index(one), order.index(other))]
    return None


def _of_two(one: Definition, other: Definition) -> Definition:
    if one.type is not other.type:
        kind = primitive_of_both(one.type, other.type)
        if kind is None:
            raise Contradiction("", (one.type.name, other.type.name))
        return _changed(one, Schema(kind, b"", one.schema.properties)) if kind is not one.type else one
    if one.type is SchemaType.KEY_VALUE:
        return _key_value(one, other)
    if one.schema.data == other.schema.data:
        return one
    if one.type not in (SchemaType.AVRO, SchemaType.JSON):
        raise Contradiction("", (one.type.name, f"another {other.type.name}"))
    one.avro()
    other.avro()  # both are definitions
    uniting = _Uniting(linked_text(one.schema.data), has_aliases=one.type is SchemaType.AVRO)
    root = uniting.type_of(uniting.root, linked_text(other.schema.data), "")
    if not uniting.has_changed:
        return one
    data = json.dumps(unlinked(root), ensure_ascii=False).encode()
    return _changed(one, replace(one.schema, data=data))


def _key_value(one: Definition, other: Definition) -> Definition:
    (key, value, encoding), (other_key, other_value, other_encoding) = one.key_value(), other.key_value()
    if encoding is not other_encoding:
        raise Contradiction("", (f"KEY_VALUE {encoding}", f"KEY_VALUE {other_encoding}"))
    parts = []
    for name, mine, others in (("key", key, other_key), ("value", value, other_value)):
        try:
            parts.append(_of_two(mine, others))
        except Contradiction as error:
            raise Contradiction(f"{name}.{error.place}".removesuffix("."), error.types) from None
    if parts[0] is key and parts[1] is value:
        return one
    properties = {**one.schema.properties}
    for name, part in zip(("key", "value"), parts, strict=True):
        properties[f"{name}.schema.type"] = part.type.name
    data = join_key_and_value(parts[0].schema.data, parts[1].schema.data)
    return _changed(one, Schema(SchemaType.KEY_VALUE, data, properties))


def _changed(one: Definition, schema: Schema) -> Definition:
    return Definition(schema, one.name, is_of_several=True)


class _Uniting:
    def __init__(self, root: Any, *, has_aliases: bool) -> None:
        self.root = root
        self.has_changed = False
        self._has_aliases = has_aliases
        self._names = names_in(root)
        self._merged: dict[int, tuple[Any, Any]] = {}
        """Named types of the other definition, by identity, with what they became; both are kept alive."""
        self._inside: set[tuple[int, int]] = set()

    def type_of(self, one: Any, other: Any, path: str) -> Any:
        """Returns the type that reads both."""
        mine, has_null = _branches(one)
        theirs, other_null = _branches(other)
        branches = list(mine)
        for branch in theirs:
            place = _place(mine, branch, is_only=len(mine) == len(theirs) == 1)
            if place is None:
                branches.append(self._grafted(branch))
            else:
                branches[place] = self._one(branches[place], branch, path)
        is_nullable = has_null or other_null
        if (
            len(branches) == len(mine)
            and all(a is b for a, b in zip(branches, mine, strict=True))
            and is_nullable == has_null
        ):
            return one
        self.has_changed = True
        if not is_nullable and len(branches) == 1:
            return branches[0]
        return ["null", *branches] if is_nullable else branches

    def _one(self, one: Any, other: Any, path: str) -> Any:
        kind, other_kind = kind_of(one), kind_of(other)
        if (id(one), id(other)) in self._inside:
            return one
        if kind == other_kind == "record":
            self._inside.add((id(one), id(other)))
            self._merged[id(other)] = (one, other)
            self._record(one, other, path)
            return one
        if kind == other_kind and kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            one[member] = self.type_of(one[member], other[member], f"{path}[]")
            return one
        if kind == other_kind == "enum":
            self._merged[id(other)] = (one, other)
            added = [symbol for symbol in other["symbols"] if symbol not in one["symbols"]]
            if added:
                self.has_changed = True
                one["symbols"] = [*one["symbols"], *added]
            return one
        return self._leaf(one, other, kind, other_kind, path)

    def _leaf(self, one: Any, other: Any, kind: str, other_kind: str, path: str) -> Any:
        mine, theirs = _logical(one), _logical(other)
        contradiction = Contradiction(path.lstrip("."), (_shown(one), _shown(other)))
        if mine or theirs:
            if mine == theirs and one == other:
                return one
            logical = _same_logical(one, other, mine, theirs)
            if logical is None:
                raise contradiction
            return logical if logical != one else one
        if kind == other_kind and (kind != "fixed" or one["size"] == other["size"]):
            return one
        wider = _WIDER.get(frozenset({kind, other_kind}))
        if wider is None:
            raise contradiction
        return one if wider == kind else wider

    def _record(self, one: Any, other: Any, path: str) -> None:
        mine = {field["name"]: field for field in one["fields"]}
        waiting = {field["name"]: field for field in other["fields"]}
        for field in one["fields"]:
            pair = waiting.pop(field["name"], None) or self._aliased(field, mine, waiting)
            if pair is None:
                self._may_be_missing(field)
                continue
            field["type"] = self.type_of(field["type"], pair["type"], f"{path}.{field['name']}")
            if "default" not in field and "default" in pair:
                field["default"] = pair["default"]
                self.has_changed = True
            self._in_order(field)
        for field in waiting.values():
            self.has_changed = True
            added = {**field, "type": self._grafted(field["type"])}
            self._may_be_missing(added)
            one["fields"].append(added)

    def _aliased(self, field: Any, mine: dict[str, Any], waiting: dict[str, Any]) -> Any:
        """Returns the other record's field that is the same by one alias or the other; the newer name is kept."""
        if not self._has_aliases:
            return None
        for name in field.get("aliases", ()):
            if name in waiting and name not in mine:
                return waiting.pop(name)
        for name, waiting_field in waiting.items():
            if field["name"] in waiting_field.get("aliases", ()) and name not in mine:
                self.has_changed = True
                field["aliases"] = [*field.get("aliases", ()), *waiting_field["aliases"]]
                field["name"] = name
                return waiting.pop(name)
        return None

    def _may_be_missing(self, field: Any) -> None:
        if "default" not in field:
            self.has_changed = True
            field["type"] = ["null", *_branches(field["type"])[0]]
            field["default"] = None

    @staticmethod
    def _in_order(field: Any) -> None:
        """Lets null be the last branch where the default is another value: a default is one of the first branch."""
        kind = field["type"]
        if isinstance(kind, list) and field.get("default") is not None and kind_of(kind[0]) == "null":
            field["type"] = [*kind[1:], kind[0]]

    def _grafted(self, other: Any) -> Any:
        """Returns a type that only the other definition has, for this one."""
        if isinstance(other, list):
            return [self._grafted(branch) for branch in other]
        if not isinstance(other, dict):
            return other
        if id(other) in self._merged:
            return self._merged[id(other)][0]
        grafted = dict(other)
        if FULL_NAME in grafted:
            self._merged[id(other)] = (grafted, other)
            self._name(grafted)
        for member in ("items", "values"):
            if member in grafted:
                grafted[member] = self._grafted(grafted[member])
        if "fields" in grafted:
            grafted["fields"] = [{**field, "type": self._grafted(field["type"])} for field in grafted["fields"]]
        return grafted

    def _name(self, definition: Any) -> None:
        """Gives a type a full name that no other has."""
        namespace, _, name = definition[FULL_NAME].rpartition(".")
        unique, number = name, 1
        while (full := f"{namespace}.{unique}" if namespace else unique) in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(full)
        definition |= {"name": unique, "namespace": namespace, FULL_NAME: full}


def _branches(one: Any) -> tuple[list[Any], bool]:
    branches, has_null = without_null(one)
    others = [branch for branch in branches if kind_of(branch) != "null"]
    return others, has_null or len(others) < len(branches)


def _place(mine: list[Any], branch: Any, *, is_only: bool) -> int | None:
    """Returns the branch that another union's goes with."""
    if is_only:
        return 0
    kind, name = kind_of(branch), attribute(branch, "name")
    alike = [index for index, own in enumerate(mine) if kind_of(own) == kind]
    named = [index for index in alike if attribute(mine[index], "name") == name]
    if kind in ("record", "enum", "fixed"):
        return named[0] if named else None
    wider = [index for index, own in enumerate(mine) if frozenset({kind_of(own), kind}) in _WIDER]
    return next(iter(alike or wider), None)


def _logical(one: Any) -> str:
    """Returns Avro's logical type, without its unit, if it decides about the column; else empty."""
    name = attribute(one, "logicalType")
    if name == "decimal" and kind_of(one) in ("bytes", "fixed"):
        return "decimal"
    if name == "date" and kind_of(one) == "int":
        return "date"
    family, _, unit = str(name).rpartition("-")
    return family if family in _OF_TIME and unit in _UNITS and kind_of(one) in ("int", "long") else ""


def _same_logical(one: Any, other: Any, mine: str, theirs: str) -> Any:
    """Returns the type of the finest unit, or of all digits; None where both mean something else."""
    if mine != theirs:
        return None
    if mine == "date":
        return one
    if mine != "decimal":
        return max(one, other, key=lambda definition: _UNITS.index(definition["logicalType"].rpartition("-")[2]))
    if kind_of(one) != kind_of(other) or one.get("size") != other.get("size"):
        return None
    scale = max(one.get("scale", 0), other.get("scale", 0))
    digits = max(definition["precision"] - definition.get("scale", 0) for definition in (one, other)) + scale
    if (digits, scale) == (one["precision"], one.get("scale", 0)):
        return one
    return None if digits > _MAX_DIGITS or kind_of(one) == "fixed" else {**one, "precision": digits, "scale": scale}


def _shown(one: Any) -> str:
    logical = attribute(one, "logicalType")
    if _logical(one) == "decimal":
        return f"decimal({one.get('precision')},{one.get('scale', 0)})"
    if kind_of(one) == "fixed":
        return f"fixed of {one['size']} bytes"
    return f"{kind_of(one)} ({logical})" if logical else kind_of(one)
