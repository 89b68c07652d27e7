"""Large messages in chunks: on Shared subscriptions, of several producers at once, unfinished, wanted again."""

from __future__ import annotations

import pulsar
import pytest

from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker
from tests.conformance.exchange import EARLIEST, SHARED, expect_nothing, receive_texts
from tests.eventually import eventually
from tests.raw import RawConnection


class Feeder:
    """Producers by hand: each sends the chunks of its messages when it is told to."""

    def __init__(self, broker: Broker, topic: str, count: int = 1) -> None:
        self.raw: RawConnection = broker.raw()
        self.raw.request("LOOKUP", topic=topic)
        for number in range(count):
            self.raw.request("PRODUCER", topic=topic, producer_id=number, producer_name=f"p{number}")

    def chunk(self, uuid: str, number: int, of: int = 3, producer_id: int = 0) -> tuple[int, int]:
        """Ten bytes of the message `uuid`; where they are stored."""
        metadata = {
            "producer_name": f"p{producer_id}",
            "publish_time": wall_ms(),
            "uuid": uuid,
            "num_chunks_from_msg": of,
            "total_chunk_msg_size": 10 * of,
            "chunk_id": number,
        }
        self.raw.send_message(producer_id, 0, uuid[0].encode() * 10, metadata=metadata, is_chunk=True)
        return self.raw.expect("SEND_RECEIPT").position

    def plain(self, text: str) -> None:
        """A message as any other."""
        self.raw.send_message(0, 0, text.encode())
        self.raw.expect("SEND_RECEIPT")


def drain(consumers: list[pulsar.Consumer], count: int) -> list[list[str]]:
    """What each of several consumers gets, until there are so many messages; they are acknowledged."""
    got: list[list[str]] = [[] for _ in consumers]

    def all_there() -> bool:
        for consumer, texts in zip(consumers, got, strict=True):
            try:
                message = consumer.receive(timeout_millis=50)
            except pulsar.Timeout:
                continue
            texts.append(message.data().decode())
            consumer.acknowledge(message)
        return sum(map(len, got)) >= count

    eventually(all_there, timeout_s=60)
    return got


@pytest.mark.parametrize(("kind", "count"), [(SHARED, 3), (pulsar.ConsumerType.Exclusive, 1)], ids=["shared", "alone"])
def test_interwoven_chunks_reach_consumers_whole(
    broker: Broker, topic: str, kind: pulsar.ConsumerType, count: int
) -> None:
    # covers CHK-1, CHK-6, CHK-7, X1
    consumers = [broker.client().subscribe(topic, "s", kind) for _ in range(count)]
    feeder = Feeder(broker, topic, 3)
    for round_ in range(4):
        for number in range(3):
            for producer_id, letter in enumerate("abc"):
                feeder.chunk(f"{letter}{round_}", number, producer_id=producer_id)
        feeder.plain(f"plain{round_}")
    got = drain(consumers, 16)
    wanted = [letter * 30 for letter in "abc"] * 4 + [f"plain{round_}" for round_ in range(4)]
    assert sorted(text for texts in got for text in texts) == sorted(wanted)
    eventually(lambda: broker.backlog(topic) == 0)


def test_large_messages_of_the_official_client_are_shared_out(broker: Broker, topic: str) -> None:
    # covers CHK-1, CHK-6
    consumers = [broker.client().subscribe(topic, "s", SHARED, receiver_queue_size=2) for _ in range(2)]
    producers = [broker.client().create_producer(topic, chunking_enabled=True) for _ in range(2)]
    large = "x" * (6 * 1024 * 1024)
    for number in range(2):
        for producer in producers:
            producer.send_async(f"{number}{large}".encode(), lambda *_: None)
    for producer in producers:
        producer.flush()
    got = drain(consumers, 4)
    assert sorted(text[0] for texts in got for text in texts) == ["0", "0", "1", "1"]
    assert {len(text) for texts in got for text in texts} == {len(large) + 1}


@pytest.mark.ours_only("CHK-6: chunks of a consumer that left go to another, which gets the rest too")
def test_an_unfinished_message_of_a_consumer_that_left_is_finished_by_another(broker: Broker, topic: str) -> None:
    # covers CHK-6
    first = broker.client().subscribe(topic, "s", SHARED)
    feeder = Feeder(broker, topic)
    feeder.chunk("a", 0)
    feeder.chunk("a", 1)
    eventually(lambda: _sent(broker, topic) == 2)
    second = broker.client().subscribe(topic, "s", SHARED)
    first.close()
    feeder.chunk("a", 2)
    assert receive_texts(second, 1) == ["a" * 30]


def _sent(broker: Broker, topic: str) -> int:
    stats = broker.stats(topic)
    return sum(int(each["msgOutCounter"]) for each in stats["subscriptions"]["s"]["consumers"])


@pytest.mark.ours_only("CHK-6: redelivery of a chunk brings all chunks of its message along")
def test_a_large_message_that_is_refused_comes_again_whole(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CHK-3
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    feeder = Feeder(broker, topic)
    for number in range(3):
        feeder.chunk("a", number)
    for _ in range(2):
        message = consumer.receive(timeout_millis=30_000)
        assert message.data() == b"a" * 30
        consumer.negative_acknowledge(message)
    message = consumer.receive(timeout_millis=30_000)
    assert message.data() == b"a" * 30
    consumer.acknowledge(message)
    eventually(lambda: broker.backlog(topic) == 0)


@pytest.mark.ours_only("CHK-6: an orphan chunk goes to anybody; Apache Pulsar holds back what follows it")
def test_a_chunk_without_its_first_holds_nothing_up(broker: Broker, topic: str) -> None:
    # covers CHK-6
    consumers = [broker.client().subscribe(topic, "s", SHARED) for _ in range(2)]
    feeder = Feeder(broker, topic)
    feeder.chunk("a", 1)
    feeder.plain("after")
    got = drain(consumers, 1)
    assert [text for texts in got for text in texts] == ["after"]


def test_the_oldest_of_too_many_unfinished_messages_is_given_up(broker: Broker, topic: str) -> None:
    # covers CHK-5, CHK-4
    consumer = broker.client().subscribe(
        topic,
        "s",
        initial_position=EARLIEST,
        max_pending_chunked_message=1,
        auto_ack_oldest_chunked_message_on_queue_full=True,
    )
    feeder = Feeder(broker, topic, 2)
    feeder.chunk("a", 0)
    for number in range(3):
        feeder.chunk("b", number, producer_id=1)
    message = consumer.receive(timeout_millis=30_000)
    assert message.data() == b"b" * 30
    consumer.acknowledge(message)
    feeder.chunk("a", 1)
    feeder.chunk("a", 2)
    expect_nothing(consumer)
    assert consumer.is_connected()


@pytest.mark.ours_only("CHK-7: told at once; Apache Pulsar tells at its next round of statistics")
def test_statistics_tell_that_a_topic_takes_chunks(broker: Broker, topic: str) -> None:
    feeder = Feeder(broker, topic)
    feeder.plain("x")
    stats = broker.stats(topic)
    assert stats["msgChunkPublished"] is False
    feeder.chunk("a", 0)
    eventually(lambda: broker.stats(topic)["msgChunkPublished"])


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_the_official_client_has_no_chunks_in_batches_nor_where_nothing_is_stored(broker: Broker, domain: str) -> None:
    # covers CHK-2
    topic = broker.topic().replace("persistent", domain)
    client = broker.client()
    with pytest.raises((pulsar.InvalidConfiguration, ValueError)):
        client.create_producer(topic, chunking_enabled=True, batching_enabled=True)
    if domain == "non-persistent":
        producer = client.create_producer(topic, chunking_enabled=True)
        with pytest.raises(pulsar.MessageTooBig):
            producer.send(bytes(6 * 1024 * 1024))
