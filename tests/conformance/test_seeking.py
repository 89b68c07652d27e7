"""Seek by id and by publish time; last message ids."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched, send_numbers
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
BEFORE_ALL = {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}
AFTER_ALL = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
NO_REQUEST = 2**64 - 1
T0_MS = 1_700_000_000_000


def _filled_by_second(raw: RawConnection, topic: str, count: int) -> None:
    """Messages 0, 1, 2 … published one second after the other, from T0."""
    raw.produce(topic)
    for number in range(count):
        raw.send_message(1, number, str(number).encode(), metadata={"publish_time": T0_MS + 1_000 * number})
        raw.expect("SEND_RECEIPT")


def _after_seek(raw: RawConnection, topic: str, count: int, **target: object) -> list[bytes | None]:
    """What is delivered after a seek of consumer 1: everything up to the end of the topic, so many messages."""
    answer = raw.request("SEEK", consumer_id=1, **target)
    assert answer.type == "SUCCESS", answer
    assert raw.expect("CLOSE_CONSUMER")["request_id"] == NO_REQUEST
    raw.subscribe(topic, subType="Exclusive", permits=100)
    delivered = [message.payload for message in raw.expect_messages(count)]
    raw.expect_no_message()
    return delivered


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=["exclusive", "shared"])
def test_seek_to_an_id(broker: Broker, client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    # covers CUR-11, A7
    consumer = client.subscribe(topic, "s", kind, initial_position=EARLIEST, start_message_id_inclusive=True)
    other = client.subscribe(topic, "other", initial_position=EARLIEST)
    ids = send_numbers(broker, topic, 10)
    for message in receive(consumer, 10):
        consumer.acknowledge(message)
    receive(other, 2)
    consumer.seek(ids[4])
    assert receive_texts(consumer, 6) == [str(number) for number in range(4, 10)]
    expect_nothing(consumer)
    assert receive_texts(other, 8) == [str(number) for number in range(2, 10)]


def test_seek_past_an_id_and_to_both_ends(broker: Broker, topic: str) -> None:
    # covers CUR-11, ML-4
    consumer = broker.client().subscribe(topic, "s")
    ids = send_numbers(broker, topic, 3)
    receive(consumer, 3)
    consumer.seek(ids[0])
    assert receive_texts(consumer, 2) == ["1", "2"], "the client leaves out the id itself unless asked"
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_texts(consumer, 3) == ["0", "1", "2"]
    consumer.seek(pulsar.MessageId.latest)
    expect_nothing(consumer)
    send_all(broker.client().create_producer(topic), ["new"])
    assert receive_texts(consumer, 1) == ["new"]


def test_seek_into_a_batch(client: pulsar.Client, topic: str) -> None:
    # covers CUR-11 (batch index)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, start_message_id_inclusive=True)
    ids = send_batched(client, topic, [str(number) for number in range(6)])
    for message in receive(consumer, 6):
        consumer.acknowledge(message)
    consumer.seek(ids[4])
    assert receive_texts(consumer, 2) == ["4", "5"]


def test_where_a_time_falls(raw: RawConnection, topic: str) -> None:
    # covers CUR-13, CUR-12 (1999, 2000 → third; 2001 → fourth; after the last → end)
    _filled_by_second(raw, topic, 5)
    raw.subscribe(topic, subType="Exclusive")
    expected = {
        0: [b"0", b"1", b"2", b"3", b"4"],
        T0_MS: [b"0", b"1", b"2", b"3", b"4"],
        T0_MS + 1_999: [b"2", b"3", b"4"],
        T0_MS + 2_000: [b"2", b"3", b"4"],
        T0_MS + 2_001: [b"3", b"4"],
        T0_MS + 4_001: [],
    }
    for time_ms, values in expected.items():
        assert _after_seek(raw, topic, len(values), message_publish_time=time_ms) == values, time_ms


def test_where_an_id_falls(raw: RawConnection, topic: str) -> None:
    # covers CUR-11 (before the oldest, after the end, a ledger never made)
    _filled_by_second(raw, topic, 3)
    raw.subscribe(topic, subType="Exclusive")
    raw.flow(10)
    first, second, last = (message["message_id"] for message in raw.expect_messages(3))
    everything = [b"0", b"1", b"2"]
    assert _after_seek(raw, topic, 3, message_id=BEFORE_ALL) == everything
    assert _after_seek(raw, topic, 3, message_id={"ledgerId": 0, "entryId": 5}) == everything
    assert _after_seek(raw, topic, 3, message_id=first) == everything
    assert _after_seek(raw, topic, 2, message_id=second) == everything[1:]
    assert _after_seek(raw, topic, 0, message_id=AFTER_ALL) == []
    assert _after_seek(raw, topic, 0, message_id={"ledgerId": last["ledgerId"], "entryId": 1_000}) == []
    assert _after_seek(raw, topic, 0, message_id={"ledgerId": 2**60, "entryId": 0}) == []
    # Both targets: the id wins.
    assert _after_seek(raw, topic, 1, message_id=last, message_publish_time=0) == everything[2:]


def test_seek_forgets_acks_and_counts(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers CUR-11, RC-3
    send_numbers(broker, topic, 4)
    raw.subscribe(topic, subType="Shared", permits=100)
    messages = raw.expect_messages(4)
    ids = [message.id for message in messages]
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=ids[3:])
    assert raw.expect("MESSAGE")["redelivery_count"] == 1
    raw.ack(*ids[:2])
    raw.request("SEEK", consumer_id=1, message_id=ids[1])
    raw.expect("CLOSE_CONSUMER")
    raw.subscribe(topic, subType="Shared", permits=100)
    again = raw.expect_messages(3)
    assert [message.payload for message in again] == [b"1", b"2", b"3"]
    assert [message.fields.get("redelivery_count", 0) for message in again] == [0, 0, 0]


def test_an_ack_set_in_a_seek_comes_back_in_the_message(raw: RawConnection, topic: str) -> None:
    # covers CUR-11 (ack_set)
    target = raw.send_batch(topic, 4)["message_id"] | {"batch_index": 2, "ack_set": [0b1100]}
    raw.subscribe(topic, subType="Exclusive")
    assert raw.request("SEEK", consumer_id=1, message_id=target).type == "SUCCESS"
    raw.expect("CLOSE_CONSUMER")
    raw.subscribe(topic, subType="Exclusive", permits=100)
    assert raw.expect("MESSAGE")["ack_set"] == [0b1100]


def test_seek_closes_every_consumer_of_a_shared_subscription(broker: Broker, topic: str) -> None:
    # covers CUR-11
    send_numbers(broker, topic, 2)
    one, two = broker.raw(), broker.raw()
    one.subscribe(topic, subType="Shared")
    two.subscribe(topic, subType="Shared")
    assert one.request("SEEK", consumer_id=1, message_id=BEFORE_ALL).type == "SUCCESS"
    assert one.expect("CLOSE_CONSUMER")["consumer_id"] == 1
    assert two.expect("CLOSE_CONSUMER")["consumer_id"] == 1


def test_the_consumer_is_closed_before_the_seek_is_answered_or_stays(broker: Broker, raw: RawConnection) -> None:
    # covers CUR-11, A7
    raw.subscribe(broker.topic(), subType="Exclusive")
    raw.send("SEEK", consumer_id=1, request_id=700, message_id=BEFORE_ALL)
    frames = [raw.next_frame(30) for _ in range(2)]
    assert [frame.type for frame in frames if frame] == ["CLOSE_CONSUMER", "SUCCESS"]
    unknown = raw.request("SEEK", consumer_id=5, message_id=BEFORE_ALL)
    assert (unknown.type, unknown["error"]) == ("ERROR", "MetadataError")
    raw.subscribe(broker.topic(), subType="Exclusive")
    nowhere = raw.request("SEEK", consumer_id=1)
    assert (nowhere.type, nowhere["error"]) == ("ERROR", "MetadataError")


# --- last message id ---


def test_the_last_message_id(client: pulsar.Client, topic: str) -> None:
    # covers RD-3
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1)
    (single,) = send_all(client.create_producer(topic), ["x"])
    assert consumer.get_last_message_id() == single
    batch = send_batched(client, topic, ["a", "b", "c"])
    last = consumer.get_last_message_id()
    assert last == batch[2]
    assert last.batch_index() == 2


def test_the_last_message_id_carries_the_mark_delete_position_and_the_partition(
    broker: Broker, raw: RawConnection, topic: str
) -> None:
    # covers RD-2, RD-3
    ids = send_numbers(broker, topic, 3)
    ledger = ids[0].ledger_id()
    raw.subscribe(topic, subType="Exclusive")
    before = raw.request("GET_LAST_MESSAGE_ID", consumer_id=1)
    assert before["last_message_id"] == {"ledgerId": ledger, "entryId": 2, "partition": -1, "batch_index": -1}
    assert before["consumer_mark_delete_position"]["entryId"] == 2**64 - 1
    raw.ack({"ledgerId": ledger, "entryId": 1}, kind="Cumulative")
    after = raw.request("GET_LAST_MESSAGE_ID", consumer_id=1)
    assert after["consumer_mark_delete_position"] == {"ledgerId": ledger, "entryId": 1}
    raw.subscribe(f"{broker.topic(partitions=2)}-partition-1", 2)
    assert raw.request("GET_LAST_MESSAGE_ID", consumer_id=2)["last_message_id"]["partition"] == 1
    unknown = raw.request("GET_LAST_MESSAGE_ID", consumer_id=9)
    assert (unknown.type, unknown["error"]) == ("ERROR", "MetadataError")
