"""Everything durable that the broker knows, and the one door through which it changes.

`DurableState.apply(record)` is called for a record when the core creates it, and again for the same record when the
journal is replayed. It reads no clock, chooses no id and never fails halfway: a record that does not fit the state is
an `InvalidRecord` before anything changed. A `DurableState` loaded from rows taken at some moment, to which the records
after that moment are applied, equals the live one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_pulsar.model.ids import Position

from . import cursor_records as cr
from . import records as r
from .cursor import Cursor
from .managed import LedgerInfo, ManagedLedger

NEXT_TOPIC: Final = "next.topic"
NEXT_LEDGER: Final = "next.ledger"
NEXT_CURSOR: Final = "next.cursor"
_DEFAULT_NAMESPACE: Final = "public/default"


class InvalidRecord(ValueError):
    """The record does not fit the state: it names something unknown, or is out of order. A mistake of its maker."""


@dataclass(slots=True)
class TopicState:
    """A topic, or one partition of one: its managed ledger and its durable cursors by subscription name."""

    topic_id: int
    name: str
    created_ms: int
    properties: dict[str, str]
    ledger: ManagedLedger
    cursors: dict[str, Cursor] = field(default_factory=dict)

    def slowest_mark_delete(self) -> Position | None:
        """The lowest mark-delete of the durable cursors, None when there is none."""
        return min((cursor.mark_delete for cursor in self.cursors.values()), default=None)


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """Metadata of a partitioned topic."""

    name: str
    partitions: int
    properties: Mapping[str, str]


class DurableState:
    """Topics, ledgers, cursors, partitioned topics, namespaces and counters, with what changed since the last
    checkpoint. Read its attributes freely; change them through `apply` alone."""

    def __init__(self) -> None:
        self.topics: dict[int, TopicState] = {}
        self.topics_by_name: dict[str, TopicState] = {}
        self.cursors: dict[int, Cursor] = {}
        self.partitioned: dict[str, PartitionedTopic] = {}
        self.namespaces: dict[str, str] = {_DEFAULT_NAMESPACE: "{}"}
        """Policies as JSON text, by "tenant/name"."""
        self.counters: dict[str, int] = {NEXT_TOPIC: 1, NEXT_LEDGER: 1, NEXT_CURSOR: 1}
        self.dirty: dict[str, set[Any]] = {
            "topics": set(),
            "ledgers": set(),
            "cursors": set(),
            "partitioned_topics": set(),
            "namespaces": {_DEFAULT_NAMESPACE},
            "counters": {NEXT_TOPIC, NEXT_LEDGER, NEXT_CURSOR},
        }
        """Keys of what changed since the last checkpoint, by table of `snapshot`."""
        self._dirty_ledgers = self.dirty["ledgers"]
        self.gone_cursor_ledgers: set[tuple[int, int]] = set()
        """(cursor id, ledger id) of acked ranges that went with their cursor since the last checkpoint."""
        self.cursor_topics: dict[int, int] = {}
        self._ledgers: dict[int, ManagedLedger] = {}
        self._appliers: dict[type[r.Record], Callable[[Any], None]] = {
            r.EntriesAppended: self._entries_appended,
            r.CounterSet: self._counter_set,
            r.TopicCreated: self._topic_created,
            r.TopicDeleted: self._topic_deleted,
            r.TopicPropertiesSet: self._topic_properties_set,
            r.PartitionedTopicSet: self._partitioned_topic_set,
            r.PartitionedTopicDeleted: self._partitioned_topic_deleted,
            r.NamespaceSet: self._namespace_set,
            r.NamespaceDeleted: self._namespace_deleted,
            r.LedgerOpened: self._ledger_opened,
            r.LedgerSealed: self._ledger_sealed,
            r.LedgersTrimmed: self._ledgers_trimmed,
            r.EntriesDropped: self._entries_dropped,
            cr.CursorCreated: self._cursor_created,
            cr.CursorDeleted: self._cursor_deleted,
            cr.CursorAcked: self._cursor_acked,
            cr.CursorMarkDeleted: self._cursor_mark_deleted,
            cr.CursorReset: self._cursor_reset,
            cr.CursorRedelivered: self._cursor_redelivered,
            cr.CursorPropertiesSet: self._cursor_properties_set,
        }

    def apply(self, record: r.Record) -> None:
        """Give a record its effect. InvalidRecord when it does not fit."""
        self._appliers[type(record)](record)

    # Ids that the next records use; they rise and are never used twice, because the records that use them move them.

    @property
    def next_topic_id(self) -> int:
        """The id for the next TopicCreated."""
        return self.counters[NEXT_TOPIC]

    @property
    def next_ledger_id(self) -> int:
        """The id for the next LedgerOpened."""
        return self.counters[NEXT_LEDGER]

    @property
    def next_cursor_id(self) -> int:
        """The id for the next CursorCreated."""
        return self.counters[NEXT_CURSOR]

    # Questions

    def managed_ledger_of(self, ledger_id: int) -> ManagedLedger | None:
        """The chain that the ledger belongs to, None when the ledger does not exist (any more)."""
        return self._ledgers.get(ledger_id)

    def ledger_ids(self) -> set[int]:
        """Ids of all existing ledgers."""
        return set(self._ledgers)

    def first_needed_entry(self, ledger_id: int) -> int | None:
        """The lowest entry id of the ledger that must be kept when it is settled: the one after the slowest durable
        cursor's mark-delete, or the first readable one when no durable cursor exists. None when the ledger is gone."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            return None
        info = ledger.ledgers[ledger_id]
        slowest = self.topics[ledger.topic_id].slowest_mark_delete()
        if slowest is None or slowest.ledger_id < ledger_id:
            return info.first_entry_id
        if slowest.ledger_id > ledger_id:
            return info.entries
        return max(info.first_entry_id, min(slowest.entry_id + 1, info.entries))

    def records_to_open_ledger(self, topic_id: int, now_ms: int) -> list[r.Record]:
        """The records that seal the topic's current ledger, if any, and open the next one."""
        current = self.topics[topic_id].ledger.current
        opened = r.LedgerOpened(topic_id, self.next_ledger_id, now_ms)
        return [opened] if current is None else [r.LedgerSealed(topic_id, current.ledger_id, now_ms), opened]

    def records_to_delete_topic(self, topic_id: int) -> list[r.Record]:
        """The records, for one group, that delete a topic with its cursors and ledgers."""
        topic = self.topics[topic_id]
        records: list[r.Record] = [cr.CursorDeleted(cursor.cursor_id) for cursor in topic.cursors.values()]
        if topic.ledger.ledgers:
            records.append(r.LedgersTrimmed(topic_id, tuple(topic.ledger.ledgers)))
        return [*records, r.TopicDeleted(topic_id)]

    def finish_recovery(self) -> None:
        """Called once after loading and replaying: recovered ledgers take no more entries (ML-1)."""
        for topic in self.topics.values():
            topic.ledger.appendable = False

    # Entries and counters

    def _entries_appended(self, record: r.EntriesAppended) -> None:
        run = record.run
        ledger_id = run.ledger_id
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            raise InvalidRecord(f"entries for ledger {ledger_id}, which does not exist")
        info = ledger.ledgers[ledger_id]
        if info.sealed_ms is not None or run.first_entry_id != info.entries:
            raise InvalidRecord(f"{run!r} does not continue ledger {ledger_id} ({info.entries} entries, {info=})")
        count = len(run.starts)
        if count == 1 and run.message_counts is None:
            info.size_bytes += run.ends[0] - run.starts[0]
            info.messages += 1
        else:
            info.size_bytes += run.size_bytes
            info.messages += run.messages
        info.entries += count
        ledger.total_entries += count
        ledger.last_position = Position(ledger_id, info.entries - 1)
        self._dirty_ledgers.add(ledger_id)

    def _counter_set(self, record: r.CounterSet) -> None:
        self.counters[record.name] = record.value
        self.dirty["counters"].add(record.name)

    def _use_id(self, counter: str, used: int) -> None:
        if used < self.counters[counter]:
            raise InvalidRecord(f"{counter}: id {used} was used before")
        self.counters[counter] = used + 1
        self.dirty["counters"].add(counter)

    # Topics and namespaces

    def _topic(self, topic_id: int) -> TopicState:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise InvalidRecord(f"topic {topic_id} does not exist")
        return topic

    def _topic_created(self, record: r.TopicCreated) -> None:
        if record.name in self.topics_by_name:
            raise InvalidRecord(f"topic {record.name} exists")
        self._use_id(NEXT_TOPIC, record.topic_id)
        self.add_topic(
            TopicState(
                record.topic_id,
                record.name,
                record.created_ms,
                dict(record.properties),
                ManagedLedger(record.topic_id),
            )
        )
        self.dirty["topics"].add(record.topic_id)

    def _topic_deleted(self, record: r.TopicDeleted) -> None:
        topic = self._topic(record.topic_id)
        if topic.cursors or topic.ledger.ledgers:
            raise InvalidRecord(f"topic {topic.name} still has cursors or ledgers")
        del self.topics[topic.topic_id]
        del self.topics_by_name[topic.name]
        self.dirty["topics"].add(topic.topic_id)

    def _topic_properties_set(self, record: r.TopicPropertiesSet) -> None:
        self._topic(record.topic_id).properties = dict(record.properties)
        self.dirty["topics"].add(record.topic_id)

    def _partitioned_topic_set(self, record: r.PartitionedTopicSet) -> None:
        self.partitioned[record.name] = PartitionedTopic(record.name, record.partitions, dict(record.properties))
        self.dirty["partitioned_topics"].add(record.name)

    def _partitioned_topic_deleted(self, record: r.PartitionedTopicDeleted) -> None:
        if self.partitioned.pop(record.name, None) is None:
            raise InvalidRecord(f"partitioned topic {record.name} does not exist")
        self.dirty["partitioned_topics"].add(record.name)

    def _namespace_set(self, record: r.NamespaceSet) -> None:
        self.namespaces[record.name] = record.policies
        self.dirty["namespaces"].add(record.name)

    def _namespace_deleted(self, record: r.NamespaceDeleted) -> None:
        if self.namespaces.pop(record.name, None) is None:
            raise InvalidRecord(f"namespace {record.name} does not exist")
        self.dirty["namespaces"].add(record.name)

    # Ledgers

    def _ledger_opened(self, record: r.LedgerOpened) -> None:
        ledger = self._topic(record.topic_id).ledger
        if ledger.current is not None:
            raise InvalidRecord(f"topic {record.topic_id} has an open ledger")
        self._use_id(NEXT_LEDGER, record.ledger_id)
        self.add_ledger(LedgerInfo(record.ledger_id, record.topic_id, ledger.total_entries, record.opened_ms))
        ledger.appendable = True
        self._dirty_ledgers.add(record.ledger_id)

    def _ledger_sealed(self, record: r.LedgerSealed) -> None:
        ledger = self._topic(record.topic_id).ledger
        info = ledger.current
        if info is None or info.ledger_id != record.ledger_id:
            raise InvalidRecord(f"ledger {record.ledger_id} is not open")
        if info.entries == 0:
            self._remove_ledgers(ledger, (record.ledger_id,))
        info.sealed_ms = record.sealed_ms
        ledger.appendable = False
        self._dirty_ledgers.add(record.ledger_id)

    def _ledgers_trimmed(self, record: r.LedgersTrimmed) -> None:
        topic = self._topic(record.topic_id)
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
                self.dirty["cursors"].add(cursor.cursor_id)
        self._remove_ledgers(ledger, front)
        for cursor in topic.cursors.values():
            cursor.absorb()

    def _remove_ledgers(self, ledger: ManagedLedger, ledger_ids: tuple[int, ...] | list[int]) -> None:
        for ledger_id in ledger.remove(ledger_ids):
            del self._ledgers[ledger_id]
            self._dirty_ledgers.add(ledger_id)
            self.dirty["topics"].add(ledger.topic_id)

    def _entries_dropped(self, record: r.EntriesDropped) -> None:
        ledger = self._topic(record.topic_id).ledger
        if record.ledger_id not in ledger.ledgers:
            raise InvalidRecord(f"ledger {record.ledger_id} does not exist")
        ledger.drop_before(record.ledger_id, record.first_entry_id)
        self._dirty_ledgers.add(record.ledger_id)

    # Cursors

    def _cursor(self, cursor_id: int) -> Cursor:
        cursor = self.cursors.get(cursor_id)
        if cursor is None:
            raise InvalidRecord(f"cursor {cursor_id} does not exist")
        self.dirty["cursors"].add(cursor_id)
        return cursor

    def _cursor_created(self, record: cr.CursorCreated) -> None:
        topic = self._topic(record.topic_id)
        if record.name in topic.cursors:
            raise InvalidRecord(f"subscription {record.name} of {topic.name} exists")
        self._use_id(NEXT_CURSOR, record.cursor_id)
        self.add_cursor(
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
        self.dirty["cursors"].add(record.cursor_id)

    def _cursor_deleted(self, record: cr.CursorDeleted) -> None:
        cursor = self._cursor(record.cursor_id)
        del self.cursors[record.cursor_id]
        del self.topics[self.cursor_topics.pop(record.cursor_id)].cursors[cursor.name]
        for ledger_id in (*cursor.acked.ledgers(), *cursor.changed_ledgers):
            self.gone_cursor_ledgers.add((record.cursor_id, ledger_id))

    def _cursor_acked(self, record: cr.CursorAcked) -> None:
        cursor = self._cursor(record.cursor_id)
        if record.ranges:
            cursor.acknowledge(record.ranges)
        for ledger_id, entry_id, bits in record.batch_sets:
            cursor.acknowledge_batch(ledger_id, entry_id, bits)

    def _cursor_mark_deleted(self, record: cr.CursorMarkDeleted) -> None:
        self._cursor(record.cursor_id).advance_mark_delete(Position(record.ledger_id, record.entry_id))

    def _cursor_reset(self, record: cr.CursorReset) -> None:
        self._cursor(record.cursor_id).reset(Position(record.ledger_id, record.entry_id))

    def _cursor_redelivered(self, record: cr.CursorRedelivered) -> None:
        self._cursor(record.cursor_id).redeliver(record.ranges)

    def _cursor_properties_set(self, record: cr.CursorPropertiesSet) -> None:
        self._cursor(record.cursor_id).properties = dict(record.properties)

    # Building blocks that loading from rows shares with the records

    def add_topic(self, topic: TopicState) -> None:
        """Register a topic under its id and name."""
        self.topics[topic.topic_id] = topic
        self.topics_by_name[topic.name] = topic

    def add_ledger(self, info: LedgerInfo) -> None:
        """Put a ledger at the end of its topic's chain."""
        ledger = self.topics[info.topic_id].ledger
        ledger.add(info)
        self._ledgers[info.ledger_id] = ledger

    def add_cursor(self, topic: TopicState, cursor: Cursor) -> None:
        """Register a durable cursor of a topic."""
        topic.cursors[cursor.name] = cursor
        self.cursors[cursor.cursor_id] = cursor
        self.cursor_topics[cursor.cursor_id] = topic.topic_id
