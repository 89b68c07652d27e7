"""Bound of a topic's versions, by number and by bytes: at the limit one is taken, past it it is refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from spark_pulsar.model.errors import ServerError
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, Schema
from tests.unit.admin.test_app import call
from tests.unit.broker.schemas.test_registry import REST, consume, produce
from tests.unit.broker.schemas.test_size import definition
from tests.unit.broker.world import TOPIC, Client, World

SIZE = 1_000


def numbered(number: int, size: int = SIZE) -> bytes:
    """A definition of that size that no other number has."""
    return definition(size).replace(b'"A"', f'"{chr(65 + number)}"'.encode())


def bounded(**config: Any) -> Client:
    """A client of a broker where any schema may follow."""
    return World(schema_compatibility="ALWAYS_COMPATIBLE", **config).connect()


_producer_ids = itertools.count(1)


def add(client: Client, data: bytes) -> Any:
    """The version that a new producer's schema has, or its refusal."""
    return produce(client, data, Schema.Avro, next(_producer_ids))


def upload(world: World, data: bytes) -> tuple[int, Any]:
    body = {"type": "AVRO", "schema": data.decode(), "properties": {}}
    status, _, answer = call(world, "POST", f"{REST}/schema", json.dumps(body).encode())
    return status, answer


@pytest.mark.parametrize(
    ("limit", "held"),
    [
        ({"max_schema_versions": 3}, "3 versions of its schema, the most that schemaMaxVersionsPerTopic allows"),
        ({"max_schema_total_bytes": 3 * SIZE}, "more than schemaMaxTotalSizeBytes allows: 3000"),
    ],
)
def test_versions_at_the_limit_and_past_it(limit: dict[str, int], held: str) -> None:
    # covers SC-11: hostile input
    client = bounded(**limit)
    for number in range(3):
        assert add(client, numbered(number)) == number
    refused = add(client, numbered(3))
    assert refused.error == ServerError.IncompatibleSchema
    assert held in refused.message
    assert "schemas delete" in refused.message
    assert not client.closed
    assert add(client, numbered(1)) == 1, "what is there may be used"
    assert consume(client, numbered(1), Schema.Avro) is None
    status, answer = upload(client.world, numbered(3))
    assert (status, held in answer["reason"]) == (412, True)
    status, answer = upload(client.world, numbered(2))
    assert (status, answer["version"]["version"]) == (200, 2)


def test_get_or_create_past_the_limit() -> None:
    # covers SC-11
    client = bounded(max_schema_versions=1)
    assert add(client, numbered(0)) == 0
    command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA)
    content = command.getOrCreateSchema
    content.request_id, content.topic = 7, TOPIC
    content.schema.CopyFrom(Schema(name="n", schema_data=numbered(1), type=Schema.Avro))
    client.send(command)
    answer = client.expect(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
    assert answer.error_code == ServerError.IncompatibleSchema
    assert "schemaMaxVersionsPerTopic" in answer.error_message


def test_one_byte_past_the_limit_of_bytes() -> None:
    # covers SC-11
    client = bounded(max_schema_total_bytes=2 * SIZE)
    assert add(client, numbered(0)) == 0
    assert add(client, numbered(1, SIZE + 1)).error == ServerError.IncompatibleSchema
    assert add(client, numbered(1, SIZE)) == 1


def test_deleting_the_schemas_makes_room() -> None:
    # covers SC-11, SC-10
    client = bounded(max_schema_versions=1)
    assert add(client, numbered(0)) == 0
    assert call(client.world, "DELETE", f"{REST}/schema")[0] == 200
    assert add(client, numbered(1)) == 2
    assert add(client, numbered(2)).error == ServerError.IncompatibleSchema


@pytest.mark.parametrize("key", ["max_schema_versions", "max_schema_total_bytes"])
def test_zero_is_no_limit(key: str) -> None:
    # covers SC-11
    client = bounded(**{key: 0})
    assert [add(client, numbered(number)) for number in range(20)] == list(range(20))


def test_compatibility_is_asked_without_the_limit() -> None:
    # covers SC-11
    client = bounded(max_schema_versions=1)
    assert add(client, numbered(0)) == 0
    body = json.dumps({"type": "AVRO", "schema": numbered(1).decode(), "properties": {}}).encode()
    assert call(client.world, "POST", f"{REST}/compatibility", body)[2]["compatibility"] is True


def test_all_versions_are_listed_one_at_a_time() -> None:
    # covers SC-11
    client = bounded()
    assert call(client.world, "GET", f"{REST}/schemas")[2] == {"getSchemaResponses": []}
    for number in range(4):
        add(client, numbered(number, 200_000))
    status, _, answer = call(client.world, "GET", f"{REST}/schemas")
    assert status == 200
    assert [each["version"] for each in answer["getSchemaResponses"]] == [0, 1, 2, 3]
    assert [each["data"].encode() for each in answer["getSchemaResponses"]] == [numbered(n, 200_000) for n in range(4)]
