"""Permits: nothing is sent without one, and everything is sent in the end."""

from __future__ import annotations

import threading

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import EARLIEST, SHARED, expect_nothing, receive_texts, send_batched, send_numbers
from tests.raw import RawConnection, batch_payload


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_nothing_is_sent_without_a_permit(broker: Broker, raw: RawConnection, topic: str, kind: str) -> None:
    # covers SUB-4, A9
    send_numbers(broker, topic, 5)
    raw.subscribe(topic, subType=kind)
    raw.expect_no_message()
    raw.flow(2)
    assert [message.payload for message in raw.expect_messages(2)] == [b"0", b"1"]
    raw.expect_no_message()
    raw.flow(1)
    raw.flow(1)
    assert [message.payload for message in raw.expect_messages(2)] == [b"2", b"3"]
    raw.expect_no_message()


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_batch_goes_out_whole_and_costs_each_of_its_messages(raw: RawConnection, topic: str, kind: str) -> None:
    # covers SUB-4 (negative permits)
    raw.subscribe(topic, subType=kind)
    raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p")
    batch = {"metadata": {"num_messages_in_batch": 3}, "num_messages": 3}
    raw.send_message(1, 0, batch_payload([b"a", b"b", b"c"]), **batch)
    raw.send_message(1, 3, b"d")
    raw.expect("SEND_RECEIPT")
    raw.expect("SEND_RECEIPT")
    raw.flow(1)
    assert raw.expect("MESSAGE").position[1] == 0
    raw.flow(2)
    raw.expect_no_message()
    raw.flow(1)
    assert raw.expect("MESSAGE").position[1] == 1


def test_a_flow_of_nobody_is_ignored_and_a_flow_of_nothing_closes(raw: RawConnection, topic: str) -> None:
    # covers SUB-4
    raw.flow(5, 77)
    raw.barrier()
    raw.subscribe(topic)
    raw.flow(0)
    raw.expect_closed()


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=["exclusive", "shared"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_every_queue_size_receives_everything(broker: Broker, topic: str, size: int, kind: pulsar.ConsumerType) -> None:
    # covers SUB-4
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST, receiver_queue_size=size)
    send_numbers(broker, topic, 20)
    assert receive_texts(consumer, 20) == [str(number) for number in range(20)]
    for batch in range(2):
        send_batched(client, topic, [f"{batch}-{number}" for number in range(10)])
    assert receive_texts(consumer, 20) == [f"{batch}-{number}" for batch in range(2) for number in range(10)]
    expect_nothing(consumer)


def test_a_queue_of_nothing_asks_for_each_message(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers SUB-4 (queue size 0: one permit per receive)
    consumer = broker.client().subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=0)
    send_numbers(broker, topic, 10)
    raw.subscribe(topic)
    raw.flow(5)
    assert [message.payload for message in raw.expect_messages(5)] == [b"0", b"1", b"2", b"3", b"4"]
    # The client refuses a time-out with this queue size, so another thread waits.
    received: list[str] = []
    waiting = threading.Thread(
        target=lambda: received.extend(consumer.receive().data().decode() for _ in range(5)), daemon=True
    )
    waiting.start()
    waiting.join(30)
    assert received == ["5", "6", "7", "8", "9"]


def test_a_backlog_of_thousands_is_read_in_order(client: pulsar.Client, topic: str) -> None:
    # covers SUB-8, EX-3
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10, block_if_queue_full=True)
    for number in range(20_000):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, receiver_queue_size=500)
    assert receive_texts(consumer, 20_000) == [str(number) for number in range(20_000)]
