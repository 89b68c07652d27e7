"""The end of topics: consumers hear of it when all is acked and the end is on disk, and all of them do (TN-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .comparing import Violation

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core

    from .judge import Judge


class Endings:
    """Messages of one core that tell its consumers of the end."""

    def __init__(self, judge: Judge, core: Core) -> None:
        self._judge = judge
        self._core = core
        self._told: set[Consumer] = set()

    def tell(self, consumer: Consumer) -> None:
        """REACHED_END_OF_TOPIC."""
        subscription = consumer.subscription
        name, topic_name = subscription.name, subscription.topic.full_name
        durable = self._judge.durable.topics.get(topic_name)
        if durable is None or not durable.is_terminated:
            raise Violation(f"{consumer.name} hears of the end of {topic_name}, which is not on disk (TN-13)")
        topic, may_skip = self._judge.current.topics[topic_name], self._judge.rules.may_skip
        wanted = topic.unacked(name) if subscription.is_durable else []
        wanted = [place for place in wanted if not may_skip(topic_name, name, topic.log[place])]
        if wanted:
            raise Violation(f"{consumer.name} hears of the end of {topic_name}: {name} still wants {wanted} (TN-13)")
        self._told.add(consumer)

    def check_at_rest(self) -> None:
        """Checks that no consumer with all entries waits for more."""
        for topic_name, topic in self._judge.current.topics.items():
            known = self._core.topics.get(topic_name)
            if not topic.is_terminated or known is None:
                continue
            for name in topic.subscriptions:
                consumers = known.subscriptions[name].consumers if name in known.subscriptions else []
                deaf = [each.name for each in consumers if each.ready and each not in self._told]
                if deaf and not topic.unacked(name):
                    raise Violation(f"{deaf} of {name} have all of {topic_name} and did not hear of its end (TN-13)")
