"""Limit of unacknowledged messages of all Shared and Key_Shared subscriptions of the broker together (SH-8).

The limits of one consumer and of one subscription (SH-6, SH-7) are in `dispatch.shared_redelivery`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.broker.entities.subscription import Subscription


class UnackedLimit:
    """Unacknowledged messages of each subscription, and the subscriptions that wait because all together hold
    `messages` or more.

    While that is so, a subscription that holds more than `share` of the limit gets nothing new, until it holds less
    than half of that; all go on when all together hold less than half of the limit. Apache Pulsar checks the
    sum now and then, here it is exact. Non-durable subscriptions do not count (as in SH-6).
    """

    def __init__(self, messages: int, share: float, wake: Callable[[Subscription], None]) -> None:
        self.messages = messages
        self.most_each = int(messages * share)
        """Messages that a subscription may hold whatever others hold."""
        self.total = 0
        self.held: dict[Subscription, int] = {}
        """Messages that each subscription holds, without zeros."""
        self.is_reached = False
        self.waiting: dict[Subscription, None] = {}
        self._wake = wake

    def note(self, subscription: Subscription, unacked: int) -> None:
        """Notes the messages that a subscription holds."""
        self.total += unacked - self.held.pop(subscription, 0)
        if unacked:
            self.held[subscription] = unacked
        if not self.is_reached:
            if self.total >= self.messages:
                self.is_reached = True
                self.waiting.update((holder, None) for holder, held in self.held.items() if held > self.most_each)
        elif self.total < max(1, self.messages // 2):
            self.is_reached = False
            waiting, self.waiting = self.waiting, {}
            for waiter in waiting:
                self._wake(waiter)
        elif subscription not in self.waiting:
            if unacked > self.most_each:
                self.waiting[subscription] = None
        elif unacked < max(1, self.most_each // 2):
            del self.waiting[subscription]
            self._wake(subscription)

    def allowance(self, subscription: Subscription) -> int:
        """Counts the messages that a subscription may be sent for the first time now."""
        if subscription in self.waiting:
            return 0
        own = max(0, self.most_each + 1 - self.held.get(subscription, 0))
        return own if self.is_reached else max(own, self.messages - self.total)


def from_config(config: BrokerConfig, wake: Callable[[Subscription], None]) -> UnackedLimit | None:
    """Makes the limit of the configuration; None without one."""
    if not config.max_unacked_of_all or not config.max_unacked_share:
        return None
    return UnackedLimit(config.max_unacked_of_all, config.max_unacked_share, wake)
