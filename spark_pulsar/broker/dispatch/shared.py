"""Dispatcher of Shared subscriptions: entries go to consumers in turns (SH-1 ... SH-3, SUB-9), in no order that
anything keeps (SH-5). No consumer that has permits and may get an entry is left without (SH-10).

`redelivery`, the base of this class, redelivers what a closed consumer held (SH-4) and keeps the limits of
unacknowledged messages (SH-6, SH-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.message_lifetime.ttl import fresh_part

from .base import fit
from .chunks import uuid_of
from .shared_redelivery import MAX_ENTRIES_A_TURN, UNBOUNDED, RedeliveringDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.ledger.entries import EntryRun

    from .base import EntryRange


class SharedDispatcher(RedeliveringDispatcher):
    """Round robin over consumers with permits; entries to be redelivered go first (SH-3)."""

    _turn = 0
    """Index of the consumer that is next."""

    def attach(self, consumer: Consumer) -> None:
        consumers = self.subscription.consumers
        consumers.sort(key=lambda consumer: consumer.priority)  # stable: order of arrival inside a level (SH-2)
        if len(consumers) == 1:
            self.rewind()

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
            sent_through = self._deal(ledger_id, first, following[1], is_replay=True)
            self.replay.remove(ledger_id, first, sent_through)
            if sent_through < following[1]:
                return self._budget <= 0
        through = self.visible_through()
        if self.position > through or not self._unacked_allowance():
            return False
        # No more than can be sent: among a million holes every entry is a range of its own.
        most = min(MAX_ENTRIES_A_TURN, self._permits(), self.turn_messages, self.turn_entries)
        return most > 0 and self._send_new(through, most, self._deal) and self._permits() > 0

    def _has_waiting(self) -> bool:
        return bool(self.replay) or self.chunks.is_ready

    def _deal(self, ledger_id: int, first: int, end: int, *, is_replay: bool = False) -> int:
        """Sends entries of one ledger in turns; returns the first one that was not sent."""
        reader = self.replay_reader if is_replay else self.reader
        limit = self._consumer_limit()
        allowance = 0
        while first < end:
            if allowance <= 0:  # counted down meanwhile, and counted anew before it is said that there is none
                allowance = min(UNBOUNDED if is_replay else self._unacked_allowance(), self.turn_messages)
            if self._budget <= 0 or allowance <= 0 or self.turn_entries <= 0:
                break
            consumer = self._next_consumer()
            if consumer is None:
                break
            run = reader.find(ledger_id, first)
            if run is None:
                break
            messages = min(consumer.permits, allowance)
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
            allowance -= self.send_part(consumer, run, low, high, with_counts=True)
            if uuid is not None:
                self.chunks.sent(uuid, consumer, ledger_id, first)
            self._budget -= run.ends[high - 1] - run.starts[low]
            if limit and consumer.unacked >= limit:
                consumer.blocked = True
            first = run.first_entry_id + high
        return first

    def _hand_over(
        self, consumer: Consumer, ledger_id: int, first: int, entries: int, counts: Sequence[int] | None, low: int
    ) -> None:
        """Notes that the consumer holds these entries, or of batches their unacknowledged messages."""
        left = None if counts is None else list(counts[low : low + entries])
        sets = self.subscription.cursor.sets_to_send(ledger_id, range(first, first + entries))
        if sets and left is not None:
            for index in range(entries):
                bits = sets.get(first + index)
                if bits is not None:
                    left[index] = max(1, min(left[index], bits.bit_count()))
        messages = entries if left is None else sum(left)
        consumer.hold(ledger_id, first, left, entries, messages)
        self._note_unacked()

    def _next_consumer(self) -> Consumer | None:
        """Chooses the consumer whose turn it is: round robin over those that can receive, of the best priority that has
        one (SH-1, SH-2, SH-9)."""
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

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:
        consumers = self.subscription.consumers
        if self.chunks:
            ranges = list(ranges)
            self.chunks.done(ranges)
        for ledger_id, first, end in ranges:
            gone = self._release(consumer, ledger_id, first, end)
            if gone < end - first and len(consumers) > 1:  # any consumer may ack what another holds (ACK-1)
                for other in consumers:
                    if other is not consumer:
                        self._release(other, ledger_id, first, end)
                        self._unblock(other)
            if self.replay:
                self.replay.remove(ledger_id, first, end)
        self._unblock(consumer)
        if self._is_blocked or self.chunks.free:
            self.core.wake(self.subscription)


def _alike(run: EntryRun, low: int, high: int) -> tuple[str | None, int]:
    """Finds the chunked message that entry `low` belongs to, None for none, and the end of the entries that go with it:
    chunks go one by one (CHK-6)."""
    uuid = uuid_of(run, low)
    if uuid is not None:
        return uuid, low + 1
    return None, next((index for index in range(low + 1, high) if uuid_of(run, index) is not None), high)
