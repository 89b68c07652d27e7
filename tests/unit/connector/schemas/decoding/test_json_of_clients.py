"""JSON as the official clients write it, recorded with `python -m tests.clients.json_recording`, and all of it read;
and times, bytes and maps written in the form that they read."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64, TEXT
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.encoding.columns import binary_array
from spark_pulsar.connector.schemas.encoding.json_payloads import JsonForm, encode_json
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType

RECORDED = json.loads(Path(__file__).with_name("json_of_clients.json").read_text())
MARK = b"\xef\xbb\xbf"


def of_type(kind: Any) -> Definition:
    data = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
    return Definition(Schema(SchemaType.JSON, json.dumps(data).encode()))


def read(definition: Definition, payloads: list[bytes], json_bytes: str = BASE64) -> tuple[list[Any], dict[int, str]]:
    wanted = pa.schema([value_columns(definition).field("v")])
    decoder = MessageDecoder(definition, wanted, lambda version: None, json_bytes)
    found = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([-1] * len(payloads), pa.int64()))
    return found.columns["v"].to_pylist(), found.errors


@pytest.mark.parametrize("client", ["Java", "Python", "Go"])
def test_all_that_a_client_writes_is_read(client: str) -> None:
    # covers SCHEMA-12
    cases = [each for each in RECORDED if each["client"] == client]
    assert len(cases) > 20
    for each in cases:
        definition = Definition(Schema(SchemaType.JSON, json.dumps(each["definition"]).encode()))
        payload = each["payload"].encode()
        # alone, twice, and with what clients and tools put around it
        payloads = [payload, payload, MARK + payload, payload + b"\n", payload + b" \r\n\n"]
        found, errors = read(definition, payloads, TEXT if client == "Python" else BASE64)
        assert not errors, (each["case"], errors)
        assert {repr(value) for value in found} == {each["expected"]}, each["case"]


LONG, INSTANT = "long", {"type": "long", "logicalType": "timestamp-millis"}
DAYS = {"type": "int", "logicalType": "date"}
EMPTY = {"type": "record", "name": "E", "fields": []}
DATE = {"type": "record", "name": "Date", "namespace": "java.util", "fields": []}
CHARACTER = {"type": "int", "java-class": "java.lang.Character"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", '"-5"', -5),
        ("double", '"1.5"', 1.5),
        ("boolean", '"true"', True),
        ("string", "1.50", "1.50"),
        ("string", "true", "true"),
        ("double", "Infinity", float("inf")),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        (["int", "string"], '"5"', {"member0": None, "member1": "5"}),
        (["string", "long"], "5", {"member0": None, "member1": 5}),
        (["int", "long", "string"], "5000000000", {"member0": None, "member1": 5000000000, "member2": None}),
        (CHARACTER, "120", 120),
        (DATE, '"2023-11-14T22:13:20.123+00:00"', "2023-11-14 22:13:20.123000+00:00"),
        (INSTANT, "1700000000123", "2023-11-14 22:13:20.123000+00:00"),
        (INSTANT, "1700000000123.0", "2023-11-14 22:13:20.123000+00:00"),
        (INSTANT, '"2023-11-14T22:13:20.123456Z"', "2023-11-14 22:13:20.123456+00:00"),
        (EMPTY, '{"any":[1,1.50]}', '{"any":[1,1.50]}'),
        ([EMPTY, "string"], '"x"', {"member0": None, "member1": "x"}),
        ([EMPTY, "string"], "{}", {"member0": "{}", "member1": None}),
        ("string", '"x","v":"y"', "y"),  # of a name that comes twice all clients take the last
    ],
)
def test_values_that_other_clients_take_as_well(kind: Any, text: str, value: Any) -> None:
    # covers SCHEMA-12
    (found,), errors = read(of_type(kind), [b'{"v":%s}' % text.encode()])
    assert not errors
    assert (str(found) if kind in (DATE, INSTANT) else found) == value


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("int", ["2147483648", "1.5", "1e400", '"5.0"', '"x"', "true", '"99999999999999999999"', "NaN"]),
        (LONG, ["9223372036854775808", "-9223372036854775809", "0.1", "[1]"]),
        ("float", ["1e39", "-1e39", "3.4028236e38", "1e400", '"1e39"', '"nan"', "true"]),
        ("double", ["1e400", "-1e400", "1.7976931348623159e308", '"x"']),
        (INSTANT, ["1700000000.5", "1700000000123.123", '"2023-11-14T22:13:20"', "[2023,11,14]"]),
        (DAYS, ["1.5", '"2023-02-30"', "[2023,13,1]", "9999999999"]),
        ("bytes", ['"abc"', '"\\u00e9="', "5", "[97]"]),
        ({"type": "fixed", "name": "F", "size": 2}, ['"YWJjZA=="']),
        (CHARACTER, ['"ab"', '""', "1.5"]),
        ("string", ["{}", "[]"]),
        ({"type": "map", "values": "int"}, ["[]", "5", '"x"']),
        ({"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]}, ["5", '"x"', "[]"]),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, ["1.234", "100", '"x"', "NaN"]),
    ],
)
def test_what_does_not_fit_is_an_error_and_never_another_value(kind: Any, texts: list[str]) -> None:
    # covers SCHEMA-13
    payloads = [b'{"v":%s}' % text.encode() for text in texts]
    found, errors = read(of_type(kind), payloads)
    assert found == [None] * len(texts)
    assert sorted(errors) == list(range(len(texts)))
    assert all("field v is" in reason for reason in errors.values()), errors


def test_an_error_names_the_option_that_says_how_bytes_are_written() -> None:
    # covers SCHEMA-13
    assert "no bytes by jsonBytes" in read(of_type("bytes"), [b'{"v":"abc"}'])[1][0]
    assert read(of_type("bytes"), [b'{"v":"abc"}'], TEXT) == ([b"abc"], {})


def at_once(decoder: JsonDecoder, payloads: list[bytes], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a decoder makes of payloads by column; row by row nothing can be read."""
    monkeypatch.setattr(decoder, "_value", None)
    found: list[Any] = decoder.decode(pa.array(payloads, pa.binary())).field("v").to_pylist()
    return found


def test_marks_and_line_breaks_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SCHEMA-12
    definition = of_type("long")
    decoder = JsonDecoder(definition, definition, pa.struct([("v", pa.int64())]))
    payloads = [MARK + b'{"v":1}\n', b'{"v":2}', MARK + b'{"v":3}', b'{"v":4}\r\n']
    for first in range(4):
        assert at_once(decoder, payloads[first:], monkeypatch) == [1, 2, 3, 4][first:]


@pytest.mark.parametrize("payload", [b"\xef\xbb{}", MARK, b"\xef{}", b"\n\n\n\n", b"{", MARK + b"}", b" }"])
def test_what_is_no_value_is_an_error(payload: bytes) -> None:
    # covers SCHEMA-13
    assert sorted(read(of_type("long"), [b'{"v":1}', payload])[1]) == [1]


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        (INSTANT, ["1969-12-31T23:59:59.999999Z", "2023-11-14T22:13:20Z"], [-1, 1_700_000_000_000_000]),
        (
            {"type": "array", "items": {"type": "long", "logicalType": "local-timestamp-millis"}},
            [["1970-01-01T00:00:00.000001"], []],
            [[1], []],
        ),
        ({"type": "int", "logicalType": "time-millis"}, ["00:00:00.000001", "23:59:59"], [1, 86_399_000_000]),
    ],
)
def test_texts_of_times_are_read_at_once(
    kind: Any, texts: list[Any], values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers SCHEMA-12
    definition = of_type(kind)
    decoder = JsonDecoder(definition, definition, pa.struct(list(value_columns(definition))))
    payloads = [b'{"v":%s}' % json.dumps(text).encode() for text in texts] + [b'{"v":null}', b"{}"]
    row_by_row = pa.concat_arrays([decoder._one_by_one(pa.array([each])).field("v") for each in payloads])
    monkeypatch.setattr(decoder, "_value", None)
    for _ in range(2):  # the second time the texts are tried first
        by_column = decoder.decode(pa.array(payloads, pa.binary())).field("v")
        assert by_column.to_pylist() == row_by_row.to_pylist()
    plain = pa.list_(pa.int64()) if isinstance(texts[0], list) else pa.int64()
    micros = pa.list_(pa.timestamp("us")) if isinstance(texts[0], list) else None
    if micros is None and pa.types.is_time(by_column.type):
        by_column = by_column.cast(pa.time64("us"))
    assert by_column.cast(plain).to_pylist() == [*values, None, None]


def test_times_of_other_forms_are_read_row_by_row_and_local_ones_stay_apart() -> None:
    # covers SCHEMA-12, SCHEMA-13
    payloads = [b'{"v":"%s"}' % each for each in (b"2023-11-14T22:13:20.123456789Z", b"2023-11-14T22:13:20", b"x")]
    found, errors = read(of_type(INSTANT), payloads)
    assert str(found[0]) == "2023-11-14 22:13:20.123456+00:00"
    assert sorted(errors) == [1, 2]


# ---- written, and read again


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


MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@given(st.lists(st.none() | MICROS | st.dates().map(lambda day: (day - date(1970, 1, 1)).days * 86_400_000_000)))
def test_any_moment_of_the_calendar_is_the_text_that_python_has(numbers: list[int | None]) -> None:
    # covers SCHEMA-16
    for logical, zone, end in (("timestamp-micros", "UTC", "Z"), ("local-timestamp-micros", None, "")):
        rows = pa.StructArray.from_arrays([pa.array(numbers, pa.timestamp("us", zone))], names=["v"])
        kind = ["null", {"type": "long", "logicalType": logical}]
        only = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind}]}
        found = binary_array(encode_json(rows, only, JsonForm())).to_pylist()
        for number, text in zip(numbers, found, strict=True):
            at = None if number is None else datetime(1970, 1, 1) + timedelta(microseconds=number)
            expected = {} if at is None else {"v": at.isoformat(timespec="microseconds") + end}
            assert json.loads(text) == expected


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
