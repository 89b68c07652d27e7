"""A producer that is closed, or loses its connection, before it is open leaves no ghost that keeps its name."""

from __future__ import annotations

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.model.errors import ServerError
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ProducerAccessMode
from tests.unit.broker.world import QUIET, TOPIC, Client, World

UNANSWERED_MS = 10_000
"""Time after which a PING without a PONG is over."""


def world_with_a_silent_holder(*names: str) -> World:
    """Producers of these names, whose connection answers nothing."""
    world = World(**QUIET)
    silent = world.connect()
    for number, name in enumerate(names, 1):
        silent.open_producer(producer_id=number, name=name)
    return world


def open_producer(client: Client, request_id: int, name: str, mode: int = ProducerAccessMode.Shared) -> None:
    command = requests.producer(request_id, TOPIC, 7, name)
    command.producer.producer_access_mode = ProducerAccessMode.ValueType(mode)
    client.send(command)


def test_who_asks_again_under_another_name_while_the_holder_is_checked_opens_once() -> None:
    # covers PR-2
    world = world_with_a_silent_holder("x", "y")
    newcomer = world.connect()
    open_producer(newcomer, 1, "x")
    open_producer(newcomer, 2, "y")
    refused = newcomer.expect(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (2, ServerError.ServiceNotReady)
    world.advance(UNANSWERED_MS)
    assert newcomer.expect(BaseCommand.PRODUCER_SUCCESS).request_id == 1
    newcomer.close()
    assert not world.core.topics[TOPIC].producers


def test_who_closes_while_the_holder_is_checked_does_not_open() -> None:
    # covers PR-2, PR-17
    world = world_with_a_silent_holder("x")
    newcomer = world.connect()
    open_producer(newcomer, 1, "x")
    newcomer.send(requests.close_producer(2, 7))
    assert newcomer.expect(BaseCommand.SUCCESS).request_id == 2
    world.advance(UNANSWERED_MS)
    assert newcomer.take_all() == []
    assert not world.core.topics[TOPIC].producers
    open_producer(newcomer, 3, "x")
    assert newcomer.expect(BaseCommand.PRODUCER_SUCCESS).request_id == 3


def test_who_asks_twice_for_exclusive_access_waits_once() -> None:
    # covers PR-6
    world = world_with_a_silent_holder("x")
    newcomer = world.connect()
    for request_id in (1, 2):
        open_producer(newcomer, request_id, "x", ProducerAccessMode.WaitForExclusive)
    world.advance(UNANSWERED_MS)
    newcomer.close()
    topic = world.core.topics[TOPIC]
    assert not topic.producers
    assert topic.access is None or (topic.access.holder is None and not topic.access.waiters)


def test_who_is_closed_before_it_is_on_disk_is_not_told_that_it_is_there() -> None:
    # covers PR-17
    world = World(**QUIET)
    world.disk_is_slow = True
    client = world.connect()
    client.send(requests.producer(1, TOPIC, 7, "x"))

    def unload(core: Core) -> None:
        for producer in list(core.topics[TOPIC].producers.values()):
            producers.disconnect(core, producer)

    world.ask(unload)
    world.disk_is_slow = False
    world.happen([])
    told = [effect.command.type for effect in client.effects]
    assert BaseCommand.CLOSE_PRODUCER in told
    assert BaseCommand.PRODUCER_SUCCESS not in told
    assert BaseCommand.ERROR in told
