"""Schemas: the versions that the topics of a name (a topic, or a partitioned one with all its partitions)
have, by `tenant/namespace/topic` (SC-1, SC-10)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table
from spark_pulsar.model.schemas import Schema, SchemaType, StoredSchema

if TYPE_CHECKING:
    from .durable_state import DurableState


@dataclass(frozen=True, slots=True)
class SchemaAdded(DeclaredRecord):
    """The topics of this name have one more schema; `kind` is a number of `SchemaType`. The first version is 0, each
    later one the next number."""

    name: str
    version: int
    kind: int
    created_ms: int
    data: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    TYPE: ClassVar[int] = 110


@dataclass(frozen=True, slots=True)
class SchemasDeleted(DeclaredRecord):
    """All schemas of this name are gone; a mark that they were there takes the next version."""

    name: str
    version: int
    deleted_ms: int
    TYPE: ClassVar[int] = 111


@dataclass(frozen=True, slots=True)
class SchemasForgotten(DeclaredRecord):
    """All schemas of this name are gone, and their versions too: the next one is 0 again. Nothing happens when there
    were none."""

    name: str
    TYPE: ClassVar[int] = 112


def next_version(versions: Iterable[StoredSchema]) -> int:
    """The version that comes after these."""
    return max((stored.version for stored in versions), default=-1) + 1


def _added(state: DurableState, record: SchemaAdded) -> None:
    try:
        schema = Schema(SchemaType(record.kind), record.data, dict(record.properties))
    except ValueError as error:
        raise InvalidRecord(f"schemas of type {record.kind} are unknown") from error
    _append(state, record.name, StoredSchema(record.version, schema, record.created_ms))


def _deleted(state: DurableState, record: SchemasDeleted) -> None:
    mark = StoredSchema(record.version, Schema(SchemaType.NONE), record.deleted_ms, is_deleted=True)
    _append(state, record.name, mark)
    gone = state.schemas[record.name][:-1]
    state.schemas[record.name] = [mark]
    state.dirty["schemas"].update((record.name, stored.version) for stored in gone)


def _removed(state: DurableState, record: SchemasForgotten) -> None:
    gone = state.schemas.pop(record.name, [])
    state.dirty["schemas"].update((record.name, stored.version) for stored in gone)


def _append(state: DurableState, name: str, stored: StoredSchema) -> None:
    versions = state.schemas.get(name, [])
    if stored.version != next_version(versions):
        raise InvalidRecord(f"schema {stored.version} of {name} does not follow {next_version(versions) - 1}")
    state.schemas.setdefault(name, []).append(stored)
    state.dirty["schemas"].add((name, stored.version))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    SchemaAdded: _added,
    SchemasDeleted: _deleted,
    SchemasForgotten: _removed,
}
"""Effects of the records, by type."""


def _values(state: DurableState, key: tuple[str, int]) -> tuple[Any, ...] | None:
    """The row of a schema after name and version, None when it is gone."""
    stored = next((stored for stored in state.schemas.get(key[0], ()) if stored.version == key[1]), None)
    if stored is None:
        return None
    schema = stored.schema
    properties = json.dumps(dict(schema.properties))
    return int(schema.type), stored.created_ms, int(stored.is_deleted), schema.data, properties


def load(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Adds the schemas of rows, which may come in any order."""
    for name, version, kind, created_ms, deleted, data, properties in sorted(rows):
        schema = Schema(SchemaType(kind), bytes(data), json.loads(properties))
        state.schemas.setdefault(name, []).append(StoredSchema(version, schema, created_ms, bool(deleted)))


TABLES: Final = (
    Table(
        "schemas",
        2,
        (
            "name TEXT",
            "version INTEGER",
            "kind INTEGER",
            "created_ms INTEGER",
            "deleted INTEGER",
            "data BLOB",
            "properties TEXT",
        ),
        _values,
    ),
)
