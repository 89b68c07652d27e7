"""Dates, times and decimals whose logical type changed between versions: converted, or refused by name."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType
from tests.cases import cases

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000)
UTC = AT.replace(tzinfo=datetime.UTC)
MILLIS = 1_767_323_045_678
OF_DAY = datetime.time(3, 4, 5, 678_000)
OF_DAY_MS = 11_045_678
KINDS = [SchemaType.AVRO, SchemaType.JSON]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimals(precision: int, scale: int) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale)


def optional(kind: Any) -> Any:
    return ["null", kind]


def items(kind: Any) -> Any:
    return {"type": "array", "items": kind}


def values(kind: Any) -> Any:
    return {"type": "map", "values": kind}


def nested(kind: Any) -> Any:
    return {"type": "record", "name": "N", "fields": [{"name": "x", "type": kind}]}


def definition(kind: SchemaType, version: int, field: Any, **more: Any) -> Definition:
    fields = [{"name": "a", "type": "int"}, {"name": "f", "type": field, **more}]
    data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    return Definition(Schema(kind, data), "R", version.to_bytes(8, "big"))


def payload(writer: Definition, value: Any) -> bytes:
    """Numbers as they are: without the library's own conversion of logical types."""
    if writer.type is SchemaType.JSON:
        return json.dumps({"a": 1, "f": value}).encode()
    bare = json.loads(
        writer.schema.data, object_hook=lambda each: {k: v for k, v in each.items() if k != "logicalType"}
    )
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(bare), {"a": 1, "f": value})
    return out.getvalue()


def read(kind: SchemaType, written: Any, reader: Any, *given: Any, **more: Any) -> tuple[list[Any], dict[int, str]]:
    """Values of the field f, and errors by row."""
    old, new = definition(kind, 0, written), definition(kind, 1, reader, **more)
    decoder = MessageDecoder(new, value_columns(new), [old, new].__getitem__)
    payloads = pa.array([payload(old, value) for value in given], pa.binary())
    out = decoder.decode(payloads, None, pa.array([0] * len(given)))
    return out.columns["f"].to_pylist(), out.errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("type_", "given"), [("null", None), (["null"], None), (items("null"), [None]), (nested("null"), {"x": None})]
)
def test_nulls_alone_are_read_as_they_are(kind: SchemaType, type_: Any, given: Any) -> None:
    assert read(kind, type_, type_, given) == ([given], {})


STAMPS = [("timestamp", UTC), ("local-timestamp", AT)]


@cases("kind", KINDS)
@cases("name, value", STAMPS)
@cases("reader", ["millis", "micros", "nanos"])
@cases("unit, number", [("millis", MILLIS), ("micros", MILLIS * 1_000), ("nanos", MILLIS * 10**6)])
def test_timestamps_of_another_unit(
    kind: SchemaType, name: str, value: datetime.datetime, reader: str, unit: str, number: int
) -> None:
    found, errors = read(kind, logical("long", f"{name}-{unit}"), logical("long", f"{name}-{reader}"), number)
    assert found == [value]
    assert errors == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [optional, items, values, nested])
def test_inside_of_unions_arrays_maps_and_records(kind: SchemaType, shape: Any) -> None:
    old, new = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    given = {optional: MILLIS, items: [MILLIS], values: {"k": MILLIS}, nested: {"x": MILLIS}}[shape]
    expected = {optional: UTC, items: [UTC], values: [("k", UTC)], nested: {"x": UTC}}[shape]
    assert read(kind, shape(old), shape(new), given) == ([expected], {})


@pytest.mark.parametrize("kind", KINDS)
def test_times_of_another_unit(kind: SchemaType) -> None:
    millis, micros = logical("int", "time-millis"), logical("long", "time-micros")
    assert read(kind, millis, micros, OF_DAY_MS) == ([OF_DAY], {})
    found, errors = read(kind, micros, millis, OF_DAY_MS * 1_000)
    if kind is SchemaType.JSON:
        assert found == [OF_DAY]
    else:  # Avro has no way from long to int
        assert found == [None]
        assert "field f was written as time-micros (long), it cannot be read as time-millis" in errors[0]
        assert "schema version 0" in errors[0]


def test_texts_of_json_have_no_unit() -> None:
    old, new = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
    assert read(SchemaType.JSON, old, new, "2026-01-02T03:04:05.678Z", MILLIS) == ([UTC, UTC], {})


def unscaled(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def test_decimals_of_another_scale() -> None:
    found, errors = read(SchemaType.AVRO, decimals(9, 2), decimals(9, 4), unscaled(1234), unscaled(-5))
    assert (found, errors) == ([Decimal("12.3400"), Decimal("-0.0500")], {})
    found, errors = read(SchemaType.AVRO, decimals(9, 4), decimals(9, 2), unscaled(123400), unscaled(123401))
    assert found == [Decimal("12.34"), None]
    assert "a decimal is out of range" in errors[1]
    found, errors = read(SchemaType.AVRO, decimals(9, 0), decimals(9, 4), unscaled(99_999), unscaled(100_000))
    assert found == [Decimal("99999.0000"), None]
    assert "a decimal is out of range" in errors[1]


def test_decimals_of_json_have_their_own_scale() -> None:
    for old, new in ((decimals(9, 2), decimals(9, 4)), (decimals(9, 4), decimals(9, 2))):
        assert read(SchemaType.JSON, old, new, 12.34, "5.1", 7) == ([Decimal("12.34"), Decimal("5.1"), Decimal(7)], {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (logical("long", "timestamp-millis"), logical("long", "local-timestamp-millis"), "timestamp-millis (long)"),
        (logical("int", "date"), logical("int", "time-millis"), "date (int)"),
        (logical("int", "date"), logical("long", "timestamp-millis"), "date (int)"),
        (logical("long", "time-micros"), logical("long", "timestamp-micros"), "time-micros (long)"),
    ],
)
def test_what_means_something_else_is_refused_by_name(kind: SchemaType, old: Any, new: Any, told: str) -> None:
    for shape in (lambda each: each, optional):
        found, errors = read(kind, shape(old), shape(new), 7, 8)
        assert found == [None, None]
        assert f"field f was written as {told}, it cannot be read as {new['logicalType']}" in errors[0]
        assert list(errors) == [0, 1]


def test_a_field_that_is_not_read_refuses_nothing() -> None:
    old, new = (definition(SchemaType.AVRO, i, logical("int", name)) for i, name in enumerate(("date", "time-millis")))
    decoder = MessageDecoder(new, pa.schema([pa.field("a", pa.int32())]), [old, new].__getitem__)
    out = decoder.decode(pa.array([payload(old, 7)], pa.binary()), None, pa.array([0]))
    assert (out.columns["a"].to_pylist(), out.errors) == ([1], {})


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_without_logical_type_is_read_by_that_of_the_reader(kind: SchemaType) -> None:
    assert read(kind, "long", logical("long", "timestamp-millis"), MILLIS) == ([UTC], {})
    assert read(kind, logical("long", "timestamp-millis"), "long", MILLIS) == ([MILLIS], {})


def test_branches_of_a_union_have_their_own_types() -> None:
    old = ["string", logical("long", "timestamp-millis"), logical("int", "date")]
    new = ["null", "string", logical("int", "date"), logical("long", "timestamp-micros")]
    # both numbers are ints to Python: a union of them cannot be told apart, one of each with text can
    found, errors = read(SchemaType.AVRO, old[:2], [new[3], new[1]], MILLIS, "x")
    assert found == [{"member0": UTC, "member1": None}, {"member0": None, "member1": "x"}]
    assert errors == {}
    found, errors = read(SchemaType.AVRO, old[1:], ["null", new[3]], MILLIS)
    assert "field f was written as date (int), it cannot be read as timestamp-micros" in errors[0]
    both = [logical("long", "time-micros"), logical("int", "time-millis")]
    found, errors = read(SchemaType.AVRO, both, ["null", both[0]], 1)
    assert "field f was written as time-micros (long) and time-millis (int)" in errors[0]


def test_fields_are_found_by_alias_and_defaults_are_those_of_the_reader() -> None:
    old = definition(SchemaType.AVRO, 0, logical("long", "timestamp-millis"))
    micros = logical("long", "timestamp-micros")
    fields = [{"name": "g", "aliases": ["f"], "type": micros}, {"name": "h", "type": micros, "default": MILLIS * 1_000}]
    data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    new = Definition(Schema(SchemaType.AVRO, data), "R", (1).to_bytes(8, "big"))
    decoder = MessageDecoder(new, value_columns(new), [old, new].__getitem__)
    out = decoder.decode(pa.array([payload(old, MILLIS)], pa.binary()), None, pa.array([0]))
    assert {name: column.to_pylist() for name, column in out.columns.items()} == {"g": [UTC], "h": [UTC]}


def test_a_json_schema_that_is_no_definition_of_avro_has_no_logical_types() -> None:
    new = definition(SchemaType.JSON, 1, logical("long", "timestamp-millis"))
    old = Definition(Schema(SchemaType.JSON, b'{"type":"object","id":"urn:jsonschema:R"}'))
    decoder = MessageDecoder(new, value_columns(new), [old, new].__getitem__)
    out = decoder.decode(pa.array([payload(new, MILLIS)], pa.binary()), None, pa.array([0]))
    assert (out.columns["f"].to_pylist(), out.errors) == ([UTC], {})


def test_decimals_of_json_are_exact_or_refused() -> None:
    kind = decimals(9, 2)
    texts = ["1.00", "1" + "0" * 90 + "e-90", "1." + "0" * 90 + "1", "1234567.89", "12345678.00", "0.001", "NaN", "1e7"]
    reader = definition(SchemaType.JSON, 0, kind)
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: None)
    payloads = [b'{"f":%s}' % (b'"NaN"' if text == "NaN" else text.encode()) for text in texts]
    out = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([-1] * len(texts)))
    one = Decimal("1.00")
    assert out.columns["f"].to_pylist() == [one, one, None, Decimal("1234567.89"), None, None, None, None]
    assert sorted(out.errors) == [2, 4, 5, 6, 7]
    assert "field f is" in out.errors[2]
