"""Samples the meters of topics, producers and subscriptions, some topics a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic


class Rates:
    """The timer, and the topics that it has still to look at."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._to_look_at: list[Topic] = []

    def start(self) -> None:
        """Called once."""
        self._core.at(self._core.now_ms + self._core.config.stats_interval_ms, self._round)

    def _round(self) -> None:
        core = self._core
        core.at(core.now_ms + core.config.stats_interval_ms, self._round)
        is_looking = bool(self._to_look_at)
        self._to_look_at = list(core.topics.values())
        if not is_looking:
            self._look()

    def _look(self) -> None:
        for _ in range(min(_LOOKS_A_TURN, len(self._to_look_at))):
            look_at(self._to_look_at.pop(), self._core.now_ms)
        if self._to_look_at:
            self._core.at(self._core.now_ms + _PAUSE_MS, self._look)


def look_at(topic: Topic, now_ms: int) -> None:
    """Take the counters of a topic and of all that is connected to it."""
    topic.meter.look(now_ms, (topic.messages_in, topic.bytes_in, topic.ledger.total_entries))
    for producer in topic.producers.values():
        producer.meter.look(now_ms, (producer.messages_in, producer.bytes_in, 0, producer.chunks_in))
    for subscription in topic.subscriptions.values():
        counted = (
            subscription.messages_out,
            subscription.bytes_out,
            subscription.entries_expired,
            subscription.messages_dropped,
            subscription.entries_out,
        )
        subscription.meter.look(now_ms, counted)
        if topic.dispatch_limits is not None:
            topic.dispatch_limits.look(subscription)
        for consumer in subscription.consumers:
            consumer.meter.look(
                now_ms,
                (
                    consumer.messages_out,
                    consumer.bytes_out,
                    consumer.messages_redelivered,
                    consumer.messages_acked,
                    consumer.chunks_out,
                ),
            )


_LOOKS_A_TURN: Final = 64


_PAUSE_MS: Final = 1
