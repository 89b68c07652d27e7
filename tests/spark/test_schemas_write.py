"""`schemaType`: rows written with a schema, read back by the official client with its own classes of schemas."""

from __future__ import annotations

import datetime
import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pulsar
import pytest
from pulsar.schema import AvroSchema, Double, Integer, JsonSchema, Long, Record, String, StringSchema
from pyspark.errors import AnalysisException, PythonException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_pulsar import copy_schemas
from tests.conformance.schemas import fresh_namespace, of_topic, record, set_policy, topic_in
from tests.spark.flows import Flows


class Flight(Record):
    """A record as a user of the official client declares it."""

    carrier = String()
    delay = Integer()
    distance = Long(required=True)
    speed = Double()


FLIGHTS = "carrier string, delay int, distance bigint not null, speed double"
ROWS = [("UA", 12, 1400, 451.5), (None, None, 2, None), ('ü€𝄞 "\\\n', -5, -(2**62), 1.0)]


def of_schema(flows: Flows, topic: str, version: int | None = None) -> dict[str, Any]:
    """The topic's schema by REST."""
    path = f"{of_topic(topic)}/schema" + ("" if version is None else f"/{version}")
    status, answer = flows.broker.rest("GET", path)
    assert status == 200, (status, answer)
    return dict(answer)


def consumed(flows: Flows, topic: str, schema: Any, count: int) -> list[pulsar.Message]:
    """Messages of an official consumer with a schema, from the start."""
    consumer = flows.official().subscribe(topic, "s", schema=schema, initial_position=pulsar.InitialPosition.Earliest)
    messages = [consumer.receive(30_000) for _ in range(count)]
    consumer.close()
    return messages


def avro_rows(messages: list[pulsar.Message], definition: Any) -> list[Any]:
    """Values as fastavro reads them with the topic's definition."""
    parsed = fastavro.parse_schema(definition)
    return [fastavro.schemaless_reader(io.BytesIO(message.data()), parsed, None) for message in messages]


@pytest.fixture
def flights(flows: Flows) -> DataFrame:
    return flows.rows(FLIGHTS, ROWS).coalesce(1)


@pytest.mark.parametrize(("kind", "schema"), [("AVRO", AvroSchema(Flight)), ("JSON", JsonSchema(Flight))])
def test_records_arrive_at_official_consumers(flows: Flows, flights: DataFrame, kind: str, schema: Any) -> None:
    # covers SCHEMA-2
    topic = flows.broker.topic(kind.lower(), partitions=2)
    flows.write(flights.withColumn("__key", F.lit("k")), topic, schemaType=kind)
    found = of_schema(flows, topic)
    assert (found["version"], found["type"]) == (0, kind)
    assert json.loads(found["data"]) == {
        "type": "record",
        "name": "topLevelRecord",
        "fields": [
            {"name": "carrier", "type": ["null", "string"], "default": None},
            {"name": "delay", "type": ["null", "int"], "default": None},
            {"name": "distance", "type": "long"},
            {"name": "speed", "type": ["null", "double"], "default": None},
        ],
    }
    messages = consumed(flows, topic, schema, len(ROWS))
    values = [message.value() for message in messages]
    assert [(each.carrier, each.delay, each.distance, each.speed) for each in values] == ROWS
    assert {message._message.int_schema_version() for message in messages} == {0}
    assert {message.partition_key() for message in messages} == {"k"}


@pytest.mark.spark_alone
def test_every_type_of_avro(flows: Flows) -> None:
    topic = flows.broker.topic("types")
    at = datetime.datetime(2013, 1, 1, 3, 24, 0, 123_456)
    ddl = (
        "b boolean, t tinyint, s smallint, f float, bin binary, d date, ts timestamp, ntz timestamp_ntz, "
        "dec decimal(20,3), xs array<int>, m map<string,double>, n struct<x:int,y:array<struct<z:string>>>"
    )
    row = (
        True, 1, -2, 0.5, bytearray(b"\x00\xff"), at.date(), at, at, Decimal("-12345678901234.567"),
        [1, None, 3], {"a": 1.5, "b": None}, (7, [("z",), None]),
    )  # fmt: skip
    flows.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = flows.rows(ddl, [row, (None,) * len(row)]).coalesce(1)
        # literals and casts keep the instant that is meant, whatever the zone
        flows.write(frame.withColumn("ts", F.expr("timestamp_micros(1357010640123456)")), topic, schemaType="AVRO")
    finally:
        flows.spark.conf.set("spark.sql.session.timeZone", "UTC")
    definition = json.loads(of_schema(flows, topic)["data"])
    first, second = avro_rows(flows.receive(topic), definition)
    assert first == {
        "b": True, "t": 1, "s": -2, "f": 0.5, "bin": b"\x00\xff", "d": at.date(),
        "ts": datetime.datetime.fromtimestamp(1357010640, datetime.UTC).replace(microsecond=123_456),
        "ntz": at, "dec": Decimal("-12345678901234.567"), "xs": [1, None, 3], "m": {"a": 1.5, "b": None},
        "n": {"x": 7, "y": [{"z": "z"}, None]},
    }  # fmt: skip
    assert {name for name, value in second.items() if value is not None} == {"ts"}


TYPES = (
    "b boolean, t int, l bigint, f float, o double, s string, bin binary, d date, ts timestamp, ntz timestamp_ntz, "
    "dec decimal(20,3), xs array<bigint>, m map<string,double>, n struct<x:bigint,y:array<struct<z:string>>>"
)


@pytest.mark.versions
@pytest.mark.spark_alone
@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_rows_come_back_as_they_were(flows: Flows, kind: str) -> None:
    # covers SCHEMA-2
    topic, copy = flows.broker.topic("there-and-back"), flows.broker.topic("copy")
    at = datetime.datetime(2013, 1, 1, 3, 24, 0, 123_456)
    row = (
        True, -1, 2**60, 0.5, -1.25, 'ü"\\\n', bytearray(b"\x00\xff"), at.date(), at, at,
        Decimal("-12345678901234.567"), [1, None, 3], {"a": 1.5, "b": None}, (7, [("z",), None]),
    )  # fmt: skip
    frame = flows.rows(TYPES, [row, (None,) * len(row)]).coalesce(1)
    flows.write(frame, topic, schemaType=kind)
    read = flows.batch(topic)
    assert read.select(*frame.columns).schema.simpleString() == frame.schema.simpleString()
    assert read.select(*frame.columns).collect() == frame.collect()
    # and so they do after another way through a topic, as a stream
    stream = flows.stream(topic).drop("__messageId", "__publishTime", "__topic")
    writer = stream.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
    writer = writer.option("topic", copy).option("schemaType", kind).option("checkpointLocation", flows.checkpoint())
    assert flows.start(writer.trigger(availableNow=True)).awaitTermination(120)
    assert flows.batch(copy).select(*frame.columns).collect() == frame.collect()
    assert json.loads(of_schema(flows, copy)["data"]) == json.loads(of_schema(flows, topic)["data"])


@pytest.mark.spark_alone
def test_primitives_come_back_as_they_were(flows: Flows) -> None:
    for kind, spark_type, literal, _ in PRIMITIVES:
        if kind in ("INT64", "TIMESTAMP") and spark_type != "bigint":
            continue  # wider, or rounded to milliseconds
        topic = flows.broker.topic("primitive-back")
        frame = flows.spark.range(1).selectExpr(f"CAST({literal} AS {spark_type}) AS value")
        flows.write(frame, topic, schemaType=kind)
        back = flows.batch(topic).select("value")
        assert back.schema.simpleString() == frame.schema.simpleString(), kind
        assert back.collect() == frame.collect(), kind


def test_a_struct_is_the_record_and_null_a_tombstone(flows: Flows) -> None:
    # covers READ-3
    topic = flows.broker.topic("struct")
    frame = flows.rows(
        "value struct<a:int,b:string>, __key string", [((1, "x"), "k"), (None, "k"), ((None, None), "k")]
    )
    flows.write(frame.coalesce(1), topic, schemaType="AUTO")
    found = of_schema(flows, topic)
    assert found["type"] == "AVRO"
    messages = flows.receive(topic)
    assert avro_rows([messages[0], messages[2]], json.loads(found["data"])) == [
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
    ]
    raw = flows.batch(topic, useTopicSchema="false").collect()
    assert [row["value"] is None for row in raw] == [False, True, False]
    assert [(row["a"], row["b"]) for row in flows.batch(topic).collect()] == [(1, "x"), (None, None), (None, None)]


PRIMITIVES = [
    ("STRING", "string", "'é'", "é".encode()),
    ("BOOLEAN", "boolean", "true", b"\x01"),
    ("INT8", "tinyint", "-2", b"\xfe"),
    ("INT16", "smallint", "258", b"\x01\x02"),
    ("INT32", "int", "-2", struct.pack(">i", -2)),
    ("INT64", "bigint", "258", struct.pack(">q", 258)),
    ("INT64", "int", "7", struct.pack(">q", 7)),
    ("FLOAT", "float", "0.5", struct.pack(">f", 0.5)),
    ("DOUBLE", "double", "-0.5", struct.pack(">d", -0.5)),
    ("DATE", "date", "'1970-01-03'", struct.pack(">q", 2 * 86_400_000)),
    ("TIMESTAMP", "timestamp", "'1969-12-31 23:59:59.999999'", struct.pack(">q", -1)),
    ("INSTANT", "timestamp", "'1969-12-31 23:59:59.999999'", struct.pack(">qi", -1, 999_999_000)),
    ("LOCAL_DATE", "date", "'1970-01-03'", struct.pack(">q", 2)),
    ("LOCAL_DATE_TIME", "timestamp_ntz", "'1970-01-03 00:00:00.000001'", struct.pack(">qq", 2, 1_000)),
]


def test_primitives(flows: Flows) -> None:
    for number, (kind, spark_type, literal, expected) in enumerate(PRIMITIVES):
        topic = flows.broker.topic(f"primitive-{number}")
        frame = flows.spark.range(1).selectExpr(f"CAST({literal} AS {spark_type}) AS whatever")
        flows.write(frame, topic, schemaType=kind)
        assert of_schema(flows, topic)["type"] == kind
        assert [message.data() for message in flows.receive(topic)] == [expected], (kind, spark_type)


def test_an_official_consumer_of_strings(flows: Flows) -> None:
    topic = flows.broker.topic("strings")
    flows.write(flows.rows("value string", [("a",), ("ü",)]).coalesce(1), topic, schemaType="AUTO")
    assert [message.value() for message in consumed(flows, topic, StringSchema(), 2)] == ["a", "ü"]


def test_bytes_have_no_schema(flows: Flows) -> None:
    topic = flows.broker.topic("bytes")
    flows.write(flows.rows("value binary", [(bytearray(b"x"),)]), topic, schemaType="AUTO")
    assert flows.broker.rest("GET", f"{of_topic(topic)}/schema")[0] == 404
    assert [message.data() for message in flows.receive(topic)] == [b"x"]


def test_key_values(flows: Flows) -> None:
    inline, separated = flows.broker.topic("inline"), flows.broker.topic("separated")
    frame = flows.rows("key int, value struct<a:string>", [(1, ("x",)), (2, None)]).coalesce(1)
    flows.write(frame, inline, schemaType="KEY_VALUE", keySchemaType="INT32", valueSchemaType="JSON")
    key, value = struct.pack(">i", 1), b'{"a":"x"}'
    assert [message.data() for message in flows.receive(inline)] == [
        struct.pack(">i", 4) + key + struct.pack(">i", len(value)) + value,
        struct.pack(">i", 4) + struct.pack(">i", 2) + struct.pack(">i", -1),
    ]
    found = of_schema(flows, inline)
    assert found["type"] == "KEY_VALUE"
    assert found["properties"]["key.schema.type"] == "INT32"
    assert found["properties"]["value.schema.type"] == "JSON"
    assert found["properties"]["kv.encoding.type"] == "INLINE"

    flows.write(frame, separated, schemaType="KEY_VALUE", keyValueEncodingType="SEPARATED", valueSchemaType="JSON")
    raw = flows.batch(separated, useTopicSchema="false").collect()
    assert [(row["__key"], row["value"]) for row in raw] == [(key, value), (struct.pack(">i", 2), None)]
    for topic in (inline, separated):
        assert flows.batch(topic).select("key", "value").collect() == frame.collect()
    # the same once more is the same version
    flows.write(frame, separated, schemaType="KEY_VALUE", keyValueEncodingType="SEPARATED", valueSchemaType="JSON")
    assert of_schema(flows, separated)["version"] == 0


def test_a_topic_keeps_its_own_definition_where_it_says_the_same(flows: Flows) -> None:
    topic = flows.broker.topic("own")
    definition = record(
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "name", "type": ["string", "null"]},
        {"name": "count", "type": "long"},
        name="Event",
        namespace="com.example",
    )
    flows.wire().publisher(topic).close()
    body = {"type": "AVRO", "schema": definition.decode(), "properties": {}}
    assert flows.broker.rest("POST", f"{of_topic(topic)}/schema", body)[0] == 200
    frame = flows.spark.range(2, numPartitions=1).selectExpr(
        "int(id) AS count", "IF(id = 0, NULL, 'n') AS name", "timestamp_micros(1357010640123456) AS at"
    )
    flows.write(frame, topic, schemaType="AVRO")
    assert of_schema(flows, topic)["version"] == 0
    at = datetime.datetime.fromtimestamp(1357010640, datetime.UTC).replace(microsecond=123_000)
    assert avro_rows(flows.receive(topic), json.loads(definition)) == [
        {"at": at, "name": None, "count": 0},
        {"at": at, "name": "n", "count": 1},
    ]


def test_a_new_nullable_column_is_a_new_version(flows: Flows, flights: DataFrame) -> None:
    topic = flows.broker.topic("evolved")
    flows.write(flights, topic, schemaType="AVRO")
    flows.write(flights.withColumn("gate", F.lit(None).cast("string")), topic, schemaType="AVRO")
    assert of_schema(flows, topic)["version"] == 1
    messages = consumed(flows, topic, AvroSchema(Flight), 2 * len(ROWS))
    assert [message._message.int_schema_version() for message in messages] == [0] * 3 + [1] * 3
    assert [message.value().carrier for message in messages] == [row[0] for row in ROWS] * 2


REFUSED = {
    "FULL": ("gate string NOT NULL", "gate (string, no default) is in the DataFrame, but not on the topic"),
    "BACKWARD": ("gate string NOT NULL", "a new field must be nullable"),
    "FORWARD": ("delay bigint", "delay is int on the topic, but long in the DataFrame"),
    "FULL_TRANSITIVE": ("delay string", "delay is int on the topic, but string in the DataFrame"),
    "ALWAYS_INCOMPATIBLE": ("gate string", "gate (string or null, default null) is in the DataFrame"),
}


@pytest.mark.parametrize("strategy", REFUSED)
def test_an_incompatible_frame_is_refused_before_any_row(flows: Flows, flights: DataFrame, strategy: str) -> None:
    namespace = fresh_namespace(flows.broker)
    topic = topic_in(namespace)
    set_policy(flows.broker, namespace, "schemaCompatibilityStrategy", strategy)
    flows.write(flights, topic, schemaType="AVRO")
    column, told = REFUSED[strategy]
    name, kind, *not_null = column.split(" ")
    other = flights.withColumn(name, F.lit("x") if not_null else F.lit(None).cast(kind))
    with pytest.raises(AnalysisException) as refusal:
        flows.write(other, topic, schemaType="AVRO")
    text = str(refusal.value)
    assert told in text
    assert "version 0 of the topic's schema" in text
    assert "set-schema-compatibility-strategy" in text
    assert f"strategy {strategy}" in text
    assert len(flows.receive(topic)) == len(ROWS)
    assert of_schema(flows, topic)["version"] == 0


def test_another_type_of_schema_is_refused(flows: Flows, flights: DataFrame) -> None:
    topic = flows.broker.topic("json-first")
    flows.write(flights, topic, schemaType="JSON")
    with pytest.raises(AnalysisException, match="schema is JSON: use schemaType JSON"):
        flows.write(flights, topic, schemaType="AVRO")


def test_rows_of_many_topics_register_in_their_tasks(flows: Flows, flights: DataFrame) -> None:
    one, other, json_topic = (flows.broker.topic(name) for name in ("one", "other", "third"))
    flows.write(flights, json_topic, schemaType="JSON")
    frame = flights.withColumn("__topic", F.when(F.col("delay").isNull(), one).otherwise(other))
    flows.write(frame, schemaType="AVRO")
    assert [len(flows.receive(topic)) for topic in (one, other)] == [1, 2]
    assert of_schema(flows, one)["type"] == of_schema(flows, other)["type"] == "AVRO"
    with pytest.raises(PythonException, match="schema is JSON: use schemaType JSON"):
        flows.write(flights.withColumn("__topic", F.lit(json_topic)), schemaType="AVRO")
    assert len(flows.receive(json_topic)) == len(ROWS)


@pytest.mark.spark_alone
def test_what_cannot_be_expressed_is_refused_by_name(flows: Flows, flights: DataFrame) -> None:
    topic = flows.broker.topic("inexpressible")
    cases: list[tuple[DataFrame, dict[str, str], str]] = [
        (flights.withColumn("i", F.expr("INTERVAL '1' DAY")), {"schemaType": "AVRO"}, "column i is interval day"),
        (flights.withColumn("m", F.expr("map(1, 2)")), {"schemaType": "JSON"}, "column m is a map whose keys are no"),
        (flights.withColumnRenamed("delay", "de lay"), {"schemaType": "AVRO"}, "column de lay cannot be a field"),
        (flights, {"schemaType": "INT32"}, "takes one column, not carrier, delay"),
        (
            flights.select("speed"),
            {"schemaType": "INT32"},
            "column speed is double, but schemaType INT32 takes integer",
        ),
        (flights, {"schemaType": "KEY_VALUE"}, "takes the columns key and value"),
        (flights, {"schemaType": "AVRO", "keySchemaType": "INT32"}, "keySchemaType is for schemaType KEY_VALUE only"),
        (flights, {"schemaType": "PROTOBUF"}, "expected one of NONE, AUTO, AVRO, JSON"),
        (flights.withColumn("__evenTime", F.lit(1)), {"schemaType": "AVRO"}, "did you mean __eventTime"),
        (flights, {}, "set schemaType to AVRO or JSON"),
    ]
    for frame, options, told in cases:
        with pytest.raises(AnalysisException) as refusal:
            flows.write(frame, topic, **options)
        assert told in str(refusal.value)
    assert topic not in flows.wire().topics_of("public/default")


@pytest.mark.spark_alone
def test_a_stream_with_a_schema_and_its_replay(flows: Flows) -> None:
    source, target, checkpoint = flows.broker.topic("source"), flows.broker.topic("target"), flows.checkpoint()
    flows.send(source, [f"{number}" for number in range(12)])
    rows = flows.stream(source, maxMessagesPerTrigger=5).selectExpr(
        "CAST(CAST(value AS string) AS int) AS number", "CAST(value AS string) AS text"
    )
    failures: list[int] = []

    def write_then_fail(batch: DataFrame, batch_id: int) -> None:
        flows.write(batch, target, schemaType="AVRO")
        if batch_id == 1 and not failures:
            failures.append(batch_id)
            raise RuntimeError("after writing")

    writer = rows.writeStream.foreachBatch(write_then_fail)
    with pytest.raises(StreamingQueryException, match="after writing"):
        flows.run(writer, checkpoint)
    flows.run(writer, checkpoint)
    assert of_schema(flows, target)["version"] == 0
    values = avro_rows(flows.receive(target), json.loads(of_schema(flows, target)["data"]))
    assert [each["number"] for each in values] == [*range(10), *range(5, 12)]  # at least once


def test_a_streaming_sink_with_a_schema(flows: Flows) -> None:
    source, target, checkpoint = flows.broker.topic("source"), flows.broker.topic("target"), flows.checkpoint()
    flows.send(source, [f"{number}" for number in range(12)])
    rows = flows.stream(source, maxMessagesPerTrigger=5).selectExpr("CAST(CAST(value AS string) AS int) AS number")

    def run(frame: DataFrame) -> None:
        writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
        flows.run(writer.option("topic", target).option("schemaType", "JSON"), checkpoint)

    run(rows)
    assert [json.loads(message.data()) for message in flows.receive(target)] == [{"number": n} for n in range(12)]
    assert of_schema(flows, target)["version"] == 0
    flows.send(source, ["12"])
    with pytest.raises(StreamingQueryException, match="number is int on the topic, but string in the DataFrame"):
        run(rows.selectExpr("CAST(number AS string) AS number"))
    assert len(flows.receive(target)) == 12


class Second(Record):
    """`Flight` with one field more."""

    carrier = String()
    delay = Integer()
    distance = Long(required=True)
    speed = Double()
    gate = String(required_default=True)


def test_encoded_values_keep_the_version_of_their_schema(flows: Flows) -> None:
    # covers SCHEMA-3, SCHEMA-4
    source, target = flows.broker.topic("encoded"), flows.broker.topic("encoded")
    for schema, row in ((Flight, Flight(carrier="UA", distance=1)), (Second, Second(distance=2, gate="G"))):
        producer = flows.official().create_producer(source, schema=AvroSchema(schema))
        producer.send(row)
        producer.close()
    service = {"service.url": flows.broker.service_url}
    assert copy_schemas(service, service, source, target) == {0: 0, 1: 1}
    assert copy_schemas(service, service, source, target) == {0: 0, 1: 1}
    rows = flows.batch(source, useTopicSchema="false", metadataColumns="__schemaVersion")
    both = rows.select("value", "__schemaVersion").coalesce(1)
    flows.write(both, target, schemaType="AUTO_PRODUCE_BYTES")
    flows.write(both.where("__schemaVersion = 1").drop("__schemaVersion"), target, schemaType="AUTO_PRODUCE_BYTES")
    again = flows.batch(target, useTopicSchema="false", metadataColumns="__schemaVersion").collect()
    assert [row["__schemaVersion"] for row in again] == [0, 1, 1]
    found = consumed(flows, target, AvroSchema(Second), 3)
    assert [(message.value().distance, message.value().gate) for message in found] == [(1, None), (2, "G"), (2, "G")]


def test_a_topic_without_schema_takes_encoded_values_as_bytes(flows: Flows) -> None:
    # covers SCHEMA-3
    topic = flows.broker.topic("encoded")
    flows.write(flows.rows("value binary", [(b"\x00\xff",)]), topic, schemaType="AUTO_PRODUCE_BYTES")
    (row,) = flows.batch(topic, metadataColumns="__schemaVersion").collect()
    assert (bytes(row["value"]), row["__schemaVersion"]) == (b"\x00\xff", None)
    assert copy_schemas(*[{"service.url": flows.broker.service_url}] * 2, topic, topic) == {}


@pytest.mark.parametrize(
    ("ddl", "row", "options", "message"),
    [
        ("value string", ("a",), {"schemaType": "AUTO_PRODUCE_BYTES"}, "takes value as binary, .* it is string"),
        ("value binary, __schemaVersion bigint", (b"a", 0), {}, "with schemaType AUTO_PRODUCE_BYTES only"),
        (
            "value binary, __schemaVersion bigint",
            (b"a", 7),
            {"schemaType": "AUTO_PRODUCE_BYTES"},
            "__schemaVersion is 7, and .* no such version",
        ),
    ],
)
def test_encoded_values_that_cannot_be_written(
    flows: Flows, ddl: str, row: Any, options: dict[str, str], message: str
) -> None:
    # covers SCHEMA-3
    topic = flows.broker.topic("encoded")
    with pytest.raises((AnalysisException, PythonException), match=message):
        flows.write(flows.rows(ddl, [row]), topic, **options)
