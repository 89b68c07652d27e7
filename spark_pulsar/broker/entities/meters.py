"""Rates: how fast the counters of topics, producers, subscriptions and consumers grew (section 17).

Nothing is done when messages pass: a timer compares each counter with what it was one interval before
(`statsUpdateFrequencyInSecs`, as in Apache Pulsar), some topics in each turn. A rate is that of the last whole
interval, of something younger since it came; it is 0 before its first look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .consumer import Consumer
    from .producer import Producer
    from .subscription import Subscription
    from .topic import Topic


class Published(NamedTuple):
    """Of a topic or a producer, per second."""

    messages: float = 0.0
    bytes: float = 0.0
    stored: float = 0.0
    """Entries that its ledgers took; of a topic only."""
    chunks: float = 0.0
    """Chunks of large messages; of a producer only."""

    @property
    def average_message_bytes(self) -> float:
        """0 when nothing came."""
        return self.bytes / self.messages if self.messages else 0.0


class Delivered(NamedTuple):
    """Of a subscription, per second; what its consumers do beside is summed over them (`Consumed`)."""

    messages: float = 0.0
    bytes: float = 0.0
    expired: float = 0.0
    """Entries."""
    dropped: float = 0.0
    """Messages that nobody could take (NP-3)."""
    read: float = 0.0
    """Entries that its messages and bytes were in."""


class Consumed(NamedTuple):
    """Of a consumer, per second."""

    messages: float = 0.0
    bytes: float = 0.0
    redelivered: float = 0.0
    """Messages that it gave back."""
    acked: float = 0.0
    """Messages that it acked; outside Shared subscriptions acks, of which a cumulative one counts as one."""
    chunks: float = 0.0
    """Chunks of large messages."""


class Meter:
    """The counters of one thing when they were looked at last, and how fast they had grown until then."""

    __slots__ = ("_counted", "_since_ms", "per_second")

    def __init__(self, since_ms: int, counted: tuple[int, ...] = ()) -> None:
        self._since_ms = since_ms
        self._counted = counted
        self.per_second: tuple[float, ...] = ()
        """One for each counter; empty when none grew."""

    def look(self, now_ms: int, counted: tuple[int, ...]) -> None:
        """Take the counters of this moment; counters that were never looked at were 0."""
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
    """What comes to a topic, or from a producer."""
    return Published(*thing.meter.per_second)


def delivered(subscription: Subscription) -> Delivered:
    """What goes to the consumers of a subscription, those that left within the interval too."""
    return Delivered(*subscription.meter.per_second)


def consumed(consumer: Consumer) -> Consumed:
    """What goes to a consumer, and what it answers."""
    return Consumed(*consumer.meter.per_second)
