"""The durable state in memory: topics, ledgers, cursors, policies, counters. `apply` alone changes it.

A `DurableState` loaded from rows taken at some moment, to which the records after that moment are applied, equals the
live one. Non-persistent messages, permits and positions of readers are not in it (DUR-8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from spark_pulsar.ledger.managed_ledgers.ledger import WIDTH, LedgerInfo
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.records import DeclaredRecord, InvalidRecord, Record, Table
from spark_pulsar.model.column_store import ColumnStore
from spark_pulsar.model.name_index import NameIndex
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.model.schemas import StoredSchema

from . import documents
from .compaction import CompactionForgotten
from .cursors.cursor import Cursor
from .cursors.records import CursorDeleted
from .ledgers import LedgerOpened, LedgerSealed, LedgersTrimmed
from .topics import PartitionedTopic, TopicDeleted, TopicState
from .transactions import Transaction

NEXT_TOPIC: Final = "next.topic"
NEXT_LEDGER: Final = "next.ledger"
NEXT_CURSOR: Final = "next.cursor"
"""Names of the counters that hand out ids of topics, ledgers and cursors."""

_NEXT_TRANSACTION: Final = "next.transaction"
"""First part of the name of each coordinator's counter of transactions."""

_DEFAULT_NAMESPACE: Final = "public/default"

_TABLES: Final = (
    *("topics", "topic_marks", "ledgers", "cursors", "sequences", "damages", "delays", "compactions"),
    *("transactions", "transaction_entries", "transaction_acks", "withheld"),
    *("partitioned_topics", "namespaces", "documents", "schemas", "counters"),
)
"""Tables of `snapshot` whose changes are noted here."""


@dataclass(frozen=True, slots=True)
class CounterSet(DeclaredRecord):
    """A broker-wide counter, such as the number of the next generated producer name, reached a value."""

    name: str
    value: int
    TYPE: ClassVar[int] = 2


class DurableState:
    """Topics, ledgers, cursors, partitioned topics, namespaces and counters, with what changed since the last
    checkpoint. Read its attributes freely; `apply` alone changes them."""

    def __init__(self) -> None:
        self.topics: dict[int, TopicState] = {}
        self.topics_by_name: dict[str, TopicState] = {}
        self.topic_names = NameIndex()
        self.cursors: dict[int, Cursor] = {}
        self.partitioned: dict[str, PartitionedTopic] = {}
        self.partitioned_names = NameIndex()
        self.namespaces: dict[str, str] = {_DEFAULT_NAMESPACE: "{}"}
        """Policies as JSON text, by "tenant/name"."""
        self.documents: dict[str, dict[str, str]] = {kind: {} for kind in documents.KINDS}
        """JSON texts by kind (`documents.KINDS`) and name."""
        self.schemas: dict[str, list[StoredSchema]] = {}
        """Schemas by `tenant/namespace/topic`, oldest first."""
        self.transactions: dict[TransactionId, Transaction] = {}
        """Open transactions, in the order in which they were opened."""
        self.counters: dict[str, int] = {NEXT_TOPIC: 1, NEXT_LEDGER: 1, NEXT_CURSOR: 1}
        self.dirty: dict[str, set[Any]] = {table: set() for table in _TABLES}
        """Keys of what changed since the last checkpoint, by table of `snapshot`."""
        self.dirty["namespaces"].update(self.namespaces)
        self.dirty["counters"].update(self.counters)
        self.dirty_ledgers: set[int] = self.dirty["ledgers"]
        self.gone_cursor_blocks: set[tuple[int, int, int]] = set()
        """(cursor id, ledger id, block) of what went with its cursor since the last checkpoint."""
        self.cursor_topics: dict[int, int] = {}
        self.ledgers: dict[int, LedgerInfo] = {}
        """Every existing ledger by its id."""
        self.open_ledgers: ColumnStore[LedgerInfo] = ColumnStore(WIDTH)
        """The numbers of the ledgers that take entries, a row for each topic (`ManagedLedger.row`)."""
        self.keeps_consumed: Callable[[TopicState], bool] = _keeps_nothing
        """Returns whether retention keeps a topic's entries that every durable cursor has consumed; the broker sets it.
        No part of the state."""

    # Ids that the next records use; they rise and are never used twice, because the records that use them move them.

    @property
    def next_topic_id(self) -> int:
        """The id for the next TopicCreated."""
        return self.counters[NEXT_TOPIC]

    @property
    def next_ledger_id(self) -> int:
        """The id for the next LedgerOpened (A5)."""
        return self.counters[NEXT_LEDGER]

    @property
    def next_cursor_id(self) -> int:
        """The id for the next CursorCreated."""
        return self.counters[NEXT_CURSOR]

    def next_transaction_id(self, coordinator: int) -> TransactionId:
        """The id for the next TransactionOpened of a coordinator."""
        return TransactionId(coordinator, self.counters.get(f"{_NEXT_TRANSACTION}.{coordinator}", 0))

    def use_topic_id(self, used: int) -> None:
        """A record took this id. InvalidRecord when it was used before."""
        self._use_id(NEXT_TOPIC, used)

    def use_ledger_id(self, used: int) -> None:
        """A record took this id. InvalidRecord when it was used before."""
        self._use_id(NEXT_LEDGER, used)

    def use_cursor_id(self, used: int) -> None:
        """A record took this id. InvalidRecord when it was used before."""
        self._use_id(NEXT_CURSOR, used)

    def use_transaction_id(self, used: TransactionId) -> None:
        """A record took this id. InvalidRecord when it was used before."""
        self._use_id(f"{_NEXT_TRANSACTION}.{used.most}", used.least)

    def _use_id(self, counter: str, used: int) -> None:
        if used < self.counters.get(counter, 0):
            raise InvalidRecord(f"{counter}: id {used} was used before")
        self.counters[counter] = used + 1
        self.dirty["counters"].add(counter)

    def topic(self, topic_id: int) -> TopicState:
        """The topic that a record names. InvalidRecord when it does not exist."""
        topic = self.topics.get(topic_id)
        if topic is None:
            raise InvalidRecord(f"topic {topic_id} does not exist")
        return topic

    def next_entry_ids(self, ledger_ids: Sequence[int]) -> list[int]:
        """The entry ids that entries appended to these open ledgers in this order get: what a record of them must
        say that was made elsewhere."""
        taken: dict[int, int] = {}
        ids = []
        for ledger_id in ledger_ids:
            entry_id = taken.get(ledger_id, self.ledgers[ledger_id].entries)
            taken[ledger_id] = entry_id + 1
            ids.append(entry_id)
        return ids

    def first_needed_entry(self, ledger_id: int) -> int | None:
        """Returns the lowest entry id of the ledger that must be kept when it is settled; None when the ledger is gone.

        Trimming deletes whole closed ledgers (TRIM-2), so an entry that every subscription has acknowledged stays
        readable while its ledger is there (TRIM-4). Only a ledger that all durable cursors have left, that no retention
        keeps and that is not a compacted one is not copied: it is about to be trimmed.
        """
        info = self.ledgers.get(ledger_id)
        if info is None:
            return None
        topic = self.topics[info.topic_id]
        slowest = topic.slowest_mark_delete()
        is_left = slowest is not None and slowest.ledger_id > ledger_id and ledger_id in topic.ledger.ledgers
        return info.entries if is_left and not self.keeps_consumed(topic) else info.first_entry_id

    def records_to_open_ledger(self, topic_id: int, now_ms: int) -> list[Record]:
        """The records that seal the topic's current ledger, if any, and open the next one."""
        current = self.topics[topic_id].ledger.current
        opened = LedgerOpened(topic_id, self.next_ledger_id, now_ms)
        return [opened] if current is None else [LedgerSealed(topic_id, current.ledger_id, now_ms), opened]

    def records_to_delete_topic(self, topic_id: int) -> list[Record]:
        """The records, for one group, that delete a topic with its cursors and ledgers."""
        topic = self.topics[topic_id]
        records: list[Record] = [CursorDeleted(cursor.cursor_id) for cursor in topic.cursors.values()]
        if topic.ledger.ledgers:
            records.append(LedgersTrimmed(topic_id, tuple(topic.ledger.ledgers)))
        if topic.compaction is not None:
            records.append(CompactionForgotten(topic_id))
        return [*records, TopicDeleted(topic_id)]

    def finish_recovery(self) -> None:
        """Called once after loading and replaying: recovered ledgers take no more entries (ML-1)."""
        for topic in self.topics.values():
            topic.ledger.open_ledger = None
            self.follow_open(topic.ledger)

    # Building blocks that loading from rows shares with the records

    def add_topic(self, topic: TopicState) -> None:
        """Registers a topic under its id and name."""
        topic.ledger.row = self.open_ledgers.claim()
        self.topics[topic.topic_id] = topic
        self.topics_by_name[topic.name] = topic
        self.topic_names.add(topic.name)

    def add_partitioned(self, topic: PartitionedTopic) -> None:
        """Registers a partitioned topic, or its new partitions."""
        if topic.name not in self.partitioned:
            self.partitioned_names.add(topic.name)
        self.partitioned[topic.name] = topic

    def follow_open(self, ledger: ManagedLedger) -> None:
        """After another ledger of a topic, or none, takes entries: its numbers stand in the topic's row."""
        if self.open_ledgers.owners[ledger.row] is not ledger.open_ledger:
            self.open_ledgers.detach(ledger.row)
            if ledger.open_ledger is not None:
                self.open_ledgers.put(ledger.row, ledger.open_ledger)

    def add_ledger(self, info: LedgerInfo) -> None:
        """Puts a ledger at the end of its topic's chain."""
        self.topics[info.topic_id].ledger.add(info)
        self.ledgers[info.ledger_id] = info

    def add_cursor(self, topic: TopicState, cursor: Cursor) -> None:
        """Registers a durable cursor of a topic."""
        topic.cursors[cursor.name] = cursor
        self.cursors[cursor.cursor_id] = cursor
        self.cursor_topics[cursor.cursor_id] = topic.topic_id


def _keeps_nothing(_topic: TopicState) -> bool:
    return False


def _counter_set(state: DurableState, record: CounterSet) -> None:
    state.counters[record.name] = record.value
    state.dirty["counters"].add(record.name)


def _counter_values(state: DurableState, name: str) -> tuple[Any, ...]:
    return (state.counters[name],)


def load_counters(state: DurableState, rows: Iterable[tuple[str, int]]) -> None:
    """Puts the counters of rows in place of those that a new state has."""
    state.counters.update(rows)


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {CounterSet: _counter_set}
"""Effects of the records, by type."""

TABLES: Final = (Table("counters", 1, ("name TEXT", "value INTEGER"), _counter_values),)
