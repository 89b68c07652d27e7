"""Schemas as rows of the checkpoint, one a version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.schemas import Schema, SchemaType, StoredSchema

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState

SCHEMA_COLUMNS: Final = (
    "name TEXT",
    "version INTEGER",
    "kind INTEGER",
    "created_ms INTEGER",
    "deleted INTEGER",
    "data BLOB",
    "properties TEXT",
)


def schema_values(state: DurableState, key: tuple[str, int]) -> tuple[Any, ...] | None:
    """What follows name and version in the row of a schema, None when it is gone."""
    found = next((each for each in state.schemas.get(key[0], ()) if each.version == key[1]), None)
    if found is None:
        return None
    schema = found.schema
    properties = json.dumps(dict(schema.properties))
    return int(schema.type), found.created_ms, int(found.is_deleted), schema.data, properties


def load_schemas(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """The counterpart of `schema_values`, for whole rows in any order."""
    for name, version, kind, created_ms, deleted, data, properties in sorted(rows):
        schema = Schema(SchemaType(kind), bytes(data), json.loads(properties))
        state.schemas.setdefault(name, []).append(StoredSchema(version, schema, created_ms, bool(deleted)))
