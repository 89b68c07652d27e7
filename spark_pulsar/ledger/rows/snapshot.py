"""The state as rows of small tables, and back: what a checkpoint stores.

A row is `(table, key, values)`: the key is a tuple of the table's leading key columns, the values a tuple of the rest,
or None when the row is to be deleted. Only what changed since the last call is handed out, so that a checkpoint costs
what was touched, not what exists. What cursors keep of single entries has a row
per 4,096 entries for the same reason (`cursor_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_pulsar.ledger.apply.damage import note_lost
from spark_pulsar.ledger.records.codec import RecordDamaged
from spark_pulsar.ledger.state.damage import Damage
from spark_pulsar.ledger.state.durable_state import DurableState, PartitionedTopic, TopicState
from spark_pulsar.ledger.state.ledger import LedgerInfo
from spark_pulsar.ledger.state.managed_ledger import ManagedLedger
from spark_pulsar.model.ids import Position

from .compaction import add_compacted_ledger, compaction_values, load_compactions
from .cursors import BLOCK_COLUMNS, CURSOR_COLUMNS, cursor_values, load_block, load_cursor, take_blocks
from .delays import DELAY_COLUMNS, delay_values, load_delays
from .schemas import SCHEMA_COLUMNS, load_schemas, schema_values
from .topics import mark_values


class Table(NamedTuple):
    """Name and columns (with SQL types) of a table; the first `keys` columns are its primary key."""

    name: str
    keys: int
    columns: tuple[str, ...]


class Row(NamedTuple):
    """One row to store, or to delete when `values` is None."""

    table: str
    key: tuple[Any, ...]
    values: tuple[Any, ...] | None


TABLES: Final = (
    Table("counters", 1, ("name TEXT", "value INTEGER")),
    Table("namespaces", 1, ("name TEXT", "policies TEXT")),
    Table("documents", 2, ("kind TEXT", "name TEXT", "text TEXT")),
    Table("partitioned_topics", 1, ("name TEXT", "partitions INTEGER", "properties TEXT")),
    Table(
        "topics",
        1,
        (
            "topic_id INTEGER",
            "name TEXT",
            "created_ms INTEGER",
            "properties TEXT",
            "total_entries INTEGER",
            "last_ledger_id INTEGER",
            "last_entry_id INTEGER",
        ),
    ),
    Table(
        "ledgers",
        1,
        (
            "ledger_id INTEGER",
            "topic_id INTEGER",
            "base INTEGER",
            "opened_ms INTEGER",
            "entries INTEGER",
            "first_entry_id INTEGER",
            "size_bytes INTEGER",
            "messages INTEGER",
            "sealed_ms INTEGER",
        ),
    ),
    Table("cursors", 1, CURSOR_COLUMNS),
    Table("cursor_blocks", 3, BLOCK_COLUMNS),
    Table(
        "compactions",
        1,
        (
            "topic_id INTEGER",
            "ledger_id INTEGER",
            "writing_ledger_id INTEGER",
            "horizon_ledger_id INTEGER",
            "horizon_entry_id INTEGER",
            "last_ledger_id INTEGER",
            "last_entry_id INTEGER",
            "last_index INTEGER",
            "begun_ms INTEGER",
            "finished_ms INTEGER",
            "removed INTEGER",
            "block_index BLOB",
        ),
    ),
    Table("sequences", 2, ("topic_id INTEGER", "producer TEXT", "sequence_id INTEGER")),
    Table("damages", 1, ("topic_id INTEGER", "damages TEXT")),
    Table("schemas", 2, SCHEMA_COLUMNS),
    Table("delays", 2, DELAY_COLUMNS),
    Table("topic_marks", 1, ("topic_id INTEGER", "epoch INTEGER", "terminated INTEGER", "chunked INTEGER")),
)
"""All tables, in the order in which `load_rows` needs them."""


def take_dirty_rows(state: DurableState) -> list[Row]:
    """The rows that changed since the last call (all, after `DurableState()`); the state is clean afterwards."""
    rows: list[Row] = []
    cursor_rows = [Row("cursor_blocks", *block) for block in take_blocks(state, state.dirty["cursors"])]
    for table, row_values in _ROW_VALUES.items():
        keys = state.dirty[table]
        rows += [Row(table, key if type(key) is tuple else (key,), row_values(state, key)) for key in keys]
        keys.clear()
    return rows + cursor_rows


def load_rows(tables: Mapping[str, Sequence[tuple[Any, ...]]]) -> DurableState:
    """The state whose rows these are, by table, each a whole row; nothing of it is dirty. Without any rows, a new one.
    RecordDamaged when a row has not the promised form."""
    state = DurableState()
    if not any(tables.values()):
        return state
    try:
        state.counters.update({name: value for name, value in tables.get("counters", ())})
        state.namespaces = dict(tables.get("namespaces", ()))
        for kind, name, text in tables.get("documents", ()):
            state.documents.setdefault(kind, {})[name] = text
        for name, partitions, properties in tables.get("partitioned_topics", ()):
            state.partitioned[name] = PartitionedTopic(name, partitions, json.loads(properties))
        for topic_id, name, created_ms, properties, total, last_ledger, last_entry in tables.get("topics", ()):
            ledger = ManagedLedger(topic_id)
            ledger.restore(total, Position(last_ledger, last_entry))
            state.add_topic(TopicState(topic_id, name, created_ms, json.loads(properties), ledger))
        for topic_id, producer, sequence_id in tables.get("sequences", ()):
            state.topics[topic_id].sequences[producer] = sequence_id
        compacted = load_compactions(state, tables.get("compactions", ()))
        for row in sorted(tables.get("ledgers", ())):
            info = LedgerInfo(*row)
            if info.ledger_id in compacted:
                add_compacted_ledger(state, info, done=compacted[info.ledger_id])
                continue
            state.add_ledger(info)
            state.topics[info.topic_id].ledger.drop_before(info.ledger_id, info.first_entry_id)
        for row in tables.get("cursors", ()):
            load_cursor(state, *row)
        for row in sorted(tables.get("cursor_blocks", ())):
            load_block(state, *row)
        load_schemas(state, tables.get("schemas", ()))
        for topic_id, damages in tables.get("damages", ()):
            topic = state.topics[topic_id]
            topic.damages = [Damage(*each) for each in json.loads(damages)]
            note_lost(topic)
        load_delays(state, tables.get("delays", ()))
        for topic_id, epoch, terminated, chunked in tables.get("topic_marks", ()):
            topic = state.topics[topic_id]
            topic.epoch, topic.is_terminated, topic.has_chunks = epoch, bool(terminated), bool(chunked)
    except (TypeError, ValueError, KeyError, AssertionError) as error:
        raise RecordDamaged(f"a row of the checkpoint does not fit: {error!r}") from error
    for keys in state.dirty.values():
        keys.clear()
    return state


def _counter_values(state: DurableState, name: str) -> tuple[Any, ...]:
    return (state.counters[name],)


def _namespace_values(state: DurableState, name: str) -> tuple[Any, ...] | None:
    policies = state.namespaces.get(name)
    return None if policies is None else (policies,)


def _document_values(state: DurableState, key: tuple[str, str]) -> tuple[Any, ...] | None:
    text = state.documents[key[0]].get(key[1])
    return None if text is None else (text,)


def _sequence_values(state: DurableState, key: tuple[int, str]) -> tuple[Any, ...] | None:
    topic = state.topics.get(key[0])
    sequence_id = None if topic is None else topic.sequences.get(key[1])
    return None if sequence_id is None else (sequence_id,)


def _damage_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    topic = state.topics.get(topic_id)
    return (json.dumps(topic.damages),) if topic is not None and topic.damages else None


def _partitioned_values(state: DurableState, name: str) -> tuple[Any, ...] | None:
    topic = state.partitioned.get(name)
    return None if topic is None else (topic.partitions, json.dumps(dict(topic.properties)))


def _topic_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    topic = state.topics.get(topic_id)
    if topic is None:
        return None
    ledger = topic.ledger
    properties = json.dumps(topic.properties) if topic.properties else "{}"
    return (topic.name, topic.created_ms, properties, ledger.total_entries, *ledger.last_position)


def _ledger_values(state: DurableState, ledger_id: int) -> tuple[Any, ...] | None:
    info = state.ledgers.get(ledger_id)
    return None if info is None else info.row()[1:]


_ROW_VALUES: Final[dict[str, Callable[[DurableState, Any], tuple[Any, ...] | None]]] = {
    "counters": _counter_values,
    "namespaces": _namespace_values,
    "documents": _document_values,
    "partitioned_topics": _partitioned_values,
    "topics": _topic_values,
    "sequences": _sequence_values,
    "compactions": compaction_values,
    "damages": _damage_values,
    "schemas": schema_values,
    "delays": delay_values,
    "topic_marks": mark_values,
    "ledgers": _ledger_values,
    "cursors": cursor_values,
}
