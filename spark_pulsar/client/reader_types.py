"""Types of subscription by which readers attach: Exclusive, or another one where a policy forbids it (READ-41).

A reader is the only consumer of a subscription of its own, so each type delivers to it, in order. Exclusive and
Failover deliver every entry. Shared and Key_Shared hold back messages that have a delivery time and later pass them in
between others: what they deliver must be proven to be all (see `fetch`).
"""

import threading
from collections.abc import Iterator
from typing import Final, TypeAlias

from spark_pulsar.model.errors import NotAllowed, PulsarError
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

SubscriptionType: TypeAlias = CommandSubscribe.SubType.ValueType
_IN_ORDER_OF_CHOICE: Final = (
    CommandSubscribe.Exclusive,
    CommandSubscribe.Failover,
    CommandSubscribe.Shared,
    CommandSubscribe.Key_Shared,
)
_HOLDING_BACK: Final = (CommandSubscribe.Shared, CommandSubscribe.Key_Shared)
_REFUSAL: Final = "sub type"


class ReaderTypes:
    """Types that worked last, by topic. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worked: dict[str, SubscriptionType] = {}

    def candidates(self, topic: str) -> Iterator[SubscriptionType]:
        """Yields the types to try: the one that worked last, then the others."""
        with self._lock:
            last = self._worked.get(topic, CommandSubscribe.Exclusive)
        yield last
        yield from (subscription_type for subscription_type in _IN_ORDER_OF_CHOICE if subscription_type != last)

    def worked(self, topic: str, subscription_type: SubscriptionType) -> None:
        """Notes the type that a topic allowed."""
        with self._lock:
            if subscription_type == CommandSubscribe.Exclusive:
                self._worked.pop(topic, None)
            else:
                self._worked[topic] = subscription_type


def is_refused_type(error: PulsarError) -> bool:
    """Returns whether the policy `subscriptionTypesEnabled` forbids the type of a subscription."""
    return isinstance(error, NotAllowed) and _REFUSAL in error.message


def holds_back(subscription_type: SubscriptionType) -> bool:
    """Returns whether a type delivers delayed messages late."""
    return subscription_type in _HOLDING_BACK
