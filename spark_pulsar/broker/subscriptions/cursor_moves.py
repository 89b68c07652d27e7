"""Moves of a cursor without its consumers: skip, clear, expire, reset, and finding the n-th unacked entry
(CUR-11 ... CUR-15, TTL-8; by time: `message_lifetime.expire_by_time`). The admin API and quotas (BQ-6) come through
here.

`mark_deleted` is the one way forward: every rule that decides that entries are done calls it. Entries that consumers
still hold are taken from them, those that wait for their time are discarded (DEL-12), and dispatch is woken, so that
nothing waits for an ack that means nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import subscription as subscriptions
from spark_pulsar.broker.topic_log import damage, entry_lookup, retention, rollover
from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.ledger.state.cursors.records import CursorMarkDeleted
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.model.errors import UnknownError
from spark_pulsar.model.limits import MAX_BATCH_MESSAGES
from spark_pulsar.model.policies.effective_policies import RetentionPolicy
from spark_pulsar.model.positions.ids import EARLIEST, Position
from spark_pulsar.wire.protocol import ack_sets

from . import seek

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic

Done = Callable[[], None]

_KEEPS_NOTHING: Final = RetentionPolicy()


def mark_deleted(core: Core, subscription: Subscription, position: Position, *, lazily: bool = False) -> int:
    """Moves mark-delete forward to the position, which must be readable or gone; returns how many unacked entries it
    passed. Behind mark-delete already: nothing happens. `lazily`: the record may wait for the next group."""
    cursor = subscription.cursor
    if position <= cursor.mark_delete:
        return 0
    backlog = cursor.backlog()
    if cursor.is_durable:
        record = CursorMarkDeleted(cursor.cursor_id, *position)
        (core.append_lazily if lazily else core.append)(record)
    else:
        cursor.advance_mark_delete(position)
    subscription.dispatcher.passed()
    core.wake(subscription)
    consumed = backlog - cursor.backlog()
    subscription.mark_delete_moved()
    return consumed


def skip(core: Core, subscription: Subscription, entries: int) -> int:
    """Skips the next `entries` unacked entries, or all there are; returns how many (CUR-14)."""
    position = nth_unacked(subscription, entries)
    if position is None:
        return clear_backlog(core, subscription) if entries > 0 else 0
    return mark_deleted(core, subscription, position)


def clear_backlog(core: Core, subscription: Subscription) -> int:
    """Skips all entries on disk; returns how many of them were unacked (CUR-14)."""
    return mark_deleted(core, subscription, subscription.topic.last_add_confirmed)


def truncate(core: Core, topic: Topic) -> None:
    """Skips all entries for every subscription, and trims all ledgers whatever retention says, but for entries of a
    compacted topic that were not compacted yet (CMP-C4)."""
    for subscription in list(topic.subscriptions.values()):
        clear_backlog(core, subscription)
    current = topic.ledger.current
    if current is not None and current.entries and not topic.state.is_terminated:
        rollover.open_ledger(core, topic)
    gone = plan_trimming(topic.ledger, topic.state.slowest_mark_delete(), _KEEPS_NOTHING, core.wall_ms).gone
    if gone:
        core.append(LedgersTrimmed(topic.state.topic_id, gone))
        for ledger_id in gone:
            core.cache.drop_ledger(ledger_id)
        topic.ledgers_trimmed(core)
        retention.trim(core, topic)  # the ledger that it waited for is gone


def nth_unacked(subscription: Subscription, number: int) -> Position | None:
    """Returns the n-th entry on disk that is not acked, from 1 on; None when there are fewer (CUR-14, CUR-15). Entries
    whose ack is pending in a transaction count (TX-16)."""
    if number <= 0:
        return None
    through = subscription.topic.last_add_confirmed
    ranges = subscription.cursor.unacked(EARLIEST, through, number, with_pending=True)
    if sum(end - first for _, first, end in ranges) < number:
        return None
    ledger_id, _, end = ranges[-1]
    return Position(ledger_id, end - 1)


def reset_to_time(core: Core, subscription: Subscription, time_ms: int, done: Done) -> None:
    """Makes the first entry published at or after the time the next one; consumers are closed and come back (CUR-12,
    CUR-13). UnknownError while another reset runs."""
    _fence(core, subscription)

    def placed() -> None:
        subscription.unfence()
        done()

    seek.place_at_time(core, subscription, time_ms, placed)


def reset_to_position(
    core: Core,
    subscription: Subscription,
    wanted: Position,
    done: Done,
    *,
    batch_index: int = -1,
    excluded: bool = False,
) -> None:
    """Makes this entry the next one, or with `excluded` the one after it; consumers are closed and come back (CUR-11).

    With a batch index, the messages of the batch before it are acked (with `excluded` that one too), when the broker
    keeps batch indexes. An entry that cannot be read is next as a whole; one that is lost counts as one message.
    UnknownError while another reset runs.
    """
    _fence(core, subscription)

    def place(first_index: int, size: int) -> None:
        position, bits = wanted, None
        size = min(size, MAX_BATCH_MESSAGES)  # the producer says it
        if first_index >= size:
            position = subscription.topic.ledger.next_position(wanted)
        elif first_index > 0 and core.config.batch_index_acks:
            bits = ack_sets.from_index(first_index, size)
        if subscription.topic.subscriptions.get(subscription.name) is subscription:
            seek.move(core, subscription, position, bits)
        subscription.unfence()
        done()

    if batch_index < 0 or not subscription.topic.ledger.contains(wanted):
        place(1 if excluded else 0, 1)
        return

    def fetched(entry: bytes | None) -> None:
        if entry is None:  # unknown which of its messages are done: all of it is next, unless it is lost
            place(1 if excluded and damage.at(subscription.topic, wanted) else 0, 1)
            return
        size = entry_lookup.batch_size(entry)
        place(min(batch_index, size) + excluded, size)

    if wanted > subscription.topic.last_add_confirmed:
        core.when_durable(lambda: entry_lookup.fetch(core, wanted, fetched))
    else:
        entry_lookup.fetch(core, wanted, fetched)


def _fence(core: Core, subscription: Subscription) -> None:
    if subscription.fenced:
        raise UnknownError("Error when resetting subscription: Failed to fence subscription")
    subscription.keep_for_seek()
    subscriptions.disconnect(core, subscription)
    subscription.fenced = True
