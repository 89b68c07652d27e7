"""Dispatcher of Exclusive subscriptions and readers: one consumer gets everything, in storage order (EX-1 ... EX-4,
RD-1). Failover is built on it."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, ClassVar

from spark_pulsar.broker.message_lifetime.ttl import fresh_part
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.keys.murmur3 import range_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes

from .base import Dispatcher, fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.ledger.entries import EntryRun

    from .base import EntryRange

_MAX_ENTRIES_A_TURN = 4_096


class HashFilter:
    """Hash ranges of an Exclusive consumer, which may overlap or be empty: it gets the entries whose sticky hash is in
    one of them, no others (RD-6)."""

    _sticky_hashes: ClassVar = StickyHashes(range_hash)

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if start > end:
                continue
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def stretches(self, run: EntryRun, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Finds the parts of entries `low … high - 1` of a run that are wanted, as long as they may be."""
        hashes = self._sticky_hashes.of(run.buffer, run.starts[low:high], run.ends[low:high])
        begin = -1
        for index, sticky_hash in enumerate(hashes, low):
            is_wanted = self._holds(sticky_hash)
            if is_wanted and begin < 0:
                begin = index
            elif not is_wanted and begin >= 0:
                yield begin, index
                begin = -1
        if begin >= 0:
            yield begin, high

    def _holds(self, sticky_hash: int) -> bool:
        index = bisect_right(self._starts, sticky_hash) - 1
        return index >= 0 and sticky_hash <= self._ends[index]


class ExclusiveDispatcher(Dispatcher):
    """Sends from the read position on; going back to mark-delete is its only way to redeliver (EX-2, EX-3, RC-2)."""

    hash_filter: HashFilter | None = None
    """Filter by the hash ranges that an Exclusive consumer names (RD-6); of Failover they mean nothing."""

    def attach(self, consumer: Consumer) -> None:
        self.hash_filter = HashFilter(consumer.hash_ranges) if consumer.hash_ranges else None
        self.rewind()

    def detach(self, consumer: Consumer) -> None:
        self.reader.reset()

    @property
    def active_consumer(self) -> Consumer | None:
        consumers = self.subscription.consumers
        return consumers[0] if consumers else None

    def receiver(self) -> Consumer | None:
        """Finds the active consumer, if it may be sent messages now."""
        consumer = self.active_consumer
        return consumer if consumer is not None and consumer.can_receive and not self.subscription.fenced else None

    def dispatch(self) -> bool:
        consumer = self.receiver()
        if consumer is None:
            return False
        through = self.visible_through()
        if self.position > through:
            return False
        budget = min(self.core.config.max_dispatch_bytes, self.turn_bytes)
        wanted = min(consumer.permits, _MAX_ENTRIES_A_TURN, self.turn_messages, self.turn_entries)
        ranges = self.subscription.cursor.unacked(self.position, through, wanted)
        for ledger_id, first, end in ranges:
            while first < end:
                run = self.reader.find(ledger_id, first)
                if run is None:
                    self.position = Position(ledger_id, first)
                    return False
                low = first - run.first_entry_id
                high = min(len(run.starts), end - run.first_entry_id)
                if self.subscription.topic.ttl_monitor is not None:
                    low, high = fresh_part(self.core, self.subscription, run, low, high)
                    first = run.first_entry_id + low
                    self.position = Position(ledger_id, first)
                    if low == high:
                        continue
                messages = min(consumer.permits, self.turn_messages)
                high = fit(run.message_counts, run.ends, low, high, messages, run.starts[low] + budget)
                self.send_wanted(consumer, run, low, high)
                budget -= run.ends[high - 1] - run.starts[low]
                first = run.first_entry_id + high
                self.position = Position(ledger_id, first)
                if consumer.permits <= 0 or self.turn_messages <= 0:
                    return False
                if budget <= 0:
                    return True
        return self.is_more_after(ranges, wanted, through)

    def send_wanted(self, consumer: Consumer, run: EntryRun, low: int, high: int) -> None:
        """Sends entries `low … high - 1` of a run, as far as the consumer wants them. Others stay unacknowledged."""
        stretches = ((low, high),) if self.hash_filter is None else self.hash_filter.stretches(run, low, high)
        for start, end in stretches:
            self.send_part(consumer, run, start, end, with_counts=False)

    def has_work(self) -> bool:
        return self.receiver() is not None and self.position <= self.visible_through()

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Redelivers everything unacknowledged: single entries cannot be (NACK-2, TMO-2, NACK-7)."""
        consumer.raise_epoch(epoch)
        self.rewind()
        self.core.wake(self.subscription)

    def check(self) -> None:
        assert len(self.subscription.consumers) <= 1, "an Exclusive subscription has one consumer"
        assert all(not consumer.pending for consumer in self.subscription.consumers), (
            "only Shared keeps pending entries"
        )
