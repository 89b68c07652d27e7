"""Topics with a schema become columns: primitives, JSON, AVRO and its evolution, KEY_VALUE; rows that do not decode."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import struct
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pulsar import CompressionType
from pulsar.schema import Array, AvroSchema, Boolean, Double, Integer, JsonSchema, Long, Map, Record, String
from pyspark.sql import DataFrame, Row

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from spark_pulsar.wire import pulsar_api_pb2
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.spark.flows import Flows
from tests.spark.versions import SPARK

TIME = "time(6)" if SPARK >= (4, 1) else "string"  # SPARK-6
METADATA = ["__key", "__topic", "__messageId", "__publishTime", "__eventTime", "__messageProperties"]
A: dict[str, Any] = {"name": "a", "type": "int"}
TOLD = (Exception,)


class Leg(Record):
    carrier = String()
    minutes = Integer()


class Flight(Record):
    number = Long(required=True)
    tail = String()
    late = Boolean()
    distance = Double()
    legs = Array(Leg())
    tags = Map(String())
    first = Leg()


def flight(number: int) -> Flight:
    legs = [Leg(carrier="AA", minutes=number), Leg(carrier=None, minutes=2)]
    return Flight(number=number, tail=f"N{number}", late=number % 2 == 0, distance=1.5, legs=legs, tags={"k": "v"})


def record(*fields: dict[str, Any]) -> bytes:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)}).encode()


def avro(definition: bytes, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(definition)), value)
    return out.getvalue()


def register(flows: Flows, topic: str, schema: Schema) -> bytes:
    """Register a schema of a topic; the version that its messages carry."""
    flows.official().create_producer(topic).close()
    return flows.wire().register_schema(topic, schema)


def send(
    client: PulsarClient, topic: str, version: bytes | None, *payloads: bytes | None, key: bytes | None = None
) -> None:
    """Publish payloads that carry a schema version, without a producer that has the schema."""
    with client.publisher(topic) as publisher:
        for payload in payloads:
            metadata = MessageMetadata(schema_version=version) if version is not None else MessageMetadata()
            if key is not None:
                metadata.partition_key = key.decode()
            if payload is None:
                metadata.null_value = True
            publisher.send(metadata, payload or b"")


def values(frame: DataFrame, *names: str) -> list[Any]:
    rows = frame.select(*(f"`{name}`" for name in names)).collect()
    return sorted((tuple(row) for row in rows), key=repr)


def rows_of(flows: Flows, frame: DataFrame, checkpoint: str) -> list[Row]:
    """All rows of a query that runs to the end."""
    return [row for batch in flows.drain(frame, checkpoint) for row in batch]


def test_primitives(flows: Flows) -> None:
    # covers READ-3, SCHEMA-1
    cases: list[tuple[SchemaType, bytes, str, Any]] = [
        (SchemaType.STRING, "gruß".encode(), "string", "gruß"),
        (SchemaType.BOOLEAN, b"\x01", "boolean", True),
        (SchemaType.INT8, b"\xff", "tinyint", -1),
        (SchemaType.INT16, struct.pack(">h", -300), "smallint", -300),
        (SchemaType.INT32, struct.pack(">i", 7), "int", 7),
        (SchemaType.INT64, struct.pack(">q", 2**40), "bigint", 2**40),
        (SchemaType.FLOAT, struct.pack(">f", 1.5), "float", 1.5),
        (SchemaType.DOUBLE, struct.pack(">d", -2.5), "double", -2.5),
        (SchemaType.DATE, struct.pack(">q", -1), "date", datetime.date(1969, 12, 31)),
        (SchemaType.TIME, struct.pack(">q", 3_600_001), TIME, datetime.time(1, 0, 0, 1000)),
        (SchemaType.TIMESTAMP, struct.pack(">q", 1_500), "timestamp", datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        (SchemaType.INSTANT, struct.pack(">qi", 2, 3_000), "timestamp", datetime.datetime(1970, 1, 1, 0, 0, 2, 3)),
        (SchemaType.LOCAL_DATE, struct.pack(">q", 1), "date", datetime.date(1970, 1, 2)),
        (SchemaType.LOCAL_TIME, struct.pack(">q", 5_000), TIME, datetime.time(0, 0, 0, 5)),
        (
            SchemaType.LOCAL_DATE_TIME,
            struct.pack(">qq", 1, 1_000),
            "timestamp_ntz",
            datetime.datetime(1970, 1, 2, 0, 0, 0, 1),
        ),
    ]
    union: DataFrame | None = None
    for kind, payload, name, _ in cases:
        topic = flows.broker.topic()
        version = register(flows, topic, Schema(kind, b""))
        send(flows.wire(), topic, version, payload, None)
        frame = flows.batch(topic)
        assert frame.columns == ["value", *METADATA]
        assert frame.schema["value"].dataType.simpleString() == name
        frame = frame.selectExpr(f"'{kind.name}' AS kind", "cast(value AS string) AS told", "value IS NULL AS gone")
        union = frame if union is None else union.union(frame)
    assert union is not None
    rows = union.collect()  # one job for all
    assert sum(row.gone for row in rows) == len(cases)
    told = {row.kind: row.told for row in rows if not row.gone}
    assert told["STRING"] == "gruß"
    assert told["DATE"] == "1969-12-31"
    assert told["TIME"].startswith("01:00:00.001")
    assert told["TIMESTAMP"] == "1970-01-01 00:00:01.5"
    assert told["INSTANT"] == "1970-01-01 00:00:02.000003"
    assert told["LOCAL_TIME"] == "00:00:00.000005"
    assert told["LOCAL_DATE_TIME"] == "1970-01-02 00:00:00.000001"
    for kind, _, _, value in cases:
        if isinstance(value, int | float):
            assert told[kind.name] == (str(value).lower() if isinstance(value, bool) else str(value))


@pytest.mark.parametrize("kind", [JsonSchema, AvroSchema])
def test_records_of_the_official_client_are_flattened(flows: Flows, kind: Any) -> None:
    # covers SCHEMA-1
    topic = flows.broker.topic(partitions=2)
    producer = flows.official().create_producer(topic, schema=kind(Flight))
    for number in range(5):
        producer.send(flight(number), partition_key=str(number))
    producer.close()
    frame = flows.batch(topic)
    assert sorted(frame.columns[:7]) == ["distance", "first", "late", "legs", "number", "tags", "tail"]
    assert frame.columns[7:] == METADATA
    rows = frame.orderBy("number").collect()
    assert [row.number for row in rows] == list(range(5))
    legs = [Row(carrier="AA", minutes=1), Row(carrier=None, minutes=2)]
    one = rows[1].asDict()
    assert (one["tail"], one["late"], one["distance"], one["legs"], one["tags"]) == ("N1", False, 1.5, legs, {"k": "v"})
    assert one["first"] == Row(carrier=None, minutes=None)
    assert bytes(one["__key"]) == b"1"


@pytest.mark.spark_alone
def test_logical_types_and_unions_of_avro(flows: Flows) -> None:
    definition = record(
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["X", "Y"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "wide", "type": ["int", "long", "null"]},
        {"name": "either", "type": ["null", "string", "int"]},
    )
    topic = flows.broker.topic()
    version = register(flows, topic, Schema(SchemaType.AVRO, definition))
    value = {
        "day": datetime.date(2026, 1, 2),
        "at": datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
        "local": datetime.datetime(2026, 1, 2, 3),
        "price": decimal.Decimal("-12.34"),
        "kind": "Y",
        "hash": b"\x00\x01",
        "wide": 2**40,
        "either": 5,
    }
    send(flows.wire(), topic, version, avro(definition, value))
    frame = flows.batch(topic)
    types = {field.name: field.dataType.simpleString() for field in frame.schema if field.name in value}
    assert types == {
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "price": "decimal(6,2)",
        "kind": "string",
        "hash": "binary",
        "wide": "bigint",
        "either": "struct<member0:string,member1:int>",
    }
    row = frame.selectExpr("*", "cast(at AS string) AS told").first()
    assert (row.day, row.told, row.local) == (value["day"], "2026-01-02 03:00:00", value["local"])
    assert (row.price, row.kind, bytes(row.hash), row.wide) == (value["price"], "Y", b"\x00\x01", 2**40)
    assert row.either == Row(member0=None, member1=5)


def test_each_message_is_decoded_by_the_version_that_it_carries(flows: Flows) -> None:
    # covers READ-3
    first = record(A, {"name": "gone", "type": "string", "default": ""})
    second = record(
        A, {"name": "b", "type": ["null", "string"], "default": None}, {"name": "c", "type": "int", "default": 9}
    )
    topic = flows.broker.topic()
    versions = [register(flows, topic, Schema(SchemaType.AVRO, data)) for data in (first, second)]
    client = flows.wire()
    send(client, topic, versions[0], avro(first, {"a": 1, "gone": "x"}))
    send(client, topic, versions[1], avro(second, {"a": 2, "b": "y", "c": 3}))
    send(client, topic, versions[0], avro(first, {"a": 4, "gone": "z"}), None)
    assert values(flows.batch(topic), "a", "b", "c") == [(1, None, 9), (2, "y", 3), (4, None, 9), (None, None, None)]


def test_a_running_query_keeps_its_columns_and_a_restarted_one_has_the_new(flows: Flows) -> None:
    first, second = record(A), record(A, {"name": "b", "type": "int", "default": 5})
    topic = flows.broker.topic()
    old = register(flows, topic, Schema(SchemaType.AVRO, first))
    client = flows.wire()
    checkpoint = flows.checkpoint()
    frame = flows.stream(topic)
    new = client.register_schema(topic, Schema(SchemaType.AVRO, second))  # after planning, before the first batch
    send(client, topic, old, avro(first, {"a": 1}))
    send(client, topic, new, avro(second, {"a": 2, "b": 7}))
    assert rows_of(flows, frame.select("a"), checkpoint) == [Row(a=1), Row(a=2)]
    send(client, topic, old, avro(first, {"a": 3}))
    again = flows.stream(topic)
    assert rows_of(flows, again.select("a", "b"), checkpoint) == [Row(a=3, b=5)]


@pytest.mark.spark_alone
def test_a_schema_of_the_user_projects_by_name(flows: Flows) -> None:
    topic = flows.broker.topic()
    producer = flows.official().create_producer(topic, schema=JsonSchema(Flight))
    producer.send(flight(3))
    producer.close()
    reader = flows.reader(topic)
    wanted = "first struct<minutes: int>, legs array<struct<minutes: int>>, __topic string, number bigint, value string"
    row = reader.schema(wanted).load().first()
    assert row.__fields__ == ["first", "legs", "__topic", "number", "value"]
    assert (row.number, row.legs, row["__topic"]) == (3, [Row(minutes=3), Row(minutes=2)], topic)
    assert json.loads(row.value)["tail"] == "N3"
    for ddl, told in (
        ("numbers bigint", "did you mean number"),
        ("number int", "number is bigint, it cannot be read as int"),
        ("first struct<speed: int>", "no field first.speed to read; there are"),
    ):
        with pytest.raises(TOLD, match=told):
            reader.schema(ddl).load().collect()


def test_without_the_topics_schema_value_is_bytes(flows: Flows) -> None:
    topic, other = flows.broker.topic("alike"), flows.broker.topic("alike")
    for name, kind in ((topic, JsonSchema(Leg)), (other, AvroSchema(Leg))):
        producer = flows.official().create_producer(name, schema=kind)
        producer.send(Leg(carrier="AA", minutes=1))
        producer.close()
    frame = flows.batch(topic, useTopicSchema=False)
    assert frame.columns == ["value", *METADATA]
    assert json.loads(frame.first().value) == {"carrier": "AA", "minutes": 1}
    with pytest.raises(TOLD, match=r"have different schemas: .* JSON .* AVRO .*allowDifferentTopicSchemas"):
        flows.reader(topics=f"{topic},{other}").load()
    both = flows.reader(topics=f"{topic},{other}", allowDifferentTopicSchemas=True).load()
    assert both.schema["value"].dataType.simpleString() == "binary"
    assert both.count() == 2


@pytest.mark.spark_alone
def test_rows_that_do_not_decode(flows: Flows) -> None:
    topic, letters = flows.broker.topic(), flows.broker.topic("letters")
    version = register(flows, topic, Schema(SchemaType.JSON, record(A)))
    payloads = [
        b'{"a":1}',
        b'{"a":',
        b'{\n "a": 2\n}',
        b'{"a":3}{"a":4}',
        b'{"a":"x"}',
        b"",
        b' {"a":5} ',
        b'{"b":"\xff"}',
    ]
    send(flows.wire(), topic, version, *payloads, key=b"k")
    with pytest.raises(TOLD, match=r"message \d+:\d+:-1 \(and 4 more of 8\) does not decode .*: it is no JSON"):
        flows.batch(topic).collect()

    frame = flows.batch(topic, mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    assert frame.columns == ["a", "bad", "__error", *METADATA]
    rows = frame.collect()
    assert [row.a for row in rows] == [1, None, 2, None, None, None, 5, None]
    assert [None if row.bad is None else bytes(row.bad) for row in rows][3] == payloads[3]
    assert [row["__error"] is None for row in rows] == [row.bad is None for row in rows]
    assert "no int" in rows[4]["__error"]

    frame = flows.batch(topic, mode="DEADLETTER", deadLetterTopic=letters)
    assert [row.a for row in frame.collect()] == [1, 2, 5]
    found = flows.receive(letters)
    assert [each.data() for each in found] == [payloads[i] for i in (1, 3, 4, 5, 7)]
    properties = found[2].properties()
    assert properties["REAL_TOPIC"] == topic
    assert properties["ORIGIN_MESSAGE_ID"].count(":") == 2
    assert "no int" in properties["DECODE_ERROR"]
    assert found[2].partition_key() == "k"


def test_dead_letters_larger_than_an_entry_arrive_whole(flows: Flows) -> None:
    topic, letters = flows.broker.topic(), flows.broker.topic("letters")
    register(flows, topic, Schema(SchemaType.JSON, record(A)))
    large = b"{" + bytes(range(256)) * 50_000
    send(flows.wire(), topic, None, b'{"a":1}')
    properties = {"properties": {"p": "q"}}
    flows.send(topic, [large[:6_000_000]], properties, compression_type=CompressionType.LZ4, batching_enabled=False)
    flows.send(topic, [large], chunking_enabled=True, batching_enabled=False)
    frame = flows.batch(topic, mode="DEADLETTER", deadLetterTopic=letters)
    assert [row.a for row in frame.collect()] == [1]
    found = flows.receive(letters)
    assert [each.data() for each in found] == [large[:6_000_000], large]
    assert found[0].properties()["p"] == "q"
    assert [each.properties()["REAL_TOPIC"] for each in found] == [topic] * 2
    assert [bytes(row.value) for row in flows.batch(letters).collect()] == [each.data() for each in found]


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_key_and_value_are_two_columns(flows: Flows, encoding: str) -> None:
    # covers SCHEMA-1
    properties = {"key.schema.type": "INT32", "value.schema.type": "AVRO", "kv.encoding.type": encoding}
    topic = flows.broker.topic()
    schema = Schema(SchemaType.KEY_VALUE, join_key_and_value(b"", record(A)), properties)
    version = register(flows, topic, schema)
    key, value = struct.pack(">i", 65), avro(record(A), {"a": 7})
    if encoding == "INLINE":
        payload = b"".join(len(part).to_bytes(4, "big") + part for part in (key, value))
        send(flows.wire(), topic, version, payload, b"\x00\x00\x00\x04" + key + b"\xff\xff\xff\xff")
    else:
        send(flows.wire(), topic, version, value, None, key=key)
    frame = flows.batch(topic)
    assert frame.columns == ["key", "value", *METADATA]
    assert [tuple(row) for row in frame.select("key", "value.a").collect()] == [(65, 7), (65, None)]


def test_messages_of_protobuf_are_flattened(flows: Flows) -> None:
    # covers SCHEMA-1
    files = FileDescriptorSet()
    pulsar_api_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    definition = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": pulsar_api_pb2.Schema.DESCRIPTOR.full_name,
        "rootFileDescriptorName": files.file[0].name,
    }
    topic = flows.broker.topic()
    version = register(flows, topic, Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(definition).encode()))
    message = pulsar_api_pb2.Schema(name="n", schema_data=b"x", type=pulsar_api_pb2.Schema.Json)
    message.properties.add(key="k", value="v")
    send(flows.wire(), topic, version, message.SerializeToString(), b"\xff")
    rows = flows.batch(topic, mode="PERMISSIVE").collect()
    assert (rows[0].name, bytes(rows[0].schema_data), rows[0].type) == ("n", b"x", "Json")
    assert rows[0].properties == [Row(key="k", value="v")]
    assert "no message of its schema" in rows[1]["__error"]


@pytest.mark.spark_alone
def test_a_schema_that_cannot_be_read_is_refused_by_name(flows: Flows) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    topic = flows.broker.topic()
    register(flows, topic, Schema(SchemaType.AVRO, json.dumps(node).encode()))
    with pytest.raises(TOLD, match=r"field next: the record Node contains itself.*unsupportedFields"):
        flows.batch(topic)
