"""Random histories of a broker's durable state, and a canonical picture of a state to compare."""

from copy import deepcopy
from random import Random
from typing import Any

from spark_pulsar.ledger.entries import EntryColumns, EntryRun
from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state import compaction as kr
from spark_pulsar.ledger.state import damage, schemas
from spark_pulsar.ledger.state import deduplication as sr
from spark_pulsar.ledger.state import documents as dr
from spark_pulsar.ledger.state import schemas as schemas_rules
from spark_pulsar.ledger.state import topics as tr
from spark_pulsar.ledger.state import transactions as txn
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors import records as cr
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks, sized
from spark_pulsar.ledger.state.cursors.records import CursorIdle
from spark_pulsar.ledger.state.delays import DelaysElapsed, EntriesDelayed
from spark_pulsar.ledger.state.documents import NamespaceSet
from spark_pulsar.ledger.state.durable_state import CounterSet, DurableState
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.topics import (
    PartitionedTopicDeleted,
    PartitionedTopicSet,
    TopicCreated,
    TopicPropertiesSet,
)
from spark_pulsar.model.policies.effective_policies import RetentionPolicy
from spark_pulsar.model.positions.ids import EARLIEST, TransactionId
from spark_pulsar.model.positions.singles import Singles
from tests.delayed_entries import delayed_entries
from tests.entry_runs import run_of


def picture(state: DurableState) -> dict[str, Any]:
    """Everything durable of a state, in plain values that do not change with it."""
    return deepcopy(shared_picture(state))


def shared_picture(state: DurableState) -> dict[str, Any]:
    """Picture of the state that is not copied: for comparing at once."""
    return {
        "topics": {
            topic.name: {
                "id": topic.topic_id,
                "created": topic.created_ms,
                "properties": topic.properties,
                "total": topic.ledger.total_entries,
                "last": topic.ledger.last_position,
                "first": topic.ledger.first_position,
                "ledgers": [
                    (
                        info.ledger_id,
                        info.base,
                        info.entries,
                        info.first_entry_id,
                        info.size_bytes,
                        info.messages,
                        info.opened_ms,
                        info.sealed_ms,
                    )
                    for info in topic.ledger.ledgers.values()
                ],
                "sequences": topic.sequences,
                "compaction": repr(topic.compaction),
                "damages": topic.damages,
                "delays": list(delayed_entries(topic.delays)) if topic.delays else [],
                "held": list(topic.delays.held) if topic.delays else [],
                "epoch": topic.epoch,
                "terminated": topic.is_terminated,
                "chunked": topic.has_chunks,
                "withheld": list(topic.ledger.withheld),
                "open transactions": {txn_id: list(each) for txn_id, each in topic.open_transactions.items()},
                "cursors": {
                    cursor.name: {
                        "id": cursor.cursor_id,
                        "mark": cursor.mark_delete,
                        "acked": list(cursor.acked),
                        "sets": cursor.batch_sets,
                        "redelivered": cursor.redelivered,
                        "properties": cursor.properties,
                        "ack_properties": cursor.ack_properties,
                        "created": cursor.created_ms,
                        "idle since": cursor.idle_since_ms,
                        "backlog": cursor.backlog(),
                        "pending": pending_facts(cursor.pending),
                    }
                    for cursor in topic.cursors.values()
                },
            }
            for topic in state.topics.values()
        },
        "transactions": {
            txn_id: (each.opened_ms, each.timeout_ms, each.owner, each.partitions, each.subscriptions, {*each.acks})
            for txn_id, each in state.transactions.items()
        },
        "partitioned": {topic.name: (topic.partitions, topic.properties) for topic in state.partitioned.values()},
        "namespaces": dict(state.namespaces),
        "documents": state.documents,
        "schemas": {name: list(versions) for name, versions in state.schemas.items()},
        "counters": dict(state.counters),
    }


def pending_facts(pending: PendingAcks | None) -> object:
    """What is pending on a cursor, of each transaction and of all."""
    if pending is None:
        return None
    each = {txn_id: (list(acks.ranges), acks.batch_sets, acks.through) for txn_id, acks in pending.of.items()}
    return each, list(pending.ranges), pending.batch_sets


class History:
    """Makes random valid records for a state and applies them; remembers every entry it appended.

    `entries[ledger_id]` is the list of the entries' bytes; entry contents are unique. With `losing`, entries are
    declared lost that a storage would still have.
    """

    def __init__(self, state: DurableState, seed: int, *, losing: bool = False) -> None:
        self.state = state
        self._losing = losing
        self.random = Random(seed)
        self.entries: dict[int, list[bytes]] = {}
        self.counts: dict[int, list[int]] = {}
        self._now_ms = 1_000
        self._names = 0

    def submit(self, size: int = 4) -> list[Record]:
        """A group of records, applied already."""
        records: list[Record] = []
        while len(records) < size:
            for record in self._step():
                apply(self.state, record)
                records.append(record)
        return records

    def _step(self) -> list[Record]:
        self._now_ms += self.random.randrange(1000)
        topics = list(self.state.topics.values())
        if not topics or self.random.random() < 0.03:
            return [self._topic_created()]
        topic = self.random.choice(topics)
        if self.random.random() < 0.06:
            return [self._compaction(topic.topic_id)]
        if self.random.random() < 0.12:
            return self._transaction(topic.topic_id)
        choice = self.random.random()
        if choice < 0.45:
            return self._appended(topic.topic_id)
        if choice < 0.52 or not topic.cursors:
            return self._cursor_created(topic.topic_id)
        if choice < 0.92:
            return self._cursor_changed(topic.topic_id)
        return self._rare(topic.topic_id)

    def _name(self) -> str:
        self._names += 1
        return f"name-{self._names}-ü"

    def _topic_created(self) -> Record:
        name = f"persistent://public/default/{self._name()}"
        return TopicCreated(self.state.next_topic_id, name, self._now_ms, {"k": self._name()})

    def _appended(self, topic_id: int) -> list[Record]:
        ledger = self.state.topics[topic_id].ledger
        current = ledger.current
        if current is None or not ledger.appendable or current.entries > 30 or self.random.random() < 0.1:
            return self.state.records_to_open_ledger(topic_id, self._now_ms)
        if self.random.random() < 0.3:
            return [self._columns()]
        run = self._run(current.ledger_id, current.entries)
        appended = EntriesAppended(run)
        if self.random.random() < 0.3:
            return [appended, self._delayed(run)]
        return [appended, self._sequences(topic_id)] if self.random.random() < 0.3 else [appended]

    def _delayed(self, run: EntryRun) -> Record:
        all_ids = range(run.first_entry_id, run.end_entry_id)
        entry_ids = sorted(self.random.sample(all_ids, self.random.choice((1, len(run)))))
        return EntriesDelayed(
            run.ledger_id, entry_ids, [self._now_ms + self.random.randrange(5_000) for _ in entry_ids]
        )

    def _sequences(self, topic_id: int) -> Record:
        known = [topic_id, *self.state.topics]
        topics = [self.random.choice(known) for _ in range(self.random.choice((1, 1, 3)))]
        names = [self.random.choice(("p", "q-ü", "")) for _ in topics]
        return sr.SequencesReached(topics, names, [self.random.choice((0, 7, -1, 2**63 - 1)) for _ in topics])

    def _columns(self) -> Record:
        """Entries of several topics in turn, some of them twice."""
        infos = [info for topic in self.state.topics.values() if (info := topic.ledger.open_ledger) is not None]
        ledger_ids = [self.random.choice(infos).ledger_id for _ in range(self.random.randrange(1, 8))]
        entry_ids = self.state.next_entry_ids(ledger_ids)
        buffer, starts, ends, counts = b"head", [], [], []
        for ledger_id, entry_id in zip(ledger_ids, entry_ids, strict=True):
            entry = f"{ledger_id}:{entry_id}/".encode() + self.random.randbytes(self.random.choice((0, 50, 2000)))
            buffer += b"frame"
            starts.append(len(buffer))
            buffer += entry
            ends.append(len(buffer))
            counts.append(self.random.choice((1, 1, 4)))
            self.entries.setdefault(ledger_id, []).append(entry)
            self.counts.setdefault(ledger_id, []).append(counts[-1])
        return EntriesAppended(
            EntryColumns(buffer + b"tail" * self.random.randrange(9), ledger_ids, entry_ids, starts, ends, counts)
        )

    def _run(self, ledger_id: int, first: int) -> EntryRun:
        number = self.random.choice((1, 1, 2, 5))
        size = self.random.choice((0, 10, 100, 3000))
        parts = [f"{ledger_id}:{first + i}/".encode() + self.random.randbytes(size) for i in range(number)]
        counts = [1] * number if self.random.random() < 0.5 else [self.random.randrange(1, 9) for _ in parts]
        self.entries.setdefault(ledger_id, []).extend(parts)
        self.counts.setdefault(ledger_id, []).extend(counts)
        if self.random.random() < 0.5:
            return run_of(ledger_id, first, parts, counts)
        # Entries with other bytes between and around them, as they stand in what a socket gave.
        buffer, starts, ends = b"head", [], []
        for part in parts:
            buffer += b"frame"
            starts.append(len(buffer))
            buffer += part
            ends.append(len(buffer))
        return EntryRun(ledger_id, first, buffer + b"tail" * self.random.randrange(40), starts, ends, counts)

    def _cursor_created(self, topic_id: int) -> list[Record]:
        ledger = self.state.topics[topic_id].ledger
        if len(self.state.topics[topic_id].cursors) >= 3:
            return self._appended(topic_id)
        mark = self.random.choice((ledger.last_position, ledger.previous_position(ledger.first_position)))
        return [
            cr.CursorCreated(
                self.state.next_cursor_id, topic_id, self._name(), *mark, self._now_ms, {"p": self._name()}
            )
        ]

    def _range(self, topic_id: int) -> tuple[int, int, int] | None:
        infos = [info for info in self.state.topics[topic_id].ledger.ledgers.values() if info.entries]
        if not infos:
            return None
        info = self.random.choice(infos)
        first = self.random.randrange(info.entries)
        return info.ledger_id, first, self.random.randrange(first, min(info.entries, first + 6)) + 1

    def _cursor_changed(self, topic_id: int) -> list[Record]:
        cursor = self.random.choice(list(self.state.topics[topic_id].cursors.values()))
        ranges = [some for _ in range(self.random.randrange(1, 4)) if (some := self._range(topic_id)) is not None]
        if not ranges:
            return self._appended(topic_id)
        cursor_id = cursor.cursor_id
        ledger_id, first, end = ranges[0]
        choice = self.random.random()
        if choice < 0.5:
            if choice < 0.2:
                return [cr.CursorAcked(cursor_id, Singles(ledger_id, list(range(first, end, 2))))]
            sets = [(ledger_id, end - 1, self.random.randrange(1 << 70))] if choice < 0.3 else []
            return [cr.CursorAcked(cursor_id, ranges, sets)]
        if choice < 0.65:
            return [cr.CursorAcked(cursor_id, [], [(ledger_id, first, self.random.choice((0, 5, 6, 7)))])]
        if choice < 0.8:
            return [cr.CursorMarkDeleted(cursor_id, ledger_id, first)]
        if choice < 0.9:
            return [cr.CursorRedelivered(cursor_id, ranges)]
        if choice < 0.94:
            return [cr.CursorReset(cursor_id, ledger_id, first - 1)]
        if choice < 0.955:
            return [CursorIdle(cursor_id, self.random.choice((-1, self._now_ms)))]
        if choice < 0.963:
            return [cr.CursorAckProperties(cursor_id, {self._name(): "7"})]
        if choice < 0.97:
            return [cr.CursorPropertiesSet(cursor_id, {self._name(): ""})]
        return [cr.CursorDeleted(cursor_id)]

    def _rare(self, topic_id: int) -> list[Record]:
        topic = self.state.topics[topic_id]
        gone = plan_trimming(topic.ledger, topic.slowest_mark_delete(), RetentionPolicy(), self._now_ms).gone
        if gone:
            return [LedgersTrimmed(topic_id, gone)]
        if topic.delays and self.random.random() < 0.5:
            first_ms, (ledger_id, block) = topic.delays.next_block() or (0, (0, 0))
            return [DelaysElapsed(ledger_id, block, first_ms + self.random.choice((0, 2_000)))]
        choice = self.random.randrange(9)
        if choice == 0 and len(self.state.topics) > 3:
            return self.state.records_to_delete_topic(topic_id)
        if choice == 1:
            return [TopicPropertiesSet(topic_id, {"changed": self._name()})]
        if choice == 2:
            return [PartitionedTopicSet(self._name(), 4, {"a": "b"})]
        if choice == 3 and self.state.partitioned:
            return [PartitionedTopicDeleted(next(iter(self.state.partitioned)))]
        if choice == 4:
            return [NamespaceSet(self._name(), '{"ttl": 3}')]
        if choice == 5:
            return [self._document() if self.random.random() < 0.5 else self._schema()]
        if choice == 6 and self.random.random() < 0.5:
            return [sr.SequencesForgotten(topic_id, self.random.choice(((), ("p",), ("q-ü", "unknown"))))]
        if choice == 7:
            lost = (self._range(topic_id) if self._losing else None) or (-1, 0, 0)
            found = damage.TopicDamaged(topic_id, *lost, "journal/1:2", "a group fails its checksum")
            return [found, damage.DamageAccepted(topic_id)] if self.random.random() < 0.5 else [found]
        if choice == 8:
            epoch = tr.TopicEpochSet(topic_id, self.random.randrange(9))
            return [self.random.choice((epoch, epoch, tr.TopicTerminated(topic_id), tr.TopicChunked(topic_id)))]
        return [CounterSet("names", self._names)]

    def _transaction(self, topic_id: int) -> list[Record]:
        state, transactions = self.state, list(self.state.transactions.values())
        if len(transactions) < 2 or self.random.random() < 0.1:
            txn_id = state.next_transaction_id(self.random.randrange(2))
            return [txn.TransactionOpened(*txn_id, self._now_ms, self.random.randrange(9_000), self._name())]
        transaction, ledger = self.random.choice(transactions), state.topics[topic_id].ledger
        txn_id, choice = transaction.txn_id, self.random.random()
        if choice < 0.1:
            return [txn.TransactionPartitionsAdded(*txn_id, (self._name(), "again"))]
        if choice < 0.2:
            return [txn.TransactionSubscriptionsAdded(*txn_id, ("t", "t", "u"), (self._name(), "s", "s"))]
        info = ledger.open_ledger
        if choice < 0.5 and info is not None:
            run = self._run(info.ledger_id, info.entries)
            entries = txn.TransactionEntries(*txn_id, run.ledger_id, run.first_entry_id, run.end_entry_id)
            return [EntriesAppended(run), entries]
        if choice < 0.85:
            return self._acked_in(txn_id, topic_id)
        markers = []
        if info is not None and self.random.random() < 0.8:
            run = self._run(info.ledger_id, info.entries)
            markers = [EntriesAppended(run)]
            return [
                *markers,
                txn.TransactionEnded(*txn_id, self.random.randrange(2), (run.ledger_id,), (run.end_entry_id - 1,)),
            ]
        return [txn.TransactionEnded(*txn_id, self.random.randrange(2), (), ())]

    def _acked_in(self, txn_id: TransactionId, topic_id: int) -> list[Record]:
        cursors, some = list(self.state.topics[topic_id].cursors.values()), self._range(topic_id)
        if not cursors or some is None:
            return self._appended(topic_id)
        cursor = self.random.choice(cursors)
        if self.random.random() < 0.2:
            return [txn.TransactionAckedThrough(*txn_id, cursor.cursor_id, *some[:2])]
        sets = [(*some[:2], sized(self.random.randrange(16), 4))] if self.random.random() < 0.4 else []
        ranges = [] if sets else [some]
        if cursor.pending is not None and cursor.pending.first_conflict(ranges, sets) is not None:
            return self._appended(topic_id)
        return [txn.TransactionAcked(*txn_id, cursor.cursor_id, ranges, sets)]

    def _compaction(self, topic_id: int) -> Record:
        topic, ledger_id = self.state.topics[topic_id], self.state.next_ledger_id
        compaction, horizon = topic.compaction, topic.ledger.advance(EARLIEST, self.random.randrange(50))
        if compaction is None:
            return kr.CompactionPrepared(topic_id, *horizon)
        info = compaction.writing
        if info is None:
            return kr.CompactionBegun(topic_id, ledger_id, self._now_ms)
        choice = self.random.randrange(4)
        if choice == 0:
            return kr.CompactionAbandoned(topic_id)
        if choice == 1:
            index, last = (1, 2, 0, 1, 3, 40), (2, 5, -1)
            return kr.CompactionFinished(topic_id, info.ledger_id, *horizon, self._now_ms, 7, last, index)
        return EntriesAppended(self._run(info.ledger_id, info.entries))

    def _schema(self) -> Record:
        name = self.random.choice(("a/b/c", "a/b/ü"))
        version = schemas_rules.next_version(self.state.schemas.get(name, ()))
        choice = self.random.random()
        if choice < 0.15:
            return schemas.SchemasForgotten(name)
        if choice < 0.3:
            return schemas.SchemasDeleted(name, version, self._now_ms)
        kind = self.random.choice((-1, 0, 1, 4))
        return schemas.SchemaAdded(name, version, kind, self._now_ms, self.random.randbytes(5), {"ü": "v"})

    def _document(self) -> Record:
        kind = self.random.choice(dr.KINDS)
        known = list(self.state.documents[kind])
        if known and self.random.random() < 0.4:
            return dr.DocumentDeleted(kind, self.random.choice(known))
        return dr.DocumentSet(kind, self._name(), '{"ü": 1}')
