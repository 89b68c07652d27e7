"""The state as rows of small tables, and back: what a checkpoint stores.

A row is `(table, key, values)`: the key is a tuple of the table's leading key columns, the values a tuple of the rest,
or None when the row is to be deleted. Only what changed since the last call is handed out, so that a checkpoint costs
what was touched, not what exists. For the same reason a cursor has a row of acks for every 4,096 entries
(`rows.cursors`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from spark_pulsar.ledger.apply.damage import note_lost
from spark_pulsar.ledger.records.codec import RecordDamaged, i64s_from, i64s_packed, u32s, u32s_from
from spark_pulsar.ledger.records.topics import UNSET
from spark_pulsar.ledger.state.delay_index import BlockKey, Delays
from spark_pulsar.ledger.state.durable_state import DurableState, PartitionedTopic, TopicState
from spark_pulsar.ledger.state.ledger import LedgerInfo
from spark_pulsar.ledger.state.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.topics import Damage
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.model.schemas import Schema, SchemaType, StoredSchema

from .compaction import add_compacted_ledger, compaction_values, load_compactions
from .cursors import BLOCK_COLUMNS, CURSOR_COLUMNS, cursor_values, load_block, load_cursor, take_blocks
from .transactions import (
    ACK_COLUMNS,
    ENTRY_COLUMNS,
    TRANSACTION_COLUMNS,
    WITHHELD_COLUMNS,
    ack_values,
    entry_values,
    load_transactions,
    transaction_values,
    withheld_values,
)


class Table(NamedTuple):
    """Name and columns (with SQL types) of a table; the first `keys` columns are its primary key. `values` gives the
    others of the row with a key, None when it is to be deleted; `take_blocks` does of the blocks of cursors."""

    name: str
    keys: int
    columns: tuple[str, ...]
    values: Callable[[DurableState, Any], tuple[Any, ...] | None] | None


class Row(NamedTuple):
    """One row to store, or to delete when `values` is None."""

    table: str
    key: tuple[Any, ...]
    values: tuple[Any, ...] | None


def take_dirty_rows(state: DurableState) -> list[Row]:
    """The rows that changed since the last call (all, after `DurableState()`); the state is clean afterwards."""
    rows: list[Row] = []
    cursor_rows = [Row("cursor_blocks", *block) for block in take_blocks(state, state.dirty["cursors"])]
    for table, _, _, values in TABLES:
        if values is not None:
            keys = state.dirty[table]
            rows += [Row(table, key if type(key) is tuple else (key,), values(state, key)) for key in keys]
            keys.clear()
    return rows + cursor_rows


def take_some_dirty_rows(state: DurableState, most: int) -> list[Row]:
    """Some of the rows that changed since they were taken last, about `most` of them; they are clean afterwards."""
    rows: list[Row] = []
    for table, _, _, values in TABLES:
        keys = state.dirty[table] if values is not None else ()
        while keys and len(rows) < most:
            key = keys.pop()
            if table == "cursors":
                rows += [Row("cursor_blocks", *block) for block in take_blocks(state, (key,))]
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
        state.counters.update({name: value for name, value in tables.get("counters", ())})
        state.namespaces = dict(tables.get("namespaces", ()))
        for kind, name, text in tables.get("documents", ()):
            state.documents.setdefault(kind, {})[name] = text
        for name, partitions, properties in tables.get("partitioned_topics", ()):
            state.add_partitioned(PartitionedTopic(name, partitions, json.loads(properties)))
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
        _load_schemas(state, tables.get("schemas", ()))
        for topic_id, damages in tables.get("damages", ()):
            topic = state.topics[topic_id]
            topic.damages = [Damage(*each) for each in json.loads(damages)]
            note_lost(topic)
        _load_delays(state, tables.get("delays", ()))
        load_transactions(state, tables)
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


def _mark_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    """The row of a topic that has an epoch, an end or chunks; None for all others."""
    topic = state.topics.get(topic_id)
    if topic is None or (topic.epoch == UNSET and not topic.is_terminated and not topic.has_chunks):
        return None
    return topic.epoch, int(topic.is_terminated), int(topic.has_chunks)


def _schema_values(state: DurableState, key: tuple[str, int]) -> tuple[Any, ...] | None:
    """The row of a schema after name and version, None when it is gone."""
    found = next((each for each in state.schemas.get(key[0], ()) if each.version == key[1]), None)
    if found is None:
        return None
    schema = found.schema
    properties = json.dumps(dict(schema.properties))
    return int(schema.type), found.created_ms, int(found.is_deleted), schema.data, properties


def _load_schemas(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """The counterpart of `_schema_values`, for whole rows in any order."""
    for name, version, kind, created_ms, deleted, data, properties in sorted(rows):
        schema = Schema(SchemaType(kind), bytes(data), json.loads(properties))
        state.schemas.setdefault(name, []).append(StoredSchema(version, schema, created_ms, bool(deleted)))


def _delay_values(state: DurableState, key: BlockKey) -> tuple[bytes, bytes] | None:
    """The row of a block of delayed entries after its key; None when it has none."""
    info = state.ledgers.get(key[0])
    delays = None if info is None else state.topics[info.topic_id].delays
    columns = None if delays is None else delays.columns(key)
    return None if columns is None else (i64s_packed(columns[0]), u32s(columns[1]))


def _load_delays(state: DurableState, rows: Iterable[tuple[int, int, bytes, bytes]]) -> None:
    """Gives topics the blocks of their rows. ValueError when a row holds something else."""
    for ledger_id, block, times_ms, offsets in sorted(rows):
        topic = state.topics[state.ledgers[ledger_id].topic_id]
        if topic.delays is None:
            topic.delays = Delays()
        topic.delays.load((ledger_id, block), i64s_from(times_ms), u32s_from(offsets))


TABLES: Final = (
    Table("counters", 1, ("name TEXT", "value INTEGER"), _counter_values),
    Table("namespaces", 1, ("name TEXT", "policies TEXT"), _namespace_values),
    Table("documents", 2, ("kind TEXT", "name TEXT", "text TEXT"), _document_values),
    Table("partitioned_topics", 1, ("name TEXT", "partitions INTEGER", "properties TEXT"), _partitioned_values),
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
        _topic_values,
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
        _ledger_values,
    ),
    Table("cursors", 1, CURSOR_COLUMNS, cursor_values),
    Table("cursor_blocks", 3, BLOCK_COLUMNS, None),
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
        compaction_values,
    ),
    Table("sequences", 2, ("topic_id INTEGER", "producer TEXT", "sequence_id INTEGER"), _sequence_values),
    Table("damages", 1, ("topic_id INTEGER", "damages TEXT"), _damage_values),
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
        _schema_values,
    ),
    Table("delays", 2, ("ledger_id INTEGER", "block INTEGER", "times_ms BLOB", "offsets BLOB"), _delay_values),
    Table(
        "topic_marks", 1, ("topic_id INTEGER", "epoch INTEGER", "terminated INTEGER", "chunked INTEGER"), _mark_values
    ),
    Table("transactions", 2, TRANSACTION_COLUMNS, transaction_values),
    Table("transaction_entries", 3, ENTRY_COLUMNS, entry_values),
    Table("transaction_acks", 3, ACK_COLUMNS, ack_values),
    Table("withheld", 1, WITHHELD_COLUMNS, withheld_values),
)
"""All tables, in the order in which `load_rows` needs them."""

LATER_TABLES: Final = frozenset({"transactions", "transaction_entries", "transaction_acks", "withheld"})
"""Tables that checkpoints of earlier versions do not have: they are empty there."""
