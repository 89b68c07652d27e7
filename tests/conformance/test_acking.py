"""Acknowledgements: one by one, up to here, inside a batch, and with a receipt."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched, texts
from tests.eventually import eventually
from tests.raw import Frame, RawConnection, batch_payload

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
TYPES = [pulsar.ConsumerType.Exclusive, SHARED]


def _filled(broker: Broker, topic: str, count: int) -> list[pulsar.MessageId]:
    return send_all(broker.client().create_producer(topic), [str(number) for number in range(count)])


def _subscribe(raw: RawConnection, topic: str, consumer_id: int = 1, permits: int = 100, **fields: object) -> None:
    raw.request("LOOKUP", topic=topic)
    described = {"subscription": "s", "subType": "Shared", "initialPosition": "Earliest"} | fields
    answer = raw.request("SUBSCRIBE", topic=topic, consumer_id=consumer_id, **described)
    assert answer.type == "SUCCESS", answer
    raw.send("FLOW", consumer_id=consumer_id, messagePermits=permits)


def _ack(raw: RawConnection, ids: list[dict[str, object]], kind: str = "Individual", consumer_id: int = 1) -> Frame:
    return raw.request("ACK", consumer_id=consumer_id, ack_type=kind, message_id=ids)


def _id(frame: Frame, **fields: object) -> dict[str, object]:
    ledger, entry = frame.position
    return {"ledgerId": ledger, "entryId": entry, **fields}


def _redelivered(raw: RawConnection, topic: str, count: int, **fields: object) -> list[Frame]:
    """What a new consumer of the subscription gets, after the old one closed."""
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    _subscribe(raw, topic, consumer_id=1, **fields)
    messages = raw.expect_messages(count)
    raw.expect_no_message()
    return messages


def _send_batch(raw: RawConnection, topic: str, size: int) -> None:
    raw.request("LOOKUP", topic=topic)
    raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p")
    values = [str(number).encode() for number in range(size)]
    raw.send_message(1, 0, batch_payload(values), metadata={"num_messages_in_batch": size}, num_messages=size)
    raw.expect("SEND_RECEIPT")


def test_a_cumulative_ack_on_shared_changes_nothing(broker: Broker) -> None:
    # covers ACK-2, SH-5
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic)
    _filled(broker, topic, 3)
    messages = raw.expect_messages(3)
    assert _ack(raw, [_id(messages[2])], "Cumulative").type == "ACK_RESPONSE"
    assert [message.payload for message in _redelivered(raw, topic, 3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", TYPES, ids=["exclusive", "shared"])
def test_individual_acks_leave_the_holes(broker: Broker, kind: pulsar.ConsumerType) -> None:
    # covers ACK-1, EX-4, CUR-1
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST)
    _filled(broker, topic, 10)
    for number, message in enumerate(receive(consumer, 10)):
        if number not in (2, 5, 6):
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", kind)
    assert receive_texts(again, 3) == ["2", "5", "6"]
    expect_nothing(again)


def test_a_cumulative_ack_takes_everything_before(broker: Broker) -> None:
    # covers ACK-3
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    _filled(broker, topic, 10)
    messages = receive(consumer, 10)
    consumer.acknowledge_cumulative(messages[4])
    consumer.acknowledge_cumulative(messages[2])
    consumer.acknowledge(messages[7])
    consumer.close()
    assert receive_texts(client.subscribe(topic, "s"), 4) == ["5", "6", "8", "9"]


def test_cumulative_on_shared_is_refused_by_the_client_and_ignored_by_the_broker(broker: Broker) -> None:
    # covers ACK-2
    topic = broker.topic()
    consumer = broker.client().subscribe(topic, "c", SHARED, initial_position=EARLIEST)
    _filled(broker, topic, 4)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(receive(consumer, 1)[0])
    raw = broker.raw()
    _subscribe(raw, topic)
    messages = raw.expect_messages(4)
    assert _ack(raw, [_id(messages[3])], "Cumulative").type == "ACK_RESPONSE"
    assert [message.payload for message in _redelivered(raw, topic, 4)] == [b"0", b"1", b"2", b"3"]


def test_an_ack_with_a_request_id_is_answered_and_one_without_is_not(broker: Broker) -> None:
    # covers ACK-4, ACK-1 (twice, by another, unknown)
    topic = broker.topic()
    _filled(broker, topic, 4)
    raw = broker.raw()
    _subscribe(raw, topic, 1, permits=4)
    messages = raw.expect_messages(4)
    _subscribe(raw, topic, 2, permits=4)
    raw.send("ACK", consumer_id=1, ack_type="Individual", message_id=[_id(messages[0])])
    answers = [
        _ack(raw, [_id(messages[1]), _id(messages[2])]),
        _ack(raw, [_id(messages[1])]),
        _ack(raw, [_id(messages[3])], consumer_id=2),
        _ack(raw, [{"ledgerId": messages[0].position[0], "entryId": 1_000_000}]),
        _ack(raw, []),
    ]
    assert [answer.type for answer in answers] == ["ACK_RESPONSE"] * 5
    assert [answer.fields.get("error") for answer in answers] == [None] * 5
    assert [answer["consumer_id"] for answer in answers] == [1, 1, 2, 1, 1]
    raw.request("CLOSE_CONSUMER", consumer_id=2)
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_of_an_unknown_consumer_is_not_answered(broker: Broker) -> None:
    # covers ACK-4, ACK-11
    raw = broker.raw()
    raw.send("ACK", consumer_id=9, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 1}], request_id=500)
    raw.barrier()
    assert raw.next_frame(0.2) is None


def test_odd_cumulative_acks_change_nothing(broker: Broker) -> None:
    # covers ACK-3 (two ids, none, beyond the end)
    topic = broker.topic()
    _filled(broker, topic, 3)
    raw = broker.raw()
    _subscribe(raw, topic, subType="Exclusive")
    messages = raw.expect_messages(3)
    ledger = messages[0].position[0]
    for ids in ([_id(messages[0]), _id(messages[1])], [], [{"ledgerId": ledger, "entryId": 1_000_000}]):
        answer = _ack(raw, ids, "Cumulative")
        assert (answer.type, answer.fields.get("error")) == ("ACK_RESPONSE", None)
    assert len(_redelivered(raw, topic, 3, subType="Exclusive")) == 3


def test_what_a_cumulative_ack_says_beside_is_kept_until_the_next_one(broker: Broker) -> None:
    # covers ACK-5
    topic = broker.topic()
    ids = _filled(broker, topic, 5)
    raw = broker.raw()
    _subscribe(raw, topic, subType="Exclusive")
    messages = raw.expect_messages(len(ids))

    def ack(number: int, kind: str, **properties: int) -> None:
        pairs = [{"key": key, "value": value} for key, value in properties.items()]
        wanted = {"consumer_id": 1, "ack_type": kind, "message_id": [_id(messages[number])], "properties": pairs}
        assert raw.request("ACK", **wanted).type == "ACK_RESPONSE"

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


def test_an_ack_of_a_corrupt_message_counts(broker: Broker) -> None:
    # covers ACK-6
    topic = broker.topic()
    _filled(broker, topic, 2)
    raw = broker.raw()
    _subscribe(raw, topic)
    messages = raw.expect_messages(2)
    ids = [_id(messages[0])]
    answer = raw.request(
        "ACK", consumer_id=1, ack_type="Individual", message_id=ids, validation_error="ChecksumMismatch"
    )
    assert answer.type == "ACK_RESPONSE"
    assert [message.payload for message in _redelivered(raw, topic, 1)] == [b"1"]


# --- inside a batch ---


def test_a_batch_is_done_when_all_of_it_is_acked(broker: Broker) -> None:
    # covers BAT-5, ACK-10 (client without batch index acks)
    topic = broker.topic()
    client = broker.client()
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
def test_batch_index_acks_bring_back_only_the_rest(broker: Broker, kind: pulsar.ConsumerType) -> None:
    # covers ACK-9, CUR-3, BAT-5
    topic = broker.topic()
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


def test_a_cumulative_ack_inside_a_batch(broker: Broker) -> None:
    # covers ACK-9, ACK-3 (with ack_set)
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, batch_index_ack_enabled=True)
    send_batched(client, topic, ["a0", "a1", "a2"])
    send_batched(client, topic, ["b0", "b1", "b2"])
    messages = receive(consumer, 6)
    consumer.acknowledge_cumulative(messages[3])
    consumer.close()
    assert receive_texts(client.subscribe(topic, "s", batch_index_ack_enabled=True), 2) == ["b1", "b2"]


def test_ack_sets_add_up(broker: Broker) -> None:
    # covers ACK-9, CUR-3, A8
    topic = broker.topic()
    raw = broker.raw()
    _send_batch(raw, topic, 5)
    _subscribe(raw, topic)
    message = raw.expect("MESSAGE")
    assert _ack(raw, [_id(message, ack_set=[0b10110], batch_size=5)]).type == "ACK_RESPONSE"
    (again,) = _redelivered(raw, topic, 1)
    assert again["ack_set"] == [0b10110]
    # The client's own bitmap knows nothing of the first one; two of them in one command both count.
    both = [_id(message, ack_set=[0b11011], batch_size=5), _id(message, ack_set=[0b01111], batch_size=5)]
    _ack(raw, both)
    (last,) = _redelivered(raw, topic, 1)
    assert last["ack_set"] == [0b00010]
    _ack(raw, [_id(message, ack_set=[0b11101], batch_size=5)])
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_set_of_more_than_a_word(broker: Broker) -> None:
    # covers CUR-3 (64-bit words, trailing zero words dropped)
    topic = broker.topic()
    raw = broker.raw()
    _send_batch(raw, topic, 130)
    _subscribe(raw, topic, permits=500)
    message = raw.expect("MESSAGE")
    # Index 63 is the sign bit of the first word; of the second only index 64 is left, and none of the third.
    _ack(raw, [_id(message, ack_set=[-(2**63), 1], batch_size=130)])
    (again,) = _redelivered(raw, topic, 1, permits=500)
    assert again["ack_set"] == [-(2**63), 1]


@pytest.mark.parametrize("fields", [{}, {"batch_index": 1}, {"ack_set": [0]}], ids=["none", "batch_index", "zero set"])
def test_what_acks_the_whole_batch(broker: Broker, fields: dict[str, object]) -> None:
    # covers ACK-9 (batch_index without ack_set, ack_set [0])
    topic = broker.topic()
    raw = broker.raw()
    _send_batch(raw, topic, 5)
    _subscribe(raw, topic)
    message = raw.expect("MESSAGE")
    assert _ack(raw, [_id(message, **fields)]).type == "ACK_RESPONSE"
    assert _redelivered(raw, topic, 0) == []


def test_an_ack_set_on_a_single_message_acks_nothing(broker: Broker) -> None:
    # covers ACK-9 (ack_set on an entry that is no batch)
    topic = broker.topic()
    _filled(broker, topic, 1)
    raw = broker.raw()
    _subscribe(raw, topic)
    message = raw.expect("MESSAGE")
    assert _ack(raw, [_id(message, ack_set=[2], batch_size=2)]).type == "ACK_RESPONSE"
    assert [each.position for each in _redelivered(raw, topic, 1)] == [message.position]


def test_thousands_of_holes_are_remembered(broker: Broker) -> None:
    # covers CUR-1, CUR-5
    topic = broker.topic()
    client = broker.client()
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
