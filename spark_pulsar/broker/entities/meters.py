"""Meters: rates of the counters of topics, producers, subscriptions and consumers (ST-7).

Nothing is done when messages pass: a timer compares each counter with its value one interval before
(`statsUpdateFrequencyInSecs`, as in Apache Pulsar), some topics in each turn. A rate is that of the last whole
interval, of something younger since it came; it is 0 before its first sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .consumer import Consumer
    from .producer import Producer
    from .subscription import Subscription
    from .topic import Topic


class Published(NamedTuple):
    """Rates of a topic or a producer, per second."""

    messages: float = 0.0
    bytes: float = 0.0
    stored: float = 0.0
    """Entries stored; of a topic only."""
    chunks: float = 0.0
    """Chunks of large messages; of a producer only."""

    @property
    def average_message_bytes(self) -> float:
        """Average size of a message; 0 without messages."""
        return self.bytes / self.messages if self.messages else 0.0


class Delivered(NamedTuple):
    """Rates of a subscription, per second; `Consumed` has those that are summed over its consumers."""

    messages: float = 0.0
    bytes: float = 0.0
    expired: float = 0.0
    """Expired entries."""
    dropped: float = 0.0
    """Messages dropped for lack of permits (NP-3)."""
    read: float = 0.0
    """Entries sent."""


class Consumed(NamedTuple):
    """Rates of a consumer, per second."""

    messages: float = 0.0
    bytes: float = 0.0
    redelivered: float = 0.0
    """Messages redelivered at its request."""
    acked: float = 0.0
    """Messages acknowledged; outside Shared subscriptions acks, of which a cumulative one counts as one."""
    chunks: float = 0.0
    """Chunks of large messages."""


class Meter:
    """Counters of one entity at the last sample, and their rates until then."""

    __slots__ = ("_counted", "_since_ms", "per_second")

    def __init__(self, since_ms: int, counted: tuple[int, ...] = ()) -> None:
        self._since_ms = since_ms
        self._counted = counted
        self.per_second: tuple[float, ...] = ()
        """Rate of each counter; empty when none grew."""

    def sample(self, now_ms: int, counted: tuple[int, ...]) -> None:
        """Samples the counters; counters that were never sampled were 0."""
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms <= 0:
            return
        before = self._counted or (0,) * len(counted)
        if counted == before:
            self.per_second = ()
        else:
            self.per_second = tuple((new - old) * 1000 / elapsed_ms for new, old in zip(counted, before, strict=True))
            self._counted = counted
        self._since_ms = now_ms


def published(thing: Topic | Producer) -> Published:
    """Returns the publish rates of a topic or producer."""
    return Published(*thing.meter.per_second)


def delivered(subscription: Subscription) -> Delivered:
    """Returns the rates of a subscription, consumers that left within the interval included."""
    return Delivered(*subscription.meter.per_second)


def consumed(consumer: Consumer) -> Consumed:
    """Returns the rates of a consumer."""
    return Consumed(*consumer.meter.per_second)
