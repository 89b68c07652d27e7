"""Non-persistent topics: a published entry goes to consumers with permits, once and in the same turn, or to none; its
receipt waits for nothing (NP-1, NP-2, NP-3, NP-6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .comparing import Violation
from .sharing import FAILOVER, KEY_SHARED

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn import effects as fx

    from .account import Sent
    from .takeovers import Takeovers


@dataclass(slots=True)
class _Share:
    """Messages of one publish that one subscription may get."""

    receivers: list[Consumer]
    messages: int
    """Messages that consumers had permits for."""
    by_key: bool
    """True when each entry has one receiver only (Key_Shared)."""
    delivered: set[int] = field(default_factory=set)
    """Entry ids."""


@dataclass(slots=True)
class _Published:
    first: int
    sents: list[Sent]
    shares: dict[Subscription, _Share]


class NonPersistentDeliveries:
    """Deliveries of non-persistent topics by one core."""

    def __init__(self, takeovers: Takeovers) -> None:
        self._takeovers = takeovers
        self._entries: dict[Topic, int] = {}
        """Published since the topic came into being."""
        self._published: dict[Topic, list[_Published]] = {}
        """Entries published in this turn."""

    def publish(self, topic: Topic, sents: list[Sent]) -> None:
        """Entries are about to be published."""
        first = self._entries.get(topic, 0)
        self._entries[topic] = first + len(sents)
        shares: dict[Subscription, _Share] = {}
        for subscription in topic.subscriptions.values():
            able = [each for each in subscription.consumers if each.can_receive]
            if subscription.type == FAILOVER:
                able = [each for each in able if self._takeovers.is_active(each)]
            shares[subscription] = _Share(able, sum(each.permits for each in able), subscription.type == KEY_SHARED)
        self._published.setdefault(topic, []).append(_Published(first, sents, shares))

    def receiver(self, session_id: int, consumer_id: int) -> Consumer | None:
        """A consumer that could receive in this turn; it may be gone now."""
        key = (session_id, consumer_id)
        for published in self._published.values():
            for each in published:
                for share in each.shares.values():
                    for consumer in share.receivers:
                        if (consumer.session.session_id, consumer.consumer_id) == key:
                            return consumer
        return None

    def see(self, effect: fx.SendMessages, consumer: Consumer) -> None:
        """Entries go to a consumer."""
        subscription = consumer.subscription
        where = f"{subscription.name} of {subscription.topic.full_name}"
        entry_ids = effect.entry_ids or range(effect.first_entry_id, effect.first_entry_id + len(effect.starts))
        for entry_id, start, end in zip(entry_ids, effect.starts, effect.ends, strict=True):
            published = self._find(subscription.topic, entry_id)
            if published is None or published.sents[entry_id - published.first].entry != effect.buffer[start:end]:
                raise Violation(f"{where}: {entry_id} is delivered and was not published just now (NP-1)")
            share = published.shares.get(subscription)
            if share is None or consumer not in share.receivers:
                raise Violation(f"{where}: {entry_id} goes to {consumer.name}, whose it is not (NP-3, NP-6)")
            if entry_id in share.delivered:
                raise Violation(f"{where}: {entry_id} is delivered twice (NP-1)")
            share.delivered.add(entry_id)

    def _find(self, topic: Topic, entry_id: int) -> _Published | None:
        for each in self._published.get(topic, ()):
            if each.first <= entry_id < each.first + len(each.sents):
                return each
        return None

    def end_turn(self) -> None:
        """Checks that no entry is dropped that a consumer could have taken."""
        for topic, published in self._published.items():
            for each in published:
                for subscription, share in each.shares.items():
                    self._check_dropped(topic, each, subscription, share)
        self._published.clear()

    @staticmethod
    def _check_dropped(topic: Topic, published: _Published, subscription: Subscription, share: _Share) -> None:
        if len(share.delivered) == len(published.sents) or share.by_key:
            return
        delivered = sum(published.sents[entry_id - published.first].count for entry_id in share.delivered)
        if delivered < share.messages:
            raise Violation(
                f"{subscription.name} of {topic.full_name}: {len(published.sents) - len(share.delivered)} entries are "
                f"dropped, and there were permits for {share.messages} messages (NP-3)"
            )
