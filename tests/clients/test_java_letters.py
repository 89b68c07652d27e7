"""Retry letters and dead letters of the official Java client, beside the ones that are made here."""

from __future__ import annotations

import pytest

from spark_pulsar.client.retry_letters import dead_letter_topic_of, letter, retry_letter_topic_of
from tests.brokers import Broker
from tests.clients.java_client import Java, JavaClient


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
