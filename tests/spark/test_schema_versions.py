"""Schemas of topics to read, without a JVM: the one of a plan, and those of the versions that messages carry."""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.errors import SchemaError, UndecodableMessageError
from spark_pulsar.connector.options.decode_mode import FAILFAST, PERMISSIVE, DecodeMode
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.connector.reading.range_reading import read_range
from spark_pulsar.connector.schemas import lookup
from spark_pulsar.connector.schemas.decoding.plan import Decoding
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.lookup import common_definition, definition_at
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker, topic_path
from tests.conformance.schemas import A, record

B = {"name": "b", "type": "int", "default": 5}
C = {"name": "c", "type": "string", "default": ""}
JUST_LONG = record({"name": "at", "type": "long"})
JUST_A, A_B, A_C, C_A = record(A), record(A, B), record(A, C), record(C, A)


@pytest.fixture
def client(broker: Broker) -> Iterator[PulsarClient]:
    with PulsarClient(ClientConfig(service_url=broker.service_url)) as ready:
        yield ready


def register(broker: Broker, client: PulsarClient, topic: str, *definitions: bytes) -> list[bytes]:
    """Make a topic with these versions of its schema."""
    producer = broker.client().create_producer(topic)
    versions = [client.register_schema(topic, Schema(SchemaType.AVRO, each)) for each in definitions]
    producer.close()
    return versions


def send(client: PulsarClient, topic: str, definition: bytes, version: bytes, value: dict[str, Any]) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(definition)), value)
    with client.publisher(topic) as publisher:
        publisher.send(MessageMetadata(schema_version=version), out.getvalue())


def rows(
    broker: Broker, client: PulsarClient, topic: str, planned: Definition, mode: str = PERMISSIVE
) -> list[dict[str, Any]]:
    """All messages of a topic, read as a task reads them."""
    columns = value_columns(planned)
    wanted = tuple((each.name, each.type) for each in columns)
    decoding = Decoding(planned, wanted, DecodeMode(mode))
    end = ReadPosition.of(client.end_positions([topic])[topic])
    options = parse_options({"service.url": broker.service_url, "topic": topic, "mode": mode})
    names = (*columns.names, "__error") if mode == PERMISSIVE else tuple(columns.names)
    projection = Projection(names, decoding=decoding)
    batches = read_range(client, options, TopicRange(topic, EARLIEST, end), projection)
    return [row for batch in batches for row in pa.RecordBatch.to_pylist(batch)]


def test_a_topic_made_again_is_decoded_by_its_new_schemas(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("again")
    old = register(broker, client, topic, JUST_A, A_B)
    planned = common_definition(client, [topic], False)
    assert planned is not None
    send(client, topic, JUST_A, old[0], {"a": 1})
    assert rows(broker, client, topic, planned) == [{"a": 1, "b": 5, "__error": None}]
    assert broker.rest("DELETE", f"{topic_path(topic)}?force=true")[0] == 204
    new = register(broker, client, topic, C_A, A_B)
    assert new == old  # versions begin anew
    send(client, topic, C_A, new[0], {"c": "x", "a": 2})
    assert rows(broker, client, topic, planned) == [{"a": 2, "b": 5, "__error": None}]


def test_a_topic_made_again_is_not_decoded_by_the_schema_that_was_planned(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("again")
    old = register(broker, client, topic, A_B)
    planned = common_definition(client, [topic], False)
    assert planned is not None
    assert broker.rest("DELETE", f"{topic_path(topic)}?force=true")[0] == 204
    new = register(broker, client, topic, C_A)
    assert new == old
    send(client, topic, C_A, new[0], {"c": "x", "a": 2})
    assert rows(broker, client, topic, planned) == [{"a": 2, "b": 5, "__error": None}]


def test_versions_are_those_of_the_topic_of_a_message(broker: Broker, client: PulsarClient) -> None:
    one, two = sorted((broker.topic("several"), broker.topic("several")))
    [only] = register(broker, client, one, A_B)
    first, second = register(broker, client, two, C_A, A_B)
    planned = common_definition(client, [one, two], False)
    assert planned is not None
    assert (planned.version, first) == (only, only)
    send(client, one, A_B, only, {"a": 1, "b": 2})
    send(client, two, C_A, first, {"c": "x", "a": 3})
    send(client, two, A_B, second, {"a": 4, "b": 6})
    assert rows(broker, client, one, planned) == [{"a": 1, "b": 2, "__error": None}]
    assert rows(broker, client, two, planned) == [
        {"a": 3, "b": 5, "__error": None},
        {"a": 4, "b": 6, "__error": None},
    ]


def test_a_version_that_the_registry_has_not_is_told_by_row(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("gone")
    register(broker, client, topic, JUST_A)
    planned = common_definition(client, [topic], False)
    assert planned is not None
    send(client, topic, JUST_A, (7).to_bytes(8, "big"), {"a": 1})
    [row] = rows(broker, client, topic, planned)
    assert row["a"] is None
    assert "the schema version 7 that it carries is not in the registry" in row["__error"]


def test_a_logical_type_that_changed_is_converted_or_refused_by_the_mode(broker: Broker, client: PulsarClient) -> None:
    millis, micros, local = (
        record({"name": "at", "type": {"type": "long", "logicalType": name}})
        for name in ("timestamp-millis", "timestamp-micros", "local-timestamp-micros")
    )
    topic = broker.topic("units")
    versions = register(broker, client, topic, millis, micros, local)
    send(client, topic, JUST_LONG, versions[0], {"at": 1_500})
    send(client, topic, JUST_LONG, versions[1], {"at": 1_500})
    planned = Definition(Schema(SchemaType.AVRO, micros), "R", versions[1])
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    stamps = [epoch + datetime.timedelta(milliseconds=each) for each in (1_500, 1.5)]
    assert rows(broker, client, topic, planned, FAILFAST) == [{"at": each} for each in stamps]
    send(client, topic, JUST_LONG, versions[2], {"at": 1_500})
    told = r"field at was written as local-timestamp-micros \(long\), it cannot be read as timestamp-micros"
    found = rows(broker, client, topic, planned)
    assert [row["at"] for row in found] == [*stamps, None]
    assert re.match(rf"{told} \(schema version 2\)", found[2]["__error"])
    with pytest.raises(UndecodableMessageError, match=told):
        rows(broker, client, topic, planned, FAILFAST)


def test_a_version_is_asked_for_once_in_a_ledger(
    broker: Broker, client: PulsarClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_VERSIONS", type(lookup._VERSIONS)())
    monkeypatch.setattr(lookup, "MAX_VERSIONS", 2)
    topic = broker.topic("once")
    register(broker, client, topic, JUST_A, A_B)
    planned = common_definition(client, [topic], False)
    assert planned is not None

    def at(version: int, ledger_id: int) -> Definition | None:
        return definition_at(client, topic, version, ledger_id=ledger_id, planned=planned)

    first = at(0, 1)
    assert first is not None
    assert first.schema.data == JUST_A
    assert at(0, 1) is first
    assert at(2, 1) is None
    assert at(0, 2) is not first
    assert at(1, 2) == planned
    assert len(lookup._VERSIONS) == 2
    assert at(0, 1) is not first  # the oldest was dropped
    monkeypatch.setattr(lookup, "MAX_VERSION_BYTES", len(JUST_A) + 1)
    assert at(0, 3) == first
    assert len(lookup._VERSIONS) == 1  # the newest stays, whatever its size
    other = Definition(planned.schema, planned.name, b"\0" * 8)
    assert definition_at(client, topic, 0, ledger_id=3, planned=other) == first
    assert len(lookup._VERSIONS) == 1


def test_the_schema_of_topics_that_are_read_together(broker: Broker, client: PulsarClient) -> None:
    # covers SCHEMA-8, SCHEMA-9
    documented = json.dumps(json.loads(A_B) | {"doc": "the same to a reader"}).encode()
    text = record({"name": "a", "type": "string"}, name="Other")
    topics = sorted(broker.topic("common") for _ in range(5))
    for topic, definition in zip(topics, (A_B, documented, A_C, None, text), strict=True):
        register(broker, client, topic, *([] if definition is None else [definition]))
    alike = common_definition(client, topics[:2], False)
    assert alike is not None
    assert alike.schema.data == A_B
    for several, names in ((topics[1:3], ["a", "b", "c"]), (topics[2:4], ["a", "c"])):  # one of them has none yet
        common = common_definition(client, several, False)
        assert common is not None
        assert (value_columns(common).names, common.is_of_several) == (names, True)
        assert common_definition(client, several, True) is None
    told = rf"{topics[0]} has AVRO \(version 0\), where a is int, {topics[4]} has AVRO \(version 0\), where a is string"
    with pytest.raises(SchemaError, match=rf"have different schemas: {told}; set allowDifferentTopicSchemas"):
        common_definition(client, topics, False)
    least = common_definition(client, topics, False, ["b"])  # a is not asked for
    assert least is not None
    assert value_columns(least).names == ["b"]
    broker.client().create_producer(topics[3]).send(b"x")
    with pytest.raises(SchemaError, match=rf"{topics[2]} has AVRO \(version 0\), {topics[3]} has none; set allow"):
        common_definition(client, topics[2:4], False)
    assert common_definition(client, [topics[3], broker.topic("missing")], False) is None
    assert common_definition(client, [], False) is None


def test_topics_at_other_versions_are_read_as_one(broker: Broker, client: PulsarClient) -> None:
    # covers SCHEMA-8
    wide = record({"name": "c", "type": "long"}, {"name": "a", "type": "long"}, name="com.example.Wide")
    one, two, three = sorted(broker.topic("united") for _ in range(3))
    first, second = register(broker, client, one, JUST_A, A_B)
    [only] = register(broker, client, two, wide)
    register(broker, client, three)
    planned = common_definition(client, [one, two, three], False)
    assert planned is not None
    send(client, one, JUST_A, first, {"a": 1})
    send(client, one, A_B, second, {"a": 2, "b": 3})
    send(client, two, wide, only, {"c": 4, "a": 2**40})
    assert rows(broker, client, one, planned, FAILFAST) == [{"a": 1, "b": 5, "c": None}, {"a": 2, "b": 3, "c": None}]
    assert rows(broker, client, two, planned, FAILFAST) == [{"a": 2**40, "b": 5, "c": 4}]
    with client.publisher(two) as publisher:  # of its topic's schema, as nothing else is known
        publisher.send(MessageMetadata(), b"\x0a\x0c")
    assert rows(broker, client, two, planned, FAILFAST)[1] == {"a": 6, "b": 5, "c": 5}
    late = client.register_schema(three, Schema(SchemaType.AVRO, A_C))  # a schema that comes while a query runs
    send(client, three, A_C, late, {"a": 7, "c": "x"})
    [row] = rows(broker, client, three, planned)
    assert "field c was written as string, it cannot be read as long" in row["__error"]


def test_partitions_have_the_schema_of_their_topic(broker: Broker, client: PulsarClient) -> None:
    topic = broker.topic("parted", partitions=2)
    partitions = client.partitions_of(topic)
    register(broker, client, partitions[0], JUST_A)
    common = common_definition(client, partitions, False)
    assert common is not None
    assert common.schema.data == JUST_A


def test_key_value_schemas_of_other_encodings_are_different(broker: Broker, client: PulsarClient) -> None:
    topics = [broker.topic("pairs") for _ in range(2)]
    for topic, encoding in zip(topics, ("INLINE", "SEPARATED"), strict=True):
        producer = broker.client().create_producer(topic)
        properties = {"key.schema.type": "STRING", "value.schema.type": "STRING", "kv.encoding.type": encoding}
        client.register_schema(topic, Schema(SchemaType.KEY_VALUE, bytes(8), properties))
        producer.close()
    with pytest.raises(SchemaError, match="have different schemas"):
        common_definition(client, topics, False)
