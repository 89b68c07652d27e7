"""Schemas of the official Java client, which knows more of them than the others."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.brokers import Broker
from tests.clients.java_client import Java, JavaClient
from tests.conformance.schemas import of_topic

# A class of the client's own with two numbers, here as a value.
RECORD = "org.apache.pulsar.common.policies.data.RetentionPolicies"
MINUTES, SIZE = "retentionTimeInMinutes", "retentionSizeInMB"


def _stored(broker: Broker, topic: str) -> list[str]:
    """The types of a topic's schemas, by version."""
    status, answer = broker.rest("GET", f"{of_topic(topic)}/schemas")
    assert status == 200, answer
    return [each["type"] for each in answer["getSchemaResponses"]]


def _version(message: Any) -> int:
    return int(struct.unpack(">q", message.getSchemaVersion())[0])


def _grown(java: Java, kind: str, *fields: str) -> Any:
    """A schema without a class of its own; fields after the first may be absent."""
    types = java.jvm.org.apache.pulsar.common.schema.SchemaType
    record = java.api.schema.SchemaBuilder.record("Flight")
    record.field("number").type(types.INT32).required()
    for name in fields:
        record.field(name).type(types.STRING).optional().defaultValue(None)
    return java.api.Schema.generic(record.build(getattr(types, kind)))


def _flight(schema: Any, **fields: Any) -> Any:
    builder = schema.newRecordBuilder()
    for name, value in fields.items():
        builder.set(name, value)
    return builder.build()


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
@pytest.mark.parametrize("partitions", [0, 2])
def test_values_of_classes_arrive(broker: Broker, java: Java, client: JavaClient, kind: str, partitions: int) -> None:
    # covers SC-1, SC-2, SC-9
    topic = broker.topic(partitions=partitions)
    schema = getattr(java.api.Schema, kind)(java.class_of(RECORD))
    consumer = client.consumer(topic, schema)
    client.producer(topic, schema).send(java.jvm.org.apache.pulsar.common.policies.data.RetentionPolicies(10, 2_000))
    message = client.receive(consumer)
    value = message.getValue()
    assert (value.getRetentionTimeInMinutes(), value.getRetentionSizeInMB(), _version(message)) == (10, 2_000, 0)
    assert _stored(broker, topic) == [kind]
    generic = client.receive(client.consumer(topic, java.api.Schema.AUTO_CONSUME(), "any")).getValue()
    assert (generic.getField(MINUTES), generic.getField(SIZE)) == (10, 2_000)
    assert generic.getSchemaType().name() == kind


def _plain(java: Java) -> dict[str, Any]:
    """A value of each type that Py4J passes as it is."""
    time, millis = java.jvm.java.time, 1_577_934_245_000
    return {
        "STRING": "text",
        "BOOL": True,
        "INT32": -7,
        "INT64": 2**40,
        "DOUBLE": 1.1,
        "DATE": java.jvm.java.util.Date(millis),
        "TIME": java.jvm.java.sql.Time(millis),
        "TIMESTAMP": java.jvm.java.sql.Timestamp(millis),
        "INSTANT": time.Instant.ofEpochMilli(millis),
        "LOCAL_DATE": time.LocalDate.of(2020, 1, 2),
        "LOCAL_TIME": time.LocalTime.of(3, 4, 5),
        "LOCAL_DATE_TIME": time.LocalDateTime.of(2020, 1, 2, 3, 4),
    }


def test_values_of_plain_types_arrive(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers SC-1, SC-2
    for kind, value in _plain(java).items():
        topic = broker.topic()
        schema = getattr(java.api.Schema, kind)
        consumer = client.consumer(topic, schema)
        client.producer(topic, schema).send(value)
        message = client.receive(consumer)
        assert (str(message.getValue()), _version(message)) == (str(value), 0), kind
        assert _stored(broker, topic) == [{"BOOL": "BOOLEAN"}.get(kind, kind)]
        any_value = client.receive(client.consumer(topic, java.api.Schema.AUTO_CONSUME(), "any")).getValue()
        assert str(any_value.getNativeObject()) == str(value), kind


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_keys_and_values_have_schemas_of_their_own(
    broker: Broker, topic: str, java: Java, client: JavaClient, encoding: str
) -> None:
    # covers SC-2, SC-9 (KEY_VALUE)
    common = java.jvm.org.apache.pulsar.common.schema
    value_schema = java.api.Schema.AVRO(java.class_of(RECORD))
    how = getattr(common.KeyValueEncodingType, encoding)
    schema = java.api.Schema.KeyValue(java.api.Schema.STRING, value_schema, how)
    consumer = client.consumer(topic, schema)
    value = java.jvm.org.apache.pulsar.common.policies.data.RetentionPolicies(10, 2_000)
    client.producer(topic, schema).send(common.KeyValue("k", value))
    message = client.receive(consumer)
    assert message.getValue().getKey() == "k"
    assert message.getValue().getValue().equals(value)
    assert message.hasKey() == (encoding == "SEPARATED")
    assert _stored(broker, topic) == ["KEY_VALUE"]
    both = client.receive(client.consumer(topic, java.api.Schema.AUTO_CONSUME(), "any")).getValue().getNativeObject()
    assert (both.getKey(), both.getValue().getField(MINUTES)) == ("k", 10)


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_schemas_grow_under_those_who_use_them(broker: Broker, java: Java, client: JavaClient, kind: str) -> None:
    # covers SC-1, SC-4, SC-9
    topic = broker.topic()
    old, new = _grown(java, kind), _grown(java, kind, "carrier")
    consumer = client.consumer(topic, old)
    anything = client.consumer(topic, java.api.Schema.AUTO_CONSUME(), "any")
    client.producer(topic, old).send(_flight(old, number=1))
    client.producer(topic, new).send(_flight(new, number=2, carrier="UA"))
    messages = [client.receive(consumer) for _ in range(2)]
    assert [(_version(each), each.getValue().getField("number")) for each in messages] == [(0, 1), (1, 2)]
    records = [client.receive(anything).getValue() for _ in range(2)]
    assert [[field.getName() for field in each.getFields()] for each in records] == [["number"], ["number", "carrier"]]
    assert str(records[1].getField("carrier")) == "UA"
    assert _stored(broker, topic) == [kind, kind]


def test_one_producer_sends_several_schemas(topic: str, java: Java, client: JavaClient) -> None:
    # covers SC-1, SC-9 (GET_OR_CREATE_SCHEMA)
    old, new = _grown(java, "AVRO"), _grown(java, "AVRO", "carrier")
    consumer = client.consumer(topic, new)
    producer = client.producer(topic, java.api.Schema.AUTO_PRODUCE_BYTES())
    for schema, fields in ((old, {"number": 1}), (new, {"number": 2, "carrier": "UA"}), (old, {"number": 3})):
        producer.newMessage(schema).value(_flight(schema, **fields)).send()
    messages = [client.receive(consumer) for _ in range(3)]
    assert [each.getValue().getField("number") for each in messages] == [1, 2, 3]
    versions = [_version(each) for each in messages]
    assert versions[0] == versions[2] != versions[1]


def test_bytes_are_checked_by_the_schema_of_the_topic(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers SC-7, SC-9 (AUTO_PRODUCE)
    topic = broker.topic()
    schema = _grown(java, "AVRO", "carrier")
    consumer = client.consumer(topic, schema)
    producer = client.producer(topic, java.api.Schema.AUTO_PRODUCE_BYTES())
    producer.send(schema.encode(_flight(schema, number=1, carrier="UA")))
    assert client.receive(consumer).getValue().getField("number") == 1
    with pytest.raises(Py4JJavaError, match="SchemaSerializationException"):
        producer.send(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
    assert _stored(broker, topic) == ["AVRO"]


def test_messages_of_protobuf_arrive(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers SC-2, SC-9 (PROTOBUF_NATIVE)
    schema = java.api.Schema.PROTOBUF_NATIVE(java.class_of("com.google.protobuf.Duration"))
    consumer = client.consumer(topic, schema)
    builder = java.jvm.com.google.protobuf.Duration.newBuilder()
    value = builder.setSeconds(7).setNanos(3).build()
    client.producer(topic, schema).send(value)
    assert client.receive(consumer).getValue().equals(value)
    assert _stored(broker, topic) == ["PROTOBUF_NATIVE"]
    generic = client.receive(client.consumer(topic, java.api.Schema.AUTO_CONSUME(), "any")).getValue()
    assert (generic.getField("seconds"), generic.getField("nanos")) == (7, 3)


def test_a_schema_that_does_not_fit_is_refused(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers SC-3, SC-4, SC-5, SC-8
    client.producer(topic, java.api.Schema.AVRO(java.class_of(RECORD))).close()
    for other in (java.api.Schema.STRING, _grown(java, "AVRO"), java.api.Schema.JSON(java.class_of(RECORD))):
        with pytest.raises(Py4JJavaError, match="IncompatibleSchemaException"):
            client.producer(topic, other)
        with pytest.raises(Py4JJavaError, match="IncompatibleSchemaException"):
            client.consumer(topic, other)
    assert _stored(broker, topic) == ["AVRO"]


def test_schemas_are_found_over_http(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers SC-12, ADM-70
    schema = _grown(java, "JSON", "carrier")
    client.producer(topic, schema).send(_flight(schema, number=1, carrier="UA"))
    over_http = java.client(broker.admin_url)
    try:
        consumer = over_http.consumer(topic, java.api.Schema.AUTO_CONSUME())
        assert over_http.receive(consumer).getValue().getField("carrier") == "UA"
    finally:
        over_http.client.close()
