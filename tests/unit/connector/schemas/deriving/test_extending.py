"""A topic's definition extended by rows, and rows written with it: names and defaults stay the topic's."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.schemas.decoding.avro.library_schemas import parse
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.deriving.avro_definition import derive_record
from spark_pulsar.connector.schemas.deriving.registration import adopt, extend
from spark_pulsar.connector.schemas.deriving.row_schema import derive_row_schema
from spark_pulsar.connector.schemas.encoding.avro_payloads import encode_avro
from spark_pulsar.connector.schemas.encoding.columns import binary_array
from spark_pulsar.connector.schemas.encoding.json_payloads import JsonForm, encode_json
from spark_pulsar.connector.schemas.extended_definition import MissingFields, extended
from spark_pulsar.connector.schemas.linked_definition import linked
from spark_pulsar.model import avro
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from tests.clients.recorded_schemas import DEFAULT, RECORDED, enum, fixed, items, record, values

CLASSES: dict[str, Any] = json.loads(RECORDED.read_text())
FLIGHT: dict[str, Any] = json.loads(CLASSES["java"]["flight_avro"]["definition"])
SHAPES: dict[str, Any] = json.loads(CLASSES["java"]["shapes_avro"]["definition"])
LEG = record("com.x.Leg", c="string", m=(["null", "int"], DEFAULT))
FILLED = {
    **record(
        "com.x.Filled",
        id="int",
        color=(enum("Color", "RED", "GRÜN"), {"default": "RED"}),
        opt=(["null", LEG], DEFAULT),
        legs=(items("Leg"), {"default": []}),
        m=(values("Leg"), {"default": {"k": {"c": "z"}}}),
        fx=(fixed("F", 3), {"default": "\u00ff\u0001a"}),
        dec=({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, {"default": "\u0004\u00d2"}),
        d=("double", {"default": 2}),
        f=("float", {"default": 0.5}),
        u=(["null", "int", "string"], {}),
        late=("boolean", {"default": True}),
        text=("string", {"default": 'ä"'}),
        n=(["null", "string"], {"default": "none"}),
    ),
    "doc": "kept",
}  # fmt: skip


def frame(**fields: Any) -> dict[str, Any]:
    """The derived definition of a frame; a field is its Spark type in JSON."""
    made = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return derive_record({"type": "struct", "fields": made})


def struct(**fields: Any) -> dict[str, Any]:
    made = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": made}


def written(definition: Any, rows: pa.Array) -> tuple[list[Any], list[Any]]:
    """The rows as readers of Avro and of JSON have them."""
    parsed, found = parse(definition), []
    for payload in binary_array(encode_avro(rows, linked(definition))).to_pylist():
        stream = io.BytesIO(payload)
        found.append(fastavro.schemaless_reader(stream, parsed, None))
        assert stream.tell() == len(payload)
    texts = binary_array(encode_json(rows, linked(definition))).to_pylist()
    return found, [json.loads(each, parse_float=decimal.Decimal) for each in texts]


def test_a_java_class_gets_a_column_and_lacks_some() -> None:
    # covers SCHEMA-6
    found, is_new = extended(FLIGHT, frame(number="integer", late="boolean", color="string", gate="string"))
    assert is_new
    gate = {"name": "gate", "type": ["null", "string"], **DEFAULT}
    expected = json.dumps({**FLIGHT, "fields": [*FLIGHT["fields"], gate]})
    assert avro.meaning(json.dumps(found).encode()) == avro.meaning(expected.encode())
    assert {key: found[key] for key in ("name", "namespace")} == {"name": "Flight", "namespace": "RecordedSchemas"}
    again, is_new = extended(found, frame(number="integer", late="boolean", gate="string", color="string"))
    assert (again, is_new) == (found, False)


def test_columns_of_other_widths_and_inner_records() -> None:
    # covers SCHEMA-6
    leg = struct(carrier="string", minutes="long", seat="string")
    found, is_new = extended(FLIGHT, frame(number="long", late="boolean", first=leg, extra=struct(x="integer")))
    assert is_new
    fields = {each["name"]: each["type"] for each in found["fields"]}
    assert fields["number"] == "long"
    inner = fields["byName"][1]["values"]
    assert (inner["name"], [each["name"] for each in inner["fields"]]) == ("Leg", ["carrier", "minutes", "seat"])
    assert inner["fields"][1]["type"] == "long"
    assert fields["legs"][1]["items"] == fields["first"][1] == "RecordedSchemas.Leg"
    assert (fields["extra"][1]["namespace"], fields["extra"][1]["name"]) == ("RecordedSchemas.Flight", "extra")
    fastavro.parse_schema(found)


def test_fields_that_rows_lack_have_their_default_or_null() -> None:
    # covers SCHEMA-6, SCHEMA-7
    found, is_new = extended(FILLED, frame(id="integer"))
    assert not is_new
    assert avro.meaning(json.dumps(found).encode()) == avro.meaning(json.dumps(FILLED).encode())
    records, texts = written(FILLED, pa.array([{"id": 1}, {"id": 2}]))
    leg = {"k": {"c": "z", "m": None}}
    expected = {
        "id": 1, "color": "RED", "opt": None, "legs": [], "m": leg, "fx": b"\xff\x01a", "dec": decimal.Decimal("12.34"),
        "d": 2.0, "f": 0.5, "u": None, "late": True, "text": 'ä"', "n": "none",
    }  # fmt: skip
    assert records == [expected, expected | {"id": 2}]
    absent = ("opt", "u")
    plain = {name: value for name, value in expected.items() if name not in absent}
    assert texts[0] == plain | {"m": {"k": {"c": "z"}}, "fx": "/wFh"}


def test_a_field_that_nothing_fills_is_named() -> None:
    # covers SCHEMA-6
    with pytest.raises(MissingFields, match=r"first\.minutes \(int, no default\); number \(int, no default\)"):
        extended(FLIGHT, frame(late="boolean", first=struct(carrier="string")))
    with pytest.raises(SchemaError, match="field dec of the topic's schema has the default 7, none of its type"):
        written(record("R", dec=("bytes", {"default": 7}), a="int"), pa.array([{"a": 1}]))


def test_enums_unions_fixed_and_units() -> None:
    # covers SCHEMA-7
    topic = record(
        "R",
        e=["null", enum("E", "ROT", "GRÜN")],
        u=["null", "int", enum("K", "X"), record("S", q="long")],
        f=fixed("F", 2),
        d=fixed("D", 4) | {"logicalType": "decimal", "precision": 9, "scale": 3},
        t={"type": "int", "logicalType": "time-millis"},
        at={"type": "long", "logicalType": "timestamp-millis"},
    )
    kinds = pa.struct([
        ("e", pa.string()), ("u", pa.struct([("member1", pa.string()), ("member2", pa.struct([("q", pa.int32())]))])),
        ("f", pa.binary()), ("d", pa.decimal128(7, 2)), ("t", pa.time64("ns")), ("at", pa.timestamp("us", tz="UTC")),
    ])  # fmt: skip
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901, datetime.UTC)
    row = {"e": "GRÜN", "u": {"member2": {"q": 5}}, "f": b"ab", "d": decimal.Decimal("-1.25"), "t": moment.time(),
           "at": moment}  # fmt: skip
    rows = pa.array(
        [row, row | {"e": None, "u": {"member1": "X"}, "d": decimal.Decimal("300.00")}, row | {"u": None}], kinds
    )
    records, texts = written(topic, rows)
    cut = moment.replace(microsecond=678_000)
    first = {"e": "GRÜN", "u": {"q": 5}, "f": b"ab", "d": decimal.Decimal("-1.250"), "t": cut.time(), "at": cut}
    assert records == [first, first | {"e": None, "u": "X", "d": decimal.Decimal("300.000")}, first | {"u": None}]
    assert texts[0]["u"] == {"q": 5}
    assert (texts[1]["u"], texts[1]["d"], "u" in texts[2]) == ("X", decimal.Decimal("300.000"), False)
    assert (texts[0]["e"], texts[0]["f"]) == ("GRÜN", "YWI=")


@pytest.mark.parametrize(
    ("kind", "array", "told"),
    [
        (enum("p.E", "RED", "BLUE"), pa.array(["RED", "PURPLE"]), "column a holds 'PURPLE', .* enum p.E .* RED, BLUE"),
        (fixed("F", 2), pa.array([b"abc"]), "column a holds 3 bytes, .* has 2 there"),
        ("int", pa.array([1, None], pa.int32()), "column a holds a null, but the topic's schema allows none"),
        (["int", "string"], pa.array([None, 1], pa.int32()), "column a holds a null"),
        (["int", "string"], pa.array([{"member0": 1, "member1": "x"}]), "column a holds values of two branches"),
    ],
)
def test_values_that_the_topic_does_not_take_are_named(kind: Any, array: pa.Array, told: str) -> None:
    # covers SCHEMA-7
    rows = pa.StructArray.from_arrays([array], names=["a"])
    for encode in (encode_avro, encode_json):
        with pytest.raises(SchemaError, match=told):
            encode(rows, linked(record("R", a=kind)))


def test_a_union_of_records_of_a_java_class() -> None:
    # covers SCHEMA-7
    shape = struct(member1=struct(side="double"))
    found, is_new = extended(SHAPES, frame(shape=shape, ampel="string"))
    assert (found, is_new) == (SHAPES, False)
    rows = pa.array([{"shape": {"member1": {"side": 1.5}}, "ampel": "GRÜN"}])
    records, _ = written(SHAPES, rows)
    assert records == [{"ampel": "GRÜN", "level": 7, "shape": {"side": 1.5}}]


def test_parts_of_a_key_value_schema() -> None:
    # covers SCHEMA-6
    options = {"service.url": "pulsar://localhost:6650", "topic": "t", "schemaType": "KEY_VALUE"}
    key, value = struct(number="integer", late="boolean"), struct(number="integer", late="boolean", gate="string")
    rows = derive_row_schema(struct(key=key, value=value)["fields"], parse_options(options).for_write(BATCH_WRITE))
    assert rows is not None
    data = json.dumps(FLIGHT).encode()
    types = {"key.schema.type": "AVRO", "value.schema.type": "AVRO", "kv.encoding.type": "INLINE"}
    topic = Definition(Schema(SchemaType.KEY_VALUE, join_key_and_value(data, data), types))
    found, is_new = extend(topic, rows)
    assert is_new
    assert found.key is not None
    assert found.key.schema.data == data
    assert json.loads(found.value.schema.data)["fields"][-1]["name"] == "gate"
    again = Definition(found.schema)
    assert extend(again, rows) == (found, False)
    assert adopt(again, rows) == found
    less = derive_row_schema(
        struct(key=struct(late="boolean"), value=value)["fields"], parse_options(options).for_write(BATCH_WRITE)
    )
    assert less is not None
    with pytest.raises(MissingFields, match=r"key\.number \(int, no default\)"):
        extend(topic, less)


def test_names_beyond_ascii() -> None:
    # covers SCHEMA-6
    topic = record("Gemälde", größe="int")
    found, is_new = extended(topic, frame(größe="integer", höhe="integer"))
    assert is_new
    records, texts = written(found, pa.array([{"größe": 1, "höhe": 2}]))
    assert records == texts == [{"größe": 1, "höhe": 2}]


def test_a_column_of_a_former_name_goes_into_its_field() -> None:
    # covers SCHEMA-6
    journey = json.loads(CLASSES["java"]["journey_avro"]["definition"])
    _, is_new = extended(journey, frame(number="integer", late="boolean", tail="string"))
    assert not is_new
    records, texts = written(journey, pa.array([{"number": 1, "late": True, "tail": "N1"}]))
    assert (records[0]["airplane"], texts[0]["airplane"], records[0]["gate"]) == ("N1", "N1", "none")


def test_defaults_of_bytes_have_the_form_of_the_option() -> None:
    # covers SCHEMA-6
    topic = linked(record("R", a="int", b=("bytes", {"default": "\u00c3\u00a9"})))
    rows = pa.array([{"a": 1}])
    for form, expected in (("BASE64", "w6k="), ("TEXT", "é")):
        (text,) = binary_array(encode_json(rows, topic, JsonForm(bytes=form))).to_pylist()
        assert json.loads(text) == {"a": 1, "b": expected}
