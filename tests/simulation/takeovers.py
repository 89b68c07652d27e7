"""Failover: the active consumer, since when it may get entries, and what consumers are told of it (FO-1 ... FO-6).
Worked out from the connected consumers, not from what the broker says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mmh3

from .comparing import Violation
from .sharing import FAILOVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription

_MASK = 0x7FFF_FFFF
_POINTS = 100


@dataclass(slots=True)
class _Role:
    active: Consumer
    starts_ms: int
    """Nothing may be delivered before."""
    chosen_of: tuple[Consumer, ...]


class Takeovers:
    """The active consumers of one core's Failover subscriptions."""

    def __init__(self, core: Core, on_change: Callable[[Subscription], None], *, is_needed: bool) -> None:
        self._core = core
        self._is_needed = is_needed
        self._on_change = on_change
        self._roles: dict[Subscription, _Role] = {}
        self._told: dict[Consumer, bool] = {}
        """Last ACTIVE_CONSUMER_CHANGE of each consumer."""
        self._distances: dict[tuple[str, str], int] = {}
        self._noted_ms = 0

    def note(self) -> None:
        """Something happened: another consumer may be the active one."""
        core = self._core
        for topic in core.topics.values() if self._is_needed else ():
            for subscription in topic.subscriptions.values():
                if subscription.type == FAILOVER and subscription.consumers:
                    self._note(subscription)
                elif self._roles.pop(subscription, None) is not None:
                    self._on_change(subscription)
        self._noted_ms = core.now_ms

    def _note(self, subscription: Subscription) -> None:
        present = tuple(subscription.consumers)
        role = self._roles.get(subscription)
        if role is not None and role.chosen_of == present:
            return
        active = self._choose(subscription)
        if role is None or role.active is not active:
            delay_ms = self._core.config.failover_delay_ms if subscription.topic.non_persistent is None else 0
            starts_ms = self._core.now_ms + delay_ms
            if role is not None and self._noted_ms < role.starts_ms:  # one delay is enough
                starts_ms = role.starts_ms
            self._roles[subscription] = _Role(active, starts_ms, present)
            self._on_change(subscription)
        else:
            role.chosen_of = present

    def _choose(self, subscription: Subscription) -> Consumer:
        topic = subscription.topic
        best = min(each.priority for each in subscription.consumers)
        candidates = sorted(
            (each for each in subscription.consumers if each.priority == best), key=lambda each: each.name
        )
        if topic.partition >= 0 and not self._core.config.failover_ring_for_partitions:
            return candidates[topic.partition % len(candidates)]
        # Of two in one place, as those of one name are, the one that comes later in the list has it.
        return min(reversed(candidates), key=lambda each: self._distance(topic.full_name, each.name))

    def _distance(self, topic_name: str, name: str) -> int:
        """Measures the ring from the topic's place to the first point of a consumer behind it."""
        known = self._distances.get((topic_name, name))
        if known is None:
            place = mmh3.hash(topic_name, 0, signed=False) & _MASK
            points = ((mmh3.hash(f"{name}{number}", 0, signed=False) & _MASK) for number in range(_POINTS))
            known = self._distances[topic_name, name] = min((point - place) % (_MASK + 1) for point in points)
        return known

    def is_active(self, consumer: Consumer) -> bool:
        """Tells whether a consumer is the active one of its subscription."""
        role = self._roles.get(consumer.subscription)
        return role is not None and role.active is consumer

    def tell(self, consumer: Consumer, *, is_active: bool) -> None:
        """ACTIVE_CONSUMER_CHANGE."""
        is_non_persistent = (
            consumer.subscription.topic.non_persistent is not None
        )  # in the middle of a turn: others may come behind it
        if is_active and not is_non_persistent and not self.is_active(consumer):
            raise Violation(f"{consumer.name} is told that it is active and is not (FO-5)")
        self._told[consumer] = is_active

    def see(self, where: str, consumer: Consumer) -> None:
        """Something is delivered."""
        role = self._roles[consumer.subscription]
        if role.active is not consumer:
            raise Violation(f"{where}: {consumer.name} gets something, {role.active.name} is the active one (FO-2)")
        if self._core.now_ms < role.starts_ms:
            raise Violation(f"{where}: {consumer.name} gets something before {role.starts_ms} (FO-6)")
        if not self._told.get(consumer):
            raise Violation(f"{where}: {consumer.name} gets something and was not told that it is active (FO-5)")

    def check_at_rest(self) -> None:
        """Checks that every consumer was told whether it is active (FO-5)."""
        for subscription, role in self._roles.items():
            for consumer in subscription.consumers:
                told = self._told.get(consumer)
                if role.active.ready and told != (consumer is role.active):
                    raise Violation(f"{subscription.name}: {consumer.name} was told {told} (FO-5)")
