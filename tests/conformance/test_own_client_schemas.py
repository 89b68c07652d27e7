"""Our wire client asks the registry of both brokers for schemas, and registers them."""

from __future__ import annotations

from collections.abc import Iterator

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.model.errors import IncompatibleSchema, TopicNotFound
from spark_pulsar.model.schemas import Schema, SchemaType
from tests.brokers import Broker
from tests.conformance.schemas import B_REQUIRED, B_WITH_DEFAULT, A, record


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as wire:
        yield wire


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


def test_a_schema_that_does_not_fit_is_refused(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic()
    with pytest.raises(TopicNotFound):
        client.register_schema(topic, Schema(SchemaType.AVRO, record(A)))
    broker.client().create_producer(topic, schema=pulsar.schema.StringSchema()).close()
    assert client.schema_of(topic).schema.type is SchemaType.STRING
    with pytest.raises(IncompatibleSchema):
        client.register_schema(topic, Schema(SchemaType.AVRO, record(A, B_REQUIRED)))
