"""Definitions of schemas: Avro types within bounds, and the two parts of KEY_VALUE."""

from __future__ import annotations

import json

import pytest

from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import MAX_DEFINITION_BYTES, Definition, KeyValueEncoding
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

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
