"""Ledgers that roll and go, retention, expiry and backlog quotas, as clients and the REST API see them.

Every namespace is a test's own. Apache Pulsar looks for expired messages once a minute at most; the waits allow for it.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

import pulsar
import pytest

from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, send_all
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

KIB = 1024
HOUR_MS = 3_600_000
EXPIRY_S = 130.0
_numbers = itertools.count()


class Space:
    """A namespace with one topic in it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        name = f"public/rolling-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        self.path = f"/admin/v2/namespaces/{name}"
        self.topic = f"persistent://{name}/t"
        assert broker.rest("PUT", self.path)[0] == 204
        self.retain(0, 0)

    def retain(self, minutes: int, megabytes: int) -> None:
        body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        assert self.broker.rest("POST", f"{self.path}/retention", body)[0] == 204

    def expire(self, seconds: int) -> None:
        assert self.broker.rest("POST", f"{self.path}/messageTTL", seconds)[0] == 204

    def limit(self, policy: str, *, size: int = -1, seconds: int = -1) -> None:
        kind = "destination_storage" if size >= 0 else "message_age"
        body = {"limitSize": size, "limitTime": seconds, "policy": policy}
        assert self.broker.rest("POST", f"{self.path}/backlogQuota?backlogQuotaType={kind}", body)[0] == 204

    def subscribe(self, name: str = "s") -> None:
        """Create a subscription that nobody is connected to."""
        path = f"{topic_path(self.topic)}/subscription/{name}"
        self.broker.client().create_producer(self.topic).close()
        assert self.broker.rest("PUT", path)[0] in (200, 204)

    def stats(self) -> dict[str, Any]:
        status, answer = self.broker.rest("GET", f"{topic_path(self.topic)}/stats")
        assert status == 200, answer
        return dict(answer)

    def backlog(self, name: str = "s") -> int:
        return int(self.stats()["subscriptions"][name]["msgBacklog"])

    def stored(self) -> int:
        """Entries of all ledgers."""
        status, answer = self.broker.rest("GET", f"{topic_path(self.topic)}/internalStats")
        assert status == 200, answer
        return int(answer["numberOfEntries"])

    def try_producer(self) -> Frame:
        """The answer to PRODUCER."""
        raw = self.broker.raw()
        raw.request("LOOKUP", topic=self.topic)
        answer = raw.request("PRODUCER", topic=self.topic, producer_id=1)
        raw.close()
        return answer

    def refused(self) -> Frame | None:
        """The refusal of a producer, None when it is let in."""
        answer = self.try_producer()
        return answer if answer.type == "ERROR" else None

    def is_open(self) -> bool:
        return self.try_producer().type == "PRODUCER_SUCCESS"


@pytest.fixture
def space(rolling_broker: Broker) -> Space:
    return Space(rolling_broker)


def publish_at(raw: RawConnection, producer_id: int, topic: str, *times_ms: int) -> None:
    """One message after the other, each published at that time by its producer's clock."""
    raw.request("LOOKUP", topic=topic)
    assert raw.request("PRODUCER", topic=topic, producer_id=producer_id).type == "PRODUCER_SUCCESS"
    for sequence_id, time_ms in enumerate(times_ms):
        raw.send_message(producer_id, sequence_id, b"m", metadata={"publish_time": time_ms})
        raw.expect("SEND_RECEIPT")


# ---- rolling and trimming ---------------------------------------------------------------------------------------


def test_ledgers_roll_by_entries(space: Space) -> None:
    # covers ML-2
    space.subscribe()
    ids = send_all(space.broker.client().create_producer(space.topic), [str(number) for number in range(25)])
    ledgers = [each.ledger_id() for each in ids]
    assert [len(list(group)) for _, group in itertools.groupby(ledgers)] == [10, 10, 5]
    assert sorted(set(ledgers)) == list(dict.fromkeys(ledgers))
    assert space.stored() == 25


def test_without_subscription_closed_ledgers_go(space: Space) -> None:
    # covers TRIM-1, RET-5
    client = space.broker.client()
    send_all(client.create_producer(space.topic), [str(number) for number in range(35)])
    eventually(lambda: space.stored() == 5)
    reader = client.create_reader(space.topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 5) == ["30", "31", "32", "33", "34"]


def test_what_a_subscription_has_consumed_goes(space: Space) -> None:
    # covers TRIM-1, TRIM-3
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    send_all(client.create_producer(space.topic), [str(number) for number in range(35)])
    messages = [consumer.receive(timeout_millis=10_000) for _ in range(35)]
    for message in messages[:12] + messages[13:]:
        consumer.acknowledge(message)
    eventually(lambda: space.stored() == 25)
    consumer.acknowledge(messages[12])
    eventually(lambda: space.stored() <= 5)


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
    for _ in values:
        consumer.acknowledge(consumer.receive(timeout_millis=10_000))
    eventually(lambda: space.backlog() == 0)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_texts(consumer, 25) == values


def test_retention_by_size_leaves_at_least_its_limit(space: Space) -> None:
    # covers RET-1, RET-4
    space.retain(-1, 1)
    producer = space.broker.client().create_producer(space.topic)
    for number in range(101):
        producer.send(str(number).encode().ljust(50_000))
    # The limit lies between two ledgers of 500 kB and three of them.
    eventually(lambda: space.stored() == 31)


def test_turning_retention_off_lets_go(space: Space) -> None:
    # covers RET-1
    space.retain(-1, -1)
    send_all(space.broker.client().create_producer(space.topic), [str(number) for number in range(35)])
    assert space.stored() == 35
    space.retain(0, 0)
    eventually(lambda: space.stored() == 5)


# ---- expiry -----------------------------------------------------------------------------------------------------


def test_unacked_messages_expire_and_readers_still_find_them(space: Space) -> None:
    # covers TTL-1, TTL-7
    space.retain(-1, -1)
    space.expire(2)
    space.subscribe("s")
    space.subscribe("other")
    client = space.broker.client()
    other = client.subscribe(space.topic, "other")
    values = [str(number) for number in range(15)]
    send_all(client.create_producer(space.topic), values)
    for _ in values:
        other.acknowledge(other.receive(timeout_millis=10_000))
    eventually(lambda: space.backlog("s") == 0, EXPIRY_S, 0.1)
    reader = client.create_reader(space.topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 15) == values


def test_age_is_told_by_the_publish_time(space: Space) -> None:
    # covers TTL-3
    space.expire(60)
    space.subscribe()
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, now_ms - HOUR_MS, now_ms - HOUR_MS, now_ms + HOUR_MS)
    eventually(lambda: space.backlog() == 1, EXPIRY_S, 0.1)


@pytest.mark.ours_only("TTL-4: an entry is not acked because one after it is older")
def test_no_unexpired_message_goes_with_expired_ones(space: Space) -> None:
    # covers TTL-4 (better)
    space.expire(60)
    space.subscribe()
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, now_ms - HOUR_MS, now_ms + 24 * HOUR_MS, now_ms, now_ms - HOUR_MS)
    eventually(lambda: space.backlog() == 2)


@pytest.mark.ours_only("TTL-5: a connected consumer is no exception; TTL-2: looked at when it is time")
def test_expiry_is_not_late(space: Space) -> None:
    # covers TTL-2 (better), TTL-5 (better), row 6 of section 21
    space.expire(1)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    client.create_producer(space.topic).send(b"m")
    published_s = time.monotonic()
    consumer.receive(timeout_millis=10_000)
    eventually(lambda: space.backlog() == 0, 5)
    assert 0.9 < time.monotonic() - published_s < 2.5


@pytest.mark.ours_only("TTL-2: expired messages are not delivered")
def test_no_expired_message_is_delivered(space: Space) -> None:
    # covers TTL-2 (better), row 6 of section 21
    space.expire(60)
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    now_ms = wall_ms()
    publish_at(space.broker.raw(), 1, space.topic, *[now_ms - HOUR_MS] * 20)
    client.create_producer(space.topic).send(b"fresh")
    assert receive_texts(consumer, 1) == ["fresh"]


# ---- backlog quotas ---------------------------------------------------------------------------------------------

CODES = [
    ("producer_request_hold", "ProducerBlockedQuotaExceededError"),
    ("producer_exception", "ProducerBlockedQuotaExceededException"),
]


@pytest.mark.parametrize(("policy", "code"), CODES)
def test_a_full_backlog_keeps_producers_out_until_it_shrinks(space: Space, policy: str, code: str) -> None:
    # covers BQ-1, BQ-4, BQ-5, BQ-8, BQ-9
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "slow")
    quick = client.subscribe(space.topic, "quick")
    send_all(client.create_producer(space.topic), [bytes(KIB)] * 20)
    for _ in range(20):
        quick.acknowledge(quick.receive(timeout_millis=10_000))
    space.limit(policy, size=10 * KIB)
    refusal = eventually(space.refused)
    assert refusal["error"] == code
    assert "Cannot create producer on topic with backlog quota exceeded" in refusal["message"]
    if space.broker.kind == "ours":  # row 16 of section 21
        assert "subscription 'slow'" in refusal["message"]
    for _ in range(20):
        consumer.acknowledge(consumer.receive(timeout_millis=10_000))
    eventually(space.is_open)


def test_a_held_producer_goes_on_when_the_backlog_shrinks(space: Space) -> None:
    # covers BQ-4
    client = space.broker.client()
    consumer = client.subscribe(space.topic, "s")
    producer = client.create_producer(space.topic, send_timeout_millis=30_000)
    send_all(producer, [bytes(KIB)] * 20)
    space.limit("producer_request_hold", size=10 * KIB)
    eventually(space.refused)
    receipts: list[Any] = []
    producer.send_async(b"held", lambda result, _: receipts.append(result))
    for _ in range(20):
        consumer.acknowledge(consumer.receive(timeout_millis=10_000))
    eventually(lambda: receipts == [pulsar.Result.Ok], 30)
    assert receive_texts(consumer, 1) == ["held"]


def test_eviction_by_size_lets_the_oldest_go(space: Space) -> None:
    # covers BQ-6
    space.subscribe()
    client = space.broker.client()
    producer = client.create_producer(space.topic)
    for number in range(200):
        producer.send(str(number).encode().ljust(KIB))
    space.limit("consumer_backlog_eviction", size=100 * KIB)
    eventually(lambda: space.backlog() < 100)
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
    consumer.acknowledge(consumer.receive(timeout_millis=10_000))
    eventually(space.is_open)


def test_eviction_by_age_lets_the_oldest_go(space: Space) -> None:
    # covers BQ-7
    space.limit("consumer_backlog_eviction", seconds=2)
    space.subscribe()
    client = space.broker.client()
    send_all(client.create_producer(space.topic), [str(number) for number in range(15)])
    eventually(lambda: space.backlog() == 0)
    assert space.is_open()


def test_usage_is_told_in_statistics(space: Space) -> None:
    # covers BQ-10
    space.limit("producer_request_hold", size=50 * KIB)
    space.subscribe()
    send_all(space.broker.client().create_producer(space.topic), [bytes(KIB)] * 5)
    eventually(lambda: space.backlog() == 5)
    stats = space.stats()
    assert stats["backlogQuotaLimitSize"] == 50 * KIB
    assert 5 * KIB < stats["storageSize"] < 6 * KIB
    assert stats["backlogSize"] == stats["storageSize"]
