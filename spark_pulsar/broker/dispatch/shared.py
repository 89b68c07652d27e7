"""Entries are dealt out in turns, each consumer holds its own until they are acked (7.4; SH-1 ... SH-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.lifetime import delayed_delivery
from spark_pulsar.broker.lifetime.ttl import fresh_part
from spark_pulsar.ledger.records.cursors import CursorRedelivered
from spark_pulsar.model.ids import Position
from spark_pulsar.model.ranges import RangeSet

from .base import Dispatcher, fit
from .chunks import ChunkBook, uuid_of
from .reading import EntryReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun

    from .base import EntryRange

_MAX_ENTRIES_A_TURN = 4_096
_UNBOUNDED = 1 << 62


class SharedDispatcher(Dispatcher):
    """Round robin over consumers with permits; entries to be redelivered go first (SH-3)."""

    def __init__(self, core: Core, subscription: Subscription) -> None:
        self.replay = RangeSet()
        """Entries sent before that must be sent again: negatively acked, or left behind by a consumer."""
        self.chunks = ChunkBook()
        """Who gets the chunks of which large message (CHK-6)."""
        self.replay_reader = EntryReader(core, subscription.topic, self._wake, self._stop)
        self._turn = 0
        super().__init__(core, subscription)

    def rewind(self) -> None:
        super().rewind()
        self.replay.clear()
        self.chunks.clear()
        self.replay_reader.reset()

    def attach(self, consumer: Consumer) -> None:
        consumers = self.subscription.consumers
        consumers.sort(key=lambda each: each.priority)  # stable: order of arrival inside a level (SH-2)
        if len(consumers) == 1:
            self.rewind()

    def detach(self, consumer: Consumer) -> None:
        if self.subscription.consumers:
            for ledger_id, first, end in [*consumer.pending, *self.chunks.left(consumer)]:
                self.replay.add(ledger_id, first, end)
            consumer.let_go_of_all()
        else:
            consumer.let_go_of_all()
            self.rewind()  # the next first consumer begins at mark-delete + 1 (SH-4)
        self._note_unacked()

    # Sending

    def dispatch(self) -> bool:
        if self.subscription.fenced:
            return False
        self._budget = min(self.core.config.max_dispatch_bytes, self.turn_bytes)
        if self.chunks:
            for ledger_id, first, end in self.chunks.ready():
                self.replay.add(ledger_id, first, end)
        while self.replay:
            ledger_id, first = self.replay.first() or (0, 0)
            following = self.replay.next_range(ledger_id, first)
            assert following is not None, "the set is not empty"
            sent_through = self._deal(self.replay_reader, ledger_id, first, following[1])
            self.replay.remove(ledger_id, first, sent_through)
            if sent_through < following[1]:
                return self._budget <= 0
        return self._deal_new_entries()

    def has_work(self) -> bool:
        if self.subscription.fenced or not any(consumer.can_receive for consumer in self.subscription.consumers):
            return False
        return self._has_waiting() or self._has_new_entries()

    def _has_waiting(self) -> bool:
        """Whether there are entries that were passed over, or are to be sent again."""
        return bool(self.replay) or self.chunks.is_ready

    def _has_new_entries(self) -> bool:
        """Whether there may be one from the read position on that is not held back, and that may be sent."""
        return self._first_new() <= self.visible_through() and self._room() > 0

    def _first_new(self) -> Position:
        """Where the next entries may begin that are not held back until their time."""
        held = delayed_delivery.held_back(self.subscription)
        return self.position if held is None else Position(self.position[0], held.next_gap(*self.position))

    def _deal_new_entries(self) -> bool:
        through = self.visible_through()
        if self.position > through or not self._room():
            return False
        # No more than can be sent: among a million holes every entry is a range of its own.
        wanted = min(_MAX_ENTRIES_A_TURN, self._permits(), self.turn_messages, self.turn_entries)
        if wanted <= 0:
            return False
        held = delayed_delivery.held_back(self.subscription)
        ranges = self.subscription.cursor.unacked(self._first_new(), through, wanted)
        for ledger_id, first, end in ranges:
            parts = ((first, end),) if held is None else held.pieces_not_in(ledger_id, first, end)
            for low, high in parts:
                sent_through = self._deal(self.reader, ledger_id, low, high, are_new=True)
                self.position = Position(ledger_id, sent_through)
                if sent_through < high:
                    return self._budget <= 0
            self.position = Position(ledger_id, end)
        return self.is_more_after(ranges, wanted, through) and self._permits() > 0

    def _deal(self, reader: EntryReader, ledger_id: int, first: int, end: int, *, are_new: bool = False) -> int:
        """Send entries of one ledger in turns; returns where it had to stop."""
        limit = self._consumer_limit()
        room = 0
        while first < end:
            if room <= 0:  # counted down meanwhile, and counted anew before it is said that there is none
                room = min(self._room() if are_new else _UNBOUNDED, self.turn_messages)
            if self._budget <= 0 or room <= 0 or self.turn_entries <= 0:
                break
            consumer = self._next_consumer()
            if consumer is None:
                break
            run = reader.find(ledger_id, first)
            if run is None:
                break
            messages = min(consumer.permits, room)
            if limit:
                messages = min(messages, limit - consumer.unacked)
            if len(self.subscription.consumers) > 1:
                messages = min(messages, self.core.config.round_robin_batch)
            low = first - run.first_entry_id
            high = min(len(run.starts), end - run.first_entry_id, low + self.turn_entries)
            if self.subscription.topic.ttl_monitor is not None:
                low, high = fresh_part(self.core, self.subscription, run, low, high)
                first = run.first_entry_id + low
                if low == high:
                    continue
            uuid = None
            if self.subscription.topic.state.has_chunks:
                uuid, high = _alike(run, low, min(high, low + messages))
                owner = consumer if uuid is None else self.chunks.owner(uuid) or consumer
                if uuid is not None and not owner.can_receive:
                    self.chunks.wait(uuid, owner, ledger_id, first)
                    first += 1
                    continue
                consumer = owner
            high = fit(run.message_counts, run.ends, low, high, messages, run.starts[low] + self._budget)
            self._hand_over(consumer, run.ledger_id, first, high - low, run.message_counts, low)
            room -= self.send_part(consumer, run, low, high, with_counts=True)
            if uuid is not None:
                self.chunks.sent(uuid, consumer, ledger_id, first)
            self._budget -= run.ends[high - 1] - run.starts[low]
            if limit and consumer.unacked >= limit:
                consumer.blocked = True
            first = run.first_entry_id + high
        return first

    def _hand_over(
        self, consumer: Consumer, ledger_id: int, first: int, entries: int, counts: object, low: int
    ) -> None:
        """The consumer holds these entries from now on; of batches what is left of them."""
        left = None if counts is None else list(counts[low : low + entries])  # type: ignore[index]
        sets = self.subscription.cursor.batch_sets.get(ledger_id)
        if sets and left is not None:
            for index in range(entries):
                bits = sets.get(first + index)
                if bits is not None:
                    left[index] = max(1, min(left[index], bits.bit_count()))
        messages = entries if left is None else sum(left)
        consumer.hold(ledger_id, first, left, entries, messages)
        self._note_unacked()

    def _next_consumer(self) -> Consumer | None:
        """Whose turn it is: round robin among those who can receive, of the best level that has one (SH-1, SH-2)."""
        consumers = self.subscription.consumers
        count = len(consumers)
        if count == 1:
            return consumers[0] if consumers[0].can_receive else None
        best: Consumer | None = None
        for step in range(count):
            index = (self._turn + step) % count
            consumer = consumers[index]
            if (best is None or consumer.priority < best.priority) and consumer.can_receive:
                best, turn = consumer, index + 1
                if consumer.priority == consumers[0].priority:
                    break
        if best is not None:
            self._turn = turn
        return best

    def _permits(self) -> int:
        """Messages that may be sent now, as far as permits go."""
        return sum(consumer.permits for consumer in self.subscription.consumers if consumer.can_receive)

    def _consumer_limit(self) -> int:
        """Unacked messages that one consumer may hold; 0 = no limit (SH-6)."""
        if not self.subscription.is_durable:
            return 0
        return self.core.policies_of(self.subscription.topic.name).max_unacked_per_consumer

    def _room(self) -> int:
        """Messages that may be sent for the first time before too many are unacked (SH-7, SH-8). Once none may, half
        of the limit must be acked first."""
        if not self.subscription.is_durable:
            return _UNBOUNDED
        of_all = self.core.unacked_limit
        room = _UNBOUNDED if of_all is None else of_all.room(self.subscription)
        limit = self.core.policies_of(self.subscription.topic.name).max_unacked_per_subscription
        if not limit:
            return room
        unacked = self._unacked()
        self._is_blocked = unacked >= (max(1, limit // 2) if self._is_blocked else limit)  # all acked: they go on
        return 0 if self._is_blocked else min(room, limit - unacked)

    def _unacked(self) -> int:
        """Messages that consumers hold."""
        return sum(consumer.unacked for consumer in self.subscription.consumers)

    def _note_unacked(self) -> None:
        """What consumers hold may have changed (SH-8)."""
        if self.core.unacked_limit is not None and self.subscription.is_durable:
            self.core.unacked_limit.note(self.subscription, self._unacked())

    _is_blocked = False
    _budget = 0

    # Coming back

    def released(self, ranges: Iterable[EntryRange]) -> None:
        """What was passed over goes out as what is to be sent again does; the rest is still to come."""
        cursor = self.subscription.cursor
        for ledger_id, first, end in ranges:
            if ledger_id == self.position.ledger_id:
                end = min(end, self.position.entry_id)
            if first < end and (ledger_id, first) < self.position:
                through = Position(ledger_id, end - 1)
                for _, low, high in cursor.unacked(Position(ledger_id, first), through, end - first):
                    self._replay_unless_pending(ledger_id, low, high)
        self.core.wake(self.subscription)

    def _replay_unless_pending(self, ledger_id: int, first: int, end: int) -> None:
        """Entries may have been sent while delayed delivery was switched off."""
        parts = [(first, end)]
        for consumer in self.subscription.consumers:
            if consumer.pending.intersects(ledger_id, first, end):
                parts = [piece for low, high in parts for piece in consumer.pending.pieces_not_in(ledger_id, low, high)]
        for low, high in parts:
            self.replay.add(ledger_id, low, high)

    @property
    def delayed_count(self) -> int:
        return delayed_delivery.count(self.subscription)

    def _let_go(self, consumer: Consumer, ledger_id: int, first: int, end: int) -> int:
        """A consumer holds entries no more, as far as it did; returns how many it held."""
        return consumer.let_go(ledger_id, first, end)

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:
        consumers = self.subscription.consumers
        if self.chunks:
            ranges = list(ranges)
            self.chunks.done(ranges)
        for ledger_id, first, end in ranges:
            gone = self._let_go(consumer, ledger_id, first, end)
            if gone < end - first and len(consumers) > 1:  # anybody may ack what another holds (ACK-1)
                for other in consumers:
                    if other is not consumer:
                        self._let_go(other, ledger_id, first, end)
                        self._unblock(other)
            if self.replay:
                self.replay.remove(ledger_id, first, end)
        self._unblock(consumer)
        if self._is_blocked or self.chunks.free:
            self.core.wake(self.subscription)

    def passed(self) -> None:
        mark_delete = self.subscription.cursor.mark_delete
        self.replay.remove_through(*mark_delete)
        self.chunks.done_through(*mark_delete)
        for consumer in self.subscription.consumers:
            consumer.let_go_through(*mark_delete)
            self._unblock(consumer)

    def expired(self, ranges: Iterable[EntryRange]) -> None:
        if self.chunks:
            ranges = list(ranges)
            self.chunks.done(ranges)
        for ledger_id, first, end in ranges:
            self.replay.remove(ledger_id, first, end)
            for consumer in self.subscription.consumers:
                if self._let_go(consumer, ledger_id, first, end):
                    self._unblock(consumer)

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

    @property
    def replay_count(self) -> int:
        return self.replay.count() + self.chunks.count()

    def batch_acked(self, consumer: Consumer, ledger_id: int, entry_id: int, messages_left: int) -> None:
        for holder in self.subscription.consumers:
            holder.keep_of_batch(ledger_id, entry_id, messages_left)
            self._unblock(holder)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Only what the consumer really holds is sent again, and counted (NACK-3, RC-1)."""
        held: list[EntryRange] = []
        if ranges is None:
            held = list(consumer.pending)
        else:
            for ledger_id, first, end in ranges:
                held += [(ledger_id, low, high) for low, high in consumer.pending.pieces_in(ledger_id, first, end)]
        if not held:
            return
        if self.chunks:
            whole = self.chunks.whole(held)
            held = [
                (each, *piece) for each, first, end in whole for piece in consumer.pending.pieces_in(each, first, end)
            ]
        unacked = consumer.unacked
        for ledger_id, first, end in held:
            self._let_go(consumer, ledger_id, first, end)
            self.replay.add(ledger_id, first, end)
        consumer.messages_redelivered += unacked - consumer.unacked
        cursor = self.subscription.cursor
        if cursor.is_durable:
            self.core.append_lazily(CursorRedelivered(cursor.cursor_id, held))
        else:
            cursor.redeliver(held)
        self._unblock(consumer)
        self.core.wake(self.subscription)

    def _unblock(self, consumer: Consumer) -> None:
        if consumer.blocked and consumer.unacked <= self._consumer_limit() // 2:
            consumer.blocked = False
            self.core.wake(self.subscription)
        self._note_unacked()

    def check(self) -> None:
        of_all = self.core.unacked_limit
        if of_all is not None and self.subscription.is_durable:
            assert of_all.held.get(self.subscription, 0) == self._unacked(), "what all hold is known (SH-8)"
        for consumer in self.subscription.consumers:
            for ledger_id, first, end in consumer.pending:
                assert not self.replay.intersects(ledger_id, first, end), "pending and to be replayed at once"
                assert Position(ledger_id, end) <= self.position, "sent, yet ahead of the read position"


def _alike(run: EntryRun, low: int, high: int) -> tuple[str | None, int]:
    """Which large message entry `low` is a chunk of, None for none; and where the entries that go with it end: chunks
    go one by one."""
    uuid = uuid_of(run, low)
    if uuid is not None:
        return uuid, low + 1
    return None, next((index for index in range(low + 1, high) if uuid_of(run, index) is not None), high)
