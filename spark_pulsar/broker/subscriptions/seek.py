"""Seek: a subscription moves to an entry or to a time (A7, CUR-11 ... CUR-13). The start id of a reader is no seek:
`subscribing` (CUR-10, A11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.entities import subscription as subscriptions
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.topic_log import disk_full, retention, time_search
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorReset
from spark_pulsar.model.errors import MetadataError, PulsarError, UnknownError
from spark_pulsar.model.positions.ids import EARLIEST, Position, signed
from spark_pulsar.wire.protocol import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import CommandSeek

from .acks import MAX_BITS

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.subscription import Subscription


def on_seek(core: Core, session: Session, command: CommandSeek) -> None:
    """Handles SEEK: closes the subscription's consumers, moves it, answers SUCCESS when the move is on disk.

    A durable subscription is not moved while the disk is full (DUR-10); a reader's move is stored nowhere and waits for
    nothing.
    """
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        raise MetadataError("Consumer not found")
    subscription = consumer.subscription
    if subscription.topic.non_persistent is not None:  # there is nowhere to go (NP-5)
        core.succeed(session, command.request_id)
        return
    if subscription.fenced:
        raise UnknownError("Error when resetting subscription: Failed to fence subscription")
    if not command.HasField("message_id") and not command.HasField("message_publish_time"):
        raise MetadataError("Reset cursor without message_id or message_publish_time is not supported")
    if subscription.cursor.is_durable:
        disk_full.admit_order(core)
    subscription.keep_for_seek()
    subscriptions.disconnect(core, subscription)

    def done() -> None:
        core.succeed(session, command.request_id)

    def refused(error: PulsarError) -> None:
        handshake.refuse(core, session, error, command.request_id)

    def answer() -> None:
        if subscription.cursor.is_durable:
            disk_full.answer_when_durable(core, done, refused)
        else:
            done()

    if command.HasField("message_id"):
        target = command.message_id
        wanted = Position(signed(target.ledgerId), signed(target.entryId))
        takes_bits = core.config.batch_index_acks and len(target.ack_set) <= MAX_BITS // 64  # else all of the batch
        bits = ack_sets.mask(target.ack_set) if takes_bits else None
        move(core, subscription, wanted, bits)
        answer()
        return

    def resume() -> None:
        subscription.unfence()
        answer()

    subscription.fenced = True
    place_at_time(core, subscription, command.message_publish_time, resume)


def move(core: Core, subscription: Subscription, wanted: Position, bits: int | None = None) -> None:
    """Makes `wanted` the next entry; before the oldest that is the oldest, behind the last the end (CUR-11). `bits`:
    messages of its batch that are still wanted."""
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    in_compacted = subscription.reads_compacted and compaction.covers(subscription.topic, wanted)
    position = wanted if in_compacted else ledger.at_or_after(wanted)
    mark_delete = ledger.previous_position(position)
    if cursor.is_durable:
        core.append(CursorReset(cursor.cursor_id, *mark_delete))
        if bits and position == wanted:
            core.append(CursorAcked(cursor.cursor_id, (), [(*position, bits)]))
        retention.trim(core, subscription.topic)
    else:
        cursor.reset(mark_delete)
        if bits and position == wanted:
            cursor.acknowledge_batch(*position, bits)
    core.monitors.joined(subscription.topic)
    subscription.dispatcher.rewind()
    core.wake(subscription)


def place_at_time(core: Core, subscription: Subscription, time_ms: int, done: Callable[[], None]) -> None:
    """Moves a subscription without consumers to the first entry published at or after a time (CUR-12)."""

    def place(position: Position) -> None:
        topic = subscription.topic
        if topic.subscriptions.get(subscription.name) is subscription:
            if subscription.reads_compacted and position == topic.ledger.first_position:
                position = EARLIEST  # trimmed messages may be left in the compacted ledger
            move(core, subscription, position)
        done()

    time_search.first_at_or_after(core, subscription.topic, time_ms, place)
