"""The retry letter topic for programs with the official Python client, which has dead letters but no retry letters
(RLQ-1 ... RLQ-5).

    letters = RetryLetters(client, "my-topic", "my-subscription", max_redeliver_count=3)
    consumer = client.subscribe(letters.topics, "my-subscription", pulsar.ConsumerType.Shared)
    message = consumer.receive()
    try:
        work(message)
        consumer.acknowledge(message)
    except WorkFailed:
        letters.reconsume_later(consumer, message, delay_ms=30_000)

A copy of the message goes to the topic `<topic>-<subscription>-RETRY`, to be delivered after the delay, and the message
is acknowledged: unlike a negative acknowledgement this outlives every restart, of the broker and of the consumer. The
copy has the properties of the message, and those that the Java client gives it too:

| property | meaning |
| --- | --- |
| `REAL_TOPIC` | the topic where it was published first, without the partition |
| `REAL_SUBSCRIPTION` | the subscription that it is for |
| `ORIGIN_MESSAGE_ID` | its id there, `ledger:entry:partition`, in a batch `:index` too |
| `ORIGIN_MESSAGE_IDY_TIME` | the id once more, under its name of former times |
| `RECONSUMETIMES` | which retry this is, from 1 on |
| `DELAY_TIME` | milliseconds that it was delayed by |

A message that was retried `max_redeliver_count` times goes to `<topic>-<subscription>-DLQ` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from spark_pulsar.model.letters import (
    DELAY_TIME,
    FORMER_ORIGIN_MESSAGE_ID,
    ORIGIN_MESSAGE_ID,
    REAL_SUBSCRIPTION,
    REAL_TOPIC,
    RECONSUME_TIMES,
)
from spark_pulsar.model.names import TopicName

DEFAULT_MAX_REDELIVER_COUNT: Final = 16


def retry_letter_topic_of(topic: str, subscription: str) -> str:
    """Names the retry letter topic of a subscription, as the Java client does; `topic` is a full name (RLQ-1)."""
    return f"{TopicName.parse(topic).base.full}-{subscription}-RETRY"


def dead_letter_topic_of(topic: str, subscription: str) -> str:
    """Names the dead letter topic of a subscription, as the Java client does; `topic` is a full name (DLQ-3)."""
    return f"{TopicName.parse(topic).base.full}-{subscription}-DLQ"


class Letter(NamedTuple):
    """A letter: the copy that is published in place of a message that failed."""

    properties: dict[str, str]
    is_dead: bool
    """True for the dead letter topic, at once; False for the retry letter topic."""
    delay_ms: int


def letter(
    properties: Mapping[str, str],
    topic: str,
    subscription: str,
    message_id: str,
    delay_ms: int,
    max_redeliver_count: int = DEFAULT_MAX_REDELIVER_COUNT,
    custom_properties: Mapping[str, str] | None = None,
) -> Letter:
    """Returns the copy of a message of `topic` (full name) with these properties that was not consumed (RLQ-3, RLQ-4).
    Where it came from is kept from the first time on; a negative delay is none."""
    delay_ms = max(0, delay_ms)
    try:
        times = int(properties.get(RECONSUME_TIMES, "0")) + 1
    except ValueError:
        times = 1  # a property of another program
    copied = {
        **properties,
        **(custom_properties or {}),
        REAL_TOPIC: properties.get(REAL_TOPIC, TopicName.parse(topic).base.full),
        REAL_SUBSCRIPTION: properties.get(REAL_SUBSCRIPTION, subscription),
        ORIGIN_MESSAGE_ID: properties.get(ORIGIN_MESSAGE_ID, message_id),
        FORMER_ORIGIN_MESSAGE_ID: properties.get(FORMER_ORIGIN_MESSAGE_ID, message_id),
        RECONSUME_TIMES: str(times),
        DELAY_TIME: str(delay_ms),
    }
    is_dead = times > max_redeliver_count
    return Letter(copied, is_dead, 0 if is_dead else delay_ms)


class RetryLetters:
    """The retry letter topic and the dead letter topic of one subscription, for a `pulsar.Client`. Close it, or its
    client, when it is not needed any more."""

    def __init__(
        self,
        client: Any,
        topic: str,
        subscription: str,
        *,
        max_redeliver_count: int = DEFAULT_MAX_REDELIVER_COUNT,
        retry_letter_topic: str | None = None,
        dead_letter_topic: str | None = None,
        initial_subscription_name: str | None = None,
    ) -> None:
        """`initial_subscription_name`: a subscription that the dead letter topic has from the start, so that retention
        takes no letter away (DLQ-5)."""
        base = TopicName.parse(topic).base.full
        self._client = client
        self._max_redeliver_count = max_redeliver_count
        self._initial_subscription_name = initial_subscription_name
        self._producers: dict[str, Any] = {}
        self.topic = base
        self.subscription = subscription
        self.retry_letter_topic = retry_letter_topic or retry_letter_topic_of(base, subscription)
        self.dead_letter_topic = dead_letter_topic or dead_letter_topic_of(base, subscription)

    @property
    def topics(self) -> list[str]:
        """The topics that the consumer subscribes to, with a Shared subscription (RLQ-1)."""
        return [self.topic, self.retry_letter_topic]

    def reconsume_later(
        self, consumer: Any, message: Any, delay_ms: int, properties: Mapping[str, str] | None = None
    ) -> Letter:
        """Has a message delivered again after a delay, or moves it to the dead letter topic when it was retried often
        enough; returns the published message. `properties` are added to the copy.

        When the copy cannot be published the message is negatively acknowledged, and the error is raised.
        """
        position = message.message_id()
        message_id = f"{position.ledger_id()}:{position.entry_id()}:{position.partition()}"
        if position.batch_index() >= 0:
            message_id += f":{position.batch_index()}"
        copy = letter(
            message.properties(),
            message.topic_name(),
            self.subscription,
            message_id,
            delay_ms,
            self._max_redeliver_count,
            properties,
        )
        try:
            self._publish(message, copy)
        except Exception:
            consumer.negative_acknowledge(message)
            raise
        consumer.acknowledge(message)
        return copy

    def close(self) -> None:
        """Closes the producers."""
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            producer.close()

    def _publish(self, message: Any, copy: Letter) -> None:
        target = self.dead_letter_topic if copy.is_dead else self.retry_letter_topic
        producer = self._producers.get(target)
        if producer is None:
            if copy.is_dead and self._initial_subscription_name:
                self._subscribe_initially(target, self._initial_subscription_name)
            producer = self._producers[target] = self._client.create_producer(target, chunking_enabled=True)
        producer.send(
            message.data(),
            properties=copy.properties,
            partition_key=message.partition_key() or None,
            ordering_key=message.ordering_key() or None,
            event_timestamp=message.event_timestamp() or None,
            deliver_after=timedelta(milliseconds=copy.delay_ms) if copy.delay_ms else None,
        )

    def _subscribe_initially(self, topic: str, subscription: str) -> None:
        """Creates a subscription if it is missing. The Python client lets only its own dead letter policy name one."""
        import pulsar

        earliest, shared = pulsar.InitialPosition.Earliest, pulsar.ConsumerType.Shared
        self._client.subscribe(topic, subscription, shared, receiver_queue_size=1, initial_position=earliest).close()
