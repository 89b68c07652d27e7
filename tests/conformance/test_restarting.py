"""A broker that goes away and comes back under its clients."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, position, receive, receive_texts, send_all, send_batched
from tests.conformance.outliving import Halves, outlives_a_kill, outlives_a_stop
from tests.eventually import eventually
from tests.raw import command_bytes, entry_bytes, frame_bytes

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
# A client that is cut off doubles its pauses: after a restart that took long, its next attempt is as far off again.
AFTER_RESTART_MS = 120_000


def _client(own_broker: Broker) -> pulsar.Client:
    return own_broker.client(operation_timeout_seconds=60)


def _kept_topic(own_broker: Broker, **kind: int) -> str:
    """A topic whose messages stay although its ledgers are closed by a restart: a subscription holds them."""
    topic = own_broker.topic(**kind)
    _client(own_broker).subscribe(topic, "keep", initial_position=EARLIEST).close()
    return topic


@outlives_a_stop
def test_clients_come_back_after_a_restart(own_broker: Broker) -> Halves:
    # covers PR-1 (name kept on reconnect), CUR-8, A5, SUB-10
    topic = _kept_topic(own_broker)
    client = _client(own_broker)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, send_timeout_millis=AFTER_RESTART_MS)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    before = send_all(producer, ["0", "1", "2"])
    messages = receive(consumer, 3)
    consumer.acknowledge(messages[0])
    assert receive_texts(reader, 1) == ["0"]
    name = producer.producer_name()
    yield
    (after,) = send_all(producer, ["3"])
    assert (after.ledger_id(), after.entry_id()) > (before[-1].ledger_id(), before[-1].entry_id())
    assert producer.producer_name() == name
    seen: list[str] = []
    while "3" not in seen:
        message = receive(consumer, 1, timeout_ms=AFTER_RESTART_MS)[0]
        seen.append(message.data().decode())
        consumer.acknowledge(message)
    assert set(seen) - {"0"} == {"1", "2", "3"}
    assert [message.data() for message in receive(reader, 3, timeout_ms=AFTER_RESTART_MS)] == [b"1", b"2", b"3"]


@outlives_a_stop
def test_what_was_acked_in_order_stays_acked_over_a_restart(own_broker: Broker) -> Halves:
    # covers CUR-1, CUR-5 (graceful close writes the exact state)
    topic = own_broker.topic()
    client = _client(own_broker)
    plain = client.subscribe(topic, "plain", SHARED, initial_position=EARLIEST)
    cumulative = client.subscribe(topic, "cumulative", initial_position=EARLIEST)
    send_all(client.create_producer(topic), [str(number) for number in range(10)])
    send_batched(client, topic, ["a", "b", "c"])
    for number, message in enumerate(receive(plain, 13)):
        if number not in (3, 7):
            plain.acknowledge(message)
    cumulative.acknowledge_cumulative(receive(cumulative, 6)[5])
    client.close()
    yield
    client = _client(own_broker)
    plain = client.subscribe(topic, "plain", SHARED)
    assert receive_texts(plain, 2) == ["3", "7"]
    expect_nothing(plain)
    cumulative = client.subscribe(topic, "cumulative")
    assert receive_texts(cumulative, 7) == ["6", "7", "8", "9", "a", "b", "c"]


@pytest.mark.ours_only("CUR-6: 4.0.8 forgets acks inside a batch when it stops, here even in order")
@outlives_a_stop
def test_acks_inside_a_batch_outlive_a_restart(own_broker: Broker) -> Halves:
    # covers CUR-3, CUR-6
    topic = own_broker.topic()
    client = _client(own_broker)
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, batch_index_ack_enabled=True)
    send_batched(client, topic, ["a", "b", "c"])
    messages = receive(consumer, 3)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    client.close()
    yield
    again = _client(own_broker).subscribe(topic, "s", SHARED, batch_index_ack_enabled=True)
    assert receive_texts(again, 1) == ["b"]
    expect_nothing(again)


@outlives_a_stop
def test_topics_partitions_and_subscriptions_outlive_a_restart(own_broker: Broker) -> Halves:
    # covers TN-8, CUR-8, CUR-9, DUR-7
    parted, plain = _kept_topic(own_broker, partitions=3), own_broker.topic()
    client = _client(own_broker)
    client.subscribe(plain, "s").close()
    sent = send_all(client.create_producer(parted), [str(number) for number in range(30)])
    client.close()
    yield
    raw = own_broker.raw()
    assert raw.request("PARTITIONED_METADATA", topic=parted)["partitions"] == 3
    client = _client(own_broker)
    send_all(client.create_producer(plain), ["after"])
    assert receive_texts(client.subscribe(plain, "s"), 1) == ["after"]
    reader = client.create_reader(parted, pulsar.MessageId.earliest)
    messages = receive(reader, 30)
    assert sorted(message.message_id().serialize() for message in messages) == sorted(each.serialize() for each in sent)


def _begins_a_ledger(own_broker: Broker) -> Halves:
    """A topic that is loaded again begins a ledger."""
    topic = _kept_topic(own_broker)
    client = _client(own_broker)
    before = send_all(client.create_producer(topic), ["0", "1", "2"])
    client.close()
    yield
    client = _client(own_broker)
    (after,) = send_all(client.create_producer(topic), ["3"])
    assert after.ledger_id() > before[-1].ledger_id()
    assert after.entry_id() == 0
    assert receive_texts(client.create_reader(topic, before[0]), 3) == ["1", "2", "3"]


@outlives_a_stop
def test_a_topic_that_was_closed_begins_a_ledger(own_broker: Broker) -> Halves:
    # covers ML-1
    yield from _begins_a_ledger(own_broker)


@outlives_a_kill
def test_a_topic_that_was_not_closed_begins_a_ledger(own_broker: Broker) -> Halves:
    # covers ML-1
    yield from _begins_a_ledger(own_broker)


@outlives_a_kill
def test_what_many_producers_sent_in_turn_outlives_a_kill(own_broker: Broker) -> Halves:
    # covers DUR-1, PR-9: a connection that publishes to many topics
    topics = [_kept_topic(own_broker) for _ in range(40)]
    raw = own_broker.raw()
    for number, topic in enumerate(topics):
        raw.request("LOOKUP", topic=topic)
        raw.request("PRODUCER", topic=topic, producer_id=100 + number, producer_name="p")
    frames = []
    for turn in range(50):
        for number in range(40):
            metadata = {"producer_name": "p", "sequence_id": turn, "publish_time": 1_700_000_000_000}
            payload = f"{number}/{turn}".encode().ljust(8 + number + turn % 7)
            command = command_bytes("SEND", {"producer_id": 100 + number, "sequence_id": turn})
            frames.append(frame_bytes(command, entry_bytes(metadata, payload)))
    raw.send_bytes(b"".join(frames))
    positions: list[list[tuple[int, int]]] = [[] for _ in topics]
    for _ in frames:
        receipt = raw.expect("SEND_RECEIPT", timeout_s=60)
        found = positions[receipt["producer_id"] - 100]
        assert receipt["sequence_id"] == len(found)
        found.append(receipt.position)
    for found in positions:
        assert found == [(found[0][0], found[0][1] + index) for index in range(50)]
    yield
    client = _client(own_broker)
    for number, topic in list(enumerate(topics))[::5]:
        messages = receive(client.create_reader(topic, pulsar.MessageId.earliest), 50)
        assert [message.data().rstrip() for message in messages] == [f"{number}/{turn}".encode() for turn in range(50)]
        assert [position(message.message_id())[:2] for message in messages] == positions[number]


@outlives_a_stop
def test_a_stop_in_order_answers_what_was_sent(own_broker: Broker) -> Halves:
    # covers DUR-1: every receipt given before the stop is true after it
    topic = _kept_topic(own_broker)
    client = _client(own_broker)
    producer = client.create_producer(topic, max_pending_messages=5_000, send_timeout_millis=AFTER_RESTART_MS)
    receipted: list[str] = []

    def receipt_of(value: str, result: object) -> None:
        if result == pulsar.Result.Ok:
            receipted.append(value)

    for number in range(3_000):
        producer.send_async(str(number).encode(), lambda result, _, value=str(number): receipt_of(value, result))
    yield
    producer.flush()
    eventually(lambda: len(receipted) == 3_000, timeout_s=60)
    # Without deduplication a resent message may be there twice; none is missing, and first appearances are in order.
    reader = _client(own_broker).create_reader(topic, pulsar.MessageId.earliest)
    seen: list[str] = []
    while reader.has_message_available():
        seen += receive_texts(reader, 1)
    assert list(dict.fromkeys(seen)) == receipted == [str(number) for number in range(3_000)]
