"""JSON values with what does not fit their types: fields that the schema of the read does not name, and values of
another type, in the places where they stood (SCHEMA-21)."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from spark_pulsar.connector.schemas.decoding.json_values import Clients, value_of
from spark_pulsar.connector.schemas.payloads.record_types import RecordType

Salvage = Callable[[Any], tuple[Any, Any]]
"""Returns the value in the type's physical form and what of it did not fit; None: everything did."""


@dataclass(slots=True)
class Rescuing:
    """Way of what does not fit: with `keeps` it is rescued, else a value of another type is an error. Fields that are
    `declared` nowhere, by their paths, are noted in `undeclared` with the name of their type."""

    keeps: bool
    declared: Collection[str] = ()
    undeclared: dict[str, str] = field(default_factory=dict)


def salvage_of(record: RecordType, path: str, clients: Clients, rescuing: Rescuing) -> Salvage:
    """Returns what makes a value and its rescued part of a value of JSON; it raises ValueError with the field where
    nothing is kept. A field that is null has nothing to rescue."""
    plain = _plain(record, path, clients, rescuing)
    if record.is_opaque or not _has_records(record):
        return plain
    if record.is_union:
        return _of_union(record, path, clients, rescuing, plain)
    if record.members:
        return _of_record(record, path, clients, rescuing, plain)
    assert record.items is not None
    item = salvage_of(record.items, f"{path}[]", clients, rescuing)

    def of_items(given: Any) -> tuple[Any, Any]:
        if record.kind == "array" and type(given) is list:
            pairs = [item(element) for element in given]
            rescued = [other for _, other in pairs]
            return [value for value, _ in pairs], None if _is_empty(rescued) else rescued
        if record.kind == "map" and type(given) is dict:
            by_key = {key: item(element) for key, element in given.items()}
            left = {key: other for key, (_, other) in by_key.items() if other is not None}
            return {key: value for key, (value, _) in by_key.items()}, left or None
        return plain(given)

    return of_items


def _is_empty(rescued: list[Any]) -> bool:
    return all(rest is None for rest in rescued)


def _has_records(record: RecordType) -> bool:
    if record.is_union:
        return any(_has_records(branch) for branch in record.branches.values())
    if record.items is not None:
        return _has_records(record.items)
    return bool(record.members)


def _plain(record: RecordType, path: str, clients: Clients, rescuing: Rescuing) -> Salvage:
    value = value_of(record, path, clients)

    def salvage(given: Any) -> tuple[Any, Any]:
        try:
            return value(given), None
        except (ValueError, ArithmeticError):
            if not rescuing.keeps:
                raise
            return None, given

    return salvage


def _of_record(record: RecordType, path: str, clients: Clients, rescuing: Rescuing, plain: Salvage) -> Salvage:
    members = {name: salvage_of(member, f"{path}.{name}", clients, rescuing) for name, member in record.members.items()}
    named = frozenset(field.name for field in record.avro.fields)

    def salvage(given: Any) -> tuple[Any, Any]:
        if type(given) is not dict:
            return plain(given)
        fields: dict[str, Any] = {}
        rescued: dict[str, Any] = {}
        for name, member in members.items():
            fields[name], other = member(given.get(name))
            if other is not None:
                rescued[name] = other
        for name, other in given.items():
            if name not in named and other is not None:
                rescued[name] = other
                place = f"{path}.{name}".lstrip(".")
                if place not in rescuing.declared:
                    rescuing.undeclared.setdefault(place, _type_name(other))
        return fields, rescued or None

    return salvage


def _of_union(record: RecordType, path: str, clients: Clients, rescuing: Rescuing, plain: Salvage) -> Salvage:
    inner = {name: salvage_of(branch, path, clients, rescuing) for name, branch in record.branches.items()}

    def salvage(given: Any) -> tuple[Any, Any]:
        value, rescued = plain(given)
        if value is None:
            return value, rescued
        [name] = value
        kept, rescued = inner[name](given)
        return (value if kept is None else {name: kept}), rescued

    return salvage


def _type_name(given: Any) -> str:
    """Returns the name of the Spark type that a value of JSON stands for."""
    if isinstance(given, dict):
        return f"struct<{','.join(f'{name}:{_type_name(element)}' for name, element in given.items())}>"
    if isinstance(given, list):
        return f"array<{_type_name(given[0]) if given else 'void'}>"
    kinds = {bool: "boolean", int: "bigint", float: "double", decimal.Decimal: "double", str: "string"}
    return kinds.get(type(given), "void")
