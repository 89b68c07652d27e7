"""Topics that have ended, through REST, the official client, and frame by frame."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import position, receive_texts, send_all
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest


def last_id(broker: Broker, topic: str) -> tuple[int, int]:
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert status == 200, answer
    return answer["ledgerId"], answer["entryId"]


def consumer_of(raw: RawConnection, topic: str, subscription: str, consumer_id: int = 1, **fields: object) -> None:
    raw.request("LOOKUP", topic=topic)
    fields = {"subType": "Shared", "initialPosition": "Earliest"} | fields
    answer = raw.request("SUBSCRIBE", topic=topic, subscription=subscription, consumer_id=consumer_id, **fields)
    assert answer.type == "SUCCESS", answer
    raw.send("FLOW", consumer_id=consumer_id, messagePermits=10)


def ack(raw: RawConnection, place: tuple[int, int]) -> None:
    raw.send("ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": place[0], "entryId": place[1]}])


def test_a_topic_that_has_ended_takes_no_more_and_can_be_read(broker: Broker) -> None:
    # covers TN-13
    topic = broker.topic()
    client = broker.client()
    producer = client.create_producer(topic)
    ids = [producer.send(text.encode()) for text in ("a", "b")]
    assert last_id(broker, topic) == position(ids[-1])[:2]
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"late")
    with pytest.raises(pulsar.TopicTerminated):
        broker.client().create_producer(topic)
    assert last_id(broker, topic) == position(ids[-1])[:2]
    consumer = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 2) == ["a", "b"]
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(5_000).data() for _ in range(2)] == [b"a", b"b"]
    assert not reader.has_message_available()


def test_a_consumer_hears_of_the_end_when_everything_is_acked(broker: Broker) -> None:
    # covers TN-13
    topic = broker.topic()
    send_all(broker.client().create_producer(topic), ["a", "b"])
    raw = broker.raw()
    consumer_of(raw, topic, "s")
    first, second = (message.position for message in raw.expect_messages(2))
    last_id(broker, topic)
    ack(raw, second)
    raw.barrier()
    ack(raw, first)
    assert raw.expect("REACHED_END_OF_TOPIC")["consumer_id"] == 1
    frames = iter(lambda: raw.next_frame(0.1), None)
    assert {frame.type for frame in frames if frame} <= {"REACHED_END_OF_TOPIC"}  # twice is possible


def test_a_consumer_that_comes_to_the_end_hears_of_it_at_once(broker: Broker) -> None:
    # covers TN-13
    topic = broker.topic()
    send_all(broker.client().create_producer(topic), ["a"])
    last_id(broker, topic)
    raw = broker.raw()
    consumer_of(raw, topic, "new", initialPosition="Latest")
    assert raw.expect("REACHED_END_OF_TOPIC")["consumer_id"] == 1


def test_an_empty_topic_ends_at_an_entry_that_is_not_there(broker: Broker) -> None:
    # covers TN-13, REST 1.8
    topic = broker.topic()
    broker.client().create_producer(topic)
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert (status, answer["entryId"], answer["partitionIndex"]) == (200, -1, -1)


def test_a_partitioned_topic_ends_partition_by_partition(broker: Broker) -> None:
    # covers TN-13, REST 1.8
    topic = broker.topic(partitions=2)
    client = broker.client()
    producer = client.create_producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    send_all(producer, ["a", "b"])
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert (status, answer["reason"]) == (405, "Termination of a partitioned topic is not allowed")
    status, ends = broker.rest("POST", f"{topic_path(topic)}/terminate/partitions")
    assert status == 200
    assert {number: end["entryId"] for number, end in ends.items()} == {"0": 0, "1": 0}
    for number in range(2):
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(f"{topic}-partition-{number}")
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert sorted(receive_texts(consumer, 2)) == ["a", "b"]


def test_what_cannot_be_ended(broker: Broker) -> None:
    # covers REST 1.8
    plain = broker.topic()
    broker.client().create_producer(plain)
    status, answer = broker.rest("POST", f"{topic_path(plain)}/terminate/partitions")
    assert status == 405
    assert answer["reason"] == (
        "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use terminate "
        "commands"
    )
    assert broker.rest("POST", f"{topic_path(broker.topic())}/terminate")[0] == 404
    volatile = topic_path(plain).replace("/persistent/", "/non-persistent/")
    assert broker.rest("POST", f"{volatile}/terminate")[0] in (404, 405, 406)


@pytest.mark.ours_only("TN-13: the C++ and Python clients drop their connection on it, so they are not told")
def test_a_client_that_does_not_know_the_end_keeps_its_connection(broker: Broker) -> None:
    topic, other = broker.topic(), broker.topic()
    client = broker.client()
    send_all(client.create_producer(topic), ["a"])
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    bystander = client.create_producer(other)
    last_id(broker, topic)
    consumer.acknowledge(consumer.receive(5_000))
    bystander.send(b"x")
    _, stats = broker.rest("GET", f"{topic_path(other)}/stats")
    connected_since = stats["publishers"][0]["connectedSince"]
    bystander.send(b"y")
    _, stats = broker.rest("GET", f"{topic_path(other)}/stats")
    assert stats["publishers"][0]["connectedSince"] == connected_since
    assert stats["msgInCounter"] == 2
