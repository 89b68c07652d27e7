"""What a subscription knows is there again after kill -9: acks with and without receipt, parts of batches, holes by the
ten thousand, redelivery counts, and every order of the admin API that was answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched, texts
from tests.conformance.outliving import Halves, outlives_a_kill
from tests.conformance.test_admin_cursors import id_of, sub
from tests.eventually import eventually

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared


def _client(own_broker: Broker) -> pulsar.Client:
    return own_broker.client(operation_timeout_seconds=60)


def _topic(own_broker: Broker, count: int) -> tuple[str, list[pulsar.MessageId]]:
    topic = own_broker.topic()
    client = _client(own_broker)
    client.subscribe(topic, "s", SHARED, initial_position=EARLIEST).close()
    return topic, send_all(client.create_producer(topic), [str(number) for number in range(count)])


@pytest.mark.ours_only("CUR-4: 4.0.8 writes acks once a second at most; a crash brings the last of them back")
@outlives_a_kill
def test_acks_without_a_receipt_are_on_disk_within_100_ms(own_broker: Broker) -> Halves:
    # covers CUR-4, DUR-6
    topic, _ = _topic(own_broker, 50)
    consumer = _client(own_broker).subscribe(topic, "s", SHARED)
    for message in receive(consumer, 50):
        if int(message.data()) % 7:
            consumer.acknowledge(message)
    consumer.close()  # the client sends what it has grouped
    eventually(lambda: own_broker.backlog(topic) == 8)
    # A tenth of a second is the promise; the rest is for a machine that is busy with something else.
    expect_nothing(_client(own_broker).create_reader(topic, pulsar.MessageId.latest), quiet_ms=1_000)
    yield
    again = _client(own_broker).subscribe(topic, "s", SHARED)
    assert receive_texts(again, 8) == [str(number) for number in range(0, 50, 7)]
    expect_nothing(again)


@pytest.mark.ours_only("ACK-4, CUR-5, CUR-4: 4.0.8 remembers 10,000 ranges, and none of the last second")
@outlives_a_kill
def test_twenty_thousand_holes_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers CUR-1, CUR-5, ACK-4
    topic = own_broker.topic()
    client = _client(own_broker)
    client.subscribe(topic, "s", SHARED, initial_position=EARLIEST).close()
    producer = client.create_producer(topic, max_pending_messages=50_000, block_if_queue_full=True)
    first: list[pulsar.MessageId] = [producer.send(b"0")]
    for number in range(1, 40_000):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    raw = own_broker.raw()
    raw.subscribe(topic)
    ledger = first[0].ledger_id()
    for start in range(1, 40_000, 4_000):
        ids = [{"ledgerId": ledger, "entryId": entry} for entry in range(start, start + 4_000, 2)]
        assert raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=ids).type == "ACK_RESPONSE"
    yield
    stats = own_broker.subscription(topic)
    assert (stats["msgBacklog"], stats["nonContiguousDeletedMessagesRanges"]) == (20_000, 20_000)
    consumer = _client(own_broker).subscribe(topic, "s", SHARED, receiver_queue_size=5_000)
    assert receive_texts(consumer, 3_000) == [str(number) for number in range(0, 6_000, 2)]


@pytest.mark.ours_only("CUR-6: 4.0.8 forgets acks inside a batch in a crash")
@outlives_a_kill
def test_acks_inside_a_batch_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers CUR-3, CUR-6
    topic = own_broker.topic()
    client = _client(own_broker)
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, batch_index_ack_enabled=True)
    send_batched(client, topic, [str(number) for number in range(100)])
    messages = receive(consumer, 100)
    for message in messages[:30] + messages[31:]:
        consumer.acknowledge(message)
    consumer.close()
    raw = own_broker.raw()  # the receipt of any later ack says that the ones before it are on disk
    raw.subscribe(topic)
    assert raw.ack().type == "ACK_RESPONSE"
    yield
    again = _client(own_broker).subscribe(topic, "s", SHARED, batch_index_ack_enabled=True)
    assert receive_texts(again, 1) == ["30"]
    expect_nothing(again)


@pytest.mark.ours_only("RC-3: 4.0.8 keeps redelivery counts in memory, and only while a consumer is connected")
@outlives_a_kill
def test_redelivery_counts_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers RC-1, RC-3 (better)
    topic, _ = _topic(own_broker, 3)
    raw = own_broker.raw()
    raw.subscribe(topic, permits=100)
    messages = raw.expect_messages(3)
    wanted = [messages[0].id, messages[2].id]
    for count in (1, 2):
        raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=wanted)
        assert [each["redelivery_count"] for each in raw.expect_messages(2)] == [count, count]
    assert raw.ack().type == "ACK_RESPONSE"
    yield
    raw = own_broker.raw()
    raw.subscribe(topic, permits=100)
    counts = {each.payload: each.fields.get("redelivery_count", 0) for each in raw.expect_messages(3)}
    assert counts == {b"0": 2, b"1": 0, b"2": 2}


@pytest.mark.ours_only("RC-3: 4.0.8 loses redelivery counts, so that the dead letter topic is never reached")
@outlives_a_kill
def test_the_dead_letter_topic_is_reached_over_a_kill(own_broker: Broker) -> Halves:
    # covers RC-3 (better), DLQ-2
    topic, _ = _topic(own_broker, 1)
    policy = pulsar.ConsumerDeadLetterPolicy(2, dead_letter_topic=f"{topic}-dead", initial_subscription_name="d")
    settings: dict[str, Any] = {
        "consumer_type": SHARED,
        "negative_ack_redelivery_delay_ms": 100,
        "dead_letter_policy": policy,
    }
    consumer = _client(own_broker).subscribe(topic, "s", **settings)
    for _ in range(2):
        consumer.negative_acknowledge(receive(consumer, 1)[0])
    assert receive(consumer, 1)[0].redelivery_count() == 2
    consumer.close()
    assert own_broker.rest("PUT", f"{sub(topic)}/properties", {})[0] == 204  # all before it is on disk too
    yield
    consumer = _client(own_broker).subscribe(topic, "s", **settings)
    last = receive(consumer, 1)[0]
    assert last.redelivery_count() == 2
    consumer.negative_acknowledge(last)
    dead = _client(own_broker).subscribe(f"{topic}-dead", "d", SHARED, initial_position=EARLIEST)
    assert texts(receive(dead, 1)) == ["0"]


ORDERS: dict[str, tuple[Callable[[list[pulsar.MessageId]], tuple[str, object]], int]] = {
    "skip": (lambda _: ("skip/4", None), 6),
    "clear": (lambda _: ("skip_all", None), 0),
    "reset to a position": (lambda ids: ("resetcursor", id_of(ids[7])), 3),
    "reset to a time": (lambda _: ("resetcursor/0", None), 10),
    "expire to a position": (lambda ids: ("expireMessages", id_of(ids[1])), 8),
}


@pytest.mark.ours_only("CUR-4: 4.0.8 answers before the cursor is on disk")
@outlives_a_kill
def test_answered_orders_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers CUR-11, CUR-12, CUR-14, TTL-8
    topics = {}
    for order, (request, _) in ORDERS.items():
        topics[order], ids = _topic(own_broker, 10)
        path, body = request(ids)
        assert own_broker.rest("POST", f"{sub(topics[order])}/{path}", body) == (204, "")
    yield
    found = {order: own_broker.backlog(topic) for order, topic in topics.items()}
    assert found == {order: left for order, (_, left) in ORDERS.items()}
