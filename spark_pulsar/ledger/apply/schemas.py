"""Applies the records of schemas to the durable state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.records.schemas import SchemaAdded, SchemasDeleted, SchemasForgotten
from spark_pulsar.model.schemas import Schema, SchemaType, StoredSchema

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def next_version(versions: Iterable[StoredSchema]) -> int:
    """The version that comes after these."""
    return max((each.version for each in versions), default=-1) + 1


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
    state.dirty["schemas"].update((record.name, each.version) for each in gone)


def _forgotten(state: DurableState, record: SchemasForgotten) -> None:
    gone = state.schemas.pop(record.name, [])
    state.dirty["schemas"].update((record.name, each.version) for each in gone)


def _append(state: DurableState, name: str, stored: StoredSchema) -> None:
    versions = state.schemas.get(name, [])
    if stored.version != next_version(versions):
        raise InvalidRecord(f"schema {stored.version} of {name} does not follow {next_version(versions) - 1}")
    state.schemas.setdefault(name, []).append(stored)
    state.dirty["schemas"].add((name, stored.version))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    SchemaAdded: _added,
    SchemasDeleted: _deleted,
    SchemasForgotten: _forgotten,
}
"""Effects of the records, by type."""
