"""Applies a record to the durable state: one function a record type, and the table of them.

The core applies a record when it makes it, recovery applies the same record again when it replays the journal. Applying
reads no clock, chooses no id and never fails halfway: a record that does not fit the state is an `InvalidRecord` before
anything changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.records import base as r
from spark_pulsar.ledger.records import cursors as cr
from spark_pulsar.ledger.records.base import InvalidRecord
from spark_pulsar.ledger.records.documents import DocumentDeleted, DocumentSet
from spark_pulsar.ledger.records.topics import TopicChunked, TopicEpochSet, TopicTerminated
from spark_pulsar.ledger.state.cursor import Cursor
from spark_pulsar.ledger.state.durable_state import NEXT_CURSOR, NEXT_LEDGER, NEXT_TOPIC
from spark_pulsar.ledger.state.ledger import LedgerInfo
from spark_pulsar.ledger.state.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.topics import PartitionedTopic, TopicState
from spark_pulsar.model import array_library
from spark_pulsar.model.positions.ids import Position

from . import compaction, deduplication, delays, transactions
from . import damage as damage_rules
from . import schemas as schemas_rules

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


# Entries and counters


def _entries_appended(state: DurableState, record: r.EntriesAppended) -> None:
    run = record.entries
    if isinstance(run, EntryColumns):
        _columns_appended(state, run)
        return
    ledger_id = run.ledger_id
    info = state.ledgers.get(ledger_id)
    if info is None:
        raise InvalidRecord(f"entries for ledger {ledger_id}, which does not exist")
    if info.sealed_ms is not None or run.first_entry_id != info.entries:
        raise InvalidRecord(f"{run!r} does not continue {info}")
    count = len(run.starts)
    if count == 1 and run.message_counts is None:
        info.size_bytes += run.ends[0] - run.starts[0]
        info.messages += 1
    else:
        info.size_bytes += run.size_bytes
        info.messages += run.messages
    info.entries += count
    if info.size_bytes >= info.next_mark_bytes:
        info.mark()
    state.dirty_ledgers.add(ledger_id)


def _columns_appended(state: DurableState, entries: EntryColumns) -> None:
    if array_library.HAS_NUMPY:  # which a broker loads when a connection publishes to many topics
        from .columns import append
    else:
        from .columns_in_turn import append
    append(state, entries)


def _counter_set(state: DurableState, record: r.CounterSet) -> None:
    state.counters[record.name] = record.value
    state.dirty["counters"].add(record.name)


# Topics, namespaces and documents


def _topic_created(state: DurableState, record: r.TopicCreated) -> None:
    if record.name in state.topics_by_name:
        raise InvalidRecord(f"topic {record.name} exists")
    state.use_id(NEXT_TOPIC, record.topic_id)
    state.add_topic(
        TopicState(
            record.topic_id,
            record.name,
            record.created_ms,
            dict(record.properties),
            ManagedLedger(record.topic_id),
        )
    )
    state.dirty["topics"].add(record.topic_id)


def _topic_deleted(state: DurableState, record: r.TopicDeleted) -> None:
    topic = state.topic(record.topic_id)
    if topic.cursors or topic.ledger.ledgers or topic.compaction is not None:
        raise InvalidRecord(f"topic {topic.name} still has cursors or ledgers")
    del state.topics[topic.topic_id]
    del state.topics_by_name[topic.name]
    state.topic_names.remove(topic.name)
    state.open_ledgers.release(topic.ledger.row)
    topic.ledger.row = -1
    state.dirty["sequences"].update((topic.topic_id, producer) for producer in topic.sequences)
    if topic.damages:
        state.dirty["damages"].add(topic.topic_id)
    state.dirty["topic_marks"].add(topic.topic_id)
    state.dirty["topics"].add(topic.topic_id)


def _topic_properties_set(state: DurableState, record: r.TopicPropertiesSet) -> None:
    state.topic(record.topic_id).properties = dict(record.properties)
    state.dirty["topics"].add(record.topic_id)


def _topic_epoch_set(state: DurableState, record: TopicEpochSet) -> None:
    state.topic(record.topic_id).epoch = record.epoch
    state.dirty["topic_marks"].add(record.topic_id)


def _topic_terminated(state: DurableState, record: TopicTerminated) -> None:
    state.topic(record.topic_id).is_terminated = True
    state.dirty["topic_marks"].add(record.topic_id)


def _topic_chunked(state: DurableState, record: TopicChunked) -> None:
    state.topic(record.topic_id).has_chunks = True
    state.dirty["topic_marks"].add(record.topic_id)


def _partitioned_topic_set(state: DurableState, record: r.PartitionedTopicSet) -> None:
    state.add_partitioned(PartitionedTopic(record.name, record.partitions, dict(record.properties)))
    state.dirty["partitioned_topics"].add(record.name)


def _partitioned_topic_deleted(state: DurableState, record: r.PartitionedTopicDeleted) -> None:
    if state.partitioned.pop(record.name, None) is None:
        raise InvalidRecord(f"partitioned topic {record.name} does not exist")
    state.partitioned_names.remove(record.name)
    state.dirty["partitioned_topics"].add(record.name)


def _namespace_set(state: DurableState, record: r.NamespaceSet) -> None:
    state.namespaces[record.name] = record.policies
    state.dirty["namespaces"].add(record.name)


def _namespace_deleted(state: DurableState, record: r.NamespaceDeleted) -> None:
    if state.namespaces.pop(record.name, None) is None:
        raise InvalidRecord(f"namespace {record.name} does not exist")
    state.dirty["namespaces"].add(record.name)


def _document_set(state: DurableState, record: DocumentSet) -> None:
    state.documents.setdefault(record.kind, {})[record.name] = record.text
    state.dirty["documents"].add((record.kind, record.name))


def _document_deleted(state: DurableState, record: DocumentDeleted) -> None:
    if state.documents.get(record.kind, {}).pop(record.name, None) is not None:
        state.dirty["documents"].add((record.kind, record.name))


# Ledgers


def _ledger_opened(state: DurableState, record: r.LedgerOpened) -> None:
    ledger = state.topic(record.topic_id).ledger
    if ledger.current is not None:
        raise InvalidRecord(f"topic {record.topic_id} has an open ledger")
    state.use_id(NEXT_LEDGER, record.ledger_id)
    info = LedgerInfo(record.ledger_id, record.topic_id, ledger.total_entries, record.opened_ms)
    state.add_ledger(info)
    ledger.open_ledger = info
    state.follow_open(ledger)
    state.dirty_ledgers.add(record.ledger_id)


def _ledger_sealed(state: DurableState, record: r.LedgerSealed) -> None:
    ledger = state.topic(record.topic_id).ledger
    info = ledger.current
    if info is None or info.ledger_id != record.ledger_id:
        raise InvalidRecord(f"ledger {record.ledger_id} is not open")
    info.sealed_ms = record.sealed_ms
    if info.marks is not None:
        info.marks.thin(info.entries)
    ledger.open_ledger = None
    state.follow_open(ledger)
    if info.entries == 0:
        _remove_ledgers(state, ledger, (record.ledger_id,))
    state.dirty_ledgers.add(record.ledger_id)


def _ledgers_trimmed(state: DurableState, record: r.LedgersTrimmed) -> None:
    topic = state.topic(record.topic_id)
    ledger = topic.ledger
    front = ledger.ledger_ids()[: len(record.ledger_ids)]
    if list(record.ledger_ids) != front:
        raise InvalidRecord(f"ledgers {record.ledger_ids} are not the oldest of topic {topic.name}: {front}")
    if not front:
        return
    last = ledger.ledgers[front[-1]]
    for cursor in topic.cursors.values():
        # Nobody can consume what is gone: a cursor inside stands behind it from now on.
        if cursor.mark_delete.ledger_id <= last.ledger_id:
            cursor.advance_mark_delete(Position(last.ledger_id, last.entries - 1))
            state.dirty["cursors"].add(cursor.cursor_id)
    delays.forget_ledgers(state, topic, front)
    transactions.forget_ledgers(state, topic, front)
    _remove_ledgers(state, ledger, front)
    if topic.damages:
        damage_rules.forget_ledgers(state, topic, set(front))
    for cursor in topic.cursors.values():
        mark_delete = cursor.mark_delete
        cursor.absorb()
        if cursor.mark_delete != mark_delete:
            state.dirty["cursors"].add(cursor.cursor_id)


def _remove_ledgers(state: DurableState, ledger: ManagedLedger, ledger_ids: Iterable[int]) -> None:
    removed = ledger.remove(ledger_ids)
    state.follow_open(ledger)
    for ledger_id in removed:
        del state.ledgers[ledger_id]
        state.dirty_ledgers.add(ledger_id)
        state.dirty["topics"].add(ledger.topic_id)


def _entries_dropped(state: DurableState, record: r.EntriesDropped) -> None:
    ledger = state.topic(record.topic_id).ledger
    if record.ledger_id not in ledger.ledgers:
        raise InvalidRecord(f"ledger {record.ledger_id} does not exist")
    ledger.drop_before(record.ledger_id, record.first_entry_id)
    state.dirty_ledgers.add(record.ledger_id)


# Cursors


def _cursor(state: DurableState, cursor_id: int) -> Cursor:
    cursor = state.cursors.get(cursor_id)
    if cursor is None:
        raise InvalidRecord(f"cursor {cursor_id} does not exist")
    state.dirty["cursors"].add(cursor_id)
    return cursor


def _cursor_created(state: DurableState, record: cr.CursorCreated) -> None:
    topic = state.topic(record.topic_id)
    if record.name in topic.cursors:
        raise InvalidRecord(f"subscription {record.name} of {topic.name} exists")
    state.use_id(NEXT_CURSOR, record.cursor_id)
    state.add_cursor(
        topic,
        Cursor(
            topic.ledger,
            record.name,
            Position(record.ledger_id, record.entry_id),
            cursor_id=record.cursor_id,
            created_ms=record.created_ms,
            properties=record.properties,
        ),
    )
    state.dirty["cursors"].add(record.cursor_id)


def _cursor_deleted(state: DurableState, record: cr.CursorDeleted) -> None:
    cursor = _cursor(state, record.cursor_id)
    transactions.forget_cursor(state, cursor)
    del state.cursors[record.cursor_id]
    del state.topics[state.cursor_topics.pop(record.cursor_id)].cursors[cursor.name]
    blocks = cursor.blocks() | cursor.changed_blocks
    state.gone_cursor_blocks.update((record.cursor_id, *block) for block in blocks)


def _cursor_acked(state: DurableState, record: cr.CursorAcked) -> None:
    cursor = _cursor(state, record.cursor_id)
    if record.ranges:
        cursor.acknowledge(record.ranges)
    for ledger_id, entry_id, bits in record.batch_sets:
        cursor.acknowledge_batch(ledger_id, entry_id, bits)


def _cursor_mark_deleted(state: DurableState, record: cr.CursorMarkDeleted) -> None:
    _cursor(state, record.cursor_id).advance_mark_delete(Position(record.ledger_id, record.entry_id))


def _cursor_reset(state: DurableState, record: cr.CursorReset) -> None:
    _cursor(state, record.cursor_id).reset(Position(record.ledger_id, record.entry_id))


def _cursor_redelivered(state: DurableState, record: cr.CursorRedelivered) -> None:
    _cursor(state, record.cursor_id).redeliver(record.ranges)


def _cursor_properties_set(state: DurableState, record: cr.CursorPropertiesSet) -> None:
    _cursor(state, record.cursor_id).properties = dict(record.properties)


def _cursor_ack_properties(state: DurableState, record: cr.CursorAckProperties) -> None:
    _cursor(state, record.cursor_id).ack_properties = dict(record.properties) or None


def _cursor_idle(state: DurableState, record: cr.CursorIdle) -> None:
    cursor = state.cursors.get(record.cursor_id)
    if cursor is not None:
        cursor.idle_since_ms = record.since_ms
        state.dirty["cursors"].add(record.cursor_id)


TRANSITIONS: Final[dict[type[r.Record], Callable[[DurableState, Any], None]]] = {
    r.EntriesAppended: _entries_appended,
    r.CounterSet: _counter_set,
    r.TopicCreated: _topic_created,
    r.TopicDeleted: _topic_deleted,
    r.TopicPropertiesSet: _topic_properties_set,
    TopicEpochSet: _topic_epoch_set,
    TopicTerminated: _topic_terminated,
    TopicChunked: _topic_chunked,
    r.PartitionedTopicSet: _partitioned_topic_set,
    r.PartitionedTopicDeleted: _partitioned_topic_deleted,
    r.NamespaceSet: _namespace_set,
    r.NamespaceDeleted: _namespace_deleted,
    DocumentSet: _document_set,
    DocumentDeleted: _document_deleted,
    r.LedgerOpened: _ledger_opened,
    r.LedgerSealed: _ledger_sealed,
    r.LedgersTrimmed: _ledgers_trimmed,
    r.EntriesDropped: _entries_dropped,
    cr.CursorCreated: _cursor_created,
    cr.CursorDeleted: _cursor_deleted,
    cr.CursorAcked: _cursor_acked,
    cr.CursorMarkDeleted: _cursor_mark_deleted,
    cr.CursorReset: _cursor_reset,
    cr.CursorRedelivered: _cursor_redelivered,
    cr.CursorPropertiesSet: _cursor_properties_set,
    cr.CursorAckProperties: _cursor_ack_properties,
    cr.CursorIdle: _cursor_idle,
    **damage_rules.TRANSITIONS,
    **schemas_rules.TRANSITIONS,
    **delays.TRANSITIONS,
    **deduplication.TRANSITIONS,
    **compaction.TRANSITIONS,
    **transactions.TRANSITIONS,
}
"""The effect of every record type."""


def apply(state: DurableState, record: r.Record) -> None:
    """Gives a record its effect on the durable state. InvalidRecord when it does not fit."""
    TRANSITIONS[type(record)](state, record)
