"""Definitions of schemas: of several topics, as what all can be read as; within bounds; parts of KEY_VALUE."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import MAX_DEFINITION_BYTES, Definition, KeyValueEncoding
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.connector.schemas.types.spark_types import spark_name
from spark_pulsar.connector.schemas.united_definition import Contradiction, united
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from tests.clients.recorded_schemas import RECORDED, enum, fixed, items, record

CLASSES: dict[str, Any] = json.loads(RECORDED.read_text())
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def ddl(columns: pa.Schema) -> str:
    return ", ".join(f"{each.name} {spark_name(each.type)}" for each in columns)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def of(avro: Any, kind: SchemaType = SchemaType.AVRO, version: int = 0) -> Definition:
    return Definition(Schema(kind, json.dumps(avro).encode()), "", version.to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("one", "other", "columns"),
    [
        (record("A", a="int", b="string"), record("B", b="string", a="int"), "a int, b string"),
        (record("A", a="int"), record("B", b="string", a="long"), "a bigint, b string"),
        (record("A", a="int", b="long", c="float"), record("B", a="double", b="float", c="int"),
         "a double, b double, c double"),
        (record("A", a="string"), record("B", a="bytes"), "a binary"),
        (record("A", a=enum("E", "x")), record("B", a=enum("F", "y")), "a string"),
        (record("A", a=MILLIS, d=decimal(5, 2)), record("B", a=MICROS, d=decimal(6, 4)),
         "a timestamp, d decimal(7,4)"),
        (record("A", a=items(record("N", x="int"))), record("B", a=items(record("M", y="int"))),
         "a array<struct<x:int,y:int>>"),
        (record("A", a=["int", "string"]), record("B", a=["null", "string", "long"]),
         "a struct<member0:bigint,member1:string>"),
        (record("A", old="int"), record("B", new=("int", {"aliases": ["old"]})), "new int"),
        (record("A", a=record("N", x="int")), record("B", b=record("N", y="string")),
         "a struct<x:int>, b struct<y:string>"),
    ],
)  # fmt: skip
def test_what_both_can_be_read_as(one: Any, other: Any, columns: str) -> None:
    # covers SCHEMA-8
    assert ddl(value_columns(united([of(one), of(other)]))) == columns


@pytest.mark.parametrize(
    ("one", "other", "place", "types"),
    [
        (record("A", a="int"), record("B", a="string"), "a", ("int", "string")),
        (record("A", a=items(record("N", x="int"))), record("B", a=items(record("N", x="boolean"))), "a[].x",
         ("int", "boolean")),
        (record("A", a="long"), record("B", a=MICROS), "a", ("long", "long (timestamp-micros)")),
        (record("A", a=fixed("F", 2)), record("B", a=fixed("F", 3)), "a", ("fixed of 2 bytes", "fixed of 3 bytes")),
        (record("A", a=record("N", x="int")), record("B", a="int"), "a", ("record", "int")),
        (record("A", a=decimal(38, 0)), record("B", a=decimal(38, 10)), "a", ("decimal(38,0)", "decimal(38,10)")),
    ],
)  # fmt: skip
def test_what_contradicts(one: Any, other: Any, place: str, types: tuple[str, str]) -> None:
    # covers SCHEMA-9
    for kind in (SchemaType.AVRO, SchemaType.JSON):
        with pytest.raises(Contradiction) as found:
            united([of(one, kind), of(other, kind)])
        assert (found.value.place, found.value.types) == (place, types)


def test_definitions_of_java_and_python_classes() -> None:
    # covers SCHEMA-8
    texts = [
        CLASSES["java"]["flight_avro"], CLASSES["java"]["journey_avro"], CLASSES["python"]["flight_avro"],
        CLASSES["java"]["flight_not_null_avro"],
    ]  # fmt: skip
    all_of_them = [of(json.loads(each["definition"]), version=i) for i, each in enumerate(texts)]
    reader = united(all_of_them)
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: all_of_them[version])
    payloads = pa.array([bytes.fromhex(each["payload"]) for each in texts], pa.binary())
    out = decoder.decode(payloads, None, pa.array(range(len(texts)), pa.int64()))
    assert out.errors == {}
    rows = {name: column.to_pylist() for name, column in out.columns.items()}
    assert rows["number"] == [7, 8, 9, 7]
    assert rows["airplane"] == ["N7", "N8", "N9", "N7"]
    assert rows["color"] == ["GREEN", "RED", "GREEN", "GREEN"]
    assert rows["first"][0] == {"carrier": "AA", "minutes": 5}
    assert rows["tags"] == [None, None, [("k", "v")], None]


def test_primitives_and_pairs() -> None:
    # covers SCHEMA-8, SCHEMA-9
    small, large = (Definition(Schema(kind), "", bytes(8)) for kind in (SchemaType.INT16, SchemaType.INT64))
    reader = united([small, large])
    assert ddl(value_columns(reader)) == "value bigint"
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: small)
    out = decoder.decode(pa.array([b"\xff\xfe"], pa.binary()), None, pa.array([0], pa.int64()))
    assert (out.columns["value"].to_pylist(), out.errors) == ([-2], {})
    with pytest.raises(Contradiction, match="INT16 and STRING"):
        united([small, Definition(Schema(SchemaType.STRING))])

    def pair(key: SchemaType, value: Any) -> Definition:
        types = {"key.schema.type": key.name, "value.schema.type": "AVRO", "kv.encoding.type": "INLINE"}
        return Definition(Schema(SchemaType.KEY_VALUE, join_key_and_value(b"", json.dumps(value).encode()), types))

    both = united([pair(SchemaType.INT32, record("A", x="int")), pair(SchemaType.INT64, record("B", x="int", y="int"))])
    assert ddl(value_columns(both)) == "key bigint, value struct<x:int,y:int>"
    with pytest.raises(Contradiction) as found:
        united([pair(SchemaType.INT32, record("A", x="int")), pair(SchemaType.INT32, record("A", x="string"))])
    assert found.value.place == "value.x"


def test_a_message_without_version_was_written_with_the_newest_of_its_topic() -> None:
    # covers SCHEMA-8
    one, other = of(record("A", a="int", b="int")), of(record("B", b="int", a="int"))
    reader = united([one, other])
    out = io.BytesIO()
    fastavro.schemaless_writer(out, record("B", b="int", a="int"), {"a": 1, "b": 2})
    unknown = pa.array([-1], pa.int64())
    for is_of_several, a in ((False, 2), (True, 1)):
        read = Definition(reader.schema, "", bytes(8), is_of_several)
        decoder = MessageDecoder(read, value_columns(read), lambda version: other)
        found = decoder.decode(pa.array([out.getvalue()], pa.binary()), None, unknown)
        assert found.columns["a"].to_pylist() == [a]
    read = Definition(reader.schema, "", bytes(8), True)
    decoder = MessageDecoder(read, value_columns(read), lambda version: None)
    errors = decoder.decode(pa.array([b"\0\0"], pa.binary()), None, unknown).errors
    assert errors == {0: "it carries no schema version, and its topic has no schema"}


# ---- one definition


RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}).encode()


def test_a_definition_is_what_the_registry_gave() -> None:
    found = RegisteredSchema("AVRO", Schema(SchemaType.AVRO, RECORD), b"\0" * 8)
    definition = Definition.of(found)
    assert (definition.type, definition.name, definition.version) == (SchemaType.AVRO, "AVRO", b"\0" * 8)
    assert [field.name for field in definition.avro().fields] == ["a"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "no JSON"),
        (b'{"type": "nothing"}', '"nothing" is not a defined name'),
        (b'{"type":"array","items":' * 20_000 + b'"int"' + b"}" * 20_000, "too deep"),
        (b" " * (MAX_DEFINITION_BYTES + 1), "more than"),
    ],
)
def test_a_definition_that_is_none_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        Definition(Schema(SchemaType.JSON, data)).avro()


def key_value(**properties: str) -> Definition:
    return Definition(Schema(SchemaType.KEY_VALUE, join_key_and_value(b"", RECORD), properties))


def test_a_key_value_schema_has_two_parts_and_an_encoding() -> None:
    types = {"key.schema.type": "INT32", "value.schema.type": "AVRO", "kv.encoding.type": "SEPARATED"}
    key, value, encoding = key_value(**types).key_value()
    assert (key.type, value.type, encoding) == (SchemaType.INT32, SchemaType.AVRO, KeyValueEncoding.SEPARATED)
    assert value.avro().name == "R"
    key, value, encoding = key_value().key_value()
    assert (key.type, value.type, encoding) == (SchemaType.BYTES, SchemaType.BYTES, KeyValueEncoding.INLINE)


@pytest.mark.parametrize(
    "definition",
    [
        key_value(**{"kv.encoding.type": "BESIDE"}),
        key_value(**{"key.schema.type": "NOTHING"}),
        Definition(Schema(SchemaType.KEY_VALUE, b"\0\0\0\x09a")),
    ],
)
def test_a_key_value_schema_that_is_none_is_refused(definition: Definition) -> None:
    with pytest.raises(SchemaError, match="KEY_VALUE"):
        definition.key_value()
