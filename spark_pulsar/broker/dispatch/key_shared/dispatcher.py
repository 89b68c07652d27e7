"""Dispatcher of Key_Shared subscriptions: entries of one key go to one consumer at a time, in order (KS-1 ... KS-17).
Consumers of another mode are refused before, in `subscribing` (SUB-2).

A selector assigns each sticky hash to a consumer (`selectors`). An entry that its consumer cannot have now waits in a
replay queue (`replay_queues`): the consumer's when it is not ready, the sticky hash's own when that has no consumer, or
while it drains because it moved and its old consumer still holds entries of it (KS-10, X10; the rule before that is in
`classic`, KS-9). Entries whose delay is over do the same (DEL-13). Replay queues go out before anything newer, in
order. So a slow consumer holds up its own keys only, until too much waits.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from spark_pulsar.broker.dispatch.base import fit, values_of
from spark_pulsar.broker.dispatch.entry_reading import EntryReader
from spark_pulsar.broker.dispatch.shared_redelivery import MAX_ENTRIES_A_TURN, RedeliveringDispatcher
from spark_pulsar.broker.message_lifetime.ttl import fresh_part
from spark_pulsar.broker.turn.effects import SendMessages
from spark_pulsar.model.positions.entry_sets import EntrySet
from spark_pulsar.model.positions.singles import Singles

from .replay_queues import ReplayQueues, pending_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_pulsar.broker.dispatch.base import EntryRange
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun

    from .selectors import Selector


class KeySharedDispatcher(RedeliveringDispatcher):
    """The dispatcher in order, or in any order with allowOutOfOrderDelivery (KS-11).

    `replay` holds the entries to be redelivered that are in no replay queue yet.
    """

    def __init__(self, core: Core, subscription: Subscription, selector: Selector, *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        """True when sticky hashes that move drain first."""
        self.selector = selector
        self.replay_queues = ReplayQueues(selector, keeps_order=keeps_order)
        self._sorter = EntryReader(core, subscription)
        """Reads entries to be redelivered whose sticky hash is not known yet: those that were delayed."""
        super().__init__(core, subscription)

    def rewind(self) -> None:
        super().rewind()
        self._sorter.reset()
        self.replay_queues.clear()

    # Consumers

    def admit(self, consumer: Consumer) -> None:
        self.selector.join(consumer)

    def attach(self, consumer: Consumer) -> None:
        consumer.pending = EntrySet()
        self.replay_queues.open(consumer)
        if len(self.subscription.consumers) == 1:
            self.rewind()
        else:
            self.replay_queues.reassign()
            self._wake()

    def detach(self, consumer: Consumer) -> None:
        self.selector.leave(consumer)
        waiting = self.replay_queues.close(consumer)
        if self.subscription.consumers:
            self.replay_queues.reassign((waiting, pending_of(consumer)))
        super().detach(consumer)

    def _replay_held(self, consumer: Consumer) -> None:
        """Adds nothing to `replay`: the entries are in the replay queues of their keys' new consumers."""

    # Sending

    def dispatch(self) -> bool:
        if self.subscription.fenced:
            return False
        self._budget = min(self.core.config.max_dispatch_bytes, self.turn_bytes)
        if self.replay:
            self._sort()
        self._send_waiting()
        return self._budget <= 0 or self._send_new_entries()

    def _has_waiting(self) -> bool:
        return bool(self.replay) or any(
            replay_queue and self._can_send_to(consumer) for consumer, replay_queue in self.replay_queues.of.items()
        )

    def _has_new_entries(self) -> bool:
        return self._look_ahead() > 0 and super()._has_new_entries()

    def _sort(self) -> None:
        """Moves entries from `replay` to replay queues; those that must be read for that stay until they are."""
        for ledger_id, first, end in list(self.replay):
            while first < end:
                sticky_hashes = self.replay_queues.sticky_hashes.of(ledger_id, first, end)
                if 0 in sticky_hashes:
                    unknown = sticky_hashes.index(0)
                    if unknown:
                        sticky_hashes = sticky_hashes[:unknown]
                    else:
                        run = self._sorter.find(ledger_id, first)
                        if run is None:
                            return
                        low = first - run.first_entry_id
                        sticky_hashes = self._sticky_hashes_in(run, low, min(len(run.starts), end - run.first_entry_id))
                self.replay_queues.wait(ledger_id, first, sticky_hashes)
                self.replay.remove(ledger_id, first, first + len(sticky_hashes))
                first += len(sticky_hashes)

    def _sticky_hashes_in(self, run: EntryRun, low: int, high: int) -> list[int]:
        """Looks up the sticky hashes of entries of a run, or hashes their keys for the first time."""
        book, first = self.replay_queues.sticky_hashes, run.first_entry_id
        sticky_hashes = book.of(run.ledger_id, first + low, first + high)
        if 0 in sticky_hashes:
            low += sticky_hashes.index(0)
            fresh = self.selector.sticky_hashes.of(run.buffer, run.starts[low:high], run.ends[low:high])
            book.note(run.ledger_id, first + low, fresh)
            sticky_hashes[-len(fresh) :] = fresh
        return sticky_hashes

    def _send_waiting(self) -> None:
        """Sends from the replay queues of consumers that can receive, the oldest entry first: each is read once."""
        queue = [
            (replay_queue.first() or (0, 0), index, consumer)
            for index, (consumer, replay_queue) in enumerate(self.replay_queues.of.items())
            if replay_queue and self._can_send_to(consumer)
        ]
        heapq.heapify(queue)
        while queue and self._budget > 0:
            (ledger_id, first), index, consumer = queue[0]
            run = self.replay_reader.find(ledger_id, first)
            if run is None:
                return
            self._send_from_replay_queue(consumer, run, first)
            following = self.replay_queues.of[consumer].first()
            if following in (None, (ledger_id, first)) or not self._can_send_to(consumer):
                heapq.heappop(queue)
            else:
                heapq.heapreplace(queue, (following, index, consumer))

    def _can_send_to(self, consumer: Consumer) -> bool:
        """Returns whether the first entry of the consumer's replay queue may be sent now."""
        return consumer.can_receive

    def _send_from_replay_queue(self, consumer: Consumer, run: EntryRun, first: int) -> None:
        """Sends the entries of a replay queue that lie in one run, as far as they may be sent, but expired ones."""
        replay_queue, counts, base = self.replay_queues.of[consumer], run.message_counts, run.first_entry_id
        allowance, budget = self._allowance(consumer), self._budget
        entry_ids = replay_queue.between(
            run.ledger_id, first, run.end_entry_id, min(max(1, allowance), self.turn_entries)
        )
        if self.subscription.topic.ttl_monitor is not None:
            entry_ids = self._fresh(run, entry_ids)
        picks = [entry_id - base for entry_id in entry_ids]
        if allowance <= 0 or budget <= 0 or not picks:
            return
        del picks[_fitting(counts, picks, allowance)[0] :]
        starts, ends = run.starts, run.ends
        sizes = [ends[index] - starts[index] for index in picks]
        if sum(sizes) > budget:
            del picks[bisect_left(list(accumulate(sizes)), budget) + 1 :]
            del sizes[len(picks) :]
        self._budget = budget - sum(sizes)
        replay_queue.remove(run.ledger_id, first, base + picks[-1] + 1)
        self._deliver(consumer, run, picks)

    def _fresh(self, run: EntryRun, entry_ids: list[int]) -> list[int]:
        """Drops expired entries from a list of entry ids."""
        fresh: list[int] = []
        for entry_id in entry_ids:
            low = entry_id - run.first_entry_id
            if fresh_part(self.core, self.subscription, run, low, low + 1) == (low, low + 1):
                fresh.append(entry_id)
        return fresh

    def _allowance(self, consumer: Consumer) -> int:
        """Counts the messages that a consumer may be sent now."""
        limit, most = self._consumer_limit(), min(consumer.permits, self.turn_messages)
        return min(most, limit - consumer.unacked) if limit else most

    def _send_new_entries(self) -> bool:
        through = self.visible_through()
        if self.position > through or not self._unacked_allowance():
            return False
        ahead = self._look_ahead()
        # A consumer whose replay queue is not empty gets that first.
        able = any(not queue and consumer.can_receive for consumer, queue in self.replay_queues.of.items())
        return able and ahead > 0 and self._send_new(through, min(MAX_ENTRIES_A_TURN, ahead), self._spread)

    def _look_ahead(self) -> int:
        """Counts the entries that may still be read although none of them can be sent (KS-10)."""
        config = self.core.config
        limit = config.look_ahead_per_subscription
        if config.look_ahead_per_consumer:
            combined = config.look_ahead_per_consumer * len(self.replay_queues.of)
            limit = min(combined, limit) if limit else combined
        return limit - self.replay_count if limit else MAX_ENTRIES_A_TURN

    def _spread(self, ledger_id: int, first: int, end: int) -> int:
        """Sends entries of one ledger to the consumers of their sticky hashes, for the first time; returns the first
        one that was not sent."""
        able = {consumer: messages for consumer in self.replay_queues.of if (messages := self._new_allowance(consumer))}
        while first < end:
            allowance = min(self._unacked_allowance(), self.turn_messages)
            if self._budget <= 0 or allowance <= 0 or self.turn_entries <= 0 or not able:
                break
            run = self.reader.find(ledger_id, first)
            if run is None:
                break
            low = first - run.first_entry_id
            high = min(len(run.starts), end - run.first_entry_id, low + self.turn_entries)
            if self.subscription.topic.ttl_monitor is not None:
                low, high = fresh_part(self.core, self.subscription, run, low, high)
                first = run.first_entry_id + low
                if low == high:
                    continue
            high = fit(run.message_counts, run.ends, low, high, allowance, run.starts[low] + self._budget)
            first = run.first_entry_id + self._spread_run(run, low, high, able)
        return first

    def _new_allowance(self, consumer: Consumer) -> int:
        """Counts the new messages that a consumer may be sent now: none while its replay queue has entries."""
        is_able = not self.replay_queues.of[consumer] and consumer.can_receive
        return max(0, self._allowance(consumer)) if is_able else 0

    def _spread_run(self, run: EntryRun, low: int, high: int, able: dict[Consumer, int]) -> int:
        """Sends entries of a run to consumers, by the messages that each may have, until none of them may have more.
        `able` is kept current for those that the run has entries for: producers that take turns make runs of one entry,
        which must not cost a step for each consumer."""
        dealt = self._dealt(self._sticky_hashes_in(run, low, high), low)
        fits = {
            owner: _fitting(run.message_counts, indexes, min(able[owner], self.turn_messages))
            for owner, indexes in dealt.items()
            if owner in able
        }
        if len(fits) == len(able) and all(is_all for _, is_all in fits.values()):
            high = max(dealt[consumer][entries - 1] for consumer, (entries, _) in fits.items()) + 1
        ledger_id, first = run.ledger_id, run.first_entry_id
        for owner, indexes in dealt.items():
            entries, _ = fits.get(owner, (0, False))  # type: ignore[arg-type]
            if entries < len(indexes):
                if waiting := indexes[entries : bisect_left(indexes, high)]:
                    self.replay_queues.wait_for(owner, ledger_id, [first + index for index in waiting])
                indexes = indexes[:entries]
            if owner is not None and indexes:
                self._deliver(owner, run, indexes)
            if owner in able and not (messages := self._new_allowance(owner)):
                del able[owner]
            elif owner in able:
                able[owner] = messages
        self._budget -= run.ends[high - 1] - run.starts[low]
        return high

    def _dealt(self, sticky_hashes: list[int], low: int) -> dict[Consumer | None, list[int]]:
        """Groups entries of a run from `low` on by the consumers of their sticky hashes; under None those to park."""
        table, owners = self.selector.table()
        numbers = [*map(table.__getitem__, sticky_hashes)]
        draining = self.replay_queues.draining
        if draining and not draining.keys().isdisjoint(sticky_hashes):
            numbers = [
                0 if sticky_hash in draining else number
                for sticky_hash, number in zip(sticky_hashes, numbers, strict=True)
            ]
        if numbers.count(numbers[0]) == len(numbers):
            return {owners[numbers[0]]: [*range(low, low + len(numbers))]}
        lists: list[list[int]] = [[] for _ in owners]
        adding = [share.append for share in lists]
        for index, number in enumerate(numbers, low):
            adding[number](index)
        return {owner: indexes for owner, indexes in zip(owners, lists, strict=True) if indexes}

    def _deliver(self, consumer: Consumer, run: EntryRun, indexes: list[int]) -> None:
        """Sends some entries of a run to a consumer, which holds them until they are acknowledged."""
        ledger_id, first = run.ledger_id, run.first_entry_id
        entry_ids = [first + index for index in indexes]
        starts, ends = [*map(run.starts.__getitem__, indexes)], [*map(run.ends.__getitem__, indexes)]
        counts = None if run.message_counts is None else [*map(run.message_counts.__getitem__, indexes)]
        messages = len(indexes) if counts is None else sum(counts)
        cursor = self.subscription.cursor
        redelivered, sets = cursor.redelivered.get(ledger_id), cursor.sets_to_send(ledger_id, entry_ids)
        self.core.effects.append(
            SendMessages(
                consumer.session.session_id,
                consumer.consumer_id,
                ledger_id,
                entry_ids[0],
                self.subscription.topic.partition,
                run.buffer,
                starts,
                ends,
                values_of(redelivered, entry_ids, 0),
                values_of(sets, entry_ids, None),
                None,
                entry_ids,
            )
        )
        self._hold(consumer, ledger_id, entry_ids, counts)
        self._note_unacked()
        self.count_sent(consumer, len(indexes), messages, sum(ends) - sum(starts))
        self.count_chunks(consumer, run, indexes)
        limit = self._consumer_limit()
        if limit and consumer.unacked >= limit:
            consumer.blocked = True

    def _hold(self, consumer: Consumer, ledger_id: int, entry_ids: list[int], counts: list[int] | None) -> None:
        """Notes that the consumer holds these entries, or of batches their unacknowledged messages."""
        pending_of(consumer).add_all(ledger_id, entry_ids)
        if counts is None:
            consumer.unacked += len(entry_ids)
            return
        sets = self.subscription.cursor.sets_to_send(ledger_id, entry_ids) or {}
        batches = consumer.batch_messages.setdefault(ledger_id, {})
        for entry_id, count in zip(entry_ids, counts, strict=True):
            bits = sets.get(entry_id)
            left = count if bits is None else max(1, min(count, bits.bit_count()))
            batches[entry_id] = left
            consumer.unacked += left

    # Acknowledgements

    def _release(self, consumer: Consumer, ledger_id: int, first: int, end: int) -> int:
        if self.replay_queues.draining and self.replay_queues.release(consumer, ledger_id, first, end):
            self._wake()
        return super()._release(consumer, ledger_id, first, end)

    def _release_each(self, consumer: Consumer, singles: Singles) -> Sequence[EntryRange]:
        """Releases the acknowledged entries of a consumer at once. Returns those that are left to `_release`: the ones
        that it does not hold, or all when a sticky hash drains."""
        ledger_id, entry_ids = singles.ledger_id, singles.entry_ids
        draining = self.replay_queues.draining
        if draining and not draining.keys().isdisjoint(self.replay_queues.sticky_hashes.of_each(ledger_id, entry_ids)):
            return singles
        held = pending_of(consumer).between(ledger_id, entry_ids[0], entry_ids[-1] + 1)
        if consumer.release_each(ledger_id, entry_ids) == len(entry_ids):
            return ()
        others = sorted(set(entry_ids).difference(held))
        return Singles(ledger_id, others) if others else ()

    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None:
        if isinstance(ranges, Singles):
            ranges = self._release_each(consumer, ranges)
        for ledger_id, first, end in ranges:
            held = self._release(consumer, ledger_id, first, end)
            if held < end - first:  # any consumer may ack entries that another holds, or waiting ones (ACK-1)
                for other in self.subscription.consumers:
                    if other is not consumer and self._release(other, ledger_id, first, end):
                        self._unblock(other)
                self.replay.remove(ledger_id, first, end)
                if self.replay_queues.withdraw([(ledger_id, first, end)]):
                    self._wake()
        self._unblock(consumer)
        if self._is_blocked:
            self._wake()
        mark_delete = self.subscription.cursor.mark_delete
        self.replay_queues.sticky_hashes.remove_before(mark_delete.ledger_id, mark_delete.entry_id + 1)

    def released(self, ranges: Iterable[EntryRange]) -> None:
        ranges = list(ranges)
        self.replay_queues.withdraw(ranges)  # queued while delayed delivery was switched off
        super().released(ranges)

    def expired(self, ranges: Iterable[EntryRange]) -> None:
        ranges = list(ranges)
        super().expired(ranges)
        if self.replay_queues.withdraw(ranges):
            self._wake()

    def passed(self) -> None:
        super().passed()
        self.replay_queues.remove_through(self.subscription.cursor.mark_delete)
        self._wake()  # entries that a sticky hash drained may be gone (KS-15)

    @property
    def replay_count(self) -> int:
        return self.replay.count() + self.replay_queues.count()

    def check(self) -> None:
        super().check()
        self.replay_queues.check(self.subscription.consumers)


def _fitting(counts: Sequence[int] | None, indexes: Sequence[int], messages: int) -> tuple[int, bool]:
    """Counts the entries of a run that fit into `messages`, the one that exceeds them included (SUB-4), and returns
    whether no more fit after them."""
    if counts is None:
        return min(len(indexes), messages), len(indexes) >= messages
    sums = [*accumulate(map(counts.__getitem__, indexes))]
    return min(len(indexes), bisect_left(sums, messages) + 1), bool(sums) and sums[-1] >= messages
