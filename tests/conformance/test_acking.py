"""Acknowledgements: one by one, up to here, inside a batch, and with a receipt."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_batched, send_numbers, texts
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
TYPES = [pulsar.ConsumerType.Exclusive, SHARED]


def _id(frame: Frame, **fields: object) -> dict[str, object]:
    return frame.id | fields


def _redelivered(raw: RawConnection, topic: str, count: int, **fields: object) -> list[Frame]:
    """What a new consumer of the subscription gets, after the old one closed."""
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    raw.subscribe(topic, **{"permits": 100} | fields)
    messages = raw.expect_messages(count)
    raw.expect_no_message()
    return messages


@pytest.mark.parametrize("kind", TYPES, ids=["exclusive", "shared"])
def test_individual_acks_leave_the_holes(broker: Broker, topic: str, kind: pulsar.ConsumerType) -> None:
    # covers ACK-8, ACK-1, EX-4, CUR-1
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST)
    send_numbers(broker, topic, 10)
    for number, message in enumerate(receive(consumer, 10)):
        if number not in (2, 5, 6):
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", kind)
    assert receive_texts(again, 3) == ["2", "5", "6"]
    expect_nothing(again)


def test_a_cumulative_ack_takes_everything_before(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ACK-3
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    send_numbers(broker, topic, 10)
    messages = receive(consumer, 10)
    consumer.acknowledge_cumulative(messages[4])
    consumer.acknowledge_cumulative(messages[2])
    consumer.acknowledge(messages[7])
    consumer.close()
    assert receive_texts(client.subscribe(topic, "s"), 4) == ["5", "6", "8", "9"]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_cumulative_on_shared_is_refused_by_the_client_and_ignored_by_the_broker(
    broker: Broker, raw: RawConnection, topic: str, kind: str
) -> None:
    # covers ACK-2, SH-5, KS-12
    type_ = getattr(pulsar.ConsumerType, kind.replace("_", ""))
    consumer = broker.client().subscribe(topic, "c", type_, initial_position=EARLIEST)
    send_numbers(broker, topic, 4)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(receive(consumer, 1)[0])
    raw.subscribe(topic, permits=100, subType=kind)
    messages = raw.expect_messages(4)
    assert raw.ack(messages[3].id, kind="Cumulative").type == "ACK_RESPONSE"
    assert [message.payload for message in _redelivered(raw, topic, 4, subType=kind)] == [b"0", b"1", b"2", b"3"]


def test_an_ack_with_a_request_id_is_answered_and_one_without_is_not(broker: Broker, topic: str) -> None:
    # covers ACK-4, ACK-1 (twice, by another, unknown)
    send_numbers(broker, topic, 4)
    raw = broker.raw()
    raw.subscribe(topic, 1, permits=4)
    messages = raw.expect_messages(4)
    raw.subscribe(topic, 2, permits=4)
    raw.send("ACK", consumer_id=1, ack_type="Individual", message_id=[messages[0].id])
    answers = [
        raw.ack(messages[1].id, messages[2].id),
        raw.ack(messages[1].id),
        raw.ack(messages[3].id, consumer_id=2),
        raw.ack(messages[0].id | {"entryId": 1_000_000}),
        raw.ack(),
    ]
    assert [answer.type for answer in answers] == ["ACK_RESPONSE"] * 5
    assert [answer.fields.get("error") for answer in answers] == [None] * 5
    assert [answer["consumer_id"] for answer in answers] == [1, 1, 2, 1, 1]
    raw.request("CLOSE_CONSUMER", consumer_id=2)
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_of_an_unknown_consumer_is_not_answered(raw: RawConnection) -> None:
    # covers ACK-4, ACK-11
    raw.send("ACK", consumer_id=9, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 1}], request_id=500)
    raw.barrier()
    assert raw.next_frame(0.2) is None


def test_odd_cumulative_acks_change_nothing(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers ACK-3 (two ids, none, beyond the end)
    send_numbers(broker, topic, 3)
    raw.subscribe(topic, subType="Exclusive", permits=100)
    messages = raw.expect_messages(3)
    first, second = messages[0].id, messages[1].id
    for ids in ([first, second], [], [first | {"entryId": 1_000_000}]):
        answer = raw.ack(*ids, kind="Cumulative")
        assert (answer.type, answer.fields.get("error")) == ("ACK_RESPONSE", None)
    assert len(_redelivered(raw, topic, 3, subType="Exclusive")) == 3


def test_what_a_cumulative_ack_says_beside_is_kept_until_the_next_one(broker: Broker, topic: str) -> None:
    # covers ACK-5
    ids = send_numbers(broker, topic, 5)
    raw = broker.raw()
    raw.subscribe(topic, subType="Exclusive", permits=100)
    messages = raw.expect_messages(len(ids))

    def ack(number: int, kind: str, **properties: int) -> None:
        pairs = [{"key": key, "value": value} for key, value in properties.items()]
        assert raw.ack(messages[number].id, kind=kind, properties=pairs).type == "ACK_RESPONSE"

    def kept() -> object:
        return broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["cursors"]["s"]["properties"]

    assert kept() == {}
    ack(0, "Cumulative", a=7, b=1)
    assert eventually(lambda: kept() == {"a": 7, "b": 1})
    ack(2, "Individual", c=9)
    ack(1, "Cumulative", d=2**64 - 8)
    assert eventually(lambda: kept() == {"d": -8})
    ack(3, "Cumulative")
    assert eventually(lambda: kept() == {})


def test_an_ack_of_a_corrupt_message_counts(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers ACK-6
    send_numbers(broker, topic, 2)
    raw.subscribe(topic, permits=100)
    messages = raw.expect_messages(2)
    assert raw.ack(messages[0].id, validation_error="ChecksumMismatch").type == "ACK_RESPONSE"
    assert [message.payload for message in _redelivered(raw, topic, 1)] == [b"1"]


# --- inside a batch ---


def test_a_batch_is_done_when_all_of_it_is_acked(client: pulsar.Client, topic: str) -> None:
    # covers BAT-5, ACK-10 (client without batch index acks)
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST)
    send_batched(client, topic, ["a0", "a1", "a2"])
    send_batched(client, topic, ["b0", "b1", "b2"])
    messages = receive(consumer, 6)
    for message in messages[:5]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", SHARED)
    assert receive_texts(again, 3) == ["b0", "b1", "b2"]
    expect_nothing(again)


@pytest.mark.parametrize("kind", TYPES, ids=["exclusive", "shared"])
def test_batch_index_acks_bring_back_only_the_rest(broker: Broker, topic: str, kind: pulsar.ConsumerType) -> None:
    # covers ACK-9, CUR-3, BAT-5
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST, batch_index_ack_enabled=True)
    send_batched(client, topic, [str(number) for number in range(10)])
    for number, message in enumerate(receive(consumer, 10)):
        if number not in (3, 7):
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
    rest = receive(again, 2)
    assert texts(rest) == ["3", "7"]
    for message in rest:
        again.acknowledge(message)
    again.close()
    expect_nothing(client.subscribe(topic, "s", kind, batch_index_ack_enabled=True))


def test_a_cumulative_ack_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    # covers ACK-9, ACK-3 (with ack_set)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, batch_index_ack_enabled=True)
    send_batched(client, topic, ["a0", "a1", "a2"])
    send_batched(client, topic, ["b0", "b1", "b2"])
    messages = receive(consumer, 6)
    consumer.acknowledge_cumulative(messages[3])
    consumer.close()
    assert receive_texts(client.subscribe(topic, "s", batch_index_ack_enabled=True), 2) == ["b1", "b2"]


def test_ack_sets_add_up(raw: RawConnection, topic: str) -> None:
    # covers ACK-9, CUR-3, A8
    raw.send_batch(topic, 5)
    raw.subscribe(topic, permits=100)
    message = raw.expect("MESSAGE")
    assert raw.ack(_id(message, ack_set=[0b10110], batch_size=5)).type == "ACK_RESPONSE"
    (again,) = _redelivered(raw, topic, 1)
    assert again["ack_set"] == [0b10110]
    # The client's own bitmap knows nothing of the first one; two of them in one command both count.
    both = [_id(message, ack_set=[0b11011], batch_size=5), _id(message, ack_set=[0b01111], batch_size=5)]
    raw.ack(*both)
    (last,) = _redelivered(raw, topic, 1)
    assert last["ack_set"] == [0b00010]
    raw.ack(_id(message, ack_set=[0b11101], batch_size=5))
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_set_of_more_than_a_word(raw: RawConnection, topic: str) -> None:
    # covers CUR-3 (64-bit words, trailing zero words dropped)
    raw.send_batch(topic, 130)
    raw.subscribe(topic, permits=500)
    message = raw.expect("MESSAGE")
    # Index 63 is the sign bit of the first word; of the second only index 64 is left, and none of the third.
    raw.ack(_id(message, ack_set=[-(2**63), 1], batch_size=130))
    (again,) = _redelivered(raw, topic, 1, permits=500)
    assert again["ack_set"] == [-(2**63), 1]


@pytest.mark.parametrize("fields", [{}, {"batch_index": 1}, {"ack_set": [0]}], ids=["none", "batch_index", "zero set"])
def test_what_acks_the_whole_batch(raw: RawConnection, topic: str, fields: dict[str, object]) -> None:
    # covers ACK-9 (batch_index without ack_set, ack_set [0])
    raw.send_batch(topic, 5)
    raw.subscribe(topic, permits=100)
    message = raw.expect("MESSAGE")
    assert raw.ack(_id(message, **fields)).type == "ACK_RESPONSE"
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_set_on_a_single_message_acks_nothing(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers ACK-9 (ack_set on an entry that is no batch)
    send_numbers(broker, topic, 1)
    raw.subscribe(topic, permits=100)
    message = raw.expect("MESSAGE")
    assert raw.ack(_id(message, ack_set=[2], batch_size=2)).type == "ACK_RESPONSE"
    assert [each.position for each in _redelivered(raw, topic, 1)] == [message.position]


def test_thousands_of_holes_are_remembered(client: pulsar.Client, topic: str) -> None:
    # covers CUR-1, CUR-5
    consumer = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=5_000)
    producer = client.create_producer(topic, max_pending_messages=5_000)
    for number in range(4_000):
        producer.send_async(str(number).encode(), lambda *_: None)
    producer.flush()
    for number, message in enumerate(receive(consumer, 4_000)):
        if number % 2:
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", SHARED)
    assert receive_texts(again, 2_000) == [str(number) for number in range(0, 4_000, 2)]
    expect_nothing(again)
