"""Backlogs that grow too large or too old, as producers, consumers and the REST API see them."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, receive_texts, send_all
from tests.conformance.space import KIB, Space
from tests.eventually import eventually

CODES = [
    ("producer_request_hold", "ProducerBlockedQuotaExceededError"),
    ("producer_exception", "ProducerBlockedQuotaExceededException"),
]


@pytest.fixture
def space(rolling_broker: Broker) -> Space:
    return Space(rolling_broker)


@pytest.mark.parametrize(("policy", "code"), CODES)
def test_a_full_backlog_keeps_producers_out_until_it_shrinks(space: Space, policy: str, code: str) -> None:
    # covers BQ-1, BQ-4, BQ-5, BQ-8, BQ-9
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "slow")
    quick = client.subscribe(space.topic, "quick")
    send_all(client.create_producer(space.topic), [bytes(KIB)] * 20)
    for message in receive(quick, 20):
        quick.acknowledge(message)
    space.limit(policy, size=10 * KIB)
    refusal = eventually(space.refused)
    assert refusal["error"] == code
    assert "Cannot create producer on topic with backlog quota exceeded" in refusal["message"]
    if space.broker.kind == "ours":  # BQ-8
        assert "subscription 'slow'" in refusal["message"]
    for message in receive(consumer, 20):
        consumer.acknowledge(message)
    assert eventually(space.is_open)


def test_a_held_producer_goes_on_when_the_backlog_shrinks(space: Space) -> None:
    # covers BQ-4
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic, send_timeout_millis=120_000)
    send_all(producer, [bytes(KIB)] * 20)
    space.limit("producer_request_hold", size=10 * KIB)
    assert eventually(space.refused)
    receipts: list[Any] = []
    producer.send_async(b"held", lambda result, _: receipts.append(result))
    for message in receive(consumer, 20):
        consumer.acknowledge(message)
    assert eventually(lambda: receipts == [pulsar.Result.Ok], 120)
    assert receive_texts(consumer, 1) == ["held"]


def test_eviction_by_size_lets_the_oldest_go(space: Space) -> None:
    # covers BQ-6
    space.subscribe()
    client = space.broker.client()
    producer = client.create_producer(space.topic)
    for number in range(200):
        producer.send(str(number).encode().ljust(KIB))
    space.limit("consumer_backlog_eviction", size=100 * KIB)
    assert eventually(lambda: space.backlog() < 100)
    left = space.backlog()
    assert 75 <= left <= 98
    assert space.is_open()
    consumer = client.subscribe(space.topic, "s")
    assert [text.strip() for text in receive_texts(consumer, left)] == [str(each) for each in range(200 - left, 200)]


@pytest.mark.parametrize(("policy", "code"), CODES)
def test_an_old_backlog_keeps_producers_out_until_it_is_consumed(space: Space, policy: str, code: str) -> None:
    # covers BQ-2
    space.limit(policy, seconds=2)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    client.create_producer(space.topic).send(b"old")
    refusal = eventually(space.refused)
    assert refusal["error"] == code
    consumer.acknowledge(receive(consumer, 1)[0])
    assert eventually(space.is_open)


def test_eviction_by_age_lets_the_oldest_go(space: Space) -> None:
    # covers BQ-7
    space.limit("consumer_backlog_eviction", seconds=2)
    space.subscribe()
    client = space.broker.client()
    send_all(client.create_producer(space.topic), [str(number) for number in range(15)])
    assert eventually(lambda: space.backlog() == 0)
    assert space.is_open()


@pytest.mark.parametrize(("policy", "code"), CODES)
def test_without_its_slowest_subscription_the_door_is_open(space: Space, policy: str, code: str) -> None:
    # covers BQ-8, BQ-1 (a limit of 0 is always exceeded)
    space.subscribe("abandoned")
    send_all(space.broker.client().create_producer(space.topic), ["x"])
    space.limit(policy, size=0)
    assert eventually(space.refused)["error"] == code
    space.limit(policy, size=KIB)
    assert eventually(space.is_open)
    space.limit(policy, size=1)
    assert eventually(space.refused)["error"] == code
    assert space.broker.rest("DELETE", f"{topic_path(space.topic)}/subscription/abandoned")[0] == 204
    assert eventually(space.is_open)


@pytest.mark.ours_only("BQ-6: 4.0.8 may go on evicting without progress, and then serves nobody on the topic")
def test_eviction_ends_where_it_makes_no_progress(space: Space) -> None:
    # covers BQ-6
    space.subscribe()
    producer = space.broker.client().create_producer(space.topic)
    for _ in range(20):
        producer.send(bytes(500))
    space.limit("consumer_backlog_eviction", size=2_000)
    assert eventually(lambda: space.backlog() <= 4)
    producer.send(b"goes on")
    assert space.is_open()


def test_small_messages_behind_large_ones_are_not_counted_as_average_ones(space: Space) -> None:
    # covers BQ-1: Apache Pulsar estimates from the average entry of the ledger; here sizes are exact
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic, batching_enabled=False)
    send_all(producer, [bytes(100 * KIB)] * 10)
    for message in receive(consumer, 10):
        consumer.acknowledge(message)
    send_all(producer, [bytes(100)] * 300)
    assert eventually(lambda: space.backlog() == 300)
    space.limit("producer_request_hold", size=100 * KIB)
    if space.broker.kind == "ours":
        assert space.is_open()
    space.limit("producer_request_hold", size=300 * 100)
    assert eventually(space.refused)
