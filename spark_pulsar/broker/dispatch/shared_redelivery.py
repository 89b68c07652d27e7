"""Redelivery on Shared and Key_Shared subscriptions: unacknowledged messages of closed consumers, negative
acknowledgements (requests for redelivery, X12), entries whose delay is over (DEL-2, DEL-4), and the limits of
unacknowledged messages (SH-4 ... SH-8, NACK-3).

Messages in a receiver queue are delivered, and come again when its consumer closes (SUB-9). The other types keep
nothing per consumer: their next consumer begins behind mark-delete (EX-4, FO-7).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.message_lifetime import delayed_delivery
from spark_pulsar.ledger.state.cursors.records import CursorRedelivered
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.model.positions.ranges import RangeSet

from .base import Dispatcher
from .chunks import ChunkBook
from .entry_reading import EntryReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription

    from .base import EntryRange

MAX_ENTRIES_A_TURN: Final = 4_096
UNBOUNDED: Final = 1 << 62


class RedeliveringDispatcher(Dispatcher):
    """A dispatcher of several consumers, each of which holds its entries until they are acknowledged."""

    def __init__(self, core: Core, subscription: Subscription) -> None:
        self.replay = RangeSet()
        """Entries to be redelivered: negatively acknowledged, or unacknowledged by a consumer that closed."""
        self.chunks = ChunkBook()
        """The consumer of each chunked message (CHK-6)."""
        self.replay_reader = EntryReader(core, subscription)
        self._is_blocked = False
        self._budget = 0
        """Bytes that may still be sent in this turn."""
        super().__init__(core, subscription)

    def rewind(self) -> None:
        super().rewind()
        self.replay.clear()
        self.chunks.clear()
        self.replay_reader.reset()

    # A consumer closed

    def detach(self, consumer: Consumer) -> None:
        """Redelivers the unacknowledged messages of a consumer that closed, was closed or lost its connection (DLQ-6,
        SUB-10).

        While others are connected they get them before anything new (SH-4), a chunked message as a whole (CHK-6), and
        on Key_Shared in the order of their keys. After the last consumer the next one begins behind mark-delete.
        Redelivery counts stay as they are: only negative acknowledgements raise them (RC-1).
        """
        if self.subscription.consumers:
            self._replay_held(consumer)
            consumer.release_all()
        else:
            consumer.release_all()
            self.rewind()
        self._note_unacked()

    def _replay_held(self, consumer: Consumer) -> None:
        """Adds the entries that a closed consumer holds, and chunks that wait for it, to those to be redelivered."""
        for ledger_id, first, end in [*consumer.pending, *self.chunks.left(consumer)]:
            self.replay.add(ledger_id, first, end)

    # Requests of consumers

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Redelivers and counts the entries that the consumer really holds (NACK-3, RC-1, RC-2), of two requests the
        first (NACK-5), and of a batch the messages that are left (NACK-6: `Cursor.sets_to_send`). They come behind
        newer ones, whose order that breaks (NACK-7)."""
        held: list[EntryRange] = []
        if ranges is None:
            held = list(consumer.pending)
        else:
            for ledger_id, first, end in ranges:
                held += [(ledger_id, low, high) for low, high in consumer.pending.pieces_in(ledger_id, first, end)]
        if not held:
            return
        if self.chunks:
            completed = self.chunks.with_all_chunks(held)
            held = [
                (ledger_id, *piece)
                for ledger_id, first, end in completed
                for piece in consumer.pending.pieces_in(ledger_id, first, end)
            ]
        unacked = consumer.unacked
        for ledger_id, first, end in held:
            self._release(consumer, ledger_id, first, end)
            self.replay.add(ledger_id, first, end)
        consumer.messages_redelivered += unacked - consumer.unacked
        cursor = self.subscription.cursor
        if cursor.is_durable:
            self.core.append_lazily(CursorRedelivered(cursor.cursor_id, held))
        else:
            cursor.redeliver(held)
        self._unblock(consumer)
        self.core.wake(self.subscription)

    # A delay is over

    def released(self, ranges: Iterable[EntryRange]) -> None:
        """Adds delayed entries that were passed over to those to be redelivered; the others are still to come
        (DEL-11, DEL-4)."""
        cursor = self.subscription.cursor
        for ledger_id, first, end in ranges:
            if ledger_id == self.position.ledger_id:
                end = min(end, self.position.entry_id)
            if first < end and (ledger_id, first) < self.position:
                through = Position(ledger_id, end - 1)
                for _, low, high in cursor.unacked(Position(ledger_id, first), through, end - first):
                    self._replay_unless_pending(ledger_id, low, high)
        self.core.wake(self.subscription)

    def acks_aborted(self, ranges: Sequence[EntryRange]) -> None:
        """Redelivers, and counts, entries whose ack was aborted with its transaction (TX-12)."""
        self.core.append(CursorRedelivered(self.subscription.cursor.cursor_id, ranges))
        for ledger_id, first, end in ranges:
            for consumer in self.subscription.consumers:  # of a batch that was acked in part, too
                if self._release(consumer, ledger_id, first, end):
                    self._unblock(consumer)
        self.released(ranges)

    def _replay_unless_pending(self, ledger_id: int, first: int, end: int) -> None:
        """Leaves out entries that consumers hold: they were sent while delayed delivery was switched off."""
        parts = [(first, end)]
        for consumer in self.subscription.consumers:
            if consumer.pending.intersects(ledger_id, first, end):
                parts = [piece for low, high in parts for piece in consumer.pending.pieces_not_in(ledger_id, low, high)]
        for low, high in parts:
            self.replay.add(ledger_id, low, high)

    # Entries are acknowledged

    def batch_acked(self, consumer: Consumer, ledger_id: int, entry_id: int, messages_left: int) -> None:
        for holder in self.subscription.consumers:
            holder.keep_of_batch(ledger_id, entry_id, messages_left)
            self._unblock(holder)

    def passed(self) -> None:
        mark_delete = self.subscription.cursor.mark_delete
        self.replay.remove_through(*mark_delete)
        self.chunks.done_through(*mark_delete)
        for consumer in self.subscription.consumers:
            consumer.release_through(*mark_delete)
            self._unblock(consumer)

    def expired(self, ranges: Iterable[EntryRange]) -> None:
        if self.chunks:
            ranges = list(ranges)
            self.chunks.done(ranges)
        for ledger_id, first, end in ranges:
            self.replay.remove(ledger_id, first, end)
            for consumer in self.subscription.consumers:
                if self._release(consumer, ledger_id, first, end):
                    self._unblock(consumer)

    def _release(self, consumer: Consumer, ledger_id: int, first: int, end: int) -> int:
        """Takes entries from a consumer, as far as it holds them; returns their number."""
        return consumer.release(ledger_id, first, end)

    # Limits of unacknowledged messages

    def limits_changed(self) -> None:
        limit = self._consumer_limit()
        for consumer in self.subscription.consumers:
            consumer.blocked = limit > 0 and consumer.unacked >= limit
        self._is_blocked = False
        self.core.wake(self.subscription)

    @property
    def is_blocked(self) -> bool:
        of_all = self.core.unacked_limit
        return self._is_blocked or (of_all is not None and self.subscription in of_all.waiting)

    def _consumer_limit(self) -> int:
        """Unacknowledged messages that one consumer may hold; 0 = no limit (SH-6)."""
        if not self.subscription.is_durable:
            return 0
        return self.core.policies_of(self.subscription.topic.name).max_unacked_per_consumer

    def _unacked_allowance(self) -> int:
        """Messages that may be sent for the first time before too many are unacknowledged (SH-7, SH-8). From the limit
        on none may, until half of it is acknowledged."""
        if not self.subscription.is_durable:
            return UNBOUNDED
        of_all = self.core.unacked_limit
        allowance = UNBOUNDED if of_all is None else of_all.allowance(self.subscription)
        limit = self.core.policies_of(self.subscription.topic.name).max_unacked_per_subscription
        if not limit:
            return allowance
        unacked = self._unacked()
        self._is_blocked = unacked >= (max(1, limit // 2) if self._is_blocked else limit)  # all acked: they go on
        return 0 if self._is_blocked else min(allowance, limit - unacked)

    def _unacked(self) -> int:
        """Messages that consumers hold."""
        return sum(consumer.unacked for consumer in self.subscription.consumers)

    def _note_unacked(self) -> None:
        """Reports the messages that consumers hold to the limit of all subscriptions (SH-8)."""
        if self.core.unacked_limit is not None and self.subscription.is_durable:
            self.core.unacked_limit.note(self.subscription, self._unacked())

    def _unblock(self, consumer: Consumer) -> None:
        if consumer.blocked and consumer.unacked <= self._consumer_limit() // 2:
            consumer.blocked = False
            self.core.wake(self.subscription)
        self._note_unacked()

    # Sending

    def has_work(self) -> bool:
        if self.subscription.fenced or not any(consumer.can_receive for consumer in self.subscription.consumers):
            return False
        return self._has_waiting() or self._has_new_entries()

    @abstractmethod
    def _has_waiting(self) -> bool:
        """Returns whether there are entries that were passed over, or are to be redelivered."""

    def _has_new_entries(self) -> bool:
        """Returns whether an entry from the read position on may be there that is not delayed, and may be sent."""
        return self._first_new() <= self.visible_through() and self._unacked_allowance() > 0

    def _first_new(self) -> Position:
        """Finds the first position from the read position on that is not known to be delayed."""
        held = delayed_delivery.held_back(self.subscription)
        return self.position if held is None else Position(self.position[0], held.next_gap(*self.position))

    def _send_new(self, through: Position, most: int, send: Callable[[int, int, int], int]) -> bool:
        """Sends entries up to `through` for the first time, `most` at most, but for delayed ones. True when there may
        be more.

        `send` takes a ledger and a range of its entries, and returns the first one that it did not send.
        """
        held = delayed_delivery.held_back(self.subscription)
        ranges = self.subscription.cursor.unacked(self._first_new(), through, most)
        for ledger_id, first, end in ranges:
            parts = ((first, end),) if held is None else held.pieces_not_in(ledger_id, first, end)
            for low, high in parts:
                sent_through = send(ledger_id, low, high)
                self.position = Position(ledger_id, sent_through)
                if sent_through < high:
                    return self._budget <= 0
            self.position = Position(ledger_id, end)
        return self.is_more_after(ranges, most, through)

    # Statistics and invariants

    @property
    def delayed_count(self) -> int:
        return delayed_delivery.count(self.subscription)

    @property
    def replay_count(self) -> int:
        return self.replay.count() + self.chunks.count()

    def check(self) -> None:
        of_all = self.core.unacked_limit
        if of_all is not None and self.subscription.is_durable:
            assert of_all.held.get(self.subscription, 0) == self._unacked(), "what all hold is known (SH-8)"
        for consumer in self.subscription.consumers:
            for ledger_id, first, end in consumer.pending:
                assert not self.replay.intersects(ledger_id, first, end), "pending and to be replayed at once"
                assert Position(ledger_id, end) <= self.position, "sent, yet ahead of the read position"
