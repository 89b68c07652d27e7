"""The registry as producers, consumers and the admin API meet it, also while nothing can be written."""

import json
from typing import Any

import pytest

from spark_pulsar.broker.entities import registry as registry_rules
from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import DiskFull
from spark_pulsar.model.errors import ServerError
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import command_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandGetOrCreateSchema, ProducerAccessMode, Schema
from tests.unit.admin.test_app import call
from tests.unit.broker.schemas.records import B_REQUIRED, B_WITH_DEFAULT, A, record
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

NAME = TopicName.parse(TOPIC)
REST = "/admin/v2/schemas/public/default/t"
AVRO, STRING = Schema.Avro, Schema.String


def produce(client: Client, data: bytes | None, kind: Any = AVRO, producer_id: int = 1, topic: str = TOPIC) -> Any:
    """The version of a producer's schema, or its error."""
    command = requests.producer(client.request_id(), topic, producer_id)
    if data is not None:
        command.producer.schema.CopyFrom(Schema(name="n", schema_data=data, type=kind))
    client.send(command)
    answer = client.take()
    return answer.error if answer.type == BaseCommand.ERROR else version(answer.producer_success.schema_version)


def consume(client: Client, data: bytes, kind: Any = AVRO, consumer_id: int = 1) -> Any:
    """None for a consumer that may come, else its error."""
    command = requests.subscribe(client.request_id(), TOPIC, f"s-{consumer_id}", consumer_id)
    command.subscribe.schema.CopyFrom(Schema(name="n", schema_data=data, type=kind))
    client.send(command)
    answer = client.take()
    return answer.error if answer.type == BaseCommand.ERROR else None


def get(client: Client, data: bytes | None = None, topic: str = TOPIC) -> Any:
    return client.request(requests.get_schema(client.request_id(), topic, data), BaseCommand.GET_SCHEMA_RESPONSE)


def get_or_create(client: Client, data: bytes, kind: Any = AVRO, **properties: str) -> Any:
    schema = Schema(name="n", schema_data=data, type=kind)
    for key, value in properties.items():
        schema.properties.add(key=key, value=value)
    command = CommandGetOrCreateSchema(request_id=client.request_id(), topic=TOPIC, schema=schema)
    return client.request(command_of(command), BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)


def version(data: bytes) -> int | None:
    return int.from_bytes(data, "big") if data else None


def post(world: World, data: bytes, kind: str = "AVRO", where: str = "schema") -> tuple[int, Any]:
    body = json.dumps({"type": kind, "schema": data.decode(), "properties": None}).encode()
    status, _, answer = call(world, "POST", f"{REST}/{where}", body)
    return status, answer


@pytest.fixture
def client(world: World) -> Client:
    return world.connect()


def test_a_producer_that_asks_again_is_told_its_version(client: Client) -> None:
    produce(client, record(A))
    assert produce(client, record(A, B_WITH_DEFAULT)) == 0  # answered from the old one (A17)
    client.send(requests.close_producer(client.request_id(), 1))
    client.take()
    assert produce(client, None) is None


def test_a_refused_schema_leaves_nothing_behind(world: World, client: Client) -> None:
    # covers SC-3, SC-4
    produce(client, record(A))
    error = produce(client, record(A, B_REQUIRED), producer_id=2)
    assert error.error == ServerError.IncompatibleSchema
    assert error.message.startswith("Error during schema compatibility check with strategy FULL: ")
    assert produce(client, b"", STRING, producer_id=2).message == (
        "Incompatible schema: exists schema type AVRO, new schema type STRING"
    )
    assert len(world.core.topics[TOPIC].producers) == 1
    assert len(registry.versions_of(world.core, NAME)) == 1


def test_a_version_is_told_when_it_is_on_disk(world: World, client: Client) -> None:
    # covers SC-1
    post(world, record(A))
    registry_rules.find(world.core, NAME)
    world.ask(lambda core: lifecycle.create(core, NAME))
    world.disk_is_slow = True
    schema = Schema(name="n", schema_data=record(A, B_WITH_DEFAULT), type=AVRO)
    command = command_of(CommandGetOrCreateSchema(request_id=1, topic=TOPIC, schema=schema))
    client.send(command, requests.get_schema(2, TOPIC))
    assert not client.effects
    world.sync()
    assert version(client.expect(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE).schema_version) == 1
    assert version(client.expect(BaseCommand.GET_SCHEMA_RESPONSE).schema_version) == 1


def test_names_in_answers_are_encoded(client: Client) -> None:
    # covers SC-9
    topic = "persistent://public/default/a ü:~*.y"
    produce(client, record(A), topic=topic)
    assert get(client, topic=topic).schema.name == "public/default/a+%C3%BC%3A%7E*.y"


def test_questions_about_versions(client: Client) -> None:
    # covers SC-9
    missing = get(client)
    assert missing.error_code == ServerError.TopicNotFound
    assert missing.error_message == f"Topic not found or no-schema {TOPIC}"
    produce(client, record(A))
    assert get(client, bytes(8)).schema.schema_data == record(A)
    assert get(client, (9).to_bytes(8, "big")).error_code == ServerError.TopicNotFound
    empty, short = get(client, b""), get(client, b"\0")
    assert (empty.error_code, empty.error_message) == (ServerError.IncompatibleSchema, "Empty schema version")
    assert short.error_code == ServerError.IncompatibleSchema
    assert get(client, topic="foo://a/b/c").error_code == ServerError.InvalidTopicName


def test_get_or_create(client: Client) -> None:
    # covers SC-9
    missing = get_or_create(client, record(A))
    assert (missing.error_code, missing.error_message) == (ServerError.TopicNotFound, f"Topic not found {TOPIC}")
    produce(client, None)
    assert version(get_or_create(client, record(A)).schema_version) == 0
    assert version(get_or_create(client, record(A, B_WITH_DEFAULT)).schema_version) == 1
    assert get_or_create(client, record(A, B_REQUIRED)).error_code == ServerError.IncompatibleSchema
    assert get_or_create(client, b"", Schema.AutoConsume).error_code == ServerError.IncompatibleSchema
    nothing = get_or_create(client, b"", getattr(Schema, "None"))
    assert (nothing.HasField("error_code"), nothing.schema_version) == (False, b"")


def test_a_deleted_topic_and_a_deleted_namespace_take_their_schemas_along(world: World, client: Client) -> None:
    # covers SC-10
    produce(client, record(A))
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert not world.core.state.schemas
    assert call(world, "PUT", "/admin/v2/namespaces/public/n")[0] == 204
    body = json.dumps({"type": "STRING", "schema": ""}).encode()
    assert call(world, "POST", "/admin/v2/schemas/public/n/t/schema", body)[0] == 200
    assert call(world, "DELETE", "/admin/v2/namespaces/public/n")[0] == 204
    assert not world.core.state.schemas


def test_both_domains_have_the_same_schemas(world: World, client: Client) -> None:
    # covers SC-1, SC-10
    passing = TOPIC.replace("persistent", "non-persistent")
    assert produce(client, record(A)) == 0
    assert produce(client, record(A), producer_id=2, topic=passing) == 0
    assert get(client, topic=passing).schema.name == "public/default/t"
    world.ask(lambda core: lifecycle.delete(core, core.topics[passing]))
    client.take_all()
    assert get(client).schema.schema_data == record(A)
    assert produce(client, record(A), producer_id=2, topic=passing) == 0
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    client.take_all()
    assert get(client).schema.schema_data == record(A)
    world.ask(lambda core: lifecycle.delete(core, core.topics[passing]))
    assert not world.core.state.schemas


# ---- consumers --------------------------------------------------------------------------------------------------


def test_a_topic_of_bytes_gets_no_schema_from_a_consumer(world: World) -> None:
    # covers SC-8
    refused = "Failed to add schema to an active topic with empty(BYTES) schema: new schema type AVRO"
    feeder, eater = world.connect(), world.connect()
    produce(feeder, None)
    assert consume(eater, record(A)).message == refused
    feeder.publish(1, entry("x"))
    feeder.close()
    assert consume(eater, record(A)).message == refused
    other = World(**QUIET).connect()
    other.open_consumer("plain", 9)
    assert consume(other, record(A)).message == refused


@pytest.mark.parametrize(
    ("strategy", "fitting"),
    [
        ("FULL", {"optional", "fewer", "wider"}),
        ("FORWARD", {"optional", "fewer", "wider"}),
        ("FULL_TRANSITIVE", {"optional"}),
        ("BACKWARD_TRANSITIVE", {"optional", "fewer", "wider"}),
        ("ALWAYS_COMPATIBLE", {"optional", "fewer", "wider", "required", "string"}),
        ("ALWAYS_INCOMPATIBLE", set()),
    ],
)
def test_what_a_consumer_may_bring(strategy: str, fitting: set[str]) -> None:
    # covers SC-8
    client = World(schema_compatibility=strategy, **QUIET).connect()
    produce(client, record(A))
    brought = {
        "optional": (record(A, B_WITH_DEFAULT), AVRO),
        "fewer": (record(), AVRO),
        "wider": (record({"name": "a", "type": "long"}), AVRO),
        "required": (record(A, B_REQUIRED), AVRO),
        "string": (b"", STRING),
    }
    found = {
        name
        for index, (name, (data, kind)) in enumerate(brought.items())
        if consume(client, data, kind, consumer_id=index) is None
    }
    assert found == fitting


def test_what_is_too_much_to_compare_is_refused(world: World, client: Client) -> None:
    # covers SC-5. Each of the reader's branches is looked at for each of the writer's.
    def many(extra: str) -> bytes:
        enums = [{"type": "enum", "name": f"E{index}", "symbols": ["X"]} for index in range(1_100)]
        return record({"name": "u", "type": enums}, extra=extra)

    assert produce(client, many("")) == 0
    for refused in (produce(client, many("more"), producer_id=2), consume(client, many("more"))):
        assert refused.error == ServerError.IncompatibleSchema
        assert refused.message == "Error during schema compatibility check: too much to compare"
    assert post(world, many("more"))[0] == 409
    assert produce(client, many(""), producer_id=3) == 0


def test_known_schemas_are_told_and_new_ones_are_not_while_nothing_can_be_written(world: World) -> None:
    # covers SC-9, DUR-10
    client = world.connect()
    assert produce(client, record(A)) == 0
    world.disk_is_slow = True
    world.happen([DiskFull("No space left on device", is_stalled=True)])
    client.take_all()
    assert version(get(client).schema_version) == 0
    assert version(get_or_create(client, record(A)).schema_version) == 0
    for _ in range(2):  # the second time it is there, but not on disk
        assert get_or_create(client, record(A, B_WITH_DEFAULT)).error_code == ServerError.ServiceNotReady
    world.happen([DiskFull("")])
    world.quicken()
    assert version(get_or_create(client, record(A, B_WITH_DEFAULT)).schema_version) == 1


def wait_for(client: Client, producer_id: int, data: bytes) -> None:
    """Asks to have the topic alone, with a schema."""
    command = requests.producer(
        client.request_id(), TOPIC, producer_id, access_mode=ProducerAccessMode.WaitForExclusive
    )
    command.producer.schema.CopyFrom(Schema(name="n", schema_data=data, type=Schema.Avro))
    queued = client.request(command, BaseCommand.PRODUCER_SUCCESS)
    assert (queued.producer_ready, queued.HasField("schema_version")) == (False, True)


def test_a_waiting_producer_is_judged_when_it_is_its_turn(world: World) -> None:
    # covers SC-4, PR-6, J1
    first, second = world.connect(), world.connect()
    assert produce(first, record(A)) == 0
    wait_for(second, 1, record(A, B_REQUIRED))
    wait_for(second, 2, record(A, B_WITH_DEFAULT))
    first.close()
    assert second.expect(BaseCommand.ERROR).error == ServerError.IncompatibleSchema
    granted = second.expect(BaseCommand.PRODUCER_SUCCESS)
    assert (granted.producer_ready, version(granted.schema_version)) == (True, 1)
