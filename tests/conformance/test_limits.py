"""A broker at its limits, and peers that fall silent."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, send_numbers
from tests.raw import Frame, RawConnection


@pytest.fixture(scope="module")
def broker(limited_broker: Broker) -> Broker:
    return limited_broker


def _ids(messages: list[Frame]) -> list[dict[str, int]]:
    return [message.id for message in messages]


def _refused(raw: RawConnection, topic: str, consumer_id: int = 1, name: str = "s", kind: str = "Shared") -> Frame:
    raw.request("LOOKUP", topic=topic)
    return raw.request("SUBSCRIBE", topic=topic, subscription=name, subType=kind, consumer_id=consumer_id)


def _delivered(raw: RawConnection, at_least: int) -> list[Frame]:
    """What arrives until nothing does, so many messages at least; they are not acknowledged."""
    raw.barrier()
    found = raw.expect_messages(at_least)
    while (frame := raw.next_frame(0.4)) is not None:
        assert frame.type == "MESSAGE", frame
        found.append(frame)
    return found


def test_a_consumer_is_blocked_at_its_unacked_limit_until_half_is_acked(broker: Broker, topic: str) -> None:
    # covers SH-6
    send_numbers(broker, topic, 30)
    raw = broker.raw()
    raw.subscribe(topic)
    for _ in range(10):
        raw.flow(10)
    first = _delivered(raw, 10)
    assert [message.payload for message in first] == [str(number).encode() for number in range(10)]
    raw.ack(*_ids(first[:4]))
    assert _delivered(raw, 0) == []
    raw.ack(*_ids(first[4:5]))
    assert [message.payload for message in _delivered(raw, 5)] == [str(number).encode() for number in range(10, 15)]


def test_a_subscription_is_blocked_at_its_unacked_limit_but_replays(broker: Broker, topic: str) -> None:
    # covers SH-7. What was read already may go out on Apache Pulsar: up to both consumers' own limit.
    send_numbers(broker, topic, 60)
    raw = broker.raw()
    for consumer_id in (1, 2):
        raw.subscribe(topic, consumer_id, 100)
    messages = _delivered(raw, 16)
    assert 16 <= len(messages) <= 20
    mine = next(message for message in messages if message["consumer_id"] == 1)
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=_ids([mine]))
    again = raw.expect("MESSAGE")
    while again.payload != mine.payload:  # one of those that Apache Pulsar had read already
        again = raw.expect("MESSAGE")
    assert again["redelivery_count"] == 1
    for consumer_id in (1, 2):
        own = [message for message in messages if message["consumer_id"] == consumer_id]
        raw.ack(*_ids(own), consumer_id=consumer_id)
    raw.expect_messages(1)


def test_more_producers_than_allowed(raw: RawConnection, topic: str) -> None:
    # covers PR-13
    raw.request("LOOKUP", topic=topic)
    for producer_id in (1, 2):
        assert raw.request("PRODUCER", topic=topic, producer_id=producer_id).type == "PRODUCER_SUCCESS"
    refused = raw.request("PRODUCER", topic=topic, producer_id=3)
    assert (refused.type, refused["error"]) == ("ERROR", "ProducerBusy")
    assert "reached max producers limit" in refused["message"]
    raw.request("CLOSE_PRODUCER", producer_id=1)
    assert raw.request("PRODUCER", topic=topic, producer_id=4).type == "PRODUCER_SUCCESS"


def test_more_consumers_and_subscriptions_than_allowed(raw: RawConnection, topic: str) -> None:
    # covers SUB-5, CUR-18
    for consumer_id in (1, 2):
        raw.subscribe(topic, consumer_id)
    refused = _refused(raw, topic, 3)
    assert (refused["error"], refused["message"]) == ("ConsumerBusy", "Subscription reached max consumers limit")
    # Never the id of one that was refused: Apache Pulsar may not have forgotten it yet.
    for consumer_id in (4, 5):
        raw.subscribe(topic, consumer_id, subscription="s2")
    refused = _refused(raw, topic, 6, "s3")
    assert (refused["error"], refused["message"]) == ("ConsumerBusy", "Topic reached max consumers limit")
    raw.request("CLOSE_CONSUMER", consumer_id=5)
    raw.subscribe(topic, 7, subscription="s3")
    raw.request("CLOSE_CONSUMER", consumer_id=7)
    refused = _refused(raw, topic, 8, "s4")
    assert refused["error"] == "NotAllowedError"
    assert "Exceed the maximum number of subscriptions of the topic" in refused["message"]


def test_no_key_shared_where_it_is_switched_off(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers KS-16, SUB-3
    refused = _refused(raw, topic, kind="Key_Shared")
    assert (refused["error"], refused["message"]) == (
        "NotAllowedError",
        "Key_Shared subscription is disabled by broker.",
    )


def test_more_partitions_than_allowed(broker: Broker) -> None:
    # covers TN-8
    path = f"{topic_path(broker.topic())}/partitions"
    assert broker.rest("PUT", path, 5)[0] == 406
    assert broker.rest("PUT", path, 4)[0] == 204
    assert broker.rest("POST", path, 5)[0] == 422


def test_a_silent_client_is_pinged_and_then_closed_and_one_that_answers_stays(broker: Broker) -> None:
    # covers SUB-10
    began = time.monotonic()
    silent, answering = broker.raw(), broker.raw()
    silent.answers_pings = False
    silent.expect("PING")
    assert answering.next_frame(2) is None, "it answers what comes meanwhile"
    silent.expect_closed()
    assert time.monotonic() - began > 1.0
    answering.barrier()


def test_a_consumer_that_fell_silent_makes_room(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers EX-1, PR-2, SUB-10 (half-open connection)
    send_numbers(broker, topic, 3)
    silent = broker.raw()
    silent.answers_pings = False
    silent.subscribe(topic, subType="Exclusive")
    assert silent.request("PRODUCER", topic=topic, producer_id=1, producer_name="p").type == "PRODUCER_SUCCESS"
    silent.flow(10)
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert receive_texts(consumer, 1) == ["0"]
    producer = client.create_producer(topic, producer_name="p")
    producer.send(b"again")
