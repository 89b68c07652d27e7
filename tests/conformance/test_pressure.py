"""Much at once: pipelines, slow readers, many topics, connections that break in the middle."""

from __future__ import annotations

import threading

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import EARLIEST, receive, receive_texts, send_all
from tests.eventually import eventually
from tests.raw import RawConnection, command_bytes, entry_bytes, frame_bytes


def test_thousands_of_pipelined_sends_are_all_answered(raw: RawConnection, topic: str) -> None:
    # covers PR-15, A12
    raw.produce(topic)
    for number in range(5_000):
        raw.send_message(1, number, bytes(500))
    receipts = [raw.expect("SEND_RECEIPT", timeout_s=60) for _ in range(5_000)]
    assert [receipt["sequence_id"] for receipt in receipts] == list(range(5_000))


def test_other_connections_are_served_while_one_pipelines(broker: Broker) -> None:
    # covers PR-15, A3
    busy_topic, topic = broker.topic(), broker.topic()
    busy, raw = broker.raw(), broker.raw()
    busy.produce(busy_topic)
    command = command_bytes("SEND", {"producer_id": 1, "sequence_id": 0})
    metadata = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
    frames = frame_bytes(command, entry_bytes(metadata, bytes(10_000))) * 1_000
    sending = threading.Thread(target=busy.send_bytes, args=(frames * 3,), daemon=True)
    sending.start()
    raw.produce(topic)
    for number in range(20):
        raw.send_message(1, number, b"x")
        raw.expect("SEND_RECEIPT")
        raw.barrier()
    for _ in range(3_000):
        busy.expect("SEND_RECEIPT", timeout_s=60)
    sending.join(30)
    assert not sending.is_alive()


def test_a_consumer_that_does_not_read_holds_up_nobody_and_loses_nothing(broker: Broker, topic: str) -> None:
    # covers SH-9, SUB-4
    client = broker.client()
    producer = client.create_producer(topic, block_if_queue_full=True)
    slow = broker.raw()
    slow.subscribe(topic, permits=10_000, subscription="slow", subType="Exclusive")
    fast = client.subscribe(topic, "fast", initial_position=EARLIEST)
    values = [f"{number}/".encode() + bytes(100_000) for number in range(300)]
    for value in values:
        producer.send_async(value, lambda *_: None)
    producer.flush()
    assert [message.data() for message in receive(fast, 300)] == values
    assert [message.payload for message in slow.expect_messages(300, timeout_s=60)] == values


def test_a_frame_that_breaks_off_is_not_stored(client: pulsar.Client, raw: RawConnection, topic: str) -> None:
    # covers PR-12
    raw.produce(topic)
    raw.send_message(1, 0, b"whole")
    raw.expect("SEND_RECEIPT")
    command = command_bytes("SEND", {"producer_id": 1, "sequence_id": 1})
    metadata = {"producer_name": "p", "sequence_id": 1, "publish_time": 1}
    raw.send_bytes(frame_bytes(command, entry_bytes(metadata, bytes(1_000)))[:-1])
    raw.close()
    send_all(client.create_producer(topic), ["next"])
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 2) == ["whole", "next"]
    assert not reader.has_message_available()


def test_a_good_frame_before_a_malformed_one_is_served(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers A2, A16
    raw.produce(topic)
    command = command_bytes("SEND", {"producer_id": 1, "sequence_id": 0})
    metadata = {"producer_name": "p", "sequence_id": 0, "publish_time": 1}
    raw.send_bytes(frame_bytes(command, entry_bytes(metadata, b"good")) + (2**31).to_bytes(4, "big"))
    raw.expect_closed()
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
    assert receive_texts(reader, 1) == ["good"]


def test_many_topics_on_one_connection(broker: Broker, client: pulsar.Client) -> None:
    # covers A12, C15
    stem = broker.topic()
    topics = [f"{stem}-{number}" for number in range(100)]
    consumer = client.subscribe(topics, "s", initial_position=EARLIEST)
    producers = [client.create_producer(topic) for topic in topics]
    for number, producer in enumerate(producers):
        for index in range(5):
            producer.send_async(f"{number}/{index}".encode(), lambda *_: None)
    for producer in producers:
        producer.flush()
    by_topic: dict[str, list[str]] = {}
    for message in receive(consumer, 500):
        number, index = message.data().decode().split("/")
        by_topic.setdefault(number, []).append(index)
    assert by_topic == {str(number): ["0", "1", "2", "3", "4"] for number in range(100)}


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
def test_large_messages_through_a_large_queue(client: pulsar.Client, topic: str, size: int) -> None:
    # covers PR-10, SUB-8
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic)
    values = [bytes([number]) * size for number in range(20_000_000 // size)]
    for value in values:
        producer.send_async(value, lambda *_: None)
    producer.flush()
    for value, message in zip(values, receive(consumer, len(values)), strict=True):
        assert message.data() == value


def test_consumers_that_come_and_go_lose_nothing(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers SUB-10, SH-4, SH-10
    kept = client.subscribe(topic, "s", pulsar.ConsumerType.Shared, initial_position=EARLIEST, receiver_queue_size=10)
    producer = client.create_producer(topic)
    seen: set[str] = set()
    for round_number in range(10):
        guest = broker.raw()
        guest.subscribe(topic, permits=30)
        for number in range(50):
            producer.send_async(f"{round_number}/{number}".encode(), lambda *_: None)
        producer.flush()
        guest.expect("MESSAGE")
        guest.close()

    def all_seen() -> bool:
        (message,) = receive(kept, 1)
        kept.acknowledge(message)
        seen.add(message.data().decode())
        return len(seen) == 500

    eventually(all_seen, timeout_s=60, every_s=0)
