"""Linked definitions: an Avro definition in the form of its JSON, with types in place of the names that refer to them,
so that a definition can be extended (SCHEMA-6) or united with others (SCHEMA-8).

A named type is one object wherever it is used, so that what changes in it changes everywhere. `unlinked` makes JSON of
it again: the definition where it stands first, then its name. Attributes that Avro does not know stay as they are.
"""

from __future__ import annotations

import json
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.model.avro import PRIMITIVES

FULL_NAME: Final = "fullName"
"""Key of a linked type's name with its namespace; no definition has it, as `linked` sets and `unlinked` drops it."""

_NAMED: Final = ("record", "error", "enum", "fixed")


def linked(definition: Any) -> Any:
    """Returns a definition (parsed JSON, one that `model.avro` accepts) with its types linked. The argument stays as it
    is. Raises SchemaError for a name that nothing defines."""
    return _Linking().type_of(definition, "")


def linked_text(data: bytes) -> Any:
    """Returns the linked form of a definition's JSON."""
    return linked(json.loads(data))


def unlinked(linked_type: Any) -> Any:
    """Returns the JSON of a linked definition."""
    return _unlinked(linked_type, set())


def kind_of(linked_type: Any) -> str:
    """Returns the kind of a linked type: `union` for a list, `record` for an error."""
    if isinstance(linked_type, list):
        return "union"
    kind = str(linked_type["type"]) if isinstance(linked_type, dict) else str(linked_type)
    return "record" if kind == "error" else kind


def attribute(linked_type: Any, name: str) -> Any:
    """Returns an attribute of a linked type; None where it has none."""
    return linked_type.get(name) if isinstance(linked_type, dict) else None


def without_null(linked_type: Any) -> tuple[list[Any], bool]:
    """Returns the branches of a union but null, or the one type that is no union, and whether null is one."""
    if not isinstance(linked_type, list):
        return [linked_type], False
    branches = [branch for branch in linked_type if kind_of(branch) != "null"]
    return branches, len(branches) < len(linked_type)


def names_in(linked_type: Any) -> set[str]:
    """Returns the full names of the types inside a linked type."""
    names: set[str] = set()

    def collect(one: Any) -> None:
        if isinstance(one, list):
            for branch in one:
                collect(branch)
        elif isinstance(one, dict) and one.get(FULL_NAME) not in names:
            if FULL_NAME in one:
                names.add(one[FULL_NAME])
            for part in (one.get("items"), one.get("values"), *(field["type"] for field in one.get("fields", ()))):
                collect(part)

    collect(linked_type)
    return names


class _Linking:
    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def type_of(self, value: Any, namespace: str) -> Any:
        if isinstance(value, str):
            return value if value in PRIMITIVES else self._named(value, namespace)
        if isinstance(value, list):
            return [self.type_of(branch, namespace) for branch in value]
        kind = value["type"]
        if isinstance(kind, dict | list):
            return self.type_of(kind, namespace)
        if kind in _NAMED:
            return self._definition(value, namespace)
        if kind in ("array", "map"):
            member = "items" if kind == "array" else "values"
            return {**value, member: self.type_of(value[member], namespace)}
        return dict(value) if kind in PRIMITIVES else self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Any:
        definition = self._known.get(full_name(name, namespace)) or self._known.get(name)
        if definition is None:
            raise SchemaError(f'the definition refers to "{name}", which it does not define')
        return definition

    def _definition(self, value: Any, namespace: str) -> Any:
        full = full_name(value["name"], value.get("namespace", namespace))
        definition = self._known[full] = {**value, FULL_NAME: full}
        if "fields" in value:
            inner = full.rpartition(".")[0]
            definition["fields"] = [{**field, "type": self.type_of(field["type"], inner)} for field in value["fields"]]
        return definition


def full_name(name: str, namespace: str) -> str:
    """Returns a name with its namespace, unless it has one."""
    return name.removeprefix(".") if "." in name or not namespace else f"{namespace}.{name}"


def _unlinked(value: Any, seen: set[str]) -> Any:
    if isinstance(value, list):
        return [_unlinked(branch, seen) for branch in value]
    if not isinstance(value, dict):
        return value
    name = value.get(FULL_NAME)
    if name in seen:
        return name
    if name is not None:
        seen.add(name)
    plain = {key: item for key, item in value.items() if key != FULL_NAME}
    for member in ("items", "values"):
        if member in plain:
            plain[member] = _unlinked(plain[member], seen)
    if "fields" in plain:
        plain["fields"] = [{**field, "type": _unlinked(field["type"], seen)} for field in plain["fields"]]
    return plain
