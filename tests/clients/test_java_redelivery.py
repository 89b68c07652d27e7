"""How long the official Java client waits before it asks for a message again; the others know no back-off."""

from __future__ import annotations

import time
from typing import Any

from tests.brokers import Broker
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


def test_each_negative_ack_waits_twice_as_long(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers NACK-4, NACK-1, RC-1: the count that comes with a message says how long
    topic = broker.topic()
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


def test_each_time_out_waits_longer(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers TMO-3, TMO-1, RC-1
    topic = broker.topic()
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
