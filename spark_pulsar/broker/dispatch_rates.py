"""How fast consumers are sent messages: those of a subscription, of a topic, of all topics together (SUB-7).

Each rate has a bucket of messages and one of bytes. A subscription is let send while no bucket is empty, and then no
more than they hold, but at least one entry: a batch larger than a bucket goes too, and those after it wait the longer.
Nothing is held back anywhere: what may not be sent yet is not read. Non-persistent topics, which would have to drop
what comes too fast, are not limited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.model.dispatch_rates import DispatchRate, SubscribeRate

from .buckets import Bucket
from .subscribe_rates import SubscribeLimit

if TYPE_CHECKING:
    from .core import Core
    from .subscriptions import Subscription
    from .topics import Topic

UNLIMITED: Final = 1 << 62
_LEAST_WAIT_MS: Final = 10
"""So that a high rate is not used up token by token."""


class RateLimit:
    """One rate and what is left of it."""

    def __init__(self, core: Core, rate: DispatchRate, level: str) -> None:
        self._core = core
        self.rate = rate
        self.level = level
        """Subscription, Topic or Broker: as the members of statistics are called."""
        self.messages = Bucket(max(0, rate.messages), rate.period_s)
        self.bytes = Bucket(max(0, rate.bytes), rate.period_s)
        self._filled_ms = core.now_ms

    def refill(self) -> None:
        """Fill both buckets up to now."""
        elapsed_ms = self._core.now_ms - self._filled_ms
        self._filled_ms = self._core.now_ms
        self.messages.refill(elapsed_ms)
        self.bytes.refill(elapsed_ms)

    def take(self, messages: int, size_bytes: int) -> None:
        """So much was sent."""
        self.messages.take(messages)
        self.bytes.take(size_bytes)


class DispatchLimits:
    """What limits the subscriptions of one topic and those who subscribe."""

    def __init__(
        self,
        core: Core,
        of_all: RateLimit | None,
        of_topic: DispatchRate,
        of_subscription: DispatchRate,
        of_consumers: SubscribeRate,
    ) -> None:
        self._core = core
        self.rates = of_topic, of_subscription, of_consumers
        self.subscribers = SubscribeLimit(core, of_consumers) if of_consumers.is_limited else None
        """How often each consumer may subscribe, when that is limited (SUB-6)."""
        shared = [RateLimit(core, of_topic, "Topic")] if of_topic.is_limited else []
        self._shared = shared if of_all is None else [*shared, of_all]
        """Of all subscriptions of the topic."""
        self._own: dict[Subscription, RateLimit] = {}
        self._waiting: set[Subscription] = set()
        """Those that are woken when they may go on."""

    def dispatch(self, subscription: Subscription) -> bool:
        """Let a subscription send what the rates allow; the answer of its dispatcher."""
        limits = self._of(subscription)
        for limit in limits:
            limit.refill()
        if self._has_to_wait(subscription, limits, 0):
            return False
        dispatcher = subscription.dispatcher
        messages = min((each.messages.tokens for each in limits if each.messages.rate), default=UNLIMITED)
        size_bytes = min((each.bytes.tokens for each in limits if each.bytes.rate), default=UNLIMITED)
        dispatcher.turn_messages, dispatcher.turn_bytes = messages, size_bytes
        more = dispatcher.dispatch()
        messages, size_bytes = messages - dispatcher.turn_messages, size_bytes - dispatcher.turn_bytes
        dispatcher.turn_messages = dispatcher.turn_bytes = UNLIMITED
        for limit in limits:
            limit.take(messages, size_bytes)
        # Who was served comes after those who were not.
        return not self._has_to_wait(subscription, limits, 1) and more

    def end(self, topic: Topic) -> None:
        """There are no such limits any more."""
        for subscription in topic.subscriptions.values():
            self._core.wake(subscription)

    def _of(self, subscription: Subscription) -> list[RateLimit]:
        rate = self.rates[1]
        if not rate.is_limited:
            return self._shared
        own = self._own.get(subscription)
        if own is None:
            present = subscription.topic.subscriptions.values()
            self._own = {each: limit for each, limit in self._own.items() if each in present}
            own = self._own[subscription] = RateLimit(self._core, rate, "Subscription")
        return [own, *self._shared]

    def _has_to_wait(self, subscription: Subscription, limits: list[RateLimit], longer_ms: int) -> bool:
        """Whether a bucket is empty; if so the subscription is woken when none is."""
        wait_ms = 0
        for limit in limits:
            for bucket, what in ((limit.messages, "Msg"), (limit.bytes, "Bytes")):
                if bucket.wait_ms:
                    wait_ms = max(wait_ms, bucket.wait_ms)
                    subscription.note_throttled(f"dispatchThrottled{what}EventsBy{limit.level}Limit")
        if not wait_ms:
            return False
        if subscription not in self._waiting:
            self._waiting.add(subscription)

            def go_on() -> None:
                self._waiting.discard(subscription)
                self._core.wake(subscription)

            self._core.at(self._core.now_ms + max(wait_ms, _LEAST_WAIT_MS) + longer_ms, go_on)
        return True


def of_all(core: Core) -> RateLimit | None:
    """The limit of all topics together, if the configuration has one."""
    config = core.config
    rate = DispatchRate(config.dispatch_rate_messages, config.dispatch_rate_bytes)
    return RateLimit(core, rate, "Broker") if rate.is_limited else None


def adopt(core: Core, topic: Topic) -> None:
    """A topic came into use, or its policies are others: limit it as they say."""
    policies = core.policies_of(topic.name)
    of_topic, of_subscription = policies.dispatch_rate, policies.subscription_dispatch_rate
    of_all = core.dispatch_limit
    if topic.live is not None:
        of_all = of_topic = of_subscription = None
    rates = of_topic or DispatchRate(), of_subscription or DispatchRate(), policies.subscribe_rate or SubscribeRate()
    limits = topic.dispatch_limits
    if limits is not None and limits.rates == rates:
        return
    is_limited = any(rate.is_limited for rate in rates) or of_all is not None
    topic.dispatch_limits = DispatchLimits(core, of_all, *rates) if is_limited else None
    if limits is not None:
        limits.end(topic)
