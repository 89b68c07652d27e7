"""The official Java client subscribed to a pattern of topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.clients.java_client import Java, JavaClient


@pytest.fixture(scope="module")
def client(java: Java, broker: Broker) -> Iterator[JavaClient]:
    opened = java.client(broker.service_url)
    yield opened
    opened.client.close()


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
