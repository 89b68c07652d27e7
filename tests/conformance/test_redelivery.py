"""What comes again, when, and with which count."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import (
    expect_nothing,
    receive,
    receive_texts,
    send_all,
    send_batched,
    send_numbers,
    texts,
)
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
NACK_MS = 100


def _counts(messages: list[Frame]) -> list[tuple[bytes | None, int]]:
    return [(message.payload, message.fields.get("redelivery_count", 0)) for message in messages]


def _redeliver(raw: RawConnection, *messages: Frame, consumer_id: int = 1) -> None:
    ids = [message.id for message in messages]
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=consumer_id, message_ids=ids)


def test_order_with_a_negative_ack_on_exclusive(client: pulsar.Client, topic: str) -> None:
    # covers EX-3 (A, B, C, A), NACK-1, NACK-2, NACK-7
    # It comes back after the others were acknowledged, also on a machine that is busy with something else.
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, negative_ack_redelivery_delay_ms=2_000)
    send_all(client.create_producer(topic), ["A", "B", "C"])
    (first,) = receive(consumer, 1)
    consumer.negative_acknowledge(first)
    (second,) = receive(consumer, 1)
    consumer.acknowledge(second)
    (third,) = receive(consumer, 1)
    consumer.acknowledge(third)
    (again,) = receive(consumer, 1)
    assert texts([first, second, third, again]) == ["A", "B", "C", "A"]
    assert again.message_id() == first.message_id()
    consumer.acknowledge(again)
    consumer.close()
    expect_nothing(client.subscribe(topic, "s"))


def test_a_negative_ack_brings_back_the_whole_batch(client: pulsar.Client, topic: str) -> None:
    # covers NACK-6, RC-1 (one count per batch)
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, negative_ack_redelivery_delay_ms=NACK_MS)
    send_batched(client, topic, ["a", "b", "c"])
    messages = receive(consumer, 3)
    consumer.negative_acknowledge(messages[1])
    again = receive(consumer, 3)
    assert texts(again) == ["a", "b", "c"]
    assert [message.redelivery_count() for message in again] == [1, 1, 1]


def test_a_negative_ack_after_batch_index_acks(client: pulsar.Client, topic: str) -> None:
    # covers NACK-6, ACK-9
    consumer = client.subscribe(
        topic,
        "s",
        SHARED,
        initial_position=EARLIEST,
        negative_ack_redelivery_delay_ms=1_000,
        batch_index_ack_enabled=True,
    )
    send_batched(client, topic, ["a", "b", "c"])
    messages = receive(consumer, 3)
    consumer.acknowledge(messages[0])
    consumer.acknowledge(messages[2])
    consumer.negative_acknowledge(messages[1])
    assert receive_texts(consumer, 1) == ["b"]
    expect_nothing(consumer)


def test_redelivery_of_single_entries_on_shared(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers NACK-3, RC-1, SH-3, X12
    send_numbers(broker, topic, 3)
    raw.subscribe(topic, permits=100)
    messages = raw.expect_messages(3)
    _redeliver(raw, messages[1])
    assert _counts(raw.expect_messages(1)) == [(b"1", 1)]
    _redeliver(raw, messages[1])
    assert _counts(raw.expect_messages(1)) == [(b"1", 2)]
    _redeliver(raw)
    assert _counts(raw.expect_messages(3)) == [(b"0", 1), (b"1", 3), (b"2", 1)]


def test_redelivery_of_what_is_not_held_is_ignored(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers NACK-3
    send_numbers(broker, topic, 3)
    raw.subscribe(topic, permits=3)
    messages = raw.expect_messages(3)
    raw.subscribe(topic, consumer_id=2, permits=100)
    assert raw.ack(messages[0].id).type == "ACK_RESPONSE"
    _redeliver(raw, messages[0])
    _redeliver(raw, messages[1], consumer_id=2)
    _redeliver(raw, messages[1], consumer_id=77)
    raw.expect_no_message()


def test_redelivery_waits_for_permits_and_goes_before_new_messages(broker: Broker, topic: str) -> None:
    # covers SH-3, SUB-4
    send_numbers(broker, topic, 4)
    raw = broker.raw()
    raw.subscribe(topic, permits=2)
    messages = raw.expect_messages(2)
    _redeliver(raw, messages[0])
    raw.expect_no_message()
    raw.flow(1)
    assert _counts(raw.expect_messages(1)) == [(b"0", 1)]
    raw.flow(2)
    assert _counts(raw.expect_messages(2)) == [(b"2", 0), (b"3", 0)]


def test_the_consumer_epoch_is_echoed(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers A19
    send_numbers(broker, topic, 2)
    raw.subscribe(topic, subType="Exclusive", consumer_epoch=0, permits=100)
    assert [message["consumer_epoch"] for message in raw.expect_messages(2)] == [0, 0]
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, consumer_epoch=1)
    assert [message["consumer_epoch"] for message in raw.expect_messages(2)] == [1, 1]


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=["exclusive", "shared"])
def test_redeliver_unacknowledged_messages_by_the_client(broker: Broker, topic: str, kind: pulsar.ConsumerType) -> None:
    # covers NACK-2
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST)
    send_numbers(broker, topic, 4)
    messages = receive(consumer, 4)
    consumer.acknowledge(messages[1])
    eventually(lambda: broker.backlog(topic) == 3)  # the client groups its acks
    consumer.redeliver_unacknowledged_messages()
    assert sorted(receive_texts(consumer, 3)) == ["0", "2", "3"]
    expect_nothing(consumer)


def test_counts_survive_a_hand_over_but_a_close_does_not_count(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers RC-1, SH-4
    send_numbers(broker, topic, 2)
    raw.subscribe(topic, 1, permits=3)
    messages = raw.expect_messages(2)
    _redeliver(raw, messages[0])
    assert _counts(raw.expect_messages(1)) == [(b"0", 1)]
    raw.subscribe(topic, 2, permits=100)
    raw.request("CLOSE_CONSUMER", consumer_id=1)
    assert _counts(raw.expect_messages(2)) == [(b"0", 1), (b"1", 0)]


def test_what_is_asked_for_twice_comes_once(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers NACK-5, RC-1: a negative ack, and then the ack time-out of the same message
    send_numbers(broker, topic, 2)
    raw.subscribe(topic, permits=2)
    messages = raw.expect_messages(2)
    _redeliver(raw, messages[0])
    _redeliver(raw, messages[0])
    _redeliver(raw)
    raw.expect_no_message()
    raw.flow(10)
    assert _counts(raw.expect_messages(2)) == [(b"0", 1), (b"1", 1)]
    raw.expect_no_message()
