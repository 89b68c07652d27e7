"""Ledgers that roll and go, retention and expiry, as clients and the REST API see them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import timedelta

import pulsar
import pytest

from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all
from tests.conformance.space import EXPIRY_S, HOUR_MS, Space, publish_at
from tests.eventually import eventually

# Statistics that are -1 for "none".
NONE_OF_IT = {
    "backlogQuotaLimitSize",
    "backlogQuotaLimitTime",
    "oldestBacklogMessageAgeSeconds",
    "lastOffloadLedgerId",
    "topicEpoch",
}


@pytest.fixture
def space(rolling_broker: Broker) -> Space:
    return Space(rolling_broker)


# ---- rolling and trimming ---------------------------------------------------------------------------------------


def test_ledgers_roll_by_entries(space: Space) -> None:
    # covers ML-2
    space.subscribe()
    ids = send_all(space.broker.client().create_producer(space.topic), [str(number) for number in range(25)])
    ledgers = [each.ledger_id() for each in ids]
    assert [len(list(group)) for _, group in itertools.groupby(ledgers)] == [10, 10, 5]
    assert sorted(set(ledgers)) == list(dict.fromkeys(ledgers))
    assert space.stored() == 25


def test_ledgers_roll_by_size(space: Space) -> None:
    # covers ML-2
    space.subscribe()
    producer = space.broker.client().create_producer(space.topic)
    ledgers = [producer.send(bytes(600_000)).ledger_id() for _ in range(5)]
    assert [len(list(group)) for _, group in itertools.groupby(ledgers)] == [2, 2, 1]


def test_without_subscription_closed_ledgers_go(space: Space) -> None:
    # covers TRIM-1, RET-5
    client = space.broker.client()
    send_all(client.create_producer(space.topic), [str(number) for number in range(35)])
    assert eventually(lambda: space.stored() == 5)
    reader = client.create_reader(space.topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 5) == ["30", "31", "32", "33", "34"]


def test_what_a_subscription_has_consumed_goes(space: Space) -> None:
    # covers TRIM-1, TRIM-3
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    send_all(client.create_producer(space.topic), [str(number) for number in range(35)])
    messages = receive(consumer, 35)
    for message in messages[:12] + messages[13:]:
        consumer.acknowledge(message)
    assert eventually(lambda: space.stored() == 25)
    consumer.acknowledge(messages[12])
    assert eventually(lambda: space.stored() <= 5)


def test_what_waits_for_its_time_pins_its_ledger_and_all_later_ones(space: Space) -> None:
    # covers DEL-6, TRIM-3
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(space.topic)
    send_all(producer, [str(number) for number in range(12)])
    producer.send(b"later", deliver_after=timedelta(hours=1))
    send_all(producer, [str(number) for number in range(12, 34)])
    for message in receive(consumer, 34):
        consumer.acknowledge(message)
    assert eventually(lambda: (space.stored(), space.backlog()) == (25, 1))
    assert space.broker.rest("POST", f"{topic_path(space.topic)}/subscription/s/skip_all")[0] == 204
    assert eventually(lambda: space.stored() <= 5)


def test_sizes_of_what_everybody_consumed(space: Space) -> None:
    # covers ST-3, ST-4
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic, batching_enabled=False)
    send_all(producer, ["x"] * 5)
    for message in receive(consumer, 5):
        consumer.acknowledge(message)
    assert eventually(lambda: space.stats()["backlogSize"] == 0)
    stats = space.stats()
    assert stats["storageSize"] > 0
    (one,) = stats["subscriptions"]["s"]["consumers"]
    for member in (stats, stats["subscriptions"]["s"], stats["publishers"][0], one):
        negative = {name for name, value in member.items() if isinstance(value, int | float) and value < 0}
        assert negative <= NONE_OF_IT, member
    send_all(producer, ["x"] * 8)
    for message in receive(consumer, 8):
        consumer.acknowledge(message)
    assert eventually(lambda: space.stats()["storageSize"] < stats["storageSize"]), "what is left of the second ledger"


# ---- retention --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [(-1, -1), (10, -1), (-1, 10), (10, 10)], ids=str)
def test_readers_find_what_retention_keeps(space: Space, limits: tuple[int, int]) -> None:
    # covers RET-1, RET-5
    space.retain(*limits)
    client = space.broker.client()
    values = [str(number) for number in range(35)]
    send_all(client.create_producer(space.topic), values)
    reader = client.create_reader(space.topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 35) == values


def test_consumed_messages_are_kept_and_can_be_sought(space: Space) -> None:
    # covers RET-1, TRIM-4
    space.retain(10, 10)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    values = [str(number) for number in range(25)]
    send_all(client.create_producer(space.topic), values)
    for message in receive(consumer, 25):
        consumer.acknowledge(message)
    assert eventually(lambda: space.backlog() == 0)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_texts(consumer, 25) == values


def test_what_all_consumed_of_the_open_ledger_can_be_read(broker_kind: str, request: pytest.FixtureRequest) -> None:
    # covers TRIM-2, TRIM-4
    # Of ours, one whose journal is settled soon.
    own: Broker = request.getfixturevalue("switched_broker" if broker_kind == "ours" else "broker")
    client, topic = own.client(), own.topic()
    consumer = client.subscribe(topic, "s")
    values = [str(number) for number in range(1000)]
    send_all(client.create_producer(topic), values)
    consumer.acknowledge_cumulative(receive(consumer, 1000)[-1])
    assert eventually(lambda: own.backlog(topic) == 0)
    other = client.create_producer(own.topic())
    for _ in range(40):
        other.send(bytes(100_000))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 1000) == values


def test_retention_by_size_leaves_at_least_its_limit(space: Space) -> None:
    # covers RET-1, RET-4
    space.retain(-1, 1)
    producer = space.broker.client().create_producer(space.topic)
    for number in range(101):
        producer.send(str(number).encode().ljust(45_000))
    # The limit lies between two ledgers of 450 kB with an entry and three of them.
    assert eventually(lambda: space.stored() == 31)


def test_the_limit_of_size_is_that_of_a_partition(space: Space) -> None:
    # covers RET-4
    space.retain(-1, 1)
    parts = space.partitioned(2)
    client = space.broker.client()
    producers = [client.create_producer(part) for part in parts]
    for number in range(101):
        for producer in producers:
            producer.send(str(number).encode().ljust(45_000))
    # As one topic's; a limit for both together would leave half of it.
    assert eventually(lambda: all(space.stored(part) <= 41 for part in parts))
    assert all(space.stored(part) >= 31 for part in parts), [space.stored(part) for part in parts]


def test_names_that_are_known_do_not_hold_back_storage(space: Space) -> None:
    # covers DED-10
    assert space.broker.rest("POST", f"{space.path}/deduplication", True)[0] == 204
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic, producer_name="p")
    for number in range(35):
        producer.send(b"x", sequence_id=number)
    for message in receive(consumer, 35):
        consumer.acknowledge(message)
    assert eventually(lambda: space.stored() <= 10)
    assert producer.send(b"x", sequence_id=34).ledger_id() == -1


def test_turning_retention_off_lets_go(space: Space) -> None:
    # covers RET-1
    space.retain(-1, -1)
    send_all(space.broker.client().create_producer(space.topic), [str(number) for number in range(35)])
    assert space.stored() == 35
    space.retain(0, 0)
    assert eventually(lambda: space.stored() == 5)


# ---- expiry -----------------------------------------------------------------------------------------------------


def _unacked_messages_expire_and_readers_still_find_them(space: Space) -> Iterator[None]:
    space.retain(-1, -1)
    space.subscribe("s")
    space.subscribe("other")
    client = space.broker.client()
    other = client.subscribe(space.topic, "other")
    values = [str(number) for number in range(15)]
    send_all(client.create_producer(space.topic), values)
    for message in receive(other, 15):
        other.acknowledge(message)
    space.expire(1)
    yield
    assert eventually(lambda: space.backlog("s") == 0, EXPIRY_S, 0.1)
    reader = client.create_reader(space.topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 15) == values


def _age_is_that_of_the_publish_time(space: Space) -> Iterator[None]:
    space.expire(60)
    space.subscribe()
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, now_ms - HOUR_MS, now_ms - HOUR_MS, now_ms + HOUR_MS)
    yield
    assert eventually(lambda: space.backlog() == 1, EXPIRY_S, 0.1)


def _messages_expire_unseen_before_their_delivery_time(space: Space) -> Iterator[None]:
    space.expire(60)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    now_ms = wall_ms()
    raw = space.broker.raw()
    publish_at(raw, 1, space.topic, now_ms - HOUR_MS, deliver_at_time=now_ms + HOUR_MS)
    yield
    assert eventually(lambda: space.backlog() == 0, EXPIRY_S, 0.1)
    expect_nothing(consumer)


def test_expiry(rolling_broker: Broker) -> None:
    # covers TTL-1, TTL-3, TTL-6, TTL-7: they wait together for the check that Apache Pulsar makes once a minute
    waiting = [
        _unacked_messages_expire_and_readers_still_find_them(Space(rolling_broker)),
        _age_is_that_of_the_publish_time(Space(rolling_broker)),
        _messages_expire_unseen_before_their_delivery_time(Space(rolling_broker)),
    ]
    for each in waiting:
        next(each)
    for each in waiting:
        assert next(each, None) is None


@pytest.mark.ours_only("TTL-4: an entry is not acked because one after it is older")
def test_no_unexpired_message_goes_with_expired_ones(space: Space) -> None:
    # covers TTL-4 (better)
    space.expire(60)
    space.subscribe()
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, now_ms - HOUR_MS, now_ms + 24 * HOUR_MS, now_ms, now_ms - HOUR_MS)
    assert eventually(lambda: space.backlog() == 2)


@pytest.mark.ours_only("TTL-5: a connected consumer is no exception; TTL-2: looked at when it is time")
def test_expiry_is_not_late(space: Space) -> None:
    # covers TTL-2 (better), TTL-5 (better)
    space.expire(1)
    client = space.broker.client()
    client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic)
    began_s = time.monotonic()
    producer.send(b"m")
    # A second is the promise; the rest is for a machine that is busy with something else.
    assert eventually(lambda: space.backlog() == 0)
    assert time.monotonic() - began_s > 0.9


@pytest.mark.ours_only("TTL-2: expired messages are not delivered")
def test_no_expired_message_is_delivered(space: Space) -> None:
    # covers TTL-2 (better)
    space.expire(60)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, *[now_ms - HOUR_MS] * 20)
    client.create_producer(space.topic).send(b"fresh")
    assert receive_texts(consumer, 1) == ["fresh"]
