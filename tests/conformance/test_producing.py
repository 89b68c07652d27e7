"""Producers: names, order, what an entry may be, and what is refused."""

from __future__ import annotations

import threading

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import EARLIEST, position, receive, receive_texts, send_all, texts
from tests.eventually import eventually
from tests.raw import RawConnection, batch_payload

MAX_MESSAGE_SIZE = 5 * 1024 * 1024


def test_a_message_arrives_with_everything_it_carries(client: pulsar.Client, topic: str) -> None:
    # covers PR-11, A10
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, producer_name="named")
    sent = producer.send(
        b"value",
        properties={"a": "1", "ü": "ö"},
        partition_key="key",
        ordering_key="order",
        event_timestamp=1_357_034_400_000,
        sequence_id=41,
    )
    (message,) = receive(consumer, 1)
    assert message.data() == b"value"
    assert message.properties() == {"a": "1", "ü": "ö"}
    assert message.partition_key() == "key"
    assert message.ordering_key() == "order"
    assert message.event_timestamp() == 1_357_034_400_000
    assert message.producer_name() == "named"
    assert message.topic_name() == topic
    assert message.publish_timestamp() > 1_700_000_000_000
    assert message.redelivery_count() == 0
    assert message.message_id() == sent
    assert position(sent)[1:] == (0, -1)
    assert producer.last_sequence_id() == 41


def test_empty_and_null_values_stay_different(client: pulsar.Client, topic: str) -> None:
    # covers RD-5 (null value)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic)
    producer.send(b"")
    producer.send(None, partition_key="k")
    empty, null = receive(consumer, 2)
    assert (empty.data(), empty.has_null_value()) == (b"", False)
    assert (null.data(), null.has_null_value(), null.partition_key()) == (b"", True, "k")


def test_generated_names_are_unique_and_given_back(client: pulsar.Client, topic: str) -> None:
    # covers PR-1
    names = [client.create_producer(topic).producer_name() for _ in range(3)]
    assert all(names)
    assert len(set(names)) == 3


def test_a_producer_name_is_taken_until_its_producer_closes(broker: Broker, topic: str) -> None:
    # covers PR-2
    first = broker.client().create_producer(topic, producer_name="p")
    other = broker.client()
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic, producer_name="p")
    elsewhere = other.create_producer(broker.topic(), producer_name="p")
    first.close()
    again = other.create_producer(topic, producer_name="p")
    assert (again.producer_name(), elsewhere.producer_name()) == ("p", "p")
    assert position(again.send(b"x"))[1] == 0


def test_the_same_producer_id_is_answered_from_the_existing_producer(raw: RawConnection, topic: str) -> None:
    # covers PR-2 (same connection)
    raw.request("LOOKUP", topic=topic)
    first = raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="a")
    again = raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="b", epoch=1)
    assert (first.type, again.type) == ("PRODUCER_SUCCESS", "PRODUCER_SUCCESS")
    assert (first["producer_name"], again["producer_name"]) == ("a", "a")
    busy = raw.request("PRODUCER", topic=topic, producer_id=2, producer_name="a", epoch=5)
    assert (busy.type, busy["error"]) == ("ERROR", "ProducerBusy")
    assert "Producer with name 'a' is already connected to topic" in busy["message"]


def test_a_producer_that_comes_back_under_its_name_replaces_the_dead_one(broker: Broker, topic: str) -> None:
    # covers PR-2 (old connection gone), A6
    gone = broker.raw()
    gone.produce(topic)
    gone.close()
    raw = broker.raw()

    def accepted() -> bool:
        answer = raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p", epoch=1)
        return answer.type == "PRODUCER_SUCCESS"

    eventually(accepted)


def test_ten_thousand_async_messages_keep_their_order(client: pulsar.Client, topic: str) -> None:
    # covers PR-9, A2, A5
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, block_if_queue_full=True)
    ids: list[pulsar.MessageId] = []
    results: list[object] = []
    done = threading.Event()

    def receipt(result: object, message_id: pulsar.MessageId) -> None:
        results.append(result)
        ids.append(message_id)
        if len(results) == 10_000:
            done.set()

    for number in range(10_000):
        producer.send_async(str(number).encode(), receipt)
    assert done.wait(60)
    assert set(results) == {pulsar.Result.Ok}
    places = [position(each) for each in ids]
    assert places == sorted(set(places))
    messages = receive(consumer, 10_000)
    assert texts(messages) == [str(number) for number in range(10_000)]
    assert [message.message_id() for message in messages] == ids


def test_pipelined_sends_of_two_producers_on_one_connection_get_their_receipts_in_order(broker: Broker) -> None:
    # covers PR-9, A2, A12
    topic = broker.topic()
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    for producer_id in (1, 2):
        raw.request("PRODUCER", topic=topic, producer_id=producer_id, producer_name=f"p{producer_id}")
    for number in range(200):
        raw.send_message(1 + number % 2, number, b"x")
    receipts = [raw.expect("SEND_RECEIPT") for _ in range(200)]
    for producer_id in (1, 2):
        own = [receipt for receipt in receipts if receipt["producer_id"] == producer_id]
        assert [receipt["sequence_id"] for receipt in own] == list(range(producer_id - 1, 200, 2))
        places = [receipt.position for receipt in own]
        assert places == sorted(places)
    assert len({receipt.position for receipt in receipts}) == 200


def test_a_receipt_echoes_the_highest_sequence_id(raw: RawConnection, topic: str) -> None:
    # covers A2, J1, J4
    raw.produce(topic)
    payload = batch_payload([b"a", b"b", b"c"], first_sequence_id=7)
    metadata = {"num_messages_in_batch": 3, "highest_sequence_id": 9}
    raw.send_message(1, 7, payload, metadata=metadata, num_messages=3, highest_sequence_id=9)
    receipt = raw.expect("SEND_RECEIPT")
    assert (receipt["sequence_id"], receipt["highest_sequence_id"]) == (7, 9)
    assert receipt.position[1] == 0


def test_what_the_client_may_send_at_most(client: pulsar.Client, topic: str) -> None:
    # covers PR-10
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic)
    largest = bytes(MAX_MESSAGE_SIZE - 200)
    producer.send(largest)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(MAX_MESSAGE_SIZE + 1))
    producer.send(b"after")
    first, second = receive(consumer, 2)
    assert first.data() == largest
    assert second.data() == b"after"


def test_an_oversized_frame_closes_the_connection_and_nothing_else(broker: Broker, topic: str) -> None:
    # covers A16, PR-10
    raw, other = broker.raw(), broker.raw()
    other.produce(topic)
    raw.send_bytes((MAX_MESSAGE_SIZE + 10_240 - 4 + 1).to_bytes(4, "big"))
    raw.expect_closed()
    other.send_message(1, 0, bytes(MAX_MESSAGE_SIZE + 10_100))
    assert other.expect("SEND_RECEIPT")["sequence_id"] == 0
    raw = broker.raw()
    raw.send_message(9, 0, b"x")
    raw.expect_closed()


def test_a_wrong_checksum_is_refused_and_nothing_is_stored(raw: RawConnection, topic: str) -> None:
    # covers PR-12
    raw.produce(topic)
    raw.send_message(1, 0, b"good")
    raw.send_message(1, 1, b"bad", checksum="wrong")
    raw.send_message(1, 2, b"none", checksum="absent")
    raw.send_message(1, 3, b"good")
    error = raw.expect("SEND_ERROR")
    assert (error["producer_id"], error["sequence_id"], error["error"]) == (1, 1, "ChecksumError")
    receipts = [raw.expect("SEND_RECEIPT") for _ in range(3)]
    assert [receipt["sequence_id"] for receipt in receipts] == [0, 2, 3]
    assert [receipt.position[1] for receipt in receipts] == [0, 1, 2]
    raw.request(
        "SUBSCRIBE", topic=topic, subscription="s", subType="Exclusive", consumer_id=1, initialPosition="Earliest"
    )
    raw.flow(10)
    messages = raw.expect_messages(3)
    assert [message.payload for message in messages] == [b"good", b"none", b"good"]
    assert messages[0].checksum == "ok"
    described = {"num_messages_in_batch": 3, "highest_sequence_id": 7}
    batch = batch_payload([b"a", b"b", b"c"], 5)
    raw.send_message(1, 5, batch, metadata=described, checksum="wrong", num_messages=3, highest_sequence_id=7)
    error = raw.expect("SEND_ERROR")
    assert (error["sequence_id"], error["error"]) == (7, "ChecksumError"), "the highest one of a batch"


def test_what_a_producer_that_starts_again_knows(client: pulsar.Client, topic: str) -> None:
    # covers PR-11
    fresh = client.create_producer(topic, producer_name="p")
    assert fresh.last_sequence_id() == -1
    send_all(fresh, ["a", "b", "c"])
    assert fresh.last_sequence_id() == 2
    fresh.close()
    chosen = client.create_producer(topic, producer_name="p", initial_sequence_id=99)
    chosen.send(b"d")
    assert chosen.last_sequence_id() == 100


def test_receipts_of_sends_come_before_the_answer_to_close(raw: RawConnection, topic: str) -> None:
    # covers A18
    raw.produce(topic)
    for number in range(50):
        raw.send_message(1, number, b"x")
    raw.send("CLOSE_PRODUCER", producer_id=1, request_id=1_000)
    frames = [raw.next_frame(30) for _ in range(51)]
    assert [frame.type for frame in frames if frame] == ["SEND_RECEIPT"] * 50 + ["SUCCESS"]


def test_an_initial_subscription_holds_what_is_sent_before_anybody_subscribes(broker: Broker, topic: str) -> None:
    # covers PR-18
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    created = raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p", initial_subscription_name="dlq")
    assert created.type == "PRODUCER_SUCCESS"
    raw.send_message(1, 0, b"kept")
    raw.expect("SEND_RECEIPT")
    consumer = broker.client().subscribe(topic, "dlq")
    assert receive_texts(consumer, 1) == ["kept"]
