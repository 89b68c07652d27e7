"""The state as rows of small tables, and back: what a checkpoint stores.

A row is `(table, key, values)`: the key is a tuple of the table's leading key columns, the values a tuple of the rest,
or None when the row is to be deleted. Only what changed since the last call is handed out, so that a checkpoint costs
by the rows that were touched, not by all that exist. For the same reason a cursor has a row of acks for every 4,096
entries (`cursors.records`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_pulsar.ledger.records import RecordDamaged, Table

from . import (
    compaction,
    damage,
    deduplication,
    delays,
    documents,
    durable_state,
    ledgers,
    schemas,
    topics,
    transactions,
)
from .cursors import records as cursors
from .durable_state import DurableState


class Row(NamedTuple):
    """One row to store, or to delete when `values` is None."""

    table: str
    key: tuple[Any, ...]
    values: tuple[Any, ...] | None


def pop_dirty_rows(state: DurableState) -> list[Row]:
    """The rows that changed since the last call (all, after `DurableState()`); the state is clean afterwards."""
    rows: list[Row] = []
    cursor_rows = [Row("cursor_blocks", *block) for block in cursors.pop_changed_blocks(state, state.dirty["cursors"])]
    for table, _, _, values in TABLES:
        if values is not None:
            keys = state.dirty[table]
            rows += [Row(table, key if type(key) is tuple else (key,), values(state, key)) for key in keys]
            keys.clear()
    return rows + cursor_rows


def pop_some_dirty_rows(state: DurableState, most: int) -> list[Row]:
    """Some of the rows that changed since they were taken last, about `most` of them; they are clean afterwards."""
    rows: list[Row] = []
    for table, _, _, values in TABLES:
        keys = state.dirty[table] if values is not None else ()
        while keys and len(rows) < most:
            key = keys.pop()
            if table == "cursors":
                rows += [Row("cursor_blocks", *block) for block in cursors.pop_changed_blocks(state, (key,))]
            assert values is not None, "there are no keys else"
            rows.append(Row(table, key if type(key) is tuple else (key,), values(state, key)))
    return rows


def load_rows(tables: Mapping[str, Sequence[tuple[Any, ...]]]) -> DurableState:
    """The state whose rows these are, by table, each a whole row; nothing of it is dirty. Without any rows, a new one.
    RecordDamaged when a row has not the promised form."""
    state = DurableState()
    if not any(tables.values()):
        return state
    try:
        durable_state.load_counters(state, tables.get("counters", ()))
        documents.load_namespaces(state, tables.get("namespaces", ()))
        documents.load(state, tables.get("documents", ()))
        topics.load_partitioned(state, tables.get("partitioned_topics", ()))
        topics.load(state, tables.get("topics", ()))
        deduplication.load(state, tables.get("sequences", ()))
        compacted = compaction.load(state, tables.get("compactions", ()))
        ledgers.load(state, tables.get("ledgers", ()), compacted)
        for row in tables.get("cursors", ()):
            cursors.load_cursor(state, *row)
        for row in sorted(tables.get("cursor_blocks", ())):
            cursors.load_block(state, *row)
        schemas.load(state, tables.get("schemas", ()))
        damage.load(state, tables.get("damages", ()))
        delays.load(state, tables.get("delays", ()))
        transactions.load(state, tables)
        topics.load_marks(state, tables.get("topic_marks", ()))
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        raise RecordDamaged(f"a row of the checkpoint does not fit: {error!r}") from error
    for keys in state.dirty.values():
        keys.clear()
    return state


TABLES: Final[Sequence[Table]] = (
    *durable_state.TABLES,
    *documents.TABLES,
    *topics.TABLES,
    *ledgers.TABLES,
    *cursors.TABLES,
    *compaction.TABLES,
    *deduplication.TABLES,
    *damage.TABLES,
    *schemas.TABLES,
    *delays.TABLES,
    topics.MARKS,
    *transactions.TABLES,
)
"""All tables, in the order in which `load_rows` needs them."""

LATER_TABLES: Final = frozenset(table.name for table in transactions.TABLES)
"""Tables that checkpoints of earlier versions do not have: they are empty there."""
