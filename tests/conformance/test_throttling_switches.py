"""What rates of dispatch count, and whom they spare, where the configuration says so (`THROTTLING`); and that its rate
of publishing holds for all topics."""

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all
from tests.conformance.policies.test_publish_rates import seconds_of

CLUSTER = "standalone"
KINDS = [
    pulsar.ConsumerType.Exclusive,
    pulsar.ConsumerType.Shared,
    pulsar.ConsumerType.Failover,
    pulsar.ConsumerType.KeyShared,
]
BY_KIND = pytest.mark.parametrize(
    ("kind", "member"), list(zip(KINDS, ["topicDispatchRate", "subscriptionDispatchRate"] * 2, strict=True))
)
PERIOD_S = 100_000
"""So long that nothing of a rate comes back while a test runs."""
THRESHOLD = 10


@pytest.fixture(scope="module")
def broker(throttling_broker: Broker) -> Broker:
    return throttling_broker


def topic_with(broker: Broker, member: str, messages: int) -> str:
    """A topic in a namespace of its own, where consumers may be sent so many messages and then none for hours."""
    rate: dict[str, Any] = {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": -1,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": PERIOD_S,
    }
    name = broker.namespace({member: {CLUSTER: rate}})
    return f"persistent://{name}/t"


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def subscribed_before(
    broker: Broker, kind: pulsar.ConsumerType, member: str, messages: int
) -> tuple[pulsar.Client, str]:
    """A client and a topic as `topic_with` makes it; its subscription is there and nobody is connected to it."""
    client, topic = broker.client(), topic_with(broker, member, messages)
    client.subscribe(topic, "s", kind).close()
    return client, topic


@BY_KIND
def test_a_batch_counts_as_one_message(broker: Broker, kind: pulsar.ConsumerType, member: str) -> None:
    # covers SUB-7: Apache Pulsar reads a hundred entries at a time, and looks at the rate only before that
    client, topic = subscribed_before(broker, kind, member, 120)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=3, batching_max_publish_delay_ms=60_000
    )
    for text in ["a", "b", "c"] * (120 + THRESHOLD):
        producer.send_async(text.encode(), lambda *_: None)
    producer.flush()
    consumer = client.subscribe(topic, "s", kind)
    assert receive_texts(consumer, 360) == ["a", "b", "c"] * 120
    expect_nothing(consumer)


@BY_KIND
def test_who_has_no_backlog_is_not_limited(broker: Broker, kind: pulsar.ConsumerType, member: str) -> None:
    # covers SUB-7
    client, topic = subscribed_before(broker, kind, member, 3)
    producer = client.create_producer(topic)
    send_all(producer, numbers(THRESHOLD - 1))
    consumer = client.subscribe(topic, "s", kind)
    assert receive_texts(consumer, THRESHOLD - 1) == numbers(THRESHOLD - 1)
    for text in numbers(20):  # one at a time: whenever statistics are taken there is no backlog
        send_all(producer, [text])
        assert receive_texts(consumer, 1) == [text]


@BY_KIND
def test_who_has_a_backlog_is_limited(broker: Broker, kind: pulsar.ConsumerType, member: str) -> None:
    # covers SUB-7: also while it still has one after what the rate let go
    client, topic = subscribed_before(broker, kind, member, 3)
    send_all(client.create_producer(topic), numbers(3 + THRESHOLD))
    consumer = client.subscribe(topic, "s", kind)
    assert receive_texts(consumer, 3) == numbers(3)
    expect_nothing(consumer)


def test_what_was_acked_is_no_backlog(broker: Broker, client: pulsar.Client) -> None:
    # covers SUB-7
    topic = topic_with(broker, "topicDispatchRate", 3)
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for number in range(3 * THRESHOLD):
        send_all(producer, [str(number)])
        (message,) = receive(consumer, 1)
        if number % 4:
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    assert receive_texts(again, 8) == numbers(3 * THRESHOLD)[::4]


def test_who_has_no_backlog_takes_nothing_from_the_others(broker: Broker, client: pulsar.Client) -> None:
    # covers SUB-7
    topic = topic_with(broker, "topicDispatchRate", 3)
    client.subscribe(topic, "late").close()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    producer = client.create_producer(topic)
    for text in numbers(3 + THRESHOLD):
        send_all(producer, [text])
        assert receive_texts(reader, 1) == [text]
    late = client.subscribe(topic, "late")
    assert receive_texts(late, 3) == numbers(3)
    expect_nothing(late)


def test_a_non_persistent_topic_is_published_to_at_the_rate_of_the_configuration(broker: Broker) -> None:
    # covers PR-14
    producer = broker.client().create_producer(f"non-{broker.topic()}", max_pending_messages=2_000)
    assert seconds_of(producer, 1_500) > 1.5
