"""Schemas while nothing can be written, and schemas of producers that wait (DUR-10, PR-6)."""

from __future__ import annotations

from spark_pulsar.broker.turn.events import DiskFull
from spark_pulsar.model.errors import ServerError
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ProducerAccessMode, Schema
from tests.unit.broker.schemas.records import B_REQUIRED, B_WITH_DEFAULT, A, record
from tests.unit.broker.schemas.test_registry import get, get_or_create, produce, version
from tests.unit.broker.world import TOPIC, Client, World


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
    world.disk_is_slow = False
    world.settle()
    assert version(get_or_create(client, record(A, B_WITH_DEFAULT)).schema_version) == 1


def wait_for(client: Client, producer_id: int, data: bytes) -> None:
    """Asks to have the topic alone, with a schema."""
    command = requests.producer(
        client.request_id(), TOPIC, producer_id, access_mode=ProducerAccessMode.WaitForExclusive
    )
    command.producer.schema.CopyFrom(Schema(name="n", schema_data=data, type=Schema.Avro))
    client.send(command)
    queued = client.expect(BaseCommand.PRODUCER_SUCCESS)
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
