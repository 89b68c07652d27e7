"""Acks in transactions: pending until the transaction ends, and then acknowledged or freed (TX-12 ... TX-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks, acked, first_among
from spark_pulsar.ledger.state.transactions import TransactionAcked, TransactionAckedThrough
from spark_pulsar.model.errors import NotAllowed, TransactionConflict, TransactionNotFound
from spark_pulsar.model.positions.ids import Position, TransactionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import BatchSet, EntryRange
    from spark_pulsar.ledger.state.cursors.cursor import Cursor
    from spark_pulsar.ledger.state.cursors.pending_acks import TransactionAcks

MAX_PENDING_ACKS: Final = 200_000
"""Ranges and parts of batches that one transaction may have pending on one subscription (TX-24)."""

_NONE: Final = PendingAcks()


def check_open(core: Core, consumer: Consumer, txn_id: TransactionId) -> None:
    """Refuses an ack in a transaction that is not open, or on a reader, whose acks are stored nowhere."""
    if not core.config.transactions_enabled:
        raise NotAllowed("Transactions are not enabled.")
    if txn_id not in core.state.transactions:
        raise TransactionNotFound(f"Transaction {txn_id} is not open: it was ended, or aborted at its time-out")
    if not consumer.subscription.cursor.is_durable:
        raise NotAllowed(f"{consumer.subscription.name} is no durable subscription: acks in transactions need one")


def ack_each(
    core: Core,
    consumer: Consumer,
    txn_id: TransactionId,
    ranges: Sequence[EntryRange],
    sets: Sequence[BatchSet],
) -> None:
    """Makes acks of single entries and of parts of batches (as sized bit sets) pending, all or none of them.
    TransactionConflict when an entry is acknowledged, or pending already (TX-12, TX-14)."""
    subscription = consumer.subscription
    cursor = subscription.cursor
    pending = cursor.pending or _NONE
    acknowledged = _first_acknowledged(cursor, ranges, sets)
    if acknowledged is not None:
        raise _conflict(subscription, txn_id, str(acknowledged), "already acked before.")
    conflict = pending.first_conflict(ranges, sets)
    if conflict is not None:
        raise _conflict(subscription, txn_id, str(conflict), "in pending ack status.")
    acks = pending.of.get(txn_id)
    held = 0 if acks is None else acks.ranges.range_count() + len(acks.batch_sets)
    if held + len(ranges) + len(sets) > MAX_PENDING_ACKS:
        raise NotAllowed(f"Transaction {txn_id} has {held} acks pending on {subscription.name}: commit it first")
    if not ranges and not sets:
        return
    core.append(TransactionAcked(*txn_id, cursor.cursor_id, ranges, sets))
    consumer.last_acked_ms = core.wall_ms
    filled: list[EntryRange] = []
    for ledger_id, entry_id, _ in sets:
        left = (cursor.sets_to_send(ledger_id, (entry_id,)) or {}).get(entry_id, 0)
        if left == 0:
            filled.append((ledger_id, entry_id, entry_id + 1))
        else:
            subscription.dispatcher.batch_acked(consumer, ledger_id, entry_id, left.bit_count())
    subscription.dispatcher.acked(consumer, [*ranges, *filled])


def _first_acknowledged(cursor: Cursor, ranges: Sequence[EntryRange], sets: Sequence[BatchSet]) -> Position | None:
    """Finds the first entry that is acknowledged, or of which the same messages are; None without one."""
    for ledger_id, first, end in ranges:
        if (ledger_id, first) <= cursor.mark_delete or cursor.acked.intersects(ledger_id, first, end):
            return Position(ledger_id, first)
        in_part = cursor.batch_sets.get(ledger_id)
        acked_id = None if in_part is None else first_among(in_part, first, end)
        if acked_id is not None:
            return Position(ledger_id, acked_id)
    for ledger_id, entry_id, bits in sets:
        known = cursor.batch_set(ledger_id, entry_id)
        if cursor.is_acked(ledger_id, entry_id) or (known is not None and acked(bits) & ~known):
            return Position(ledger_id, entry_id)
    return None


def ack_through_batch(core: Core, consumer: Consumer, txn_id: TransactionId, batch_set: BatchSet) -> None:
    """Makes a cumulative ack pending that ends inside a batch: everything before its entry, and the messages of it that
    are not acknowledged and that the transaction has not acked before. TransactionConflict as for `ack_through`."""
    subscription = consumer.subscription
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    ledger_id, entry_id, bits = batch_set
    before = ledger.last_passed(ledger.previous_position(Position(ledger_id, entry_id)))
    pending = cursor.pending or _NONE
    goes_on = pending.cumulative() == (txn_id, before)
    if not goes_on:
        _check_turn(subscription, txn_id, before)
    left = cursor.batch_set(ledger_id, entry_id)
    if left is not None:
        bits |= acked(bits) & ~left  # an earlier ack ended in this batch
    acks = pending.of.get(txn_id)
    known = None if acks is None else acks.batch_sets.get((ledger_id, entry_id))
    if known is not None:
        bits |= acked(known)
        if not acked(bits):
            raise _conflict(subscription, txn_id, f"{ledger_id}:{entry_id}", "not behind its cumulative ack")
    if acked(bits):
        ack_each(core, consumer, txn_id, (), [(ledger_id, entry_id, bits)])
    if not goes_on:
        core.append(TransactionAckedThrough(*txn_id, cursor.cursor_id, *before))


def ack_through(core: Core, consumer: Consumer, txn_id: TransactionId, position: Position) -> None:
    """Makes a cumulative ack pending. TransactionConflict when another transaction has one, or it passes nothing new
    (TX-13)."""
    cursor = consumer.subscription.cursor
    if position <= cursor.mark_delete:
        text = f"is not behind the mark-delete position {cursor.mark_delete}"
        raise _conflict(consumer.subscription, txn_id, str(position), text)
    _check_turn(consumer.subscription, txn_id, position)
    core.append(TransactionAckedThrough(*txn_id, cursor.cursor_id, *position))
    consumer.last_acked_ms = core.wall_ms


def _check_turn(subscription: Subscription, txn_id: TransactionId, position: Position) -> None:
    """Refuses a cumulative ack while another transaction has one pending, or behind the transaction's last one."""
    cumulative = (subscription.cursor.pending or _NONE).cumulative()
    if cumulative is not None and (cumulative[0] != txn_id or position <= cumulative[1]):
        text = f"while transaction {cumulative[0]} has a cumulative ack of {cumulative[1]} pending"
        raise _conflict(subscription, txn_id, str(position), text)


def _conflict(subscription: Subscription, txn_id: TransactionId, message: str, text: str) -> TransactionConflict:
    place = f"[{subscription.topic.full_name}][{subscription.name}]"
    return TransactionConflict(f"{place} Transaction:{txn_id} try to ack message:{message} {text}")


def free(subscription: Subscription, acks: TransactionAcks) -> None:
    """Redelivers what an aborted transaction had acked one by one, and nothing else has acknowledged since (TX-15)."""
    cursor = subscription.cursor
    ranges = [
        (ledger_id, low, high)
        for ledger_id, first, end in acks.ranges
        for low, high in cursor.acked.pieces_not_in(ledger_id, first, end)
        if (ledger_id, high - 1) > cursor.mark_delete
    ]
    ranges += [
        (batch_set[0], batch_set[1], batch_set[1] + 1)
        for batch_set in acks.sets()
        if not cursor.is_acked(*batch_set[:2])
    ]
    if ranges:
        subscription.dispatcher.acks_aborted(sorted(ranges))
