"""Messages that are to be delivered later, with the official client."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import SHARED, expect_nothing, receive, receive_texts, send_all
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

TICK_MS = 1_000
"""How much too early Apache Pulsar may be; ours never is (DEL-3)."""
POLICY = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 60_000}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def earliest_ms(broker: Broker, deliver_at_ms: int) -> int:
    return deliver_at_ms if broker.kind == "ours" else deliver_at_ms - TICK_MS


def _delayed(broker: Broker, topic: str, subscription: str = "s") -> dict[str, int]:
    status, stats = broker.rest("GET", f"{topic_path(topic)}/stats")
    assert status == 200, stats
    found = stats["subscriptions"][subscription]
    return {name: found[name] for name in ("msgBacklog", "msgDelayed", "unackedMessages")}


def test_a_delayed_message_comes_at_its_time_and_the_others_at_once(broker: Broker, client: pulsar.Client) -> None:
    # covers DEL-1, DEL-2, DEL-3, DEL-4, DEL-13, X2
    for delay_ms in (2_500, 10_000, 40_000):
        topic = broker.topic()
        consumers = [client.subscribe(topic, str(kind), kind) for kind in (SHARED, pulsar.ConsumerType.KeyShared)]
        producer = client.create_producer(topic)
        deliver_at_ms = now_ms() + delay_ms
        producer.send(b"later", deliver_at=deliver_at_ms)
        producer.send(b"much later", deliver_after=timedelta(milliseconds=delay_ms + 1_000))
        send_all(producer, ["now"])
        first = [receive_texts(consumer, 1) for consumer in consumers]
        if now_ms() < deliver_at_ms:
            break  # else the machine was busy with something else for so long that this shows nothing
    assert first == [["now"], ["now"]]
    for consumer in consumers:
        assert receive_texts(consumer, 1) == ["later"]
        assert now_ms() >= earliest_ms(broker, deliver_at_ms)
    assert [receive_texts(consumer, 1) for consumer in consumers] == [["much later"], ["much later"]]


@pytest.mark.ours_only("DEL-3: never early; Apache Pulsar delivers what is due within a tick at once")
def test_a_short_delay_is_kept_too(client: pulsar.Client, topic: str) -> None:
    # covers DEL-3
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    for delay_ms in (300, 50, 500):
        deliver_at_ms = now_ms() + delay_ms
        producer.send(b"x", deliver_at=deliver_at_ms)
        receive(consumer, 1)
        assert now_ms() >= deliver_at_ms


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_one_active_consumer_gets_everything_at_once(broker: Broker, topic: str, kind: pulsar.ConsumerType) -> None:
    # covers DEL-2
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    deliver_at_ms = now_ms() + 60_000
    producer.send(b"later", deliver_at=deliver_at_ms)
    send_all(producer, ["now"])
    assert receive_texts(consumer, 2) == ["later", "now"]


def test_a_time_that_is_over_is_none(client: pulsar.Client, topic: str) -> None:
    # covers DEL-10
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    producer.send(b"past", deliver_at=1)
    producer.send(b"gone", deliver_at=now_ms() - 5_000)
    assert receive_texts(consumer, 2) == ["past", "gone"]


def test_what_waits_is_backlog_and_not_unacked(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers DEL-5, DEL-12 (clear-backlog)
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic, batching_enabled=True)
    for _ in range(20):
        producer.send_async(b"x", lambda *_: None, deliver_after=timedelta(minutes=10))
    producer.flush()
    waiting = {"msgBacklog": 20, "msgDelayed": 20, "unackedMessages": 0}
    eventually(lambda: _delayed(broker, topic) == waiting)
    expect_nothing(consumer)
    assert broker.rest("POST", f"{topic_path(topic)}/subscription/s/skip_all")[0] == 204
    eventually(lambda: _delayed(broker, topic) == {"msgBacklog": 0, "msgDelayed": 0, "unackedMessages": 0})


def test_what_comes_due_while_nobody_is_there_waits(client: pulsar.Client, topic: str) -> None:
    # covers DEL-11
    consumer = client.subscribe(topic, "s", SHARED)
    witness = client.subscribe(topic, "witness", SHARED)
    consumer.close()
    client.create_producer(topic).send(b"later", deliver_after=timedelta(milliseconds=2_000))
    receive(witness, 1)  # it is due now
    assert receive_texts(client.subscribe(topic, "s", SHARED), 1) == ["later"]


def test_a_negative_ack_of_a_delayed_message_does_not_wait_again(broker: Broker, topic: str) -> None:
    # covers DEL-4, NACK-1, RC-1
    client = broker.client()
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    client.create_producer(topic).send(b"later", deliver_after=timedelta(milliseconds=1_500))
    (message,) = receive(consumer, 1)
    consumer.negative_acknowledge(message)
    (again,) = receive(consumer, 1)
    assert again.redelivery_count() == 1
    consumer.acknowledge(again)
    eventually(lambda: _delayed(broker, topic)["msgBacklog"] == 0)


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_the_policy_is_set_read_and_removed(broker: Broker, level: str) -> None:
    # covers ADM-66, ADM-67 (delayedDelivery)
    namespace = f"/admin/v2/namespaces/{broker.namespace()}"
    topic = topic_path(f"persistent://public/{namespace.rpartition('/')[2]}/t")
    assert broker.rest("PUT", topic)[0] == 204
    path = f"{namespace if level == 'namespace' else topic}/delayedDelivery"

    def shown() -> object:
        status, answer = broker.rest("GET", path)
        assert status == 200, answer
        return {name: answer[name] for name in POLICY} if answer else answer

    assert shown() == ""
    if level == "topic":
        status, applied = broker.rest("GET", f"{path}?applied=true")
        assert (status, applied["active"], applied["tickTime"]) == (200, True, 1000)
    assert broker.rest("POST", path, POLICY) == (204, "")
    eventually(lambda: shown() == POLICY)
    odd = {"active": False, "tickTime": -1, "maxDeliveryDelayInMillis": 0}
    assert broker.rest("POST", path, odd) == (204, "")
    eventually(lambda: shown() == odd)
    assert broker.rest("DELETE", path) == (204, "")
    eventually(lambda: shown() == "")


def test_too_long_a_delay_is_refused(broker: Broker, client: pulsar.Client, raw: RawConnection, topic: str) -> None:
    # covers DEL-9
    client.create_producer(topic).send(b"first")
    limit = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 10_000}
    assert broker.rest("POST", f"{topic_path(topic)}/delayedDelivery", limit) == (204, "")
    raw.produce(topic)

    numbers = itertools.count()

    def answered(delay_ms: int) -> Frame:
        metadata = {"publish_time": 1_000_000, "deliver_at_time": 1_000_000 + delay_ms}
        sequence_id = next(numbers)
        raw.send_message(1, sequence_id, b"x", metadata=metadata)
        return eventually(lambda: raw.next_frame(0.1))

    def refusal() -> str:  # a fresh policy takes up to about a second there
        answer = answered(10_001)
        return str(answer["message"]) if answer.type == "SEND_ERROR" else ""

    assert eventually(refusal) == "Exceeds max allowed delivery delay of 10000 milliseconds"
    assert answered(10_000).type == "SEND_RECEIPT"


def test_switching_it_off_delivers_at_once(broker: Broker, client: pulsar.Client) -> None:
    # covers DEL-2 (policy)
    namespace = broker.namespace()
    off = {"active": False, "tickTime": 1000}
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/delayedDelivery", off) == (204, "")
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s", SHARED)
    client.create_producer(topic).send(b"later", deliver_after=timedelta(minutes=10))
    assert receive_texts(consumer, 1) == ["later"]


def test_the_same_delay_for_all_keeps_their_order(rolling_broker: Broker) -> None:
    # covers DEL-8, DEL-4: Apache Pulsar stops looking ahead at a hundred of them here; ours knows all of them
    topic = rolling_broker.topic()
    client = rolling_broker.client()
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    earliest = earliest_ms(rolling_broker, now_ms() + 2_000)
    values = [str(number) for number in range(300)]
    for value in values:
        producer.send_async(value.encode(), lambda *_: None, deliver_after=timedelta(milliseconds=2_000))
    producer.flush()
    assert receive_texts(consumer, 1) == values[:1]
    assert now_ms() >= earliest
    assert receive_texts(consumer, 299) == values[1:]
    expect_nothing(consumer)
