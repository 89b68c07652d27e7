"""What the configuration of the broker says holds where neither a namespace nor a topic says otherwise."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pulsar
import pytest

from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, send_all
from tests.conformance.space import EXPIRY_S, HOUR_MS, publish_at
from tests.eventually import eventually
from tests.raw import RawConnection

NAMES = [f"producer-{number}" for number in range(40)]


def _stored(broker: Broker, topic: str) -> int:
    return int(broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["numberOfEntries"])


def _not_deduplicated(broker: Broker) -> str:
    """A topic whose own policy is to store what is repeated. (Apache Pulsar's notes of ids would hold its ledgers.)"""
    topic = broker.topic()
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    assert broker.rest("POST", f"{topic_path(topic)}/deduplicationEnabled", False)[0] == 204
    assert eventually(lambda: broker.stats(topic)["deduplicationStatus"] == "Disabled")
    return topic


@dataclass
class Left:
    """What was left to itself for the time that the configuration gives it.

    Attributes:
        topic: With two subscriptions, of which only `used` has a consumer.
        named: Where the producers of `NAMES` have stored sequence id 7 before they went.
        expiring: With a message that has outlived its time, and one that has not.
    """

    broker: Broker
    topic: str
    named: str
    expiring: str


@pytest.fixture(scope="module", autouse=True)
def left(configured_broker: Broker) -> Left:
    """Begins with the module, so that its last tests wait for what is left of the minute only."""
    client = configured_broker.client()
    topic, named = configured_broker.topic(), configured_broker.topic()
    client.subscribe(topic, "used")
    client.subscribe(topic, "idle").close()
    client.subscribe(named, "s")
    for name in NAMES:
        producer = client.create_producer(named, producer_name=name)
        producer.send(b"x", sequence_id=7)
        producer.close()
    expiring = configured_broker.topic()
    client.subscribe(expiring, "s").close()
    now_ms = wall_ms()
    publish_at(configured_broker.raw(), 1, expiring, now_ms - HOUR_MS, now_ms)
    return Left(configured_broker, topic, named, expiring)


def test_one_limit_of_zero_lets_go_whatever_the_other_is(configured_broker: Broker) -> None:
    # covers RET-2
    topic = _not_deduplicated(configured_broker)
    client = configured_broker.client()
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), [str(number) for number in range(25)])
    for message in receive(consumer, 25):
        consumer.acknowledge(message)
    assert eventually(lambda: _stored(configured_broker, topic) <= 5)


@pytest.mark.ours_only("ML-3: an idle topic frees its last ledger in seconds; 4.0.8 kept it for over 30 s here")
def test_an_idle_topic_without_subscription_lets_go_of_its_last_ledger(configured_broker: Broker) -> None:
    # covers ML-3
    topic = _not_deduplicated(configured_broker)
    client = configured_broker.client()
    send_all(client.create_producer(topic), ["a", "b", "c"])
    assert eventually(lambda: _stored(configured_broker, topic) == 0, timeout_s=30)
    assert not client.create_reader(topic, pulsar.MessageId.earliest).has_message_available()


def test_a_backlog_is_limited(configured_broker: Broker) -> None:
    # covers BQ-1, BQ-5
    topic = configured_broker.topic()
    client = configured_broker.client()
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(bytes(110_000))

    def refused() -> bool:
        try:
            client.create_producer(topic).close()
        except pulsar.ProducerBlockedQuotaExceededException:
            return True
        return False

    assert eventually(refused)
    for message in receive(consumer, 1):
        consumer.acknowledge(message)
    assert eventually(lambda: not refused())


def test_repeated_messages_are_dropped_unless_the_topic_says_otherwise(configured_broker: Broker) -> None:
    # covers DED-1
    topic, other = configured_broker.topic(), _not_deduplicated(configured_broker)
    client = configured_broker.client()
    for name, dropped in ((topic, True), (other, False)):
        producer = client.create_producer(name, producer_name="p")
        assert producer.send(b"x", sequence_id=3).ledger_id() >= 0
        assert (producer.send(b"again", sequence_id=3).ledger_id() == -1) is dropped


def test_all_topics_together_are_slowed_down(configured_broker: Broker) -> None:
    # covers PR-14
    topics = [configured_broker.topic(), configured_broker.topic()]
    producers = [configured_broker.client().create_producer(topic) for topic in topics]
    results: list[pulsar.Result] = []
    began = time.monotonic()
    for number in range(300):
        producers[number % 2].send_async(b"x", lambda result, _: results.append(result))
    for producer in producers:
        producer.flush()
    eventually(lambda: len(results) == 300)
    assert set(results) == {pulsar.Result.Ok}
    # A second of the rate at most goes at once.
    assert time.monotonic() - began > 1
    stats = [configured_broker.stats(topic) for topic in topics]
    assert all(each["publishRateLimitedTimes"] > 0 for each in stats)


@pytest.mark.long
def test_an_idle_subscription_goes(left: Left) -> None:
    # covers CUR-17
    path = f"{topic_path(left.topic)}/subscriptions"
    assert eventually(lambda: left.broker.rest("GET", path) == (200, ["used"]), EXPIRY_S, 0.1)


@pytest.mark.long
def test_names_that_stay_away_are_forgotten(left: Left) -> None:
    # covers DED-9
    names = iter(NAMES)

    def is_forgotten() -> bool:
        # Who asks uses the name, and so keeps it: each is asked for once.
        raw = left.broker.raw()
        raw.request("LOOKUP", topic=left.named)
        answer = raw.request("PRODUCER", topic=left.named, producer_id=1, producer_name=next(names))
        raw.close()
        return bool(answer["last_sequence_id"] == -1)

    assert eventually(is_forgotten, EXPIRY_S, EXPIRY_S / len(NAMES) + 1)


def _consumer(broker: Broker, topic: str, name: str) -> dict[str, Any]:
    consumers = broker.subscription(topic)["consumers"]
    return next(dict(each) for each in consumers if each["consumerName"] == name)


def test_a_newcomer_waits_for_what_was_read_before_it_by_the_classic_rule(configured_broker: Broker) -> None:
    # covers KS-9, X10
    broker, topic = configured_broker, configured_broker.topic()
    old, new = broker.raw(), broker.raw()

    def join(raw: RawConnection, name: str) -> None:
        raw.subscribe(topic, permits=100, subType="Key_Shared", consumer_name=name)

    join(old, "old")
    assert broker.subscription(topic)["consumersAfterMarkDeletePosition"] == {}
    producer = broker.client().create_producer(topic, batching_enabled=False)
    for number in range(2):
        producer.send(b"before", partition_key=f"key-{number}")
    before = old.expect_messages(2)
    join(new, "new")
    limit = f"{before[0].position[0]}:2"
    assert _consumer(broker, topic, "old")["readPositionWhenJoining"].endswith(":0")
    assert _consumer(broker, topic, "new")["readPositionWhenJoining"] == limit
    assert broker.subscription(topic)["consumersAfterMarkDeletePosition"] == {"new": limit}
    assert _consumer(broker, topic, "new")["keyHashRanges"]
    for number in range(40):
        producer.send(b"after", partition_key=f"key-{number}")
    old.expect_messages(1)
    old.ack(before[0].id)
    new.expect_no_message()
    old.ack(before[1].id)
    new.expect_messages(1)
    eventually(lambda: broker.subscription(topic)["unackedMessages"] == 40)
    assert broker.subscription(topic)["consumersAfterMarkDeletePosition"] == {}


def test_messages_expire(left: Left) -> None:
    # covers TTL-1
    assert eventually(lambda: left.broker.backlog(left.expiring) == 1, EXPIRY_S, 0.1)
