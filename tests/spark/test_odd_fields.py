"""Topics with a field that Spark has no type for, and with JSON of the official Python client."""

from __future__ import annotations

import enum
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pulsar.schema import Bytes, CustomEnum, JsonSchema, Record

from spark_pulsar.model.schemas import Schema, SchemaType
from tests.spark.flows import Flows
from tests.spark.test_schemas_read import register, send

pytestmark = pytest.mark.spark_alone

WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
TREE: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "next", "type": ["null", "R"], "default": None},
        {"name": "amount", "type": WIDE},
        {"name": "nothing", "type": {"type": "record", "name": "E", "fields": []}},
    ],
}
LEAF: dict[str, Any] = {"id": 2, "next": None, "amount": Decimal("1.50"), "nothing": {}}
ROW: dict[str, Any] = {**LEAF, "id": 1, "next": LEAF}


def payload(kind: SchemaType) -> bytes:
    if kind is SchemaType.JSON:
        return json.dumps(ROW, default=str).encode()
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(TREE), ROW)
    return out.getvalue()


@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_a_field_without_a_type_blocks_no_other(flows: Flows, kind: SchemaType) -> None:
    # covers SCHEMA-14
    topic = flows.broker.topic("tree")
    version = register(flows, topic, Schema(kind, json.dumps(TREE).encode()))
    send(flows.wire(), topic, version, payload(kind))
    with pytest.raises(Exception, match=r"field next: the record R contains itself.*unsupportedFields"):
        flows.batch(topic)
    assert flows.reader(topic).schema("id int").load().collect() == [(1,)]
    raw = flows.reader(topic).schema("value binary, __publishTime timestamp_ltz").load()
    assert [bytes(row[0]) for row in raw.collect()] == [payload(kind)]
    stream = flows.stream(topic, unsupportedFields="JSON").select("id", "next", "amount")
    ((row,),) = flows.drain(stream, flows.checkpoint())
    assert (row["id"], row["amount"], json.loads(row["next"])["id"]) == (1, "1.50", 2)


class Color(enum.Enum):
    red = 1


class Painted(Record):
    octets = Bytes()
    color = CustomEnum(Color)


def test_bytes_of_the_python_client_go_there_and_back(flows: Flows) -> None:
    # covers SCHEMA-12, SCHEMA-16
    topic, copy = flows.broker.topic("python"), flows.broker.topic("copy")
    producer = flows.official().create_producer(topic, schema=JsonSchema(Painted))
    producer.send(Painted(octets=b"abcd", color=Color.red))
    producer.send(Painted(octets=b"ab cd", color=Color.red))
    producer.close()
    with pytest.raises(Exception, match=r"field octets is \"ab cd\", no bytes by jsonBytes"):
        flows.batch(topic).select("octets").collect()
    read = flows.batch(topic, jsonBytes="TEXT").select("octets", "color")
    assert [(bytes(octets), color) for octets, color in read.collect()] == [(b"abcd", "1"), (b"ab cd", "1")]
    flows.write(read.select("octets").coalesce(1), copy, schemaType="JSON", jsonBytes="TEXT")
    assert [json.loads(each.data()) for each in flows.receive(copy)] == [{"octets": "abcd"}, {"octets": "ab cd"}]
