"""Avro: what its Java library reads of recorded payloads or refuses, and bounds of what a payload may declare."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.schemas.decoding.avro import column_plan
from spark_pulsar.connector.schemas.decoding.avro.bounds import MAX_EMPTY_ITEMS, EmptyItemsBound, has_empty_items
from spark_pulsar.connector.schemas.decoding.avro.column_plan import ColumnPlan
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model import avro
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from tests.clients.recorded_schemas import RECORDED

RESOLUTIONS: dict[str, Any] = json.loads(RECORDED.read_text())["resolutions"]
REFUSED = {
    "enum_without_default": "field a may be Z as written, which its enum has not",
    "fixed_of_another_size": "field a was written as fixed of 2 bytes, it cannot be read as fixed of 3 bytes",
    "missing_field": "field b was not written, and has no default",
    "missing_field_inside": "field a.y was not written, and has no default",
    "narrower": "field a was written as long, it cannot be read as int",
    "other_items": "field a[] was written as string, it cannot be read as int",
    "other_type": "field a was written as int, it cannot be read as string",
    "was_null": "field a was written as null, it cannot be read as int",
}


def definition(avro: Any, version: int = 0, kind: SchemaType = SchemaType.AVRO) -> Definition:
    data = json.dumps(avro, ensure_ascii=False).encode()
    return Definition(Schema(kind, data), "", version.to_bytes(8, "big"))


def read(reader: Definition, writer: Definition, *payloads: bytes) -> tuple[dict[str, Any], dict[int, str]]:
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: writer if version == 0 else reader)
    out = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([0] * len(payloads), pa.int64()))
    return {name: column.to_pylist() for name, column in out.columns.items()}, out.errors


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of a column as Java prints it: unions by their value, bytes as text."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        found = {each.name: plain(value[each.name], each.type) for each in kind}
        if set(found) <= {f"member{number}" for number in range(len(found))}:
            return next((each for each in found.values() if each is not None), None)
        return found
    if pa.types.is_map(kind):
        return {key: plain(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type) for each in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", RESOLUTIONS)
def test_what_java_resolves_is_read_and_what_it_refuses_is_named(name: str) -> None:
    # covers SCHEMA-5
    case = RESOLUTIONS[name]
    reader, writer = definition(case["reader"], 1), definition(case["writer"])
    columns, errors = read(reader, writer, bytes.fromhex(case["payload"]))
    assert ("error" in case) == (name in REFUSED)
    if name in REFUSED:
        assert REFUSED[name] in errors[0]
        assert "schema version 0" in errors[0]
        assert "read with version 1" in errors[0]
        return
    assert errors == {}
    kinds = {each.name: each.type for each in value_columns(reader)}
    assert {each: plain(column[0], kinds[each]) for each, column in columns.items()} == case["read"]


def test_names_of_keys_and_values_differ() -> None:
    # covers SCHEMA-5
    case = RESOLUTIONS["inner_names"]
    both = {"key.schema.type": "AVRO", "value.schema.type": "AVRO", "kv.encoding.type": "INLINE"}

    def pair(avro: Any) -> Definition:
        data = json.dumps(avro).encode()
        return Definition(Schema(SchemaType.KEY_VALUE, join_key_and_value(data, data), both), "", bytes(8))

    payload = bytes.fromhex(case["payload"])
    framed = 2 * (len(payload).to_bytes(4, "big") + payload)
    columns, errors = read(pair(case["reader"]), pair(case["writer"]), framed)
    assert errors == {}
    expected = {"a": {"x": 1}, "b": [{"x": 2}], "c": [("k", {"x": 3})]}
    assert columns == {"key": [expected], "value": [expected]}


def test_a_field_that_is_not_asked_for_contradicts_nothing() -> None:
    # covers SCHEMA-5
    case = RESOLUTIONS["missing_field"]
    reader, writer = definition(case["reader"], 1), definition(case["writer"])
    decoder = MessageDecoder(reader, pa.schema([pa.field("a", pa.int32())]), lambda version: writer)
    out = decoder.decode(pa.array([bytes.fromhex(case["payload"])], pa.binary()), None, pa.array([0], pa.int64()))
    assert (out.columns["a"].to_pylist(), out.errors) == ([1], {})


def test_a_branch_of_the_same_kind_comes_before_a_wider_one() -> None:
    # covers SCHEMA-5
    case = RESOLUTIONS["exact_before_promotion"]
    reader, writer = definition(case["reader"], 1), definition(case["writer"])
    columns, errors = read(reader, writer, bytes.fromhex(case["payload"]))
    assert (columns, errors) == ({"a": [{"member0": None, "member1": "x"}]}, {})


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("reader", [["bytes", "string"], ["string", "bytes"]])
@pytest.mark.parametrize("writer", ["string", "bytes", ["string", "bytes"]])
def test_strings_and_bytes_become_the_branch_of_their_kind(
    writer: Any, reader: list[str], is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers SCHEMA-5
    monkeypatch.setattr(column_plan, "COMPILED", is_compiled)
    kinds = [writer] if isinstance(writer, str) else writer

    def record(kind: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}

    for place, kind in enumerate(kinds):
        payload = (bytes([2 * place]) if len(kinds) > 1 else b"") + b"\2x"
        columns, errors = read(definition(record(reader), 1), definition(record(writer)), payload)
        value = "x" if kind == "string" else b"x"
        expected = {f"member{i}": value if branch == kind else None for i, branch in enumerate(reader)}
        assert (columns, errors) == ({"a": [expected]}, {})


# ---- arrays whose items take no bytes


EMPTY: dict[str, Any] = {"type": "record", "name": "E", "fields": []}
NULLS: dict[str, Any] = {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}
NONE: dict[str, Any] = {"type": "fixed", "name": "F", "size": 0}


def varint(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def array_of(kind: Any, *before: dict[str, Any], version: int = 0) -> Definition:
    fields = [*before, {"name": "a", "type": {"type": "array", "items": kind}}, {"name": "z", "type": "int"}]
    data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    return Definition(Schema(SchemaType.AVRO, data), "R", version.to_bytes(8, "big"))


def lengths(reader: Definition, *payloads: bytes) -> tuple[list[int | None], dict[int, str]]:
    decoder = MessageDecoder(reader, value_columns(reader), lambda version: None)
    out = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([-1] * len(payloads)))
    return [None if each is None else len(each) for each in out.columns["a"].to_pylist()], out.errors


@pytest.mark.parametrize("kind", ["null", EMPTY, NULLS, NONE])
def test_items_without_bytes_are_bounded(kind: Any) -> None:
    good, many = (varint(count) + b"\0\x02" for count in (MAX_EMPTY_ITEMS, MAX_EMPTY_ITEMS + 1))
    billions = varint(2**40) + b"\0\x02"
    of_blocks = (varint(MAX_EMPTY_ITEMS) + varint(-1) + b"\0") + b"\0\x02"
    found, errors = lengths(array_of(kind), good, many, b"\0\x02", billions, of_blocks)
    assert found == [MAX_EMPTY_ITEMS, None, 0, None, None]
    assert sorted(errors) == [1, 3, 4]
    assert "items that take no bytes" in errors[3]


def test_arrays_of_arrays_are_bounded_together() -> None:
    inner = varint(MAX_EMPTY_ITEMS // 2) + b"\0"
    found, errors = lengths(
        array_of({"type": "array", "items": "null"}),
        varint(2) + inner * 2 + b"\0\x02",
        varint(3) + inner * 3 + b"\0\x02",
    )
    assert found == [2, None]
    assert list(errors) == [1]


def test_a_field_that_is_skipped_is_bounded() -> None:
    older, newer = array_of("null"), array_of("int", version=1)
    fields = pa.schema([pa.field("z", pa.int32())])
    decoder = MessageDecoder(newer, fields, [older, newer].__getitem__)
    payloads = [varint(3) + b"\0\x0e", varint(2**40) + b"\0\x0e"]
    out = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([0, 0]))
    assert out.columns["z"].to_pylist() == [7, None]
    assert "items that take no bytes" in out.errors[1]


def test_an_array_that_the_library_skips_ends_with_its_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ColumnPlan, "of", lambda *_: None)
    older, newer = array_of("boolean"), array_of("int", version=1)
    fields = pa.schema([pa.field("z", pa.int32())])
    decoder = MessageDecoder(newer, fields, [older, newer].__getitem__)
    payloads = [varint(3) + b"\0\1\0\0\x0e", varint(2**40) + b"\0\x02"]
    out = decoder.decode(pa.array(payloads, pa.binary()), None, pa.array([0, 0]))
    assert out.columns["z"].to_pylist() == [7, None]
    assert "ends early" in out.errors[1]


def doubled(levels: int) -> dict[str, Any]:
    """A record of 2 to the power of so many records without bytes."""
    found = EMPTY
    for level in range(levels):
        fields = [{"name": "x", "type": found}, {"name": "y", "type": found["name"]}]
        found = {"type": "record", "name": f"L{level}", "fields": fields}
    return found


@pytest.mark.parametrize(("levels", "value"), [(3, 7), (60, None)])
def test_an_older_version_may_not_have_billions_of_fields(levels: int, value: int | None) -> None:
    fields = [{"name": "d", "type": doubled(levels)}, {"name": "z", "type": "int"}]
    data = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    older = Definition(Schema(SchemaType.AVRO, data), "R", bytes(8))
    newer = array_of("int", version=1)
    decoder = MessageDecoder(newer, pa.schema([pa.field("z", pa.int32())]), [older, newer].__getitem__)
    out = decoder.decode(pa.array([b"\x0e"], pa.binary()), None, pa.array([0]))
    assert out.columns["z"].to_pylist() == [value]
    assert value is not None or "more than 10000 values in each payload" in out.errors[0]


def test_definitions_that_refer_to_the_same_type_many_times_are_judged_at_once() -> None:
    assert has_empty_items(avro.parse(json.dumps({"type": "array", "items": doubled(60)}).encode()))
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    assert not has_empty_items(avro.parse(json.dumps({"type": "array", "items": node}).encode()))


ALL: list[dict[str, Any]] = [
    {"name": "t", "type": "boolean"},
    {"name": "i", "type": "int"},
    {"name": "l", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "d", "type": "double"},
    {"name": "b", "type": "bytes"},
    {"name": "s", "type": "string"},
    {"name": "x", "type": {"type": "fixed", "name": "F", "size": 3}},
    {"name": "e", "type": {"type": "enum", "name": "K", "symbols": ["P", "Q"]}},
    {"name": "u", "type": ["null", "long", "string"]},
    {"name": "m", "type": {"type": "map", "values": ["null", "R"]}},
    {"name": "a", "type": {"type": "array", "items": "null"}},
]


@given(st.binary(max_size=30), st.integers(0, 40), st.integers(0, MAX_EMPTY_ITEMS))
def test_the_walk_ends_where_the_library_does(octets: bytes, cut: int, count: int) -> None:
    data = json.dumps({"type": "record", "name": "R", "fields": ALL}).encode()
    schema = fastavro.parse_schema(json.loads(data))
    row: dict[str, Any] = {"t": True, "i": -5, "l": 2**60, "f": 1.5, "d": 2.5, "b": octets, "s": octets.hex()}
    row |= {"x": b"123", "e": "Q", "u": "text", "m": {"k": None}, "a": [None] * count}
    row["m"] = {"k": None, "deeper": dict(row)}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    payload = out.getvalue()
    bound = EmptyItemsBound(avro.parse(data))
    if count * 2 > MAX_EMPTY_ITEMS:
        with pytest.raises(UndecodablePayload, match="items that take no bytes"):
            bound.check(payload)
        return
    bound.check(payload)
    with pytest.raises(UndecodablePayload, match="ends early"):
        bound.check(payload[: len(payload) - 1 - cut])
