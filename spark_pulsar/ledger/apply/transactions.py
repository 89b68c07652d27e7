"""Applies the records of transactions to the durable state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records import transactions as tr
from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.state.transactions import PendingAcks, Transaction, TransactionAcks, unsized
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.cursor import Cursor
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState


def _opened(state: DurableState, record: tr.TransactionOpened) -> None:
    txn_id = TransactionId(record.most, record.least)
    state.use_transaction_id(txn_id)
    state.transactions[txn_id] = Transaction(txn_id, record.opened_ms, record.timeout_ms, record.owner)
    state.dirty["transactions"].add(tuple(txn_id))


def _open_one(state: DurableState, record: Any) -> Transaction:
    """Finds the open transaction that a record names, and notes that its row changes."""
    txn_id = TransactionId(record.most, record.least)
    transaction = state.transactions.get(txn_id)
    if transaction is None:
        raise InvalidRecord(f"transaction {txn_id} is not open")
    state.dirty["transactions"].add(tuple(txn_id))
    return transaction


def _partitions_added(state: DurableState, record: tr.TransactionPartitionsAdded) -> None:
    _open_one(state, record).partitions.update(dict.fromkeys(record.partitions))


def _subscriptions_added(state: DurableState, record: tr.TransactionSubscriptionsAdded) -> None:
    transaction = _open_one(state, record)
    for topic, subscription in zip(record.topics, record.subscriptions, strict=True):
        transaction.subscriptions.setdefault(topic, {})[subscription] = None


def _entries(state: DurableState, record: tr.TransactionEntries) -> None:
    transaction = _open_one(state, record)
    info = state.ledgers.get(record.ledger_id)
    if info is None or not 0 <= record.first < record.end <= info.entries:
        raise InvalidRecord(f"{record} names entries that do not exist")
    topic = state.topics[info.topic_id]
    entries = transaction.entries.get(topic.topic_id)
    if entries is None:
        entries = transaction.entries[topic.topic_id] = topic.open_transactions[transaction.txn_id] = RangeSet()
    entries.add(record.ledger_id, record.first, record.end)
    state.dirty["transaction_entries"].add((*transaction.txn_id, record.ledger_id))


def _pending_of(state: DurableState, record: Any) -> PendingAcks:
    """Finds the pending acks of the cursor that a record names, or makes them."""
    transaction = _open_one(state, record)
    cursor = state.cursors.get(record.cursor_id)
    if cursor is None:
        raise InvalidRecord(f"cursor {record.cursor_id} does not exist")
    pending = cursor.pending
    if pending is None:
        pending = cursor.pending = PendingAcks()
    transaction.acks[record.cursor_id] = pending.of.setdefault(transaction.txn_id, TransactionAcks())
    state.dirty["transaction_acks"].add((*transaction.txn_id, record.cursor_id))
    return pending


def _acked(state: DurableState, record: tr.TransactionAcked) -> None:
    txn_id = TransactionId(record.most, record.least)
    _pending_of(state, record).add(txn_id, record.ranges, record.batch_sets)


def _acked_through(state: DurableState, record: tr.TransactionAckedThrough) -> None:
    position = Position(record.ledger_id, record.entry_id)
    _pending_of(state, record).add_through(TransactionId(record.most, record.least), position)


def _ended(state: DurableState, record: tr.TransactionEnded) -> None:
    transaction = _open_one(state, record)
    markers = list(zip(record.marker_ledger_ids, record.marker_entry_ids, strict=True))
    for ledger_id, entry_id in markers:
        info = state.ledgers.get(ledger_id)
        if info is None or not 0 <= entry_id < info.entries:
            raise InvalidRecord(f"the marker {ledger_id}:{entry_id} of {transaction.txn_id} does not exist")
    for cursor_id in list(transaction.acks):
        acks = _take_acks(state, transaction, cursor_id)
        if record.is_committed:
            _acknowledge(state.cursors[cursor_id], acks)
            state.dirty["cursors"].add(cursor_id)
    for topic_id in list(transaction.entries):
        entries = _take_entries(state, transaction, topic_id)
        if not record.is_committed:
            withhold(state, state.topics[topic_id], list(entries))
    for ledger_id, entry_id in markers:
        topic = state.topics[state.ledgers[ledger_id].topic_id]
        withhold(state, topic, [(ledger_id, entry_id, entry_id + 1)])
    del state.transactions[transaction.txn_id]


def _acknowledge(cursor: Cursor, acks: TransactionAcks) -> None:
    if acks.through > EARLIEST:
        cursor.advance_mark_delete(acks.through)
    cursor.acknowledge(acks.ranges)
    for ledger_id, entry_id, bits in acks.sets():
        cursor.acknowledge_batch(ledger_id, entry_id, unsized(bits))


def withhold(state: DurableState, topic: TopicState, ranges: list[tuple[int, int, int]]) -> None:
    """Withholds entries of a topic from all consumers: each cursor, also one that is made later, passes over them."""
    for each in ranges:
        topic.ledger.withheld.add(*each)
        state.dirty["withheld"].add(each[0])
    for cursor in topic.cursors.values():
        cursor.acknowledge(ranges)
        state.dirty["cursors"].add(cursor.cursor_id)


def _take_entries(state: DurableState, transaction: Transaction, topic_id: int) -> RangeSet:
    entries = transaction.entries.pop(topic_id)
    del state.topics[topic_id].open_transactions[transaction.txn_id]
    state.dirty["transaction_entries"].update((*transaction.txn_id, each) for each in entries.ledgers())
    return entries


def _take_acks(state: DurableState, transaction: Transaction, cursor_id: int) -> TransactionAcks:
    del transaction.acks[cursor_id]
    state.dirty["transaction_acks"].add((*transaction.txn_id, cursor_id))
    cursor = state.cursors[cursor_id]
    assert cursor.pending is not None, "the acks are pending there"
    acks = cursor.pending.take(transaction.txn_id)
    if not cursor.pending.of:
        cursor.pending = None
    return acks


def forget_cursor(state: DurableState, cursor: Cursor) -> None:
    """Removes the pending acks of a cursor that is deleted."""
    for txn_id in () if cursor.pending is None else list(cursor.pending.of):
        _take_acks(state, state.transactions[txn_id], cursor.cursor_id)


def forget_ledgers(state: DurableState, topic: TopicState, ledger_ids: Iterable[int]) -> None:
    """Removes the entries of transactions, open and ended, in ledgers that are gone."""
    for ledger_id in ledger_ids:
        if topic.ledger.withheld.discard_ledger(ledger_id):
            state.dirty["withheld"].add(ledger_id)
        for txn_id, entries in list(topic.open_transactions.items()):
            if entries.discard_ledger(ledger_id):
                state.dirty["transaction_entries"].add((*txn_id, ledger_id))
            if not entries:
                _take_entries(state, state.transactions[txn_id], topic.topic_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    tr.TransactionOpened: _opened,
    tr.TransactionPartitionsAdded: _partitions_added,
    tr.TransactionSubscriptionsAdded: _subscriptions_added,
    tr.TransactionEntries: _entries,
    tr.TransactionAcked: _acked,
    tr.TransactionAckedThrough: _acked_through,
    tr.TransactionEnded: _ended,
}
"""Effects of the records, by type."""
