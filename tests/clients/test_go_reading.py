"""Readers, seeks, patterns and table views of the official Go client."""

from __future__ import annotations

import pytest

from tests.brokers import Broker, topic_path
from tests.clients.go_client import EXCLUSIVE, FAILOVER, IN_ONE_BATCH, KEY_SHARED, SECOND, SHARED, GoClient, texts
from tests.eventually import eventually

TYPES = pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED], ids=str)
NUMBERS = [str(number) for number in range(10)]


@pytest.mark.parametrize("batched", [False, True])
def test_a_reader_starts_where_it_is_told(topic: str, go: GoClient, batched: bool) -> None:
    # covers CUR-8, CUR-10, RD-2, RD-3
    options = IN_ONE_BATCH if batched else {}
    receipts = go.producer(topic, **options).send(*NUMBERS)
    assert texts(go.reader(topic).receive(10)) == NUMBERS
    assert texts(go.reader(topic, receipts[4].id).receive(5)) == NUMBERS[5:]
    assert texts(go.reader(topic, receipts[4].id, StartMessageIDInclusive=True).receive(6)) == NUMBERS[4:]
    end = go.reader(topic, "latest")
    assert not end.has_next()
    last = go.reader(topic, "latest", StartMessageIDInclusive=True)
    assert last.has_next()
    assert texts(last.receive(1)) == ["9"]
    assert not last.has_next()
    go.producer(topic).send("10")
    assert texts(end.receive(1)) == ["10"]
    assert last.has_next()


def test_a_reader_reads_all_partitions(broker: Broker, go: GoClient) -> None:
    # covers RD-1, PT-1
    topic = broker.topic(partitions=3)
    go.producer(topic).send(*[{"Payload": each, "Key": each} for each in NUMBERS])
    reader = go.reader(topic)
    seen = []
    while reader.has_next():
        seen += reader.receive(1)
    assert sorted(texts(seen)) == NUMBERS


def test_a_reader_seeks(topic: str, go: GoClient) -> None:
    # covers CUR-11, CUR-12, CUR-13
    receipts = go.producer(topic).send(*NUMBERS)
    for inclusive in (False, True):
        reader = go.reader(topic, StartMessageIDInclusive=inclusive)
        reader.receive(10)
        reader.seek(receipts[6].id)
        assert texts(reader.receive(3 + inclusive)) == NUMBERS[7 - inclusive :]
    reader = go.reader(topic, "latest")
    reader.seek(1)
    assert texts(reader.receive(10)) == NUMBERS


@pytest.mark.parametrize(
    ("type_", "inclusive"), [(EXCLUSIVE, False), (SHARED, True), (FAILOVER, False), (KEY_SHARED, True)]
)
def test_a_subscription_seeks_to_a_message(topic: str, go: GoClient, type_: int, inclusive: bool) -> None:
    # covers CUR-11 (the client itself drops the message that it went to)
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True, StartMessageIDInclusive=inclusive)
    receipts = go.producer(topic).send(*NUMBERS)
    messages = consumer.receive(10)
    consumer.ack(*messages)
    consumer.seek(receipts[4].id)
    assert texts(consumer.receive(5 + inclusive)) == NUMBERS[5 - inclusive :]
    consumer.seek(messages[7])
    assert texts(consumer.receive(2 + inclusive)) == NUMBERS[8 - inclusive :]


@pytest.mark.parametrize(("type_", "partitions"), [(EXCLUSIVE, 3), (SHARED, 0), (FAILOVER, 0), (KEY_SHARED, 3)])
def test_a_subscription_seeks_to_a_time(broker: Broker, go: GoClient, type_: int, partitions: int) -> None:
    # covers CUR-12, CUR-13
    topic = broker.topic(partitions=partitions)
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True)
    producer = go.producer(topic)
    producer.send(*[{"Payload": each, "Key": each} for each in NUMBERS[:5]])
    first = consumer.receive(5)
    consumer.ack(*first)
    newest = max(message.publish_time_ms for message in first)
    later: list[str] = []

    def sent_later() -> bool:
        # Until the clock of the machine has moved on.
        later.append(str(len(later)))
        producer.send({"Payload": later[-1], "Key": later[-1]})
        (message,) = consumer.receive(1)
        consumer.ack(message)
        return message.publish_time_ms > newest

    eventually(sent_later, every_s=0.002)
    consumer.seek(newest + 1)
    assert texts(consumer.receive(1)) == later[-1:]
    consumer.seek(1)
    assert sorted(texts(consumer.receive(5 + len(later)))) == sorted([*NUMBERS[:5], *later])


def test_the_last_ids_are_those_of_the_last_messages(topic: str, go: GoClient) -> None:
    # covers RD-3
    consumer = go.consumer(topic)
    assert consumer.last()[topic][1] == -1
    (receipt,) = go.producer(topic).send("0")
    assert consumer.last()[topic][:2] == receipt.position[:2]
    batch = go.producer(topic, **IN_ONE_BATCH).send("1", "2", "3")
    assert consumer.last()[topic] == batch[-1].position


@TYPES
def test_a_pattern_finds_topics_that_are_there_and_those_to_come(broker: Broker, go: GoClient, type_: int) -> None:
    # covers MT-2, MT-4
    name = broker.topic("pattern")
    topics = [f"{name}-{number}" for number in range(3)]
    other = f"{name.replace('pattern-', 'another-')}-0"
    for each in [*topics[:2], other]:
        go.producer(each).send(each)
    consumer = go.consumer(None, type_=type_, TopicsPattern=f"{name}-.*", AutoDiscoveryPeriod=SECOND)
    messages = consumer.receive(2)
    assert set(texts(messages)) == set(topics[:2])
    consumer.ack(*messages)
    go.producer(topics[2]).send(topics[2])
    assert texts(consumer.receive(1)) == topics[2:]
    assert broker.rest("DELETE", f"{topic_path(topics[0])}?force=true")[0] == 204
    go.producer(topics[1]).send("more")
    assert texts(consumer.receive(1)) == ["more"]


def test_one_consumer_of_several_topics(broker: Broker, go: GoClient) -> None:
    # covers MT-1
    topics = [broker.topic(), broker.topic(partitions=2)]
    consumer = go.consumer(None, type_=SHARED, Topics=topics)
    for each in topics:
        go.producer(each).send(each)
    messages = consumer.receive(2)
    assert {message.text: message.topic.partition("-partition-")[0] for message in messages} == dict(
        zip(topics, topics, strict=True)
    )
    consumer.ack(*messages)
    assert set(consumer.last()) >= {topics[0]}


@pytest.mark.parametrize("compacted", [False, True])
def test_a_table_view_has_the_last_value_of_each_key(broker: Broker, topic: str, go: GoClient, compacted: bool) -> None:
    # covers RD-5, CMP-C1, CMP-C4
    producer = go.producer(topic, Schema={"Type": "STRING"})
    # The client cannot read an empty message that has no properties either.
    gone = {"Payload": "", "Key": "k1", "Properties": {"is": "gone"}}
    producer.send(*[{"Payload": each, "Key": f"k{int(each) % 3}"} for each in NUMBERS], gone)
    if compacted:
        assert broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
        status = f"{topic_path(topic)}/compaction"
        eventually(lambda: broker.rest("GET", status)[1]["status"] == "SUCCESS", timeout_s=60, every_s=0.1)
        assert texts(go.reader(topic, ReadCompacted=True).receive(2)) == ["8", "9"]
    table = go.table(topic, {"Type": "STRING"}, "STRING")
    assert table.entries() == {"k0": "9", "k2": "8"}
    producer.send({"Payload": "new", "Key": "k3"})
    eventually(lambda: table.entries() == {"k0": "9", "k2": "8", "k3": "new"})
