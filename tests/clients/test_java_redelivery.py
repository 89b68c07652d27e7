"""The official Java client: its back-offs, which the others do not know, its letters, and its patterns of topics."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_pulsar.client.retry_letters import dead_letter_topic_of, letter, retry_letter_topic_of
from tests.brokers import Broker, topic_path
from tests.clients.java_client import Java, JavaClient
from tests.clients.stats import backlog
from tests.eventually import eventually

# It rounds a deadline down by a quarter of a second at most (NACK-1).
ROUNDING_S = 0.256
# How exactly it looks for what was not acked in time.
TICK_S = 0.2


def _back_off(java: Java, first_ms: int, longest_ms: int) -> Any:
    builder = java.jvm.org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff.builder()
    return builder.minDelayMs(first_ms).maxDelayMs(longest_ms).multiplier(2.0).build()


def _builder(java: Java, client: JavaClient, topic: str) -> Any:
    builder = client.client.newConsumer(java.api.Schema.STRING).topic(java.texts(topic)).subscriptionName("s")
    return builder.subscriptionType(java.api.SubscriptionType.Shared)


def test_the_table_of_the_concepts(java: Java) -> None:
    # covers NACK-4, TMO-3
    waits = _back_off(java, 1_000, 60_000)
    assert [waits.next(count) for count in range(8)] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_each_negative_ack_waits_twice_as_long(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers NACK-4, NACK-1, RC-1: the count that comes with a message says how long
    builder = _builder(java, client, topic).negativeAckRedeliveryBackoff(_back_off(java, 400, 2_000))
    consumer = builder.subscribe()
    client.producer(topic, java.api.Schema.STRING).send("x")
    message = client.receive(consumer)
    for count, wait_s in enumerate((0.4, 0.8, 1.6)):
        assert message.getRedeliveryCount() == count
        began_s = time.monotonic()
        consumer.negativeAcknowledge(message)
        message = client.receive(consumer)
        assert time.monotonic() - began_s >= wait_s - ROUNDING_S
    assert message.getRedeliveryCount() == 3
    consumer.acknowledge(message)
    eventually(lambda: backlog(broker, topic, "s") == 0)
    consumer.close()


def test_each_time_out_waits_longer(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers TMO-3, TMO-1, RC-1
    unit = java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    builder = _builder(java, client, topic).ackTimeout(1_000, unit).ackTimeoutTickTime(100, unit)
    consumer = builder.ackTimeoutRedeliveryBackoff(_back_off(java, 400, 2_000)).subscribe()
    client.producer(topic, java.api.Schema.STRING).send("x")
    began_s = time.monotonic()
    messages = [client.receive(consumer) for _ in range(3)]
    # 1.4 and 1.8 seconds, where it would be two of one second; from before the first, so that no pause here matters.
    assert time.monotonic() - began_s >= 3.2 - 2 * TICK_S
    assert [message.getRedeliveryCount() for message in messages] == [0, 1, 2]
    consumer.acknowledge(messages[-1])
    eventually(lambda: backlog(broker, topic, "s") == 0)
    consumer.close()


# ---- letters


@pytest.mark.parametrize("partitions", [0, 2])
def test_letters_are_those_of_the_java_client(broker: Broker, java: Java, client: JavaClient, partitions: int) -> None:
    # covers RLQ-1, RLQ-3, RLQ-4, DLQ-3, DLQ-4, LETTER-1
    topic = broker.topic("letters", partitions=partitions)
    unit = java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    policy = java.api.DeadLetterPolicy.builder().maxRedeliverCount(1).build()
    builder = client.client.newConsumer(java.api.Schema.BYTES).topic(java.texts(topic)).subscriptionName("s")
    builder = builder.subscriptionType(java.api.SubscriptionType.Shared).enableRetry(True).deadLetterPolicy(policy)
    consumer = builder.subscribe()
    dead = client.consumer(dead_letter_topic_of(topic, "s"), java.api.Schema.BYTES, "kept")
    message = client.producer(topic, java.api.Schema.BYTES).newMessage().value(bytearray(b"bad"))
    message.property("p", "1").send()
    found = client.receive(consumer)
    for source in (consumer, dead):
        at = found.getMessageId().toString()
        expected = letter(dict(found.getProperties()), found.getTopicName(), "s", at, 300, 1)
        consumer.reconsumeLater(found, 300, unit)
        found = client.receive(source)
        assert dict(found.getProperties()) == expected.properties
        named = dead_letter_topic_of if expected.is_dead else retry_letter_topic_of
        assert found.getTopicName() == named(topic, "s")
    consumer.close()
    dead.close()


# ---- patterns of topics


def consumer_of(java: Java, client: JavaClient, pattern: str) -> Any:
    """A consumer of a pattern from its end on, as it is by default."""
    compiled = java.jvm.java.util.regex.Pattern.compile(pattern)
    return client.client.newConsumer(java.api.Schema.STRING).topicsPattern(compiled).subscriptionName("s").subscribe()


def value_from(java: Java, consumer: Any, timeout_ms: int = 10_000) -> str | None:
    message = consumer.receive(timeout_ms, java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
    return None if message is None else str(message.getValue())


def test_a_pattern_with_look_ahead(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers MT-2
    stem = broker.topic()
    topics = [f"{stem}-orders", f"{stem}-test"]
    for topic in topics:
        assert broker.rest("PUT", topic_path(topic))[0] == 204
    consumer = consumer_of(java, client, rf"{stem}-(?!test).*")
    for topic in reversed(topics):
        client.producer(topic, java.api.Schema.STRING).send(topic)
    assert value_from(java, consumer) == topics[0]
    assert value_from(java, consumer, 300) is None
    consumer.close()


@pytest.mark.ours_only("MT-4: Apache Pulsar may hand the producer its success first")
def test_the_first_message_of_a_new_topic_is_received(broker: Broker, java: Java, client: JavaClient) -> None:
    stem = broker.topic()
    consumer = consumer_of(java, client, rf"{stem}-.*")
    other = java.client(broker.service_url)
    for number in range(10):
        producer = other.producer(f"{stem}-{number}", java.api.Schema.STRING)
        producer.send(str(number))
        assert value_from(java, consumer) == str(number)
        producer.close()
    consumer.close()
    other.client.close()
