"""Records of other names, and evolution: what Avro's Java library reads of recorded payloads, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.columns import value_columns
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
