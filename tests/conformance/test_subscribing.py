"""Subscriptions: types, who gets what, permits, positions, and how they end."""

from __future__ import annotations

import itertools

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_numbers, texts
from tests.eventually import eventually
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
NO_REQUEST = 2**64 - 1


# --- positions ---


def test_latest_and_earliest_as_initial_position(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CUR-9
    producer = broker.client().create_producer(topic)
    send_all(producer, ["before"])
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=EARLIEST)
    send_all(producer, ["after"])
    assert receive_texts(latest, 1) == ["after"]
    assert receive_texts(earliest, 2) == ["before", "after"]
    latest.close()
    again = client.subscribe(topic, "latest", initial_position=EARLIEST)
    assert receive_texts(again, 1) == ["after"], "it counts at creation only"


def test_a_non_durable_subscription_is_gone_with_its_last_consumer(broker: Broker, topic: str) -> None:
    # covers CUR-8
    send_numbers(broker, topic, 3)
    raw = broker.raw()
    start = {"ledgerId": NO_REQUEST, "entryId": NO_REQUEST}
    reader = {"subscription": "r", "subType": "Exclusive", "durable": False}
    raw.subscribe(topic, **reader, start_message_id=start, permits=10)
    ids = [message["message_id"] for message in raw.expect_messages(3)]
    raw.send("ACK", consumer_id=1, ack_type="Cumulative", message_id=[ids[2]])
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    raw.subscribe(topic, consumer_id=2, **reader, start_message_id=start)
    raw.flow(10, 2)
    assert [message["message_id"] for message in raw.expect_messages(3)] == ids


def test_two_subscriptions_of_a_topic_know_nothing_of_each_other(broker: Broker, topic: str) -> None:
    # covers ACK-7
    client = broker.client()
    one = client.subscribe(topic, "one", initial_position=EARLIEST)
    two = client.subscribe(topic, "two", initial_position=EARLIEST)
    send_numbers(broker, topic, 3)
    for message in receive(one, 3):
        one.acknowledge(message)
    assert receive_texts(two, 3) == ["0", "1", "2"]


# --- Exclusive ---


def test_a_second_exclusive_consumer_is_refused_until_the_first_leaves(broker: Broker, topic: str) -> None:
    # covers EX-1
    first = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    other = broker.client()
    with pytest.raises(pulsar.ConsumerBusy):
        other.subscribe(topic, "s")
    first.close()
    second = other.subscribe(topic, "s")
    send_numbers(broker, topic, 1)
    assert receive_texts(second, 1) == ["0"]


def test_an_exclusive_consumer_whose_connection_is_gone_makes_room(broker: Broker, topic: str) -> None:
    # covers EX-1, A6
    gone = broker.raw()
    gone.subscribe(topic, subType="Exclusive")
    gone.close()
    raw = broker.raw()

    def accepted() -> bool:
        fields = {"subscription": "s", "subType": "Exclusive", "consumer_id": 1}
        return raw.request("SUBSCRIBE", topic=topic, **fields).type == "SUCCESS"

    assert eventually(accepted)


def test_the_same_consumer_id_again_is_no_second_consumer(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers A17
    raw.subscribe(topic, subType="Exclusive")
    raw.subscribe(topic, subType="Exclusive")
    send_numbers(broker, topic, 1)
    raw.flow(1)
    assert raw.expect("MESSAGE").payload == b"0"


def test_another_type_is_refused_until_nobody_is_connected(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers SUB-1
    exclusive = client.subscribe(topic, "s", initial_position=EARLIEST)
    for other in (SHARED, pulsar.ConsumerType.Failover):
        with pytest.raises(pulsar.ConsumerBusy):
            broker.client().subscribe(topic, "s", consumer_type=other)
    exclusive.close()
    shared = client.subscribe(topic, "s", consumer_type=SHARED)
    with pytest.raises(pulsar.ConsumerBusy):
        broker.client().subscribe(topic, "s")
    shared.close()
    send_numbers(broker, topic, 1)
    assert receive_texts(client.subscribe(topic, "s"), 1) == ["0"]


def test_a_name_is_durable_or_not(raw: RawConnection, topic: str) -> None:
    # covers X4, CUR-8
    raw.subscribe(topic, subscription="durable")
    raw.subscribe(topic, subscription="reader", consumer_id=2, durable=False)
    refused = [
        raw.request("SUBSCRIBE", topic=topic, subscription=name, subType="Shared", consumer_id=id, durable=durable)
        for id, name, durable in ((8, "durable", False), (9, "reader", True))
    ]
    assert [(answer.type, answer["error"]) for answer in refused] == [("ERROR", "NotAllowedError")] * 2
    assert refused[0]["message"] == "Durable subscription with the same name already exists."
    assert refused[1]["message"] == "NonDurable subscription with the same name already exists."


# --- Shared ---


def test_shared_consumers_split_the_messages(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers SH-1
    consumers = [
        client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=50) for _ in range(3)
    ]
    send_numbers(broker, topic, 90)
    shares = [receive_texts(consumer, 1) for consumer in consumers]
    while sum(map(len, shares)) < 90:
        for consumer, share in zip(consumers, shares, strict=True):
            try:
                share.append(consumer.receive(timeout_millis=100).data().decode())
            except pulsar.Timeout:
                continue
    assert sorted(itertools.chain(*shares), key=int) == [str(number) for number in range(90)]
    # After a pause of its own Apache Pulsar hands out what has come meanwhile in twenties.
    assert all(len(share) >= (20 if broker.kind == "ours" else 10) for share in shares)
    assert all(share == sorted(share, key=int) for share in shares)


def test_turns_of_a_backlog_respect_the_permits(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers SH-1, SUB-4
    send_numbers(broker, topic, 100)
    for consumer_id in (1, 2, 3):
        raw.subscribe(topic, consumer_id)
    for consumer_id in (1, 2, 3):
        raw.flow(10 * consumer_id, consumer_id)
    messages = raw.expect_messages(60)
    raw.expect_no_message()
    counts = [sum(message["consumer_id"] == consumer_id for message in messages) for consumer_id in (1, 2, 3)]
    assert counts == [10, 20, 30]
    assert sorted(int(message.payload or b"") for message in messages) == list(range(60))


def test_live_messages_go_round(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers SH-1
    for consumer_id in (1, 2, 3):
        raw.subscribe(topic, consumer_id)
        raw.flow(100, consumer_id)
    producer = broker.client().create_producer(topic)
    owners = []
    for number in range(9):
        send_all(producer, [str(number)])
        owners.append(raw.expect("MESSAGE")["consumer_id"])
    assert sorted(owners[:3]) == [1, 2, 3]
    assert owners == owners[:3] * 3


def test_a_lower_priority_gets_what_the_higher_cannot_take(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers SH-2
    raw.subscribe(topic, 1, priority_level=0)
    raw.subscribe(topic, 2, priority_level=1)
    raw.flow(100, 2)
    raw.flow(2)
    raw.barrier()
    send_numbers(broker, topic, 5)
    owners = [message["consumer_id"] for message in raw.expect_messages(5)]
    assert owners == [1, 1, 2, 2, 2]


def test_what_sits_in_a_queue_comes_back_when_its_consumer_closes(broker: Broker, topic: str) -> None:
    # covers SUB-9, SUB-10, SH-4, RC-1
    send_numbers(broker, topic, 10)
    client, other = broker.client(), broker.client()
    hoarder = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=100)
    receive(hoarder, 10)
    second = other.subscribe(topic, "s", SHARED)
    expect_nothing(second)
    hoarder.close()
    messages = receive(second, 10)
    assert texts(messages) == [str(number) for number in range(10)]
    assert {message.redelivery_count() for message in messages} == {0}


def test_a_lost_connection_gives_back_what_it_held(broker: Broker, topic: str) -> None:
    # covers SUB-10, SH-4
    send_numbers(broker, topic, 5)
    lost, kept = broker.raw(), broker.raw()
    lost.subscribe(topic, permits=3)
    lost.expect_messages(3)
    kept.subscribe(topic)
    lost.close()
    kept.flow(10)
    messages = kept.expect_messages(5)
    assert sorted(message.position[1] for message in messages) == list(range(5))
    assert {message.fields.get("redelivery_count", 0) for message in messages} == {0}


# --- the end ---


def test_unsubscribe_needs_to_be_alone(raw: RawConnection, topic: str) -> None:
    # covers A13, CUR-16
    raw.subscribe(topic, 1)
    raw.subscribe(topic, 2)
    refused = raw.request("UNSUBSCRIBE", consumer_id=1)
    assert (refused.type, refused["error"]) == ("ERROR", "MetadataError")
    assert refused["message"] == "Unconnected or shared consumer attempting to unsubscribe"
    assert raw.request("CLOSE_CONSUMER", consumer_id=2).type == "SUCCESS"
    assert raw.request("UNSUBSCRIBE", consumer_id=1).type == "SUCCESS"
    assert raw.request("CLOSE_CONSUMER", consumer_id=77).type == "SUCCESS"
    assert raw.request("CLOSE_PRODUCER", producer_id=77).type == "SUCCESS"
    refused = raw.request("UNSUBSCRIBE", consumer_id=77)
    assert (refused.type, refused["error"], refused["message"]) == ("ERROR", "MetadataError", "Consumer not found")


def test_unsubscribe_drops_the_backlog(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CUR-16, CUR-9
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    send_numbers(broker, topic, 3)
    receive(consumer, 1)
    consumer.unsubscribe()
    expect_nothing(client.subscribe(topic, "s"))
    anew = client.subscribe(topic, "s2", initial_position=EARLIEST)
    assert receive_texts(anew, 3) == ["0", "1", "2"]


def test_a_closed_consumer_gets_nothing_more(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers SUB-10, A13
    raw.subscribe(topic, subType="Exclusive", permits=100)
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    raw.flow(100)
    send_numbers(broker, topic, 3)
    raw.expect_no_message()
    raw.subscribe(topic, subType="Exclusive")
    raw.expect_no_message()
    raw.flow(1)
    assert raw.expect("MESSAGE").payload == b"0"
