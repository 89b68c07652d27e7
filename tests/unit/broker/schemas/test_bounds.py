"""Bounds of schemas, of their size and of the versions of a topic: at the limit one is taken, past it it is refused."""

import itertools
import json
from typing import Any

import pytest

from spark_pulsar.broker.schemas import definitions
from spark_pulsar.broker.topics.name_limits import MAX_PROPERTIES_LENGTH
from spark_pulsar.model.errors import ServerError
from spark_pulsar.wire.pulsar_api_pb2 import Schema
from tests.unit.admin.test_app import call
from tests.unit.broker.schemas.test_registry import REST, consume, get_or_create, post, produce
from tests.unit.broker.world import Client, World

SIZE = 1_000
LIMIT = 2_000


def definition(size: int) -> bytes:
    empty = json.dumps({"type": "record", "name": "A", "doc": "", "fields": []})
    return empty.replace('"doc": ""', f'"doc": "{"d" * (size - len(empty))}"').encode()


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
    status, answer = post(client.world, numbered(3))
    assert (status, held in answer["reason"]) == (412, True)
    status, answer = post(client.world, numbered(2))
    assert (status, answer["version"]["version"]) == (200, 2)


def test_get_or_create_past_the_limit() -> None:
    # covers SC-11
    client = bounded(max_schema_versions=1)
    assert add(client, numbered(0)) == 0
    answer = get_or_create(client, numbered(1))
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
    assert post(client.world, numbered(1), where="compatibility")[1]["compatibility"] is True


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
    client = World(max_schema_bytes=LIMIT).connect_producer()
    answer = get_or_create(client, definition(LIMIT - 1), k="v")
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


@pytest.mark.parametrize("where", ["schema", "compatibility"])
def test_over_rest(where: str) -> None:
    # covers SC-2, SC-12
    world = World(max_schema_bytes=LIMIT)
    world.connect_producer()
    status, answer = post(world, definition(LIMIT + 1), where=where)
    assert status == 413
    assert "raise schemaMaxSizeBytes" in answer["reason"]
    assert post(world, definition(LIMIT), where=where)[0] in (200, 202)
