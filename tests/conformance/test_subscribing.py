"""Subscriptions: types, who gets what, permits, positions, and how they end."""

from __future__ import annotations

import itertools

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, texts
from tests.eventually import eventually
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
NO_REQUEST = 2**64 - 1


def _filled(broker: Broker, topic: str, count: int) -> list[pulsar.MessageId]:
    return send_all(broker.client().create_producer(topic), [str(number) for number in range(count)])


def _subscribe(raw: RawConnection, topic: str, consumer_id: int = 1, **fields: object) -> None:
    raw.request("LOOKUP", topic=topic)
    described = {"subscription": "s", "subType": "Shared", "initialPosition": "Earliest"} | fields
    answer = raw.request("SUBSCRIBE", topic=topic, consumer_id=consumer_id, **described)
    assert answer.type == "SUCCESS", answer


# --- positions ---


def test_latest_and_earliest_as_initial_position(broker: Broker) -> None:
    # covers CUR-9
    topic = broker.topic()
    producer = broker.client().create_producer(topic)
    send_all(producer, ["before"])
    client = broker.client()
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=EARLIEST)
    send_all(producer, ["after"])
    assert receive_texts(latest, 1) == ["after"]
    assert receive_texts(earliest, 2) == ["before", "after"]


def test_the_initial_position_counts_at_creation_only(broker: Broker) -> None:
    # covers CUR-9
    topic = broker.topic()
    client = broker.client()
    client.subscribe(topic, "s").close()
    _filled(broker, topic, 2)
    assert receive_texts(client.subscribe(topic, "s"), 2) == ["0", "1"]


def test_a_durable_subscription_keeps_what_nobody_consumes(broker: Broker) -> None:
    # covers CUR-8, SUB-10
    topic = broker.topic()
    client = broker.client()
    first = client.subscribe(topic, "s", initial_position=EARLIEST)
    _filled(broker, topic, 10)
    messages = receive(first, 4)
    for message in messages:
        first.acknowledge(message)
    first.close()
    assert receive_texts(client.subscribe(topic, "s"), 6) == [str(number) for number in range(4, 10)]


def test_a_non_durable_subscription_is_gone_with_its_last_consumer(broker: Broker) -> None:
    # covers CUR-8
    topic = broker.topic()
    _filled(broker, topic, 3)
    raw = broker.raw()
    start = {"ledgerId": NO_REQUEST, "entryId": NO_REQUEST}
    reader = {"subscription": "r", "subType": "Exclusive", "durable": False}
    _subscribe(raw, topic, **reader, start_message_id=start)
    raw.send("FLOW", consumer_id=1, messagePermits=10)
    ids = [message["message_id"] for message in raw.expect_messages(3)]
    raw.send("ACK", consumer_id=1, ack_type="Cumulative", message_id=[ids[2]])
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    _subscribe(raw, topic, consumer_id=2, **reader, start_message_id=start)
    raw.send("FLOW", consumer_id=2, messagePermits=10)
    assert [message["message_id"] for message in raw.expect_messages(3)] == ids


def test_two_subscriptions_of_a_topic_know_nothing_of_each_other(broker: Broker) -> None:
    # covers ACK-7
    topic = broker.topic()
    client = broker.client()
    one = client.subscribe(topic, "one", initial_position=EARLIEST)
    two = client.subscribe(topic, "two", initial_position=EARLIEST)
    _filled(broker, topic, 3)
    for message in receive(one, 3):
        one.acknowledge(message)
    assert receive_texts(two, 3) == ["0", "1", "2"]


# --- Exclusive ---


def test_a_second_exclusive_consumer_is_refused_until_the_first_leaves(broker: Broker) -> None:
    # covers EX-1
    topic = broker.topic()
    first = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    other = broker.client()
    with pytest.raises(pulsar.ConsumerBusy):
        other.subscribe(topic, "s")
    first.close()
    second = other.subscribe(topic, "s")
    _filled(broker, topic, 1)
    assert receive_texts(second, 1) == ["0"]


def test_an_exclusive_consumer_whose_connection_is_gone_makes_room(broker: Broker) -> None:
    # covers EX-1, A6
    topic = broker.topic()
    gone = broker.raw()
    _subscribe(gone, topic, subType="Exclusive")
    gone.close()
    raw = broker.raw()

    def accepted() -> bool:
        fields = {"subscription": "s", "subType": "Exclusive", "consumer_id": 1}
        return raw.request("SUBSCRIBE", topic=topic, **fields).type == "SUCCESS"

    assert eventually(accepted)


def test_the_same_consumer_id_again_is_no_second_consumer(broker: Broker) -> None:
    # covers A17
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic, subType="Exclusive")
    _subscribe(raw, topic, subType="Exclusive")
    _filled(broker, topic, 1)
    raw.send("FLOW", consumer_id=1, messagePermits=1)
    assert raw.expect("MESSAGE").payload == b"0"


def test_one_exclusive_consumer_gets_all_partitions(broker: Broker) -> None:
    # covers EX-2, PT-1
    topic = broker.topic(partitions=3)
    consumer = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    _filled(broker, topic, 9)
    messages = receive(consumer, 9)
    assert sorted(texts(messages)) == [str(number) for number in range(9)]
    assert {message.message_id().partition() for message in messages} == {0, 1, 2}


@pytest.mark.parametrize("other", [SHARED, pulsar.ConsumerType.Failover])
def test_another_type_is_refused_while_a_consumer_is_connected(broker: Broker, other: pulsar.ConsumerType) -> None:
    # covers SUB-1. Failover may also be refused because a broker does not offer it: ConsumerBusy comes first.
    topic = broker.topic()
    first = broker.client().subscribe(topic, "s")
    with pytest.raises((pulsar.ConsumerBusy, pulsar.NotAllowedError)):
        broker.client().subscribe(topic, "s", consumer_type=other)
    first.close()


def test_the_type_is_free_again_when_nobody_is_connected(broker: Broker) -> None:
    # covers SUB-1
    topic = broker.topic()
    client = broker.client()
    client.subscribe(topic, "s", initial_position=EARLIEST).close()
    shared = client.subscribe(topic, "s", consumer_type=SHARED)
    with pytest.raises(pulsar.ConsumerBusy):
        broker.client().subscribe(topic, "s")
    shared.close()
    _filled(broker, topic, 1)
    assert receive_texts(client.subscribe(topic, "s"), 1) == ["0"]


def test_a_name_is_durable_or_not(broker: Broker) -> None:
    # covers X4, CUR-8
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic, subscription="durable")
    _subscribe(raw, topic, subscription="reader", consumer_id=2, durable=False)
    refused = [
        raw.request("SUBSCRIBE", topic=topic, subscription=name, subType="Shared", consumer_id=id, durable=durable)
        for id, name, durable in ((8, "durable", False), (9, "reader", True))
    ]
    assert [(answer.type, answer["error"]) for answer in refused] == [("ERROR", "NotAllowedError")] * 2
    assert refused[0]["message"] == "Durable subscription with the same name already exists."
    assert refused[1]["message"] == "NonDurable subscription with the same name already exists."


# --- Shared ---


def test_shared_consumers_split_the_messages(broker: Broker) -> None:
    # covers SH-1
    topic = broker.topic()
    client = broker.client()
    consumers = [
        client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=50) for _ in range(3)
    ]
    _filled(broker, topic, 90)
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


def test_turns_of_a_backlog_respect_the_permits(broker: Broker) -> None:
    # covers SH-1, SUB-4
    topic = broker.topic()
    _filled(broker, topic, 100)
    raw = broker.raw()
    for consumer_id in (1, 2, 3):
        _subscribe(raw, topic, consumer_id)
    for consumer_id in (1, 2, 3):
        raw.send("FLOW", consumer_id=consumer_id, messagePermits=10 * consumer_id)
    messages = raw.expect_messages(60)
    raw.expect_no_message()
    counts = [sum(message["consumer_id"] == consumer_id for message in messages) for consumer_id in (1, 2, 3)]
    assert counts == [10, 20, 30]
    assert sorted(int(message.payload or b"") for message in messages) == list(range(60))


def test_live_messages_go_round(broker: Broker) -> None:
    # covers SH-1
    topic = broker.topic()
    raw = broker.raw()
    for consumer_id in (1, 2, 3):
        _subscribe(raw, topic, consumer_id)
        raw.send("FLOW", consumer_id=consumer_id, messagePermits=100)
    producer = broker.client().create_producer(topic)
    owners = []
    for number in range(9):
        send_all(producer, [str(number)])
        owners.append(raw.expect("MESSAGE")["consumer_id"])
    assert sorted(owners[:3]) == [1, 2, 3]
    assert owners == owners[:3] * 3


def test_a_lower_priority_gets_what_the_higher_cannot_take(broker: Broker) -> None:
    # covers SH-2
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic, 1, priority_level=0)
    _subscribe(raw, topic, 2, priority_level=1)
    raw.send("FLOW", consumer_id=2, messagePermits=100)
    raw.send("FLOW", consumer_id=1, messagePermits=2)
    raw.barrier()
    _filled(broker, topic, 5)
    owners = [message["consumer_id"] for message in raw.expect_messages(5)]
    assert owners == [1, 1, 2, 2, 2]


def test_what_sits_in_a_queue_comes_back_when_its_consumer_closes(broker: Broker) -> None:
    # covers SUB-9, SUB-10, SH-4, RC-1
    topic = broker.topic()
    _filled(broker, topic, 10)
    client, other = broker.client(), broker.client()
    hoarder = client.subscribe(topic, "s", SHARED, initial_position=EARLIEST, receiver_queue_size=100)
    receive(hoarder, 10)
    second = other.subscribe(topic, "s", SHARED)
    expect_nothing(second)
    hoarder.close()
    messages = receive(second, 10)
    assert texts(messages) == [str(number) for number in range(10)]
    assert {message.redelivery_count() for message in messages} == {0}


def test_a_lost_connection_gives_back_what_it_held(broker: Broker) -> None:
    # covers SUB-10, SH-4
    topic = broker.topic()
    _filled(broker, topic, 5)
    lost, kept = broker.raw(), broker.raw()
    _subscribe(lost, topic)
    lost.send("FLOW", consumer_id=1, messagePermits=3)
    lost.expect_messages(3)
    _subscribe(kept, topic)
    lost.close()
    kept.send("FLOW", consumer_id=1, messagePermits=10)
    messages = kept.expect_messages(5)
    assert sorted(message.position[1] for message in messages) == list(range(5))
    assert {message.fields.get("redelivery_count", 0) for message in messages} == {0}


# --- the end ---


def test_unsubscribe_needs_to_be_alone(broker: Broker) -> None:
    # covers CUR-16
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic, 1)
    _subscribe(raw, topic, 2)
    refused = raw.request("UNSUBSCRIBE", consumer_id=1)
    assert (refused.type, refused["error"]) == ("ERROR", "MetadataError")
    assert refused["message"] == "Unconnected or shared consumer attempting to unsubscribe"
    assert raw.request("CLOSE_CONSUMER", consumer_id=2).type == "SUCCESS"
    assert raw.request("UNSUBSCRIBE", consumer_id=1).type == "SUCCESS"


def test_unsubscribe_drops_the_backlog(broker: Broker) -> None:
    # covers CUR-16, CUR-9
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    _filled(broker, topic, 3)
    receive(consumer, 1)
    consumer.unsubscribe()
    expect_nothing(client.subscribe(topic, "s"))
    anew = client.subscribe(topic, "s2", initial_position=EARLIEST)
    assert receive_texts(anew, 3) == ["0", "1", "2"]


def test_closing_what_is_not_there_succeeds(broker: Broker) -> None:
    # covers A13
    raw = broker.raw()
    assert raw.request("CLOSE_CONSUMER", consumer_id=77).type == "SUCCESS"
    assert raw.request("CLOSE_PRODUCER", producer_id=77).type == "SUCCESS"
    refused = raw.request("UNSUBSCRIBE", consumer_id=77)
    assert (refused.type, refused["error"], refused["message"]) == ("ERROR", "MetadataError", "Consumer not found")


def test_a_closed_consumer_gets_nothing_more(broker: Broker) -> None:
    # covers SUB-10, A13
    topic = broker.topic()
    raw = broker.raw()
    _subscribe(raw, topic, subType="Exclusive")
    raw.send("FLOW", consumer_id=1, messagePermits=100)
    assert raw.request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"
    raw.send("FLOW", consumer_id=1, messagePermits=100)
    _filled(broker, topic, 3)
    raw.expect_no_message()
    _subscribe(raw, topic, subType="Exclusive")
    raw.expect_no_message()
    raw.send("FLOW", consumer_id=1, messagePermits=1)
    assert raw.expect("MESSAGE").payload == b"0"
