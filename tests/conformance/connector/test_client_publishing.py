"""Our wire client publishes; official consumers read it."""

from __future__ import annotations

import struct

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import MessageTooLarge
from spark_pulsar.model.errors import IncompatibleSchema, ProducerBusy, TopicNotFound
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, receive
from tests.conformance.schemas import B_REQUIRED, B_WITH_DEFAULT, A, record


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


def test_messages_and_batches(broker: Broker, topic: str, client: PulsarClient) -> None:
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


def test_a_thousand_in_flight_keep_their_order(broker: Broker, topic: str, client: PulsarClient) -> None:
    with client.publisher(topic, max_pending_entries=300) as publisher:
        for number in range(3_000):
            publisher.send(MessageMetadata(), b"%d" % number)
            assert publisher.pending <= 300
    messages = _read(broker, topic, 3_000)
    assert [int(message.data()) for message in messages] == list(range(3_000))


def test_a_name_belongs_to_one_producer(topic: str, client: PulsarClient) -> None:
    # covers PR-2
    first = client.publisher(topic, name="mine")
    assert first.producer_name == "mine"
    with PulsarClient(client.config) as other, pytest.raises(ProducerBusy):
        other.publisher(topic, name="mine")
    first.close()
    with PulsarClient(client.config) as other:
        other.publisher(topic, name="mine").close()


def test_the_largest_entry_and_one_byte_more(broker: Broker, topic: str, client: PulsarClient) -> None:
    with client.publisher(topic) as publisher:
        metadata = MessageMetadata(producer_name=publisher.producer_name, sequence_id=0, publish_time=1_800_000_000_000)
        largest = publisher.max_message_size_bytes - metadata.ByteSize()
        with pytest.raises(MessageTooLarge, match=f"{publisher.max_message_size_bytes + 1} bytes"):
            publisher.send(metadata, bytes(largest + 1))
        publisher.send(metadata, bytes(largest))
    (message,) = _read(broker, topic, 1)
    assert len(message.data()) == largest


def test_large_entries_and_a_small_window(broker: Broker, topic: str, client: PulsarClient) -> None:
    with client.publisher(topic, max_pending_bytes=3_000_000) as publisher:
        for number in range(20):
            publisher.send(MessageMetadata(), bytes([number]) * 1_000_000)
            assert publisher.pending <= 3
    messages = _read(broker, topic, 20)
    assert [message.data()[0] for message in messages] == list(range(20))


def test_schemas_by_topic_and_version(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic(partitions=2)
    assert client.schema_of(topic) is None
    partition = client.partitions_of(topic)[1]
    broker.client().create_producer(partition).close()
    first, second = (Schema(SchemaType.AVRO, data) for data in (record(A), record(A, B_WITH_DEFAULT)))
    versions = [client.register_schema(partition, schema) for schema in (first, second, first)]
    assert versions == [number.to_bytes(8, "big") for number in (0, 1, 0)]
    for name in (topic, partition):
        assert client.schema_of(name).schema == second
        assert client.schema_of(name, versions[0]).schema == first
    missing = broker.topic()
    found = client.schemas_of([topic, missing])
    assert (found[topic].version, found[missing]) == (versions[1], None)


def test_a_schema_that_does_not_fit_is_refused(broker: Broker, topic: str, client: PulsarClient) -> None:
    with pytest.raises(TopicNotFound):
        client.register_schema(topic, Schema(SchemaType.AVRO, record(A)))
    broker.client().create_producer(topic, schema=pulsar.schema.StringSchema()).close()
    assert client.schema_of(topic).schema.type is SchemaType.STRING
    with pytest.raises(IncompatibleSchema):
        client.register_schema(topic, Schema(SchemaType.AVRO, record(A, B_REQUIRED)))
