"""Messages of every shape from the official Go client: batches, codecs, chunks, delays, and who may send them."""

from __future__ import annotations

import time

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.clients.conftest import Clients
from tests.clients.go_client import (
    EXCLUSIVE_ACCESS,
    IN_BATCHES,
    IN_ONE_BATCH,
    LZ4,
    MS,
    NO_COMPRESSION,
    SECOND,
    SHARED,
    SNAPPY,
    WAIT_FOR_EXCLUSIVE,
    ZLIB,
    ZSTD,
    GoClient,
    GoError,
    texts,
)
from tests.conformance.exchange import receive
from tests.eventually import eventually

CODECS = {NO_COMPRESSION: "NONE", LZ4: "LZ4", ZLIB: "ZLib", ZSTD: "ZSTD", SNAPPY: "SNAPPY"}
NUMBERS = [str(number) for number in range(50)]


@pytest.mark.parametrize("codec", CODECS, ids=CODECS.get)
@pytest.mark.parametrize("batched", [False, True])
def test_both_languages_read_each_others_codecs(broker: Broker, go: GoClient, codec: int, batched: bool) -> None:
    # covers BAT-1, CMP-1
    topic = broker.topic()
    from_go, from_python = f"{topic}-g", f"{topic}-p"
    client = broker.client()
    reader = client.subscribe(from_go, "s", initial_position=pulsar.InitialPosition.Earliest)
    options = IN_ONE_BATCH if batched else {}
    receipts = go.producer(from_go, CompressionType=codec, **options).send(*[each * 100 for each in NUMBERS])
    assert len({receipt.position[1] for receipt in receipts}) == (1 if batched else 50)
    assert [message.data().decode() for message in receive(reader, 50)] == [each * 100 for each in NUMBERS]
    kind = getattr(pulsar.CompressionType, CODECS[codec])
    writer = client.create_producer(
        from_python, compression_type=kind, batching_enabled=batched, batching_max_publish_delay_ms=10_000
    )
    consumer = go.consumer(from_python)
    for each in NUMBERS:
        writer.send_async((each * 100).encode(), lambda *_: None)
    writer.flush()
    assert texts(consumer.receive(50)) == [each * 100 for each in NUMBERS]


def test_what_is_said_beside_a_message_arrives(topic: str, go: GoClient) -> None:
    # covers A10
    consumer = go.consumer(topic)
    fields = {"Key": "k", "OrderingKey": "o", "Properties": {"p": "1"}, "EventTime": "2020-01-02T03:04:05Z"}
    for options in ({}, IN_BATCHES):
        producer = go.producer(topic, **options)
        producer.send({"Payload": b"\x00\xff", "SequenceID": 7, **fields})
        (message,) = consumer.receive(1)
        assert (message.payload, message.key, message.ordering_key) == (b"\x00\xff", "k", "o")
        assert (message.properties, message.event_time_ms) == ({"p": "1"}, 1_577_934_245_000)
        assert message.producer == producer.name
        assert abs(message.publish_time_ms - time.time_ns() // 1_000_000) < 60_000
        producer.close()


def test_a_message_that_is_repeated_is_stored_once(broker: Broker, topic: str, go: GoClient) -> None:
    # covers DED-1, DED-2, DED-3, PR-11
    consumer = go.consumer(topic)
    assert broker.rest("POST", f"{topic_path(topic)}/deduplicationEnabled", True)[0] == 204
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/stats")[1]["deduplicationStatus"] == "Enabled")
    producer = go.producer(topic, Name="me")
    producer.send({"Payload": "5", "SequenceID": 5}, {"Payload": "6", "SequenceID": 6})
    producer.close()
    producer = go.producer(topic, Name="me")
    producer.send({"Payload": "again", "SequenceID": 6}, {"Payload": "7", "SequenceID": 7})
    assert texts(consumer.receive(3)) == ["5", "6", "7"]


@pytest.mark.parametrize("type_", [0, SHARED])
def test_chunks_of_several_producers_become_messages(broker: Broker, topic: str, go: GoClient, type_: int) -> None:
    # covers CHK-1, CHK-3, CHK-6, CHK-7
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True)
    options = {"EnableChunking": True, "ChunkMaxMessageSize": 1_000}
    producers = [go.producer(topic, Name=name, **options) for name in "ab"]
    sent = {name: name * 10_500 for name in "ab"}
    pending = [producer.start(sent[producer.name]) for producer in producers]
    for each in pending:
        assert not each.result(60)[0]["error"]
    messages = consumer.receive(2)
    assert {message.producer: message.text for message in messages} == sent
    assert broker.rest("GET", f"{topic_path(topic)}/stats")[1]["msgInCounter"] >= 22
    consumer.ack(*messages)
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/stats")[1]["subscriptions"]["s"]["msgBacklog"] == 0)


def test_a_message_of_several_frames_is_read_by_both_languages(broker: Broker, topic: str, go: GoClient) -> None:
    # covers CHK-1, PR-10
    payload = bytes(range(256)) * 50_000
    with pytest.raises(GoError, match="size"):
        go.producer(topic).send(payload)
    (receipt,) = go.producer(topic, EnableChunking=True).send(payload)
    consumer = broker.client().subscribe(topic, "p", initial_position=pulsar.InitialPosition.Earliest)
    assert receive(consumer, 1)[0].data() == payload
    (message,) = go.consumer(topic).receive(1)
    assert message.payload == payload
    assert message.position[:2] == receipt.position[:2]


def test_a_chunked_message_that_is_nacked_comes_again_whole(topic: str, go: GoClient) -> None:
    # covers CHK-3, CHK-6, NACK-1
    consumer = go.consumer(topic, type_=SHARED, NackRedeliveryDelay=100 * MS)
    go.producer(topic, EnableChunking=True, ChunkMaxMessageSize=1_000).send("x" * 5_000)
    (message,) = consumer.receive(1)
    consumer.nack(message)
    (again,) = consumer.receive(1)
    assert again.text == message.text


@pytest.mark.parametrize("how", ["DeliverAfter", "DeliverAt"])
def test_delayed_messages_wait_for_their_time(topic: str, go: GoClient, how: str) -> None:
    # covers DEL-1, DEL-4
    consumer = go.consumer(topic, type_=SHARED)
    start_ms = time.time_ns() // MS
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start_ms // 1_000 + 3))
    when = {"DeliverAt": at} if how == "DeliverAt" else {"DeliverAfter": 2 * SECOND}
    go.producer(topic).send({"Payload": "late", **when}, "at once")
    assert set(texts(consumer.receive(2))) == {"at once", "late"}
    assert time.time_ns() // MS - start_ms >= 1_900


def test_exclusive_access_is_for_one_producer(topic: str, go: GoClient) -> None:
    # covers PR-3, PR-4, PR-6
    first = go.producer(topic, ProducerAccessMode=EXCLUSIVE_ACCESS)
    first.send("1")
    for mode in (0, EXCLUSIVE_ACCESS):
        with pytest.raises(GoError, match=r"ProducerFenced|ProducerBusy"):
            assert go.producer(topic, ProducerAccessMode=mode).name
    waiting = go.producer(topic, ProducerAccessMode=WAIT_FOR_EXCLUSIVE)
    first.send("2")
    assert not waiting.is_there
    first.close()
    assert waiting.name
    waiting.send("3")
    assert texts(go.consumer(topic).receive(3)) == ["1", "2", "3"]


@pytest.mark.parametrize("hash_", [0, 1], ids=["JavaStringHash", "Murmur3_32Hash"])
def test_keys_decide_the_partition(broker: Broker, go: GoClient, hash_: int) -> None:
    # covers PT-4
    topic = broker.topic(partitions=5)
    consumer = go.consumer(topic)
    keyed = [{"Payload": each, "Key": each} for each in NUMBERS]
    receipts = go.producer(topic, HashingScheme=hash_).send(*keyed, *keyed)
    partitions = [receipt.position[2] for receipt in receipts]
    assert partitions[:50] == partitions[50:]
    assert set(partitions) == set(range(5))
    for message in consumer.receive(100):
        assert message.topic == f"{topic}-partition-{partitions[int(message.text)]}"
        assert message.position[2] == partitions[int(message.text)]


def test_partitions_that_are_added_are_found(broker: Broker, go: GoClient) -> None:
    # covers PT-7
    topic = broker.topic(partitions=1)
    consumer = go.consumer(topic, type_=SHARED, AutoDiscoveryPeriod=SECOND)
    producer = go.producer(topic, PartitionsAutoDiscoveryInterval=SECOND)
    producer.send("0")
    assert broker.rest("POST", f"{topic_path(topic)}/partitions", 3)[0] == 204
    assert go.partitions(topic) == [f"{topic}-partition-{number}" for number in range(3)]
    keyed = [{"Payload": each, "Key": each} for each in NUMBERS]
    partitions: set[int] = set()

    def spread() -> bool:
        partitions.update(receipt.position[2] for receipt in producer.send(*keyed))
        return partitions == {0, 1, 2}

    eventually(spread, every_s=0.5)
    seen: set[str] = set()

    def arrived() -> bool:
        seen.update(message.topic for message in consumer.receive_up_to(500, 100))
        return len(seen) == 3

    eventually(arrived)


def test_a_client_over_http_finds_topics(broker: Broker, clients: Clients) -> None:
    # covers ADM-70, ADM-68, ADM-64 (what clients ask for over HTTP)
    go = clients(broker, broker.admin_url)
    topic, partitioned = broker.topic(), broker.topic(partitions=2)
    for each in (topic, partitioned):
        consumer = go.consumer(each)
        go.producer(each).send("0")
        assert texts(consumer.receive(1)) == ["0"]
    assert len(go.partitions(partitioned)) == 2
    pattern = go.consumer(None, "r", TopicsPattern=f"{topic.rsplit('-', 1)[0]}-.*")
    assert texts(pattern.receive(1)) == ["0"]
