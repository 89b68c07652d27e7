"""Dispatch rates of subscriptions, topics and the broker (SUB-7).

Each rate has a bucket of messages and one of bytes. A subscription sends while no bucket is empty, and then no more
than they hold, but at least one entry: a batch larger than a bucket goes too, and later ones wait the longer. Entries
that may not be sent yet are not read. Non-persistent topics, which would have to drop them, are not limited.

The configuration may spare subscriptions without backlog: no rate limits them, and their messages count for none. As in
Apache Pulsar, the broker checks the backlog when a consumer joins and whenever it samples statistics; here also when
rates change.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from spark_pulsar.model.policies.effective_policies import DispatchRate, SubscribeRate

from .dispatch_limiter import UNLIMITED, DispatchLimiter
from .subscribe_rates import SubscribeLimit

if TYPE_CHECKING:
    from spark_pulsar.broker.entities import features
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic


class Rates(NamedTuple):
    """Rates of one topic by its policies."""

    topic: DispatchRate = DispatchRate()
    """Rate of all subscriptions of the topic together."""
    subscription: DispatchRate = DispatchRate()
    """Rate of each subscription ..."""
    by_name: Mapping[str, DispatchRate] = MappingProxyType({})
    """... but those with a rate of their own."""
    consumers: SubscribeRate = SubscribeRate()


class DispatchLimits:
    """Dispatch limits of one topic, its subscriptions and its subscribers. Unchanged rates of `before` go on."""

    def __init__(self, core: Core, topic: Topic, rates: Rates, before: DispatchLimits | None = None) -> None:
        self.rates = rates
        self._core = core
        self._topic = topic
        self._of_topic: DispatchLimiter | None = None
        self._own: dict[Subscription, DispatchLimiter] = {}
        self._in_line: dict[Subscription, list[features.DispatchLimiter]] = {}
        """Subscriptions that wait, and the rates in whose lines they stand; each waits for the last of them."""
        self._spared: set[Subscription] = set()
        """Subscriptions without backlog at the last check, when these are not limited."""
        self.subscribers: SubscribeLimit | None = None
        """Subscribe rate, when there is one (SUB-6)."""
        if before is not None:
            self._own = {
                subscription: limit
                for subscription, limit in before._own.items()
                if limit.rate == self._rate_of(subscription)
            }
            self._of_topic = before._of_topic if before.rates.topic == rates.topic else None
            self.subscribers = before.subscribers if before.rates.consumers == rates.consumers else None
        if self._of_topic is None and rates.topic.is_limited:
            self._of_topic = DispatchLimiter(core, rates.topic, "Topic", topic)
        if self.subscribers is None:
            self.reset_subscribers()
        self.of_all = _of_all_for(core, topic)
        """Limiter of all topics together, if it limits this one."""
        self._shared: list[features.DispatchLimiter] = [
            limit for limit in (self._of_topic, self.of_all) if limit is not None
        ]
        """Limiters that all subscriptions of the topic share."""

    @property
    def limits_anything(self) -> bool:
        """True when there is a limit at all."""
        rates = self.rates
        of_each = (rates.subscription, *rates.by_name.values())
        return bool(self._shared) or any(rate.is_limited for rate in of_each) or self.subscribers is not None

    def dispatch(self, subscription: Subscription) -> bool:
        """Lets a subscription send as far as the rates allow; returns the answer of its dispatcher."""
        if subscription in self._spared:
            return subscription.dispatcher.dispatch()
        dispatcher, lines = subscription.dispatcher, self._in_line.get(subscription)
        if lines is not None and lines[-1].keeps_waiting(subscription):
            dispatcher.begin()
            return False
        limits = self._limiters(subscription)
        if not self._is_its_turn(subscription, limits):
            return False
        more, units, size_bytes = self._run_turn(dispatcher, [limit.share() for limit in limits])
        for limit in limits:
            limit.spend(units, size_bytes)
        self.leave(subscription)
        if not units:
            return more  # it has nothing after all, or must read it first: it does not stand in line for that
        return self._is_its_turn(subscription, limits) and more

    def _run_turn(self, dispatcher: features.Dispatcher, shares: list[tuple[int, int]]) -> tuple[bool, int, int]:
        """Sends the least share at most. Returns whether there may be more, and the messages (or entries) and bytes
        sent."""
        units = min((share[0] for share in shares), default=UNLIMITED)
        size_bytes = min((share[1] for share in shares), default=UNLIMITED)
        counts_entries = self._core.config.dispatch_rates_count_entries
        dispatcher.turn_messages, dispatcher.turn_entries = (UNLIMITED, units) if counts_entries else (units, UNLIMITED)
        dispatcher.turn_bytes = size_bytes
        more = dispatcher.dispatch()
        units_left = dispatcher.turn_entries if counts_entries else dispatcher.turn_messages
        bytes_left = dispatcher.turn_bytes
        dispatcher.turn_messages = dispatcher.turn_entries = dispatcher.turn_bytes = UNLIMITED
        return more or units_left <= 0 or bytes_left <= 0, units - units_left, size_bytes - bytes_left

    def refresh(self, subscription: Subscription) -> None:
        """Limits a subscription, or spares it when it has no backlog."""
        if self._core.config.dispatch_rates_without_backlog or self._topic.non_persistent is not None:
            self._spared.discard(subscription)
            return
        backlog = self._core.config.backlogged_cursor_entries
        if not subscription.consumers or subscription.dispatcher.has_to_send(backlog):
            self._spared.discard(subscription)
        elif subscription not in self._spared:
            self._spared.add(subscription)
            self.leave(subscription)
            self._core.wake(subscription)

    def leave(self, subscription: Subscription) -> None:
        """Takes a subscription out of all lines."""
        for limit in self._in_line.pop(subscription, ()):
            limit.leave(subscription)

    def remove_subscription(self, subscription: Subscription) -> None:
        """Removes a subscription that is gone."""
        self.leave(subscription)
        self._own.pop(subscription, None)
        self._spared.discard(subscription)

    def reset_subscribers(self) -> None:
        """Begins the subscribe rate anew for all consumers."""
        rate = self.rates.consumers
        self.subscribers = SubscribeLimit(self._core, rate) if rate.is_limited else None

    def end(self) -> None:
        """Ends these limits: no subscription waits for them."""
        for subscription in list(self._in_line):
            self.leave(subscription)

    def check(self) -> None:
        """Asserts the invariants of the lines between turns; see `invariants`."""
        present = set(self._topic.subscriptions.values())
        assert self._in_line.keys() <= present, "a removed subscription waits for nothing"
        assert self._own.keys() <= present, "a removed subscription has no rate"
        assert self._spared <= present, "a removed subscription is not spared"
        assert self._spared.isdisjoint(self._in_line), "a spared subscription waits for no rate"
        for subscription, lines in self._in_line.items():
            limits = self._limiters(subscription)
            assert limits[: len(lines)] == lines, "a subscription waits for rates that limit it"
            for index, limit in enumerate(lines):
                assert subscription in limit.line, "a subscription that waits stands in line"
                limit.check(limits[index + 1 :])

    def _rate_of(self, subscription: Subscription) -> DispatchRate:
        return self.rates.by_name.get(subscription.name, self.rates.subscription)

    def _limiters(self, subscription: Subscription) -> list[features.DispatchLimiter]:
        """Lists the limiters of a subscription, the narrowest first."""
        rate = self._rate_of(subscription)
        if not rate.is_limited:
            return self._shared
        own = self._own.get(subscription)
        if own is None:
            own = DispatchLimiter(self._core, rate, "Subscription", self._topic)
            if self._topic.subscriptions.get(subscription.name) is subscription:
                self._own[subscription] = own
        return [own, *self._shared]

    def _is_its_turn(self, subscription: Subscription, limits: list[features.DispatchLimiter]) -> bool:
        """Returns whether no rate makes a subscription wait. Otherwise it stands in line, unless it has nothing to
        send."""
        blocking = next((index for index, limit in enumerate(limits) if limit.blocks(subscription)), None)
        if blocking is None:
            return True
        if not subscription.dispatcher.has_work():
            self.leave(subscription)
            return False
        for limit in self._in_line.get(subscription, ())[blocking + 1 :]:
            limit.leave(subscription)
        lines = self._in_line[subscription] = limits[: blocking + 1]
        for limit in lines:
            limit.stand_in_line(subscription)
        return False


def of_all(core: Core) -> DispatchLimiter | None:
    """Makes the limiter of all topics together, if the configuration has a rate."""
    config = core.config
    rate = DispatchRate(config.dispatch_rate_messages, config.dispatch_rate_bytes)
    return DispatchLimiter(core, rate, "Broker") if rate.is_limited else None


def _of_all_for(core: Core, topic: Topic) -> features.DispatchLimiter | None:
    return None if topic.non_persistent is not None else core.dispatch_limit


def configure(core: Core) -> None:
    """Takes the rate of the configuration for all topics together, if it is another one; topics have to adopt it."""
    before, now = core.dispatch_limit, of_all(core)
    if before is None or now is None or before.rate != now.rate:
        core.dispatch_limit = now


def refresh(topic: Topic) -> None:
    """Limits the subscriptions of a topic or spares them, by the switches of the configuration."""
    if topic.dispatch_limits is not None:
        for subscription in topic.subscriptions.values():
            topic.dispatch_limits.refresh(subscription)


def adopt(core: Core, topic: Topic) -> None:
    """Limits a topic that came into use, or whose policies changed."""
    policies = core.policies_of(topic.name)
    rates = Rates(consumers=policies.subscribe_rate)
    if topic.non_persistent is None:
        rates = rates._replace(
            topic=policies.dispatch_rate,
            subscription=policies.subscription_dispatch_rate,
            by_name=policies.dispatch_rates_by_name,
        )
    before = topic.dispatch_limits
    assert before is None or isinstance(before, DispatchLimits), "made here"
    if before is not None and (before.rates, before.of_all) == (rates, _of_all_for(core, topic)):
        return
    limits = DispatchLimits(core, topic, rates, before)
    topic.dispatch_limits = limits if limits.limits_anything else None
    refresh(topic)
    if before is not None:
        before.end()
        for subscription in topic.subscriptions.values():
            core.wake(subscription)


def remove_topic(topic: Topic) -> None:
    """Ends the limits of a topic that is gone."""
    if topic.dispatch_limits is not None:
        topic.dispatch_limits.end()
        topic.dispatch_limits = None


def unloaded(topic: Topic) -> None:
    """Lets the consumers of an unloaded topic come back at once."""
    if topic.dispatch_limits is not None:
        topic.dispatch_limits.reset_subscribers()
