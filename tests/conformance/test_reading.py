"""Readers: where they start, when they know that more is there."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched
from tests.eventually import eventually

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


def _filled(broker: Broker, topic: str, count: int) -> list[pulsar.MessageId]:
    return send_all(broker.client().create_producer(topic), [str(number) for number in range(count)])


def test_from_the_beginning_to_the_end_and_on(broker: Broker) -> None:
    # covers RD-1, RD-2
    topic = broker.topic()
    _filled(broker, topic, 100)
    reader = broker.client().create_reader(topic, EARLIEST)
    values = []
    while reader.has_message_available():
        values += receive_texts(reader, 1)
    assert values == [str(number) for number in range(100)]
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["more"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["more"]


def test_from_the_end(broker: Broker) -> None:
    # covers RD-1, RD-2, C13, CUR-10
    topic = broker.topic()
    _filled(broker, topic, 3)
    reader = broker.client().create_reader(topic, LATEST)
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["new"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["new"]


def test_an_empty_topic_has_nothing_available(broker: Broker) -> None:
    # covers RD-3
    client = broker.client()
    topic = broker.topic()
    client.create_producer(topic)
    assert not client.create_reader(topic, EARLIEST).has_message_available()
    assert not client.create_reader(topic, LATEST).has_message_available()


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_from_any_id(broker: Broker, inclusive: bool) -> None:
    # covers CUR-10, A11
    topic = broker.topic()
    ids = _filled(broker, topic, 6)
    client = broker.client()
    for start in (0, 3, 5):
        reader = client.create_reader(topic, ids[start], start_message_id_inclusive=inclusive)
        expected = [str(number) for number in range(start + (not inclusive), 6)]
        assert reader.has_message_available() == bool(expected)
        assert receive_texts(reader, len(expected)) == expected
        expect_nothing(reader, quiet_ms=100)


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_from_inside_a_batch(broker: Broker, inclusive: bool) -> None:
    # covers CUR-10, A11 (the whole batch comes, the client drops)
    topic = broker.topic()
    client = broker.client()
    ids = send_batched(client, topic, [str(number) for number in range(5)])
    for start in (0, 2, 4):
        reader = client.create_reader(topic, ids[start], start_message_id_inclusive=inclusive)
        expected = [str(number) for number in range(start + (not inclusive), 5)]
        assert reader.has_message_available() == bool(expected)
        assert receive_texts(reader, len(expected)) == expected
        assert not reader.has_message_available()


def test_many_readers_do_not_disturb_one_another_nor_hold_a_subscription(broker: Broker) -> None:
    # covers RD-1, CUR-8
    topic = broker.topic()
    _filled(broker, topic, 5)
    client = broker.client()
    readers = [client.create_reader(topic, EARLIEST) for _ in range(10)]
    for reader in readers:
        assert receive_texts(reader, 5) == ["0", "1", "2", "3", "4"]
        reader.close()


def test_the_same_message_comes_again_to_a_new_reader(broker: Broker) -> None:
    # covers RD-1 (acks of a reader stay its own)
    topic = broker.topic()
    _filled(broker, topic, 3)
    client = broker.client()
    for _ in range(2):
        reader = client.create_reader(topic, EARLIEST, reader_name="r", subscription_role_prefix="role")
        assert receive_texts(reader, 3) == ["0", "1", "2"]
        reader.close()


def test_a_reader_seeks_by_id_and_by_time(broker: Broker) -> None:
    # covers CUR-11, CUR-12, CUR-8, RD-2
    topic = broker.topic()
    ids = _filled(broker, topic, 5)
    reader = broker.client().create_reader(topic, EARLIEST)
    messages = receive(reader, 5)
    reader.seek(ids[1])
    assert receive_texts(reader, 3) == ["2", "3", "4"]
    reader.seek(messages[0].publish_timestamp())
    assert reader.has_message_available()
    assert receive_texts(reader, 5) == ["0", "1", "2", "3", "4"]
    reader.seek(messages[4].publish_timestamp() + 60_000)
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["new"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["new"]


def test_a_reader_of_a_partitioned_topic(broker: Broker) -> None:
    # covers RD-1, PT-1
    topic = broker.topic(partitions=3)
    _filled(broker, topic, 30)
    reader = broker.client().create_reader(topic, EARLIEST)
    values = []
    while reader.has_message_available():
        values += receive_texts(reader, 1)
    assert sorted(values, key=int) == [str(number) for number in range(30)]


def test_a_start_after_the_end_takes_the_initial_position(broker: Broker) -> None:
    # covers CUR-10 (no id, an id after the end: initial position decides)
    topic = broker.topic()
    _filled(broker, topic, 2)
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    after_all = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
    expected = {
        ("Earliest", True): [b"0", b"1"],
        ("Latest", True): [],
        ("Earliest", False): [b"0", b"1"],
        ("Latest", False): [],
    }
    for consumer_id, ((initial, with_id), values) in enumerate(expected.items()):
        start = {"start_message_id": after_all} if with_id else {}
        answer = raw.request(
            "SUBSCRIBE",
            topic=topic,
            subscription=f"r{consumer_id}",
            subType="Exclusive",
            consumer_id=consumer_id,
            durable=False,
            initialPosition=initial,
            **start,
        )
        assert answer.type == "SUCCESS"
        raw.send("FLOW", consumer_id=consumer_id, messagePermits=10)
        assert [message.payload for message in raw.expect_messages(len(values))] == values
        raw.expect_no_message(quiet_s=0.2)


def test_a_table_view_is_a_reader_that_goes_on(broker: Broker) -> None:
    # covers RD-5 (without compaction)
    topic = broker.topic()
    client = broker.client()
    producer = client.create_producer(topic)
    for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        producer.send(value, partition_key=key)
    view = client.create_table_view(topic)
    assert (view.get("a"), view.get("b"), len(view)) == (b"3", b"2", 2)
    producer.send(b"4", partition_key="c")
    eventually(lambda: view.get("c") == b"4")
    view.close()
