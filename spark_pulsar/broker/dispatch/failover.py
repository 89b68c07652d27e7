"""Dispatcher of Failover subscriptions: one of many consumers is active and gets everything, in storage order; when it
goes, the next one does (FO-1 ... FO-7).

The active consumer depends only on the connected ones, so that the partitions of a topic are spread over its consumers
and each consumer finds the same place again after a reconnect.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
from typing import TYPE_CHECKING, Final

from spark_pulsar.wire.keys.murmur3 import MASK, murmur3_32
from spark_pulsar.wire.protocol import commands

from .compacted import CompactedDispatcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.turn.turn import Timer

    from .base import EntryRange

_POINTS: Final = 100
"""Points of one consumer on the hash ring."""
_VERSION_WITH_CHANGES: Final = 12
"""Protocol version from which a client knows ACTIVE_CONSUMER_CHANGE."""


class FailoverDispatcher(CompactedDispatcher):
    """Sends to the active consumer; the compacted view if it reads that."""

    def __init__(self, core: Core, subscription: Subscription) -> None:
        self._active: Consumer | None = None
        self._has_started = False
        """True when the active consumer was notified, and gets entries."""
        self._start: Timer | None = None
        """Timer of a new active consumer that may not start yet (FO-6)."""
        self._distances: dict[Consumer, int] = {}
        """Distance from the topic's place on the ring to each consumer's first point."""
        self._on_ring: list[Consumer] = []
        """All consumers by priority, then by that distance, then by name, then as they came."""
        self._topic_point = murmur3_32(subscription.topic.full_name.encode())
        super().__init__(core, subscription)

    @property
    def active_consumer(self) -> Consumer | None:
        return self._active

    def receiver(self) -> Consumer | None:
        active = self._active
        if active is None or self._start is not None:
            return None
        if not self._has_started:
            if not active.ready:
                return None
            self._has_started = True
            self.rewind()
            for consumer in self.subscription.consumers:
                self._notify(consumer)
        return super().receiver()

    def begin(self) -> None:
        self.receiver()

    def attach(self, consumer: Consumer) -> None:
        consumers = self.subscription.consumers
        assert consumers.pop() is consumer, "a consumer that joins is the last one"
        insort_right(consumers, consumer, key=_by_name)  # thousands may come: nothing here visits all of them
        self._distances[consumer] = self._distance(consumer)
        insort_right(self._on_ring, consumer, key=self._by_distance)
        if not self._choose():
            self._notify(consumer)  # that it has to wait, before its SUCCESS (FO-5)

    def detach(self, consumer: Consumer) -> None:
        at = bisect_left(self._on_ring, self._by_distance(consumer), key=self._by_distance)
        del self._on_ring[self._on_ring.index(consumer, at)]
        del self._distances[consumer]
        self._choose()

    def _by_distance(self, consumer: Consumer) -> tuple[int, int, str]:
        return consumer.priority, self._distances[consumer], consumer.name

    def _choose(self) -> bool:
        """Makes the consumer active whose turn it is; a new one starts after a delay (FO-6). False when it was active
        already.

        Unacknowledged entries of the old one are redelivered, from mark-delete on; its acks still count.
        """
        consumers = self.subscription.consumers
        chosen = self._candidate(consumers) if consumers else None
        if chosen is self._active:
            return False
        self._active = chosen
        self._has_started = False
        self.rewind()
        self._compacted_reader.reset()
        core = self.core
        delay_ms = self.start_delay_ms
        if chosen is None:
            if self._start is not None:
                self._start.cancel()
                self._start = None
        elif self._start is None and delay_ms > 0:
            self._start = core.at(core.now_ms + delay_ms, self._delay_is_over)
        return True

    @property
    def start_delay_ms(self) -> int:
        """Milliseconds that a new active consumer waits (FO-6)."""
        return self.core.config.failover_delay_ms

    def _delay_is_over(self) -> None:
        self._start = None
        self._wake()

    def _candidate(self, consumers: list[Consumer]) -> Consumer:
        """Finds the consumer whose turn it is, among those of the best priority (FO-2): by the index of the partition
        (FO-3), or on a ring, where it is the first one behind the topic (FO-4, X11)."""
        partition = self.subscription.topic.partition
        if partition >= 0 and not self.core.config.failover_ring_for_partitions:
            best = bisect_right(consumers, consumers[0].priority, key=lambda consumer: consumer.priority)
            return consumers[partition % best]
        first = self._on_ring[0]
        nearest = first.priority, self._distances[first]
        return self._on_ring[
            bisect_right(self._on_ring, nearest, key=lambda consumer: self._by_distance(consumer)[:2]) - 1
        ]

    def _distance(self, consumer: Consumer) -> int:
        return min(
            (murmur3_32(f"{consumer.name}{point}".encode()) - self._topic_point) & MASK for point in range(_POINTS)
        )

    def _notify(self, consumer: Consumer) -> None:
        """Sends ACTIVE_CONSUMER_CHANGE (FO-5)."""
        if consumer.session.protocol_version >= _VERSION_WITH_CHANGES:
            change = commands.active_consumer_change(consumer.consumer_id, consumer is self._active)
            self.core.send(consumer.session, change)

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Redelivers to the active consumer; others only raise their epoch (NACK-2, A19)."""
        if consumer is self._active:
            super().redeliver(consumer, ranges, epoch)
        else:
            consumer.raise_epoch(epoch)

    def check(self) -> None:
        consumers = self.subscription.consumers
        assert self._active in consumers, "the active consumer is connected"
        assert consumers == sorted(consumers, key=_by_name)
        assert self._distances.keys() == set(consumers) == set(self._on_ring)
        assert len(self._on_ring) == len(consumers)
        assert self._on_ring == sorted(consumers, key=self._by_distance)
        assert all(not consumer.pending for consumer in consumers), "only Shared keeps pending entries"


def _by_name(consumer: Consumer) -> tuple[int, str]:
    return consumer.priority, consumer.name
