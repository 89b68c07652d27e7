"""Judge of the records of transactions: each must be asked for, or due, and do what its rule says (TX-3 ... TX-17)."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state import transactions as tr
from spark_pulsar.ledger.state.cursors.pending_acks import unsized
from spark_pulsar.ledger.state.cursors.records import CursorRedelivered
from spark_pulsar.model.errors import CorruptMessage, PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.entries.entry_bytes import metadata_of

from .account import Sent
from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from .account import Place, Subscription
    from .judge import Judge
    from .transactions import TxnId

COMMIT_MARKER, ABORT_MARKER = 21, 22
_MARKERS_PRODUCER = "pulsar.txn.marker"

Key = tuple[str, str]
"""(topic, subscription)."""


@dataclass(slots=True)
class AckInTransaction:
    """An ACK that was just heard, and must be recorded like this."""

    txn_id: TxnId
    key: Key
    whole: set[Place] = field(default_factory=set)
    parts: dict[Place, int] = field(default_factory=dict)
    """1 = not acked."""
    through: Place | None = None


class TransactionJudge:
    """Judges the records of transactions, one after the other as the core makes them."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.is_on = False
        """True in histories with transactions."""
        self.counts = Counter[str]()
        """Ends by how they came about."""
        self.given: set[TxnId] = set()
        """Ids that clients were told."""
        self.refused: set[tuple[str, str, int]] = set()
        """(topic, producer, number) of entries that came in a transaction that was not open: they are not stored."""
        self.sent_in: dict[tuple[str, str, int], TxnId] = {}
        """Transactions of entries, likewise."""
        self.ends_asked: dict[TxnId, bool] = {}
        """END_TXN of open transactions, and whether it commits."""
        self.names_asked: set[tuple[TxnId, str | Key]] = set()
        """Topics and subscriptions that clients added."""
        self._ends_ms: dict[TxnId, int] = {}
        """Time-outs of those that were open at the start."""
        self.acks: deque[AckInTransaction] = deque()
        """Acks that must be recorded now, in this order."""
        self.on_hidden: Callable[[Key, Iterable[Place]], None]
        """Hears of entries that nobody is sent any more."""
        self.on_freed: Callable[[Key, Iterable[Place]], None]
        """Hears of entries that an abort brings again."""
        self._half_done: AckInTransaction | None = None
        """ACK of which one of two records was made."""
        self._markers: dict[Place, Sent] = {}
        """Markers whose end is to come."""
        self._just_lost: set[tuple[TxnId, str]] = set()
        """Open transactions that lost all their entries on a topic since the last event."""
        self._unnoted: set[Place] = set()
        """Entries that must be noted as those of their transaction."""
        self._freed: dict[int, set[Place]] = {}
        """Entries that the end just before frees, by cursor: their redelivery is counted, if it is."""
        self.handlers: dict[type[Record], Callable[[Any], None]] = {
            tr.TransactionOpened: self._opened,
            tr.TransactionPartitionsAdded: self._partitions_added,
            tr.TransactionSubscriptionsAdded: self._subscriptions_added,
            tr.TransactionEntries: self._entries,
            tr.TransactionAcked: self._acked,
            tr.TransactionAckedThrough: self._acked_through,
            tr.TransactionEnded: self._ended,
            CursorRedelivered: self._redelivered,
        }

    def start_clock(self, now_ms: int) -> None:
        """The clock shows this at the start: a transaction of the future counts from then (CLK-3)."""
        opened = self._judge.current.transactions.items()
        self._ends_ms = {txn_id: min(each.opened_ms, now_ms) + each.timeout_ms for txn_id, each in opened}

    def _end_of(self, txn_id: TxnId) -> int:
        return self._ends_ms.get(txn_id, self._judge.current.transactions[txn_id].ends_ms)

    def begin_life(self) -> None:
        """Begins with a start of the broker."""
        self.ends_asked.clear()
        self.names_asked.clear()
        self.acks.clear()
        self._half_done = None
        self._markers.clear()
        self._unnoted.clear()
        self._just_lost.clear()
        self._freed.clear()

    def forget_ids(self) -> None:
        """The newest part of what was on disk is lost: its ids may be given again."""
        durable = self._judge.durable
        self.given = set(durable.transactions) | set(durable.ended)

    # Around the records

    def check_heard(self) -> None:
        """Everything that was heard has its records."""
        self._just_lost.clear()
        self._freed.clear()
        if self.acks or self._half_done:
            raise Violation(f"{self._half_done or self.acks[0]} is not recorded (TX-12)")
        if self._unnoted:
            raise Violation(f"{self._unnoted} are stored as if they were in no transaction (TX-9)")
        if self._markers:
            raise Violation(f"{list(self._markers)} are markers of no end (TX-10)")

    def check_times(self) -> None:
        """Nothing is open for longer than it may be (TX-7)."""
        for txn_id in self._judge.current.transactions:
            ends_ms = self._end_of(txn_id)
            if self._judge.now_ms >= ends_ms:
                raise Violation(f"{txn_id} is open at {self._judge.now_ms}, it ends at {ends_ms} (TX-7)")

    def is_open(self, txn_id: TxnId) -> bool:
        """Tells whether a transaction is open."""
        return txn_id in self._judge.current.transactions

    # Entries

    def marker(self, place: Place, entry: bytes) -> Sent | None:
        """Returns the marker that nobody sent; None when it is none."""
        try:
            metadata = metadata_of(entry, 0, len(entry))
        except CorruptMessage:
            return None
        topic = self._judge.current.ledger_topics.get(place[0])
        if metadata.marker_type not in (COMMIT_MARKER, ABORT_MARKER) or topic is None:
            return None
        txn_id = (metadata.txnid_most_bits, metadata.txnid_least_bits)
        if not self.is_open(txn_id):
            raise Violation(f"{place} is a marker of {txn_id}, which is not open (TX-10)")
        return Sent(
            topic,
            _MARKERS_PRODUCER,
            metadata.marker_type,
            0,
            1,
            metadata.publish_time,
            entry,
            transaction=txn_id,
            is_marker=True,
        )

    def marker_stored(self, place: Place, sent: Sent) -> None:
        """A marker is stored; the end that it belongs to comes behind it."""
        self._markers[place] = sent
        self._judge.post("marker_stored", place, sent)

    def stored(self, place: Place, sent: Sent) -> None:
        """An entry is stored."""
        if sent.transaction is None:
            return
        if not self.is_open(sent.transaction):
            raise Violation(f"{sent!r} is stored in {sent.transaction}, which is not open (TX-8)")
        self._unnoted.add(place)

    def trimmed(self, name: str, ledger_ids: Collection[int]) -> None:
        """Ledgers of a topic are about to go."""
        for txn_id, places in self._judge.current.topics[name].open.items():
            if all(place[0] in ledger_ids for place in places):
                self._just_lost.add((txn_id, name))

    def may_lack(self, sent: Sent, head: int) -> bool:
        """Tells whether the entries of a producer between its last stored one and this one may have been refused."""
        for number in range(head + 1, sent.number):
            key = (sent.topic, sent.producer, number)
            txn_id = self.sent_in.get(key)
            if key not in self.refused and (txn_id is None or self.is_open(txn_id)):
                return False
        return True

    def _entries(self, record: tr.TransactionEntries) -> None:
        txn_id = self._txn_id(record)
        places = {(record.ledger_id, entry_id) for entry_id in range(record.first, record.end)}
        topic = self._judge.current.topics[self._judge.current.ledger_topics[record.ledger_id]]
        for place in places:
            sent = topic.log.get(place)
            if sent is None or sent.transaction != txn_id:
                raise Violation(f"{place} is an entry of {txn_id}, and it is {sent!r} (TX-8)")
        self._unnoted -= places
        self._judge.post("stored_in", txn_id, places)

    # The transaction itself

    def _txn_id(self, record: Any) -> TxnId:
        txn_id = (record.most, record.least)
        if not self.is_open(txn_id):
            raise Violation(f"{record} is of a transaction that is not open (TX-6)")
        return txn_id

    def _opened(self, record: tr.TransactionOpened) -> None:
        txn_id = (record.most, record.least)
        if self.is_open(txn_id) or txn_id in self._judge.current.ended or txn_id in self.given:
            raise Violation(f"{txn_id} is given once more (TX-3)")
        if record.opened_ms != self._judge.now_ms:
            raise Violation(f"{txn_id} is opened at {record.opened_ms}, it is {self._judge.now_ms} (TX-3)")
        self._judge.post("transaction_opened", txn_id, record.opened_ms, record.timeout_ms)

    def _partitions_added(self, record: tr.TransactionPartitionsAdded) -> None:
        txn_id = self._txn_id(record)
        self._check_asked(txn_id, record.partitions)
        self._judge.post("partitions_added", txn_id, record.partitions)

    def _subscriptions_added(self, record: tr.TransactionSubscriptionsAdded) -> None:
        txn_id = self._txn_id(record)
        pairs = list(zip(record.topics, record.subscriptions, strict=True))
        self._check_asked(txn_id, pairs)
        self._judge.post("subscriptions_added", txn_id, pairs)

    def _check_asked(self, txn_id: TxnId, names: Iterable[str | Key]) -> None:
        wrong = [name for name in names if (txn_id, name) not in self.names_asked]
        if wrong:
            raise Violation(f"{wrong} are added to {txn_id}, and nobody wanted it (TX-4, TX-5)")

    # Acks

    def _next_ack(self, record: Any) -> AckInTransaction:
        """Finds the ACK of a record, which may have two: a cumulative one that ends inside a batch."""
        txn_id, key = self._txn_id(record), self._judge.current.cursors[record.cursor_id]
        if not self._half_done:
            ack = self.acks.popleft() if self.acks else None
            is_half = ack is not None and ack.through is not None and bool(ack.parts)
            self._half_done = ack if is_half else None
        else:
            ack, self._half_done = self._half_done, None
        if ack is None or (ack.txn_id, ack.key) != (txn_id, key):
            raise Violation(f"{record} on {key}: should be {ack} (TX-12)")
        return ack

    def _acked(self, record: tr.TransactionAcked) -> None:
        ack = self._next_ack(record)
        log = self._judge.current.topics[ack.key[0]].log
        whole = {(ledger_id, entry_id) for ledger_id, first, end in record.ranges for entry_id in range(first, end)}
        parts = {(ledger_id, entry_id): unsized(bits) for ledger_id, entry_id, bits in record.batch_sets}
        if whole != ack.whole or parts != ack.parts:
            raise Violation(f"{record}: should be {ack} (TX-12, TX-14)")
        self._judge.post("acked_in", ack.txn_id, ack.key, whole, parts)
        hidden = self._subscription(ack.key).hidden()
        self.on_hidden(ack.key, [place for place in (*whole, *parts) if place in hidden and place in log])

    def _acked_through(self, record: tr.TransactionAckedThrough) -> None:
        ack = self._next_ack(record)
        through = (record.ledger_id, record.entry_id)
        if through != ack.through:
            raise Violation(f"{record}: should be {ack} (TX-13)")
        self._judge.post("acked_through_in", ack.txn_id, ack.key, through)

    def _subscription(self, key: Key) -> Subscription:
        return self._judge.current.topics[key[0]].subscriptions[key[1]]

    # Ends

    def _ended(self, record: tr.TransactionEnded) -> None:
        txn_id, is_committed = self._txn_id(record), bool(record.is_committed)
        self._check_reason(txn_id, is_committed=is_committed)
        markers = list(zip(record.marker_ledger_ids, record.marker_entry_ids, strict=True))
        self._check_markers(txn_id, markers, is_committed=is_committed)
        freed = {} if is_committed else self._freed_by(txn_id)
        self._judge.post("transaction_ended", txn_id, is_committed, markers)
        for cursor_id, places in freed.items():
            self.on_freed(self._judge.current.cursors[cursor_id], places)
        self._freed.update(freed)

    def _check_reason(self, txn_id: TxnId, *, is_committed: bool) -> None:
        wanted = self.ends_asked.pop(txn_id, None)
        word = "committed" if is_committed else "aborted"
        if wanted is not None:
            self.counts[word] += 1
            if wanted != is_committed:
                raise Violation(f"{txn_id} is {word}, and a client wanted the other (TX-6)")
            return
        self.counts["timed out"] += 1
        if is_committed or self._judge.now_ms < self._end_of(txn_id):
            raise Violation(f"{txn_id} is {word} at {self._judge.now_ms}, and nobody wanted it (TX-6, TX-7)")

    def _check_markers(self, txn_id: TxnId, markers: list[Place], *, is_committed: bool) -> None:
        """Each topic that the transaction was added to, or has entries on, gets one, if it takes entries (TX-10)."""
        current = self._judge.current
        names = {name for name, topic in current.topics.items() if txn_id in topic.open}
        for text in current.transactions[txn_id].partitions:
            try:
                names.add(TopicName.parse(text).full)
            except PulsarError as error:
                raise Violation(f"{text!r} was added to {txn_id}: {error} (TX-4)") from error
        wanted = sorted(name for name in names if name in current.topics and not current.topics[name].is_terminated)
        found = sorted(current.ledger_topics[place[0]] for place in markers)
        if found != wanted and found != sorted({*wanted, *(name for each, name in self._just_lost if each == txn_id)}):
            raise Violation(f"{txn_id} ends on {found}, should end on {wanted} (TX-6, TX-10)")
        kind = COMMIT_MARKER if is_committed else ABORT_MARKER
        for place in markers:
            sent = self._markers.pop(place, None)
            if sent is None or (sent.transaction, sent.number) != (txn_id, kind):
                raise Violation(f"{place} is to be the marker of {txn_id}, and it is {sent!r} (TX-10)")

    def _freed_by(self, txn_id: TxnId) -> dict[int, set[Place]]:
        """Lists the entries that an abort redelivers, by cursor: acked one by one, and by nobody else since (TX-15)."""
        freed: dict[int, set[Place]] = {}
        for cursor_id, key in self._judge.current.cursors.items():
            subscription = self._subscription(key)
            pending = subscription.pending.get(txn_id)
            if pending is not None:
                log = self._judge.current.topics[key[0]].log
                places = {*pending.whole, *pending.parts} - subscription.acked
                places = {place for place in places if place in log}
                if places:
                    freed[cursor_id] = places
        return freed

    def _redelivered(self, record: CursorRedelivered) -> None:
        """Redeliveries that a client asks for are known from that; here are those of aborted acks."""
        places = self._freed.pop(record.cursor_id, None)
        if places is None:
            return
        key = self._judge.current.cursors[record.cursor_id]
        acked = self._subscription(key).acked
        log = self._judge.current.topics[key[0]].log
        found = {
            place
            for ledger_id, first, end in record.ranges
            for place in ((ledger_id, entry_id) for entry_id in range(first, end))
            if place in log and place not in acked
        }
        places = {place for place in places if place in log}
        if found != places:
            raise Violation(f"{key[1]} of {key[0]}: {found} come again, should be {places} (TX-12, TX-15)")
        self._judge.post("redelivered", *key, places)
