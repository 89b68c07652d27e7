"""Our wire client publishes; official consumers read it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import MessageTooLarge
from spark_pulsar.model.errors import ProducerBusy
from spark_pulsar.model.positions.ids import EARLIEST_ID
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    """Our client on the broker under test."""
    with PulsarClient(ClientConfig(broker.service_url, operation_timeout_ms=30_000)) as one:
        yield one


def _batch(values: list[bytes]) -> bytes:
    items = []
    for value in values:
        head = SingleMessageMetadata(payload_size=len(value), partition_key=f"k{len(value)}").SerializeToString()
        items.append(struct.pack(">I", len(head)) + head + value)
    return b"".join(items)


def _read(broker: Broker, topic: str, count: int) -> list[pulsar.Message]:
    consumer = broker.client().subscribe(topic, "judge", initial_position=pulsar.InitialPosition.Earliest)
    messages = receive(consumer, count)
    expect_nothing(consumer)
    return messages


def test_messages_and_batches(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("publish")
    with client.publisher(topic) as publisher:
        assert publisher.producer_name
        assert publisher.max_message_size_bytes == 5 * 1024 * 1024
        publisher.send(MessageMetadata(partition_key="one", event_time=77), b"single")
        values = [b"x" * size for size in range(100)]
        publisher.send(MessageMetadata(num_messages_in_batch=100), _batch(values), 100)
        publisher.send(MessageMetadata(num_messages_in_batch=1), _batch([b"last"]), 1)
        assert publisher.next_sequence_id == 102
        publisher.flush()
        last = client.last_message_id(topic)
        assert last is not None
        assert publisher.last_message_id is not None
        assert publisher.last_message_id[:2] == last[:2]
    messages = _read(broker, topic, 102)
    assert [message.data() for message in messages] == [b"single", *values, b"last"]
    assert (messages[0].partition_key(), messages[0].event_timestamp()) == ("one", 77)
    assert messages[1 + 42].partition_key() == "k42"
    assert messages[0].producer_name() == publisher.producer_name
    assert messages[0].publish_timestamp() > 1_700_000_000_000


def test_the_broker_may_create_the_topic(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("made")
    client.publisher(topic).close()
    assert client.last_message_id(topic) is None


def test_a_thousand_in_flight_keep_their_order(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("order")
    with client.publisher(topic, max_pending_entries=300) as publisher:
        for number in range(3_000):
            publisher.send(MessageMetadata(), b"%d" % number)
            assert publisher.pending <= 300
    messages = _read(broker, topic, 3_000)
    assert [int(message.data()) for message in messages] == list(range(3_000))


def test_a_name_belongs_to_one_producer(broker: Broker, client: PulsarClient) -> None:
    # covers PR-2
    topic = broker.topic("name")
    first = client.publisher(topic, name="mine")
    assert first.producer_name == "mine"
    with PulsarClient(client.config) as other, pytest.raises(ProducerBusy):
        other.publisher(topic, name="mine")
    first.close()
    with PulsarClient(client.config) as other:
        other.publisher(topic, name="mine").close()


def test_the_largest_entry_and_one_byte_more(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("size")
    with client.publisher(topic) as publisher:
        metadata = MessageMetadata(producer_name=publisher.producer_name, sequence_id=0, publish_time=1_800_000_000_000)
        largest = publisher.max_message_size_bytes - metadata.ByteSize()
        with pytest.raises(MessageTooLarge, match=f"{publisher.max_message_size_bytes + 1} bytes"):
            publisher.send(metadata, bytes(largest + 1))
        publisher.send(metadata, bytes(largest))
    (message,) = _read(broker, topic, 1)
    assert len(message.data()) == largest


def test_large_entries_and_a_small_window(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("window")
    with client.publisher(topic, max_pending_bytes=3_000_000) as publisher:
        for number in range(20):
            publisher.send(MessageMetadata(), bytes([number]) * 1_000_000)
            assert publisher.pending <= 3
    messages = _read(broker, topic, 20)
    assert [message.data()[0] for message in messages] == list(range(20))


def test_our_own_reader_reads_what_our_publisher_wrote(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("both")
    with client.publisher(topic) as publisher:
        for number in range(10):
            publisher.send(MessageMetadata(), b"%d" % number)
    end = client.end_positions([topic])[topic]
    with client.fetch(topic, EARLIEST_ID, end) as fetch:
        values = [block.buffer[stop - 1 : stop] for block in fetch for stop in block.ends]
    assert values == [b"%d" % number for number in range(10)]
