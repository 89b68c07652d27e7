"""Dead letters of the official client, retry letters beside it, and the acknowledgement time-out."""

from __future__ import annotations

import time
from typing import Any

import pulsar
import pytest

from spark_pulsar import RetryLetters
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, receive, receive_texts, send_all, texts
from tests.conformance.space import Space
from tests.eventually import eventually

SHARED, KEY_SHARED = pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared
NACK_MS = 100
ACK_TIMEOUT_MS = 10_000
"""The least that the client takes."""


def backlog_of(broker: Broker, topic: str, subscription: str) -> int | None:
    status, stats = broker.rest("GET", f"{topic_path(topic)}/stats")
    if status != 200 or subscription not in stats["subscriptions"]:
        return None
    return int(stats["subscriptions"][subscription]["msgBacklog"])


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
def test_a_message_that_fails_too_often_goes_to_the_dead_letter_topic(broker: Broker, topic: str, kind: Any) -> None:
    # covers DLQ-1, DLQ-2, DLQ-3, DLQ-4, DLQ-5, PR-18, NACK-1, RC-1
    client = broker.client()
    policy = pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="kept")
    consumer = client.subscribe(
        topic, "s", kind, negative_ack_redelivery_delay_ms=NACK_MS, initial_position=EARLIEST, dead_letter_policy=policy
    )
    client.create_producer(topic).send(b"bad", properties={"k": "v"}, partition_key="key")
    counts = []
    for _ in range(3):
        (message,) = receive(consumer, 1)
        counts.append(message.redelivery_count())
        consumer.negative_acknowledge(message)
    assert counts == [0, 1, 2]
    dead_letter_topic = f"{topic}-s-DLQ"
    eventually(lambda: backlog_of(broker, dead_letter_topic, "kept") == 1, timeout_s=60)
    eventually(lambda: backlog_of(broker, topic, "s") == 0)
    (letter,) = receive(client.subscribe(dead_letter_topic, "kept", SHARED), 1)
    assert (letter.data(), letter.partition_key(), letter.properties()["k"]) == (b"bad", "key", "v")
    assert letter.properties()["REAL_TOPIC"] == topic
    assert letter.properties()["ORIGIN_MESSAGE_ID"]
    expect_nothing(consumer)


def test_a_dead_letter_stays_when_its_subscription_may_not_be_made(broker: Broker, client: pulsar.Client) -> None:
    # covers DLQ-5, PR-18, TN-9
    space = Space(broker)
    dead_letter_topic = f"{space.topic}-s-DLQ"
    consumer = client.subscribe(
        space.topic,
        "s",
        SHARED,
        negative_ack_redelivery_delay_ms=NACK_MS,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="kept"),
    )
    policy = f"{space.path}/autoSubscriptionCreation"
    assert broker.rest("POST", policy, {"allowAutoSubscriptionCreation": False}) == (204, "")
    client.create_producer(space.topic).send(b"bad")
    for count in (0, 1):
        (message,) = receive(consumer, 1)
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)
    # The client asks for a producer, which makes the topic, is refused and keeps the message.
    eventually(lambda: broker.rest("GET", f"{topic_path(dead_letter_topic)}/stats")[0] == 200)
    raw = broker.raw()
    raw.request("LOOKUP", topic=dead_letter_topic)
    refused = raw.request(
        "PRODUCER", topic=dead_letter_topic, producer_id=1, producer_name="p", initial_subscription_name="kept"
    )
    assert (refused["error"], refused["message"]) == (
        "NotAllowedError",
        "Could not create the initial subscription due to the auto subscription creation is not allowed.",
    )
    stats = broker.stats(dead_letter_topic)
    assert (stats["publishers"], stats["subscriptions"], stats["msgInCounter"]) == ([], {}, 0)
    assert backlog_of(broker, space.topic, "s") == 1
    consumer.close()
    assert receive_texts(client.subscribe(space.topic, "s", SHARED), 1) == ["bad"]


def test_a_consumer_that_goes_has_not_failed(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers DLQ-6, RC-1
    policy = pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="kept")

    def subscribe() -> pulsar.Consumer:
        return client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=NACK_MS, dead_letter_policy=policy)

    holder = subscribe()  # the subscription is never without a consumer, which would forget counts (SH-4)
    client.create_producer(topic).send(b"good")
    for _ in range(4):
        (message,) = receive(holder, 1)
        assert message.redelivery_count() == 0
        following = subscribe()
        holder.close()
        holder = following
    (message,) = receive(holder, 1)
    holder.acknowledge(message)
    eventually(lambda: backlog_of(broker, topic, "s") == 0)
    assert backlog_of(broker, f"{topic}-s-DLQ", "kept") is None


def test_good_messages_go_on_beside_one_that_fails(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers DLQ-2, NACK-3
    dead_letter_topic = f"{topic}-dead"
    dead = client.subscribe(dead_letter_topic, "d", SHARED)
    consumer = client.subscribe(
        topic,
        "s",
        SHARED,
        negative_ack_redelivery_delay_ms=NACK_MS,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, dead_letter_topic=dead_letter_topic),
    )
    send_all(client.create_producer(topic), [str(number) for number in range(10)])
    seen: list[str] = []
    while len(seen) < 11:
        (message,) = receive(consumer, 1)
        seen += texts([message])
        if message.data() == b"3":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert seen.count("3") == 2
    assert receive_texts(dead, 1) == ["3"]
    eventually(lambda: backlog_of(broker, topic, "s") == 0)


def test_what_is_not_acked_in_time_comes_again(broker: Broker, client: pulsar.Client) -> None:
    # covers TMO-1, TMO-2, RC-1
    topics = {kind: broker.topic() for kind in (pulsar.ConsumerType.Exclusive, SHARED)}
    consumers = {
        kind: client.subscribe(topic, "s", kind, unacked_messages_timeout_ms=ACK_TIMEOUT_MS)
        for kind, topic in topics.items()
    }
    for topic in topics.values():
        send_all(client.create_producer(topic), ["a", "b"])
    began = time.monotonic()
    for consumer in consumers.values():
        acked, _ = receive(consumer, 2)
        consumer.acknowledge(acked)
    for kind, consumer in consumers.items():
        (again,) = receive(consumer, 1, timeout_ms=6 * ACK_TIMEOUT_MS)
        assert time.monotonic() - began >= 0.9 * ACK_TIMEOUT_MS / 1000
        assert again.data() == b"b"
        if kind == SHARED:
            assert again.redelivery_count() == 1
        consumer.acknowledge(again)


def test_retry_letters(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers RLQ-1, RLQ-2, RLQ-3, RLQ-4, DLQ-5
    letters = RetryLetters(client, topic, "s", max_redeliver_count=2, initial_subscription_name="kept")
    consumer = client.subscribe(letters.topics, "s", SHARED)
    sent = client.create_producer(topic).send(b"bad", properties={"k": "v"}, partition_key="key", event_timestamp=7)
    before = time.monotonic()
    for number in (0, 1, 2):
        (message,) = receive(consumer, 1)
        assert (message.data(), message.partition_key(), message.event_timestamp()) == (b"bad", "key", 7)
        assert message.properties().get("RECONSUMETIMES") == (str(number) if number else None)
        asked = time.monotonic()
        found = letters.reconsume_later(consumer, message, delay_ms=1_200, properties={"attempt": str(number)})
        assert found.is_dead == (number == 2)
        if number and broker.kind == "ours":  # Apache Pulsar may be a tick too early (DEL-3)
            assert asked - before >= 1.15
        before = asked
    eventually(lambda: backlog_of(broker, letters.dead_letter_topic, "kept") == 1)
    (dead,) = receive(client.subscribe(letters.dead_letter_topic, "kept", SHARED), 1)
    assert dead.properties() == {
        "k": "v",
        "attempt": "2",
        "REAL_TOPIC": topic,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": f"{sent.ledger_id()}:{sent.entry_id()}:-1",
        "ORIGIN_MESSAGE_IDY_TIME": f"{sent.ledger_id()}:{sent.entry_id()}:-1",
        "RECONSUMETIMES": "3",
        "DELAY_TIME": "1200",
    }
    for each in letters.topics:
        eventually(lambda each=each: backlog_of(broker, each, "s") == 0)
    letters.close()
