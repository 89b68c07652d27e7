"""Topics and the metadata of partitioned topics: their durable state, the records that change it, and their rows.

Towards its producers a topic has an epoch of exclusive access (PR-7), an end (TN-13) and chunks (CHK-6).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table
from spark_pulsar.model.positions.ids import Position, TransactionId

if TYPE_CHECKING:
    from spark_pulsar.model.positions.ranges import RangeSet

    from .compaction import Compaction
    from .cursors.cursor import Cursor
    from .damage import Damage
    from .delays import Delays
    from .durable_state import DurableState

UNSET: Final = -1
"""Stands in place of an epoch: no producer ever had exclusive access."""


@dataclass(slots=True)
class TopicState:
    """A topic, or one partition of one: its managed ledger and its durable cursors by subscription name."""

    topic_id: int
    name: str
    created_ms: int
    properties: dict[str, str]
    ledger: ManagedLedger
    cursors: dict[str, Cursor] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    """Highest sequence id taken of each producer name, with de-duplication (DED-2)."""
    damages: list[Damage] = field(default_factory=list)
    """Damage that storage found, accepted or not."""

    epoch: int = UNSET
    """Epoch of the last exclusive access, `UNSET` if no producer ever had it (PR-7)."""
    is_terminated: bool = False
    """True if the topic takes no more entries, for good (TN-13)."""
    has_chunks: bool = False
    """True if the topic ever took a chunk of a large message (CHK-6)."""

    compaction: Compaction | None = None
    """The compaction; None until the topic is to be compacted."""
    delays: Delays | None = None
    """The delayed entries; None until there was one (DEL-3)."""
    open_transactions: dict[TransactionId, RangeSet] = field(default_factory=dict)
    """Entries of each open transaction that has some here, in the order of their first ones (TX-9)."""

    @property
    def damage(self) -> Damage | None:
        """The first damage that is not accepted: while there is one, the topic is read-only."""
        return next((damage for damage in self.damages if not damage.accepted), None)

    def slowest_mark_delete(self) -> Position | None:
        """The lowest mark-delete of the durable cursors, None when there is none. Compaction counts as one that stands
        at its horizon (CMP-C4)."""
        slowest = min((cursor.mark_delete for cursor in self.cursors.values()), default=None)
        if self.compaction is not None and (slowest is None or self.compaction.horizon < slowest):
            return self.compaction.horizon
        return slowest


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """Metadata of a partitioned topic."""

    name: str
    partitions: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicCreated(DeclaredRecord):
    """A topic (or one partition) exists from now on. `name` is its full name; the id was never used before."""

    topic_id: int
    name: str
    created_ms: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 10


@dataclass(frozen=True, slots=True)
class TopicDeleted(DeclaredRecord):
    """A topic is gone. Its cursors and ledgers went before it, by their own records of the same group."""

    topic_id: int
    TYPE: ClassVar[int] = 11


@dataclass(frozen=True, slots=True)
class TopicPropertiesSet(DeclaredRecord):
    """The topic's properties are these, whatever they were."""

    topic_id: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 12


@dataclass(frozen=True, slots=True)
class PartitionedTopicSet(DeclaredRecord):
    """A partitioned topic exists and has this many partitions and these properties. Its partitions are topics."""

    name: str
    partitions: int
    properties: Mapping[str, str]
    TYPE: ClassVar[int] = 13


@dataclass(frozen=True, slots=True)
class PartitionedTopicDeleted(DeclaredRecord):
    """The partitioned topic's metadata is gone; its partitions have records of their own."""

    name: str
    TYPE: ClassVar[int] = 14


@dataclass(frozen=True, slots=True)
class TopicEpochSet(DeclaredRecord):
    """A producer has exclusive access from now on, in this epoch; the holder of an earlier epoch has lost it."""

    topic_id: int
    epoch: int
    TYPE: ClassVar[int] = 17


@dataclass(frozen=True, slots=True)
class TopicTerminated(DeclaredRecord):
    """The topic takes no more entries, for good."""

    topic_id: int
    TYPE: ClassVar[int] = 18


@dataclass(frozen=True, slots=True)
class TopicChunked(DeclaredRecord):
    """The topic takes its first chunk of a large message."""

    topic_id: int
    TYPE: ClassVar[int] = 19


def _topic_created(state: DurableState, record: TopicCreated) -> None:
    if record.name in state.topics_by_name:
        raise InvalidRecord(f"topic {record.name} exists")
    state.use_topic_id(record.topic_id)
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


def _topic_deleted(state: DurableState, record: TopicDeleted) -> None:
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


def _topic_properties_set(state: DurableState, record: TopicPropertiesSet) -> None:
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


def _partitioned_topic_set(state: DurableState, record: PartitionedTopicSet) -> None:
    state.add_partitioned(PartitionedTopic(record.name, record.partitions, dict(record.properties)))
    state.dirty["partitioned_topics"].add(record.name)


def _partitioned_topic_deleted(state: DurableState, record: PartitionedTopicDeleted) -> None:
    if state.partitioned.pop(record.name, None) is None:
        raise InvalidRecord(f"partitioned topic {record.name} does not exist")
    state.partitioned_names.remove(record.name)
    state.dirty["partitioned_topics"].add(record.name)


def _topic_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    topic = state.topics.get(topic_id)
    if topic is None:
        return None
    ledger = topic.ledger
    properties = json.dumps(topic.properties) if topic.properties else "{}"
    return (topic.name, topic.created_ms, properties, ledger.total_entries, *ledger.last_position)


def _partitioned_values(state: DurableState, name: str) -> tuple[Any, ...] | None:
    topic = state.partitioned.get(name)
    return None if topic is None else (topic.partitions, json.dumps(dict(topic.properties)))


def _mark_values(state: DurableState, topic_id: int) -> tuple[Any, ...] | None:
    """The row of a topic that has an epoch, an end or chunks; None for all others."""
    topic = state.topics.get(topic_id)
    if topic is None or (topic.epoch == UNSET and not topic.is_terminated and not topic.has_chunks):
        return None
    return topic.epoch, int(topic.is_terminated), int(topic.has_chunks)


def load(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Registers the topics of rows, whose ledgers are added next."""
    for topic_id, name, created_ms, properties, total, last_ledger, last_entry in rows:
        ledger = ManagedLedger(topic_id)
        ledger.restore(total, Position(last_ledger, last_entry))
        state.add_topic(TopicState(topic_id, name, created_ms, json.loads(properties), ledger))


def load_partitioned(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Registers the partitioned topics of rows."""
    for name, partitions, properties in rows:
        state.add_partitioned(PartitionedTopic(name, partitions, json.loads(properties)))


def load_marks(state: DurableState, rows: Iterable[tuple[Any, ...]]) -> None:
    """Gives topics the epochs, ends and chunks of their rows."""
    for topic_id, epoch, terminated, chunked in rows:
        topic = state.topics[topic_id]
        topic.epoch, topic.is_terminated, topic.has_chunks = epoch, bool(terminated), bool(chunked)


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    TopicCreated: _topic_created,
    TopicDeleted: _topic_deleted,
    TopicPropertiesSet: _topic_properties_set,
    TopicEpochSet: _topic_epoch_set,
    TopicTerminated: _topic_terminated,
    TopicChunked: _topic_chunked,
    PartitionedTopicSet: _partitioned_topic_set,
    PartitionedTopicDeleted: _partitioned_topic_deleted,
}
"""Effects of the records, by type."""

TABLES: Final = (
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
)

MARKS: Final = Table(
    "topic_marks", 1, ("topic_id INTEGER", "epoch INTEGER", "terminated INTEGER", "chunked INTEGER"), _mark_values
)
