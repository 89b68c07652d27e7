"""Topics of official clients, extended and read by Spark: names, defaults and enums, and several topics at a time."""

from __future__ import annotations

import json
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, JsonSchema
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F

from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.clients.recorded_schemas import RECORDED, Flight, Leg
from tests.spark.flows import Flows
from tests.spark.test_schemas_write import of_schema

CLASSES: dict[str, Any] = json.loads(RECORDED.read_text())
LEG = Leg(carrier="AA", minutes=1)
READ = (Exception,)


def made_by_java(flows: Flows, topic: str, name: str) -> None:
    """A topic with the schema and the message of a recorded Java class."""
    recorded = CLASSES["java"][name]
    flows.wire().publisher(topic).close()
    schema = Schema(SchemaType[recorded["type"]], recorded["definition"].encode(), recorded["properties"])
    version = flows.wire().register_schema(topic, schema)
    with flows.wire().publisher(topic) as publisher:
        publisher.send(MessageMetadata(schema_version=version), bytes.fromhex(recorded["payload"]))


@pytest.mark.parametrize("kind", ["AVRO", pytest.param("JSON", marks=pytest.mark.long)])
def test_a_sink_extends_the_schema_of_a_java_class(flows: Flows, kind: str) -> None:
    # covers SCHEMA-5, SCHEMA-6, SCHEMA-7
    topic = flows.broker.topic("java")
    made_by_java(flows, topic, f"flight_{kind.lower()}")
    checkpoint = flows.checkpoint()
    reader = flows._options(flows.spark.readStream.format("pulsar"), topic, {"startingOffsets": "earliest"})
    stream = reader.schema("number int, color string, tail string").load()
    frame = flows.rows("number int, color string, late boolean", [(1, "BLUE", True)])
    flows.write(frame, topic, schemaType=kind)  # fits: ten fields are null
    assert of_schema(flows, topic)["version"] == 0
    leg = "first struct<carrier: string, minutes: int, seat: string>"
    more = flows.rows(f"number int, late boolean, gate string, {leg}", [(2, False, "G", ("AA", 3, "1A"))])
    flows.write(more, topic, schemaType=kind)
    flows.write(frame, topic, schemaType=kind)
    flows.write(more, topic, schemaType=kind)
    found = of_schema(flows, topic)
    definition = json.loads(found["data"])
    before = json.loads(CLASSES["java"][f"flight_{kind.lower()}"]["definition"])
    assert (found["version"], found["properties"]["__jsr310ConversionEnabled"]) == (1, "true")
    assert [definition["name"], definition["namespace"]] == ["Flight", "RecordedSchemas"]
    assert [each["name"] for each in definition["fields"]] == [*(each["name"] for each in before["fields"]), "gate"]
    wanted = "number int, color string, gate string, tail string, first struct<seat: string>"
    rows = flows.reader(topic).schema(wanted).load().select("number", "color", "gate", "tail", "first.seat").collect()
    assert [tuple(row) for row in rows] == [
        (7, "GREEN", None, "N7", None), (1, "BLUE", None, None, None), (2, None, "G", None, "1A"),
        (1, "BLUE", None, None, None), (2, None, "G", None, "1A"),
    ]  # fmt: skip
    # the query that was planned before goes on
    read = [row for batch in flows.drain(stream, checkpoint) for row in batch]
    assert [row.number for row in read] == [7, 1, 2, 1, 2]
    with pytest.raises(PythonException, match=r"column color holds 'PURPLE', .* RED, GREEN, BLUE"):
        flows.write(frame.withColumn("color", F.lit("PURPLE")), topic, schemaType=kind)
    with pytest.raises(PythonException, match="column number holds a null, but the topic's schema allows none"):
        flows.write(frame.withColumn("number", F.lit(None).cast("int")), topic, schemaType=kind)
    with pytest.raises(AnalysisException, match=r"late \(boolean, no default\); number \(int, no default\) is on the"):
        flows.write(frame.select("color"), topic, schemaType=kind)


@pytest.mark.parametrize("make", [pytest.param(AvroSchema, marks=pytest.mark.long), JsonSchema])
def test_a_sink_and_the_python_client_share_a_topic(flows: Flows, make: Any) -> None:
    # covers SCHEMA-5, SCHEMA-6
    topic, schema = flows.broker.topic("python"), make(Flight)
    producer = flows.official().create_producer(topic, schema=schema)
    first = Flight(number=9, gate="G", legs=[LEG], first=LEG)
    producer.send(first)
    kind = "AVRO" if make is AvroSchema else "JSON"
    frame = flows.rows("number bigint, color string, extra string", [(1, "RED", "x")])
    flows.write(frame, topic, schemaType=kind)
    producer.send(first)
    assert of_schema(flows, topic)["version"] == 1
    consumer = flows.official().subscribe(
        topic, "s", schema=make(Flight), initial_position=pulsar.InitialPosition.Earliest
    )
    values = [consumer.receive(30_000).value() for _ in range(3)]
    assert [(each.number, each.gate) for each in values] == [(9, "G"), (1, "G0"), (9, "G")]
    rows = flows.batch(topic).select("number", "color", "gate", "extra").collect()
    assert [tuple(row) for row in rows] == [(9, None, "G", None), (1, "RED", "G0", "x"), (9, None, "G", None)]


def test_topics_of_several_clients_are_one_table(flows: Flows) -> None:
    # covers SCHEMA-8, SCHEMA-9
    java, python, later = (flows.broker.topic("several") for _ in range(3))
    made_by_java(flows, java, "flight_avro")
    producer = flows.official().create_producer(python, schema=AvroSchema(Flight))
    producer.send(Flight(number=9, gate="G", tags={"k": "v"}, first=LEG))
    flows.wire().publisher(later).close()  # empty, without schema
    checkpoint = flows.checkpoint()

    def rows(tail: str) -> list[tuple[Any, ...]]:
        stream = flows.stream(topics=f"{java},{python},{later}").select("number", tail, "gate", "price", "tags")
        found = [tuple(row) for batch in flows.drain(stream, checkpoint) for row in batch]
        return sorted((number, tail, gate, str(price), tags) for number, tail, gate, price, tags in found)

    assert rows("tail") == [(7, "N7", "G0", "-12.34", None), (9, "N0", "G", "None", {"k": "v"})]
    made_by_java(flows, later, "journey_avro")  # whose airplane has the alias tail
    assert rows("airplane") == [(8, "N8", "G", "None", None)]
    flows.write(flows.rows("number string", [("x",)]), other := flows.broker.topic("several"), schemaType="AVRO")
    topics = f"{java},{other}"
    with pytest.raises(READ, match=r"number is int, .* where number is string"):
        flows.reader(topics=topics).load()
    raw = flows.reader(topics=topics).schema("value binary, __topic string").load()
    assert raw.count() == 2
