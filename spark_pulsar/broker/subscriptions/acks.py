"""Acknowledgement and redelivery requests (ACK-1 ... ACK-11, DUR-6, NACK-2 ... NACK-5). The error that an ack may
report is not read (ACK-6). Repeated acks, and those of unknown entries, do no harm (A8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.transactions import pending_acks
from spark_pulsar.ledger.state.cursors.pending_acks import sized
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorAckProperties, CursorMarkDeleted
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position, TransactionId, signed
from spark_pulsar.model.positions.singles import Singles
from spark_pulsar.wire.protocol import ack_sets, commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandAck, CommandRedeliverUnacknowledgedMessages, CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.turn.events import AcksReceived
    from spark_pulsar.ledger.entries import BatchSet, EntryRange
    from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
    from spark_pulsar.ledger.records import Record

_SHARED: Final = (CommandSubscribe.Shared, CommandSubscribe.Key_Shared)

MAX_BITS: Final = 65_536
"""Bound of a bit set, 8 KB: the producer alone says how many messages a batch has."""


def on_acks(core: Core, session: Session, event: AcksReceived) -> None:
    """Handles an ACK of whole entries. From an unknown consumer it is ignored without an answer (ACK-4)."""
    ack = event.ack
    consumer = session.consumers.get(ack.consumer_id)
    if consumer is None:
        return
    wants_receipt = ack.request_id is not None
    if ack.is_cumulative:
        if len(ack.ranges) == 1 and ack.ranges[0][2] - ack.ranges[0][1] == 1:
            ledger_id, entry_id, _ = ack.ranges[0]
            _ack_through(core, consumer, Position(ledger_id, entry_id), None, {}, wants_receipt=wants_receipt)
    else:
        _ack_each(core, consumer, ack.ranges, (), wants_receipt=wants_receipt)
    _answer(core, consumer, ack.request_id)


def on_ack(core: Core, session: Session, command: CommandAck) -> None:
    """Handles an ACK with bit sets, properties, or anything else that is rare."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        return
    request_id = command.request_id if command.HasField("request_id") else None
    if command.HasField("txnid_least_bits") and command.HasField("txnid_most_bits"):
        try:
            _ack_in_transaction(core, consumer, command)
        except PulsarError as error:
            if request_id is not None:
                core.send(session, commands.ack_response(consumer.consumer_id, request_id, error))
            return
        _answer(core, consumer, request_id)
        return
    wants_receipt = request_id is not None
    ranges: list[EntryRange] = []
    partial: list[BatchSet] = []
    for message_id in command.message_id:
        ledger_id, entry_id = signed(message_id.ledgerId), signed(message_id.entryId)
        if message_id.ack_set:
            partial.append((ledger_id, entry_id, ack_sets.mask(message_id.ack_set)))
        else:
            ranges.append((ledger_id, entry_id, entry_id + 1))
    if command.ack_type == CommandAck.Individual:
        _ack_each(core, consumer, ranges, partial, wants_receipt=wants_receipt)
    elif len(ranges) + len(partial) == 1:  # ACK-3: exactly one id, else ignored
        if ranges:
            position, bits = Position(*ranges[0][:2]), None
        else:
            position, bits = Position(*partial[0][:2]), partial[0][2]
        properties = {pair.key: str(signed(pair.value)) for pair in command.properties}
        _ack_through(core, consumer, position, bits, properties, wants_receipt=wants_receipt)
    _answer(core, consumer, request_id)


def _ack_in_transaction(core: Core, consumer: Consumer, command: CommandAck) -> None:
    """Makes acks pending until their transaction ends (TX-12 ... TX-14). On Shared and Key_Shared cumulative ones are
    ignored, as without a transaction."""
    txn_id = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    pending_acks.check_open(core, consumer, txn_id)
    ledger = consumer.subscription.topic.ledger
    ranges: list[EntryRange] = []
    partial: list[BatchSet] = []
    sizes: dict[tuple[int, int], int] = {}
    for message_id in command.message_id:
        ledger_id, entry_id = signed(message_id.ledgerId), signed(message_id.entryId)
        if message_id.ack_set:
            partial.append((ledger_id, entry_id, ack_sets.mask(message_id.ack_set)))
            sizes[ledger_id, entry_id] = min(message_id.batch_size, MAX_BITS)
        else:
            ranges.append((ledger_id, entry_id, entry_id + 1))
    sets = [
        (ledger_id, entry_id, sized(bits, _batch_size(core, ledger_id, entry_id, sizes[ledger_id, entry_id])))
        for ledger_id, entry_id, bits in _usable_sets(core, ledger, partial)
    ]
    if command.ack_type == CommandAck.Individual:
        pending_acks.ack_each(core, consumer, txn_id, sorted(set(_existing(ledger, ranges))), sets)
    elif consumer.subscription.type not in _SHARED and len(ranges) + len(partial) == 1:  # ACK-3
        position = Position(*(ranges or partial)[0][:2])
        info = ledger.ledgers.get(position.ledger_id)
        if info is None or not -1 <= position.entry_id < info.entries:
            return
        if ranges:
            pending_acks.ack_through(core, consumer, txn_id, position)
        elif sets:
            pending_acks.ack_through_batch(core, consumer, txn_id, sets[0])


def _batch_size(core: Core, ledger_id: int, entry_id: int, claimed: int) -> int:
    """Returns the number of messages of a batch: that of its stored entry, if the cache holds it, else the client's."""
    run = core.cache.lookup(ledger_id, entry_id)
    if run is None or run.message_counts is None:
        return claimed
    return run.message_counts[entry_id - run.first_entry_id]


def _answer(core: Core, consumer: Consumer, request_id: int | None) -> None:
    """Sends ACK_RESPONSE when one was requested: after the ack is on disk (ACK-4, better than Apache Pulsar)."""
    if request_id is not None:
        session, consumer_id = consumer.session, consumer.consumer_id
        core.when_durable(lambda: core.send(session, commands.ack_response(consumer_id, request_id)))


def _ack_each(
    core: Core,
    consumer: Consumer,
    ranges: Sequence[EntryRange],
    partial: Sequence[BatchSet],
    *,
    wants_receipt: bool,
) -> None:
    """Acks entries one by one, whichever consumer holds them (ACK-1, BAT-5)."""
    subscription = consumer.subscription
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    moved_from, held = cursor.mark_delete, consumer.unacked
    existing = _existing(ledger, ranges)
    sets = _usable_sets(core, ledger, partial)
    if not existing and not sets:
        return
    if cursor.is_durable:
        _record(core, CursorAcked(cursor.cursor_id, existing, sets), wants_receipt=wants_receipt)
    else:
        cursor.acknowledge(existing)
        for batch_set in sets:
            cursor.acknowledge_batch(*batch_set)
    consumer.last_acked_ms = core.wall_ms
    entries = len(existing) if isinstance(existing, Singles) else sum(end - first for _, first, end in existing)
    emptied: list[EntryRange] = []
    for ledger_id, entry_id, _ in sets:
        left = cursor.batch_set(ledger_id, entry_id)
        if left is None:
            emptied.append((ledger_id, entry_id, entry_id + 1))
        else:
            subscription.dispatcher.batch_acked(consumer, ledger_id, entry_id, left.bit_count())
    subscription.dispatcher.acked(consumer, [*existing, *emptied] if emptied else existing)
    consumer.messages_acked += (held - consumer.unacked) or entries
    if cursor.mark_delete != moved_from:
        subscription.mark_delete_moved()


def _ack_through(
    core: Core,
    consumer: Consumer,
    position: Position,
    bits: int | None,
    properties: Mapping[str, str],
    *,
    wants_receipt: bool,
) -> None:
    """Acks cumulatively up to and including the position, or up to it and part of its batch (ACK-2, ACK-3, KS-12). The
    properties of the ack are kept until the next one (ACK-5)."""
    subscription = consumer.subscription
    if subscription.type in _SHARED:
        return
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    info = ledger.ledgers.get(position.ledger_id)
    if info is None or not -1 <= position.entry_id < info.entries:  # L:-1 = everything before ledger L
        return
    moved_from = cursor.mark_delete
    sets: list[BatchSet] = []
    if bits is not None:
        sets = _usable_sets(core, ledger, [(*position, bits)])
        position = ledger.previous_position(position)
    if cursor.is_durable:
        if position > cursor.mark_delete:
            if properties or cursor.ack_properties:
                _record(core, CursorAckProperties(cursor.cursor_id, properties), wants_receipt=wants_receipt)
            _record(core, CursorMarkDeleted(cursor.cursor_id, *position), wants_receipt=wants_receipt)
        if sets:
            _record(core, CursorAcked(cursor.cursor_id, (), sets), wants_receipt=wants_receipt)
    else:
        cursor.advance_mark_delete(position)
        for batch_set in sets:
            cursor.acknowledge_batch(*batch_set)
    if cursor.mark_delete != moved_from:
        subscription.mark_delete_moved()
    consumer.last_acked_ms = core.wall_ms
    consumer.messages_acked += 1


def _record(core: Core, record: Record, *, wants_receipt: bool) -> None:
    """Records an ack: on disk before its receipt, or, without one, soon (CUR-4)."""
    if wants_receipt:
        core.append(record)
    else:
        core.append_lazily(record)


def _existing(ledger: ManagedLedger, ranges: Sequence[EntryRange]) -> Sequence[EntryRange]:
    """Returns the parts of ranges that the topic really has; acks of anything else are no-ops (ACK-1)."""
    if isinstance(ranges, Singles):
        known = ledger.ledgers.get(ranges.ledger_id)
        return () if known is None else ranges.between(0, known.entries) or ()
    existing: list[EntryRange] = []
    for ledger_id, first, end in ranges:
        info = ledger.ledgers.get(ledger_id)
        if info is not None:
            end = min(end, info.entries)
            if 0 <= first < end:
                existing.append((ledger_id, first, end))
    return existing


def _usable_sets(core: Core, ledger: ManagedLedger, partial: Sequence[BatchSet]) -> list[BatchSet]:
    """Returns the bit sets that mean something: none when the broker's switch is off, none for an entry that is known
    to be no batch (ACK-9)."""
    if not core.config.batch_index_acks:
        return []
    usable: list[BatchSet] = []
    for ledger_id, entry_id, bits in partial:
        info = ledger.ledgers.get(ledger_id)
        if info is None or not 0 <= entry_id < info.entries:
            continue
        run = core.cache.lookup(ledger_id, entry_id)
        if bits and run is not None:
            counts = run.message_counts
            count = 1 if counts is None else counts[entry_id - run.first_entry_id]
            if count == 1:
                continue
            if bits.bit_length() > count:  # the producer says the count, and may say two billion
                bits &= ack_sets.full(count)
        if bits.bit_length() > MAX_BITS:
            continue  # the batch stays unacked until all of it is acked
        usable.append((ledger_id, entry_id, bits))
    return usable


def on_redeliver(core: Core, session: Session, command: CommandRedeliverUnacknowledgedMessages) -> None:
    """Handles REDELIVER_UNACKNOWLEDGED_MESSAGES: some entries, or all that the consumer holds; no answer."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        return
    epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
    ranges: list[EntryRange] | None = None
    if command.message_ids:
        positions = sorted(
            {(signed(message_id.ledgerId), signed(message_id.entryId)) for message_id in command.message_ids}
        )
        ranges = []
        for ledger_id, entry_id in positions:
            if ranges and ranges[-1][0] == ledger_id and ranges[-1][2] == entry_id:
                ranges[-1] = (ledger_id, ranges[-1][1], entry_id + 1)
            else:
                ranges.append((ledger_id, entry_id, entry_id + 1))
    consumer.subscription.dispatcher.redeliver(consumer, ranges, epoch)
