"""Samples the meters of topics, producers and subscriptions (`entities.meters`), some topics a turn (ST-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.slices import every

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_TOPICS_A_TURN: Final = 64


def start(core: Core) -> None:
    """Samples all topics in use every `stats_interval_ms` from now on."""
    every(
        core,
        lambda: core.config.stats_interval_ms,
        core.topics.values,
        lambda topic: sample(topic, core.now_ms),
        _TOPICS_A_TURN,
    )


def sample(topic: Topic, now_ms: int) -> None:
    """Samples the counters of a topic, its producers, subscriptions and consumers."""
    topic.meter.sample(now_ms, (topic.messages_in, topic.bytes_in, topic.ledger.total_entries))
    for producer in topic.producers.values():
        producer.meter.sample(now_ms, (producer.messages_in, producer.bytes_in, 0, producer.chunks_in))
    for subscription in topic.subscriptions.values():
        counted = (
            subscription.messages_out,
            subscription.bytes_out,
            subscription.entries_expired,
            subscription.messages_dropped,
            subscription.entries_out,
        )
        subscription.meter.sample(now_ms, counted)
        if topic.dispatch_limits is not None:
            topic.dispatch_limits.refresh(subscription)
        for consumer in subscription.consumers:
            consumer.meter.sample(
                now_ms,
                (
                    consumer.messages_out,
                    consumer.bytes_out,
                    consumer.messages_redelivered,
                    consumer.messages_acked,
                    consumer.chunks_out,
                ),
            )
