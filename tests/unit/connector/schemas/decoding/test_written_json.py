"""Times, bytes and maps that are written as JSON, in the form that official clients read, and read again."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.encoding.columns import binary_array
from spark_pulsar.connector.schemas.encoding.json_payloads import JsonForm, encode_json
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType

MICROS = [1_700_000_000_123_456, -1, None, 253_402_300_799_999_999]
INSTANTS = ["2023-11-14T22:13:20.123456Z", "1969-12-31T23:59:59.999999Z", None, "9999-12-31T23:59:59.999999Z"]
TIMES = [80_000_123_456_000, 0, None, 86_399_999_999_000]
CASES: list[tuple[Any, Any, list[Any], list[Any]]] = [
    ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "Asia/Tokyo"), MICROS, INSTANTS),
    ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC"), MICROS, INSTANTS),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        pa.timestamp("us"),
        MICROS,
        [each and each[:-1] for each in INSTANTS],
    ),
    (
        {"type": "long", "logicalType": "time-micros"},
        pa.time64("ns"),
        TIMES,
        ["22:13:20.123456", "00:00:00.000000", None, "23:59:59.999999"],
    ),
]


def definition(kind: Any) -> dict[str, Any]:
    fields = [
        {"name": "v", "type": ["null", kind], "default": None},
        {"name": "all", "type": {"type": "array", "items": ["null", kind]}},
    ]
    return {"type": "record", "name": "R", "fields": fields}


@pytest.mark.parametrize(("kind", "arrow", "numbers", "texts"), CASES)
def test_times_are_iso_8601_and_come_back(kind: Any, arrow: Any, numbers: list[Any], texts: list[Any]) -> None:
    # covers SCHEMA-16
    values = pa.array(numbers, pa.int64()).cast(arrow)
    lists = pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), values)
    rows = pa.StructArray.from_arrays([values, lists], names=["v", "all"])
    written = binary_array(encode_json(rows, definition(kind), JsonForm()))
    found = [json.loads(each) for each in written.to_pylist()]
    assert [each.get("v") for each in found] == texts
    assert [each["all"] for each in found] == [[text] for text in texts]
    assert ["v" in each for each in found] == [True, True, False, True]
    reader = Definition(Schema(SchemaType.JSON, json.dumps(definition(kind)).encode()))
    read = JsonDecoder(reader, reader, pa.struct(list(value_columns(reader)))).decode(written.cast(pa.binary()))
    expected = values if arrow == pa.time64("ns") else values.cast(pa.timestamp("us", arrow.tz and "UTC"))
    assert read.field("v").equals(expected)
    assert read.field("all").values.equals(expected)


def test_a_time_that_iso_8601_has_no_text_for_is_refused() -> None:
    # covers SCHEMA-16
    kind, arrow, _, _ = CASES[0]
    values = pa.array([253_402_300_800_000_000], pa.int64()).cast(arrow)
    rows = pa.StructArray.from_arrays([values], names=["v"])
    only = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    with pytest.raises(SchemaError, match=r"column v holds a timestamp .* set jsonTimes to NUMBER"):
        encode_json(rows, only, JsonForm())
    assert binary_array(encode_json(rows, only)).to_pylist() == [b'{"v":253402300800000000}']


@pytest.mark.parametrize(("octets", "text"), [(b"abcd", "abcd"), ("\u00e9=".encode(), "\u00e9=")])
def test_bytes_are_base64_or_the_text_that_python_reads(octets: bytes, text: str) -> None:
    # covers SCHEMA-16
    rows = pa.StructArray.from_arrays([pa.array([octets], pa.binary())], names=["v"])
    only = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "bytes"}]}
    (written,) = binary_array(encode_json(rows, only, JsonForm(bytes="TEXT"))).to_pylist()
    assert json.loads(written) == {"v": text}
    wrong = pa.StructArray.from_arrays([pa.array([b"\xff"], pa.binary())], names=["v"])
    with pytest.raises(SchemaError, match="column v holds bytes that are no UTF-8"):
        encode_json(wrong, only, JsonForm(bytes="TEXT"))


def test_a_map_of_java_is_written_as_the_object_that_it_reads() -> None:
    # covers SCHEMA-16
    fields = [{"name": "key", "type": ["null", "int"]}, {"name": "value", "type": ["null", "string"]}]
    pair = {"type": "record", "name": "PairIntegerString", "namespace": "org.apache.avro.reflect", "fields": fields}
    kind = {"type": "array", "items": pair, "java-class": "java.util.Map"}
    only = {"type": "record", "name": "R", "fields": [{"name": "v", "type": ["null", kind], "default": None}]}
    arrow = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.string())]))
    values = [[{"key": -1, "value": "x"}, {"key": 2, "value": None}], [], None]
    rows = pa.StructArray.from_arrays([pa.array(values, arrow)], names=["v"])
    written = binary_array(encode_json(rows, only, JsonForm()))
    assert written.to_pylist() == [b'{"v":{"-1":"x","2":null}}', b'{"v":{}}', b"{}"]
    reader = Definition(Schema(SchemaType.JSON, json.dumps(only).encode()))
    decoder = JsonDecoder(reader, reader, pa.struct(list(value_columns(reader))))
    assert decoder.decode(written.cast(pa.binary())).field("v").to_pylist() == values
    wrong = pa.StructArray.from_arrays([pa.array([[{"key": None, "value": "x"}]], arrow)], names=["v"])
    with pytest.raises(SchemaError, match="column v holds a null key"):
        encode_json(wrong, only, JsonForm())
