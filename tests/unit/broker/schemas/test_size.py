"""Size of schemas: at the limit one is taken, past it it is refused before it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_pulsar.broker.schemas import definitions
from spark_pulsar.broker.topics.name_limits import MAX_PROPERTIES_LENGTH
from spark_pulsar.model.errors import ServerError
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, Schema
from tests.unit.admin.test_app import call
from tests.unit.broker.schemas.test_registry import REST, consume, produce
from tests.unit.broker.world import TOPIC, World

LIMIT = 2_000


def definition(size: int) -> bytes:
    empty = json.dumps({"type": "record", "name": "A", "doc": "", "fields": []})
    return empty.replace('"doc": ""', f'"doc": "{"d" * (size - len(empty))}"').encode()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the definitions that are read."""
    sizes: list[int] = []
    check = definitions.check

    def spy(schema: Any) -> None:
        sizes.append(len(schema.data))
        check(schema)

    monkeypatch.setattr(definitions, "check", spy)
    return sizes


@pytest.mark.parametrize("kind", [Schema.Avro, Schema.Json, Schema.Protobuf])
def test_a_schema_at_the_limit_and_past_it(kind: Any, read: list[int]) -> None:
    # covers SC-2: hostile input
    client = World(max_schema_bytes=LIMIT).connect()
    assert produce(client, definition(LIMIT + 1), kind).error == ServerError.IncompatibleSchema
    assert consume(client, definition(LIMIT + 1), kind).error == ServerError.IncompatibleSchema
    assert read == []
    assert not client.closed
    assert produce(client, definition(LIMIT), kind) == 0
    assert consume(client, definition(LIMIT), kind) is None


def test_what_has_no_definition_is_not_kept_at_any_size() -> None:
    # covers SC-2: the bytes of this one are not read
    client = World(max_schema_bytes=LIMIT).connect()
    kind = getattr(Schema, "None")
    assert produce(client, b"x" * (LIMIT + 1), kind).error == ServerError.IncompatibleSchema


def test_properties_count() -> None:
    # covers SC-2
    client = World(max_schema_bytes=LIMIT).connect()
    command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA)
    content = command.getOrCreateSchema
    content.request_id, content.topic = 7, TOPIC
    client.open_producer()
    content.schema.CopyFrom(Schema(name="n", schema_data=definition(LIMIT - 1), type=Schema.Avro))
    content.schema.properties.add(key="k", value="v")
    client.send(command)
    answer = client.expect(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
    assert answer.error_code == ServerError.IncompatibleSchema
    text = f"Schema has {LIMIT + 1} bytes, more than {LIMIT}: make it smaller, or raise schemaMaxSizeBytes"
    assert answer.error_message == text


@pytest.mark.parametrize("path", ["/schema", "/compatibility"])
def test_properties_count_over_rest_as_over_the_binary_protocol(path: str) -> None:
    # covers SC-2, SC-12: one bound, whoever brings the schema
    world = World()
    limit = world.core.config.max_schema_bytes
    text = definition(100).decode()
    for size, taken in ((MAX_PROPERTIES_LENGTH + 1, True), (limit - 100, True), (limit - 99, False)):
        body = json.dumps({"type": "AVRO", "schema": text, "properties": {"k": "v" * (size - 1)}}).encode()
        status, _, answer = call(world, "POST", REST + path, body)
        assert (status in (200, 202)) is taken
        if not taken:
            assert (status, answer["reason"][:43]) == (413, f"Schema has {limit + 1} bytes, more than {limit}"[:43])


def test_properties_are_measured_in_bytes() -> None:
    # covers SC-2
    schema = definitions.Schema(definitions.SchemaType.STRING, b"", {"k": "\N{GRINNING FACE}" * 10})
    definitions.check_size(schema, 41)
    with pytest.raises(definitions.SchemaTooLarge, match="Schema has 41 bytes, more than 40"):
        definitions.check_size(schema, 40)


@pytest.mark.parametrize("path", ["/schema", "/compatibility"])
def test_over_rest(path: str) -> None:
    # covers SC-2, SC-12
    world = World(max_schema_bytes=LIMIT)
    world.connect().open_producer()
    body = {"type": "AVRO", "schema": definition(LIMIT + 1).decode(), "properties": {}}
    status, _, answer = call(world, "POST", REST + path, json.dumps(body).encode())
    assert status == 413
    assert "raise schemaMaxSizeBytes" in answer["reason"]
    body["schema"] = definition(LIMIT).decode()
    assert call(world, "POST", REST + path, json.dumps(body).encode())[0] in (200, 202)
