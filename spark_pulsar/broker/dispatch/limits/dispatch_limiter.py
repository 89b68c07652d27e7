"""Dispatch limiter: one dispatch rate, and the line of subscriptions that wait for it (SUB-7).

A subscription that wants to send stands in the line of each rate that holds for it, the narrowest first. It sends when
it is first in all of them and no bucket is empty, and then leaves them: if it has more to send it goes to the end. So
each one gets a turn, and of many that wait the broker examines only those that can send: one timer for each rate wakes
the first one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities.meters import published
from spark_pulsar.broker.turn.token_bucket import TokenBucket, believable_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.broker.entities import features
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.model.policies.effective_policies import DispatchRate

UNLIMITED: Final = 1 << 62
_LEAST_WAIT_MS: Final = 10
"""Shortest wait, so that a high rate is not used up token by token."""
_LEAST_SHARE: Final = 100, 64 * 1024
"""Least messages and bytes of a turn, if the buckets hold that many, for any number of waiting subscriptions."""


class DispatchLimiter:
    """One dispatch rate, its token buckets, and the subscriptions that wait for it."""

    def __init__(self, core: Core, rate: DispatchRate, level: str, topic: Topic | None = None) -> None:
        """Begins with full buckets; `topic`: the one that a relative rate is relative to."""
        self._core = core
        self._topic = topic if rate.is_relative else None
        self.rate = rate
        self.level = level
        """Subscription, Topic or Broker, as in the members of statistics."""
        messages, size_bytes = self._rates()
        self.messages = TokenBucket(messages, rate.seconds)
        self.bytes = TokenBucket(size_bytes, rate.seconds)
        self._filled_ms = core.now_ms
        self.line: OrderedDict[Subscription, None] = OrderedDict()
        """Subscriptions that want to send, in order. The first is awake, or waits for another rate, or for the
        timer."""
        self._timer: Timer | None = None

    @property
    def wait_ms(self) -> int:
        """Milliseconds until no bucket is empty."""
        return max(self.messages.wait_ms, self.bytes.wait_ms)

    def blocks(self, subscription: Subscription) -> bool:
        """Returns whether a subscription has to wait for this rate: a bucket is empty, or another one is first in
        line."""
        self._refill()
        return self.wait_ms > 0 or next(iter(self.line), subscription) is not subscription

    def keeps_waiting(self, subscription: Subscription) -> bool:
        """Returns whether a subscription in the line can wait unchecked: the line wakes it when its turn has come."""
        return self._timer is not None or next(iter(self.line)) is not subscription

    def stand_in_line(self, subscription: Subscription) -> None:
        """Puts a subscription into the line; it keeps a place that it has."""
        if subscription not in self.line:
            self.line[subscription] = None
            if self.blocks(subscription):
                for what, bucket in (("Msg", self.messages), ("Bytes", self.bytes)):
                    if bucket.wait_ms or (bucket.rate and not self.wait_ms):
                        subscription.note_throttled(f"dispatchThrottled{what}EventsBy{self.level}Limit")
        if self.wait_ms and self._timer is None:
            self._set_timer()

    def leave(self, subscription: Subscription) -> None:
        """Takes a subscription out of the line and wakes the next one."""
        was_first = next(iter(self.line), None) is subscription
        self.line.pop(subscription, None)
        if not self.line:
            self._cancel_timer()
        elif was_first:
            self._wake_first()

    def share(self) -> tuple[int, int]:
        """Messages and bytes that the first in line may be sent in its turn."""
        waiting = len(self.line)
        messages, size_bytes = (
            UNLIMITED if not bucket.rate else max(bucket.tokens // max(1, waiting), min(bucket.tokens, least))
            for bucket, least in zip((self.messages, self.bytes), _LEAST_SHARE, strict=True)
        )
        return messages, size_bytes

    def spend(self, messages: int, size_bytes: int) -> None:
        """Spends tokens for messages and bytes that were sent."""
        self.messages.spend(believable_messages(messages, size_bytes))
        self.bytes.spend(size_bytes)

    def check(self, onward: Sequence[features.DispatchLimiter]) -> None:
        """Asserts that the line does not stand still; `onward` are the rates after this one."""
        first = next(iter(self.line), None)
        assert (
            first is None
            or self._timer is not None
            or self._core.is_awake(first)
            or any(first in limit.line for limit in onward)
        ), f"nothing wakes {first.name}, which waits for the rate of its {self.level.lower()} (SUB-7)"

    def _rates(self) -> tuple[int, int]:
        """Messages and bytes in a period: those of the policy, and those published if it is relative."""
        messages, size_bytes = max(0, self.rate.messages), max(0, self.rate.bytes)
        if self._topic is not None:
            came = published(self._topic)
            messages += int(came.messages * self.rate.seconds) if messages else 0
            size_bytes += int(came.bytes * self.rate.seconds) if size_bytes else 0
        return messages, size_bytes

    def _refill(self) -> None:
        """Fills both buckets up to now, at the present rate."""
        elapsed_ms = self._core.now_ms - self._filled_ms
        if elapsed_ms:
            if self._topic is not None:
                self.messages.rate, self.bytes.rate = self._rates()
            self._filled_ms = self._core.now_ms
            self.messages.refill(elapsed_ms)
            self.bytes.refill(elapsed_ms)

    def _set_timer(self) -> None:
        wait_ms = max(self.wait_ms, _LEAST_WAIT_MS)
        if self._topic is not None:  # the rate may be another then
            wait_ms = min(wait_ms, self._core.config.stats_interval_ms)
        self._timer = self._core.at(self._core.now_ms + wait_ms, self._time_is_over)

    def _cancel_timer(self) -> None:
        """Cancels the timer of an empty line: it would be kept until its time, which may be hours away."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_over(self) -> None:
        self._timer = None
        self._wake_first()

    def _wake_first(self) -> None:
        if not self.line or self._timer is not None:
            return
        self._refill()
        if self.wait_ms:
            self._set_timer()
        else:
            self._core.wake(next(iter(self.line)))
