"""A consumer that is closed before it has joined leaves no ghost behind that would be sent entries."""

import pytest

from spark_pulsar.broker.subscriptions import subscribing
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.world import KEPT, QUIET, TOPIC, Client, World, entry, positions_of


def sought_world() -> tuple[World, Client]:
    """A Shared subscription that looks for a time in what lies on a slow disk; one consumer waits to join it."""
    world = World(**QUIET, **KEPT, cache_bytes=0)
    feeder, eater = world.connect_producer(), world.connect()
    feeder.publish(1, *(entry(str(number)) for number in range(10)))
    eater.open_consumer(subscription_type=CommandSubscribe.Shared)
    world.disk_is_slow = True
    eater.send(requests.seek_to_time(8, 1, world.now_ms))
    eater.take_all()
    newcomer = world.connect()
    newcomer.send(requests.subscribe(1, TOPIC, "s", 1, CommandSubscribe.Shared))
    assert newcomer.take_all() == []
    return world, newcomer


def go_on(world: World) -> None:
    world.quicken()


def test_who_closes_before_the_end_of_a_seek_does_not_join() -> None:
    # covers CUR-11
    world, newcomer = sought_world()
    assert newcomer.request(requests.close_consumer(2, 1), BaseCommand.SUCCESS).request_id == 2
    go_on(world)
    assert newcomer.take_all() == []
    assert world.subscription().consumers == []
    newcomer.open_consumer(subscription_type=CommandSubscribe.Shared, permits=100)
    assert positions_of(newcomer.deliveries()) == [Position(1, number) for number in range(10)]


def test_who_asks_again_joins_once() -> None:
    # covers CUR-11
    world, newcomer = sought_world()
    newcomer.send(requests.subscribe(2, TOPIC, "s", 1, CommandSubscribe.Shared))
    go_on(world)
    assert newcomer.expect(BaseCommand.SUCCESS).request_id == 2
    assert newcomer.take_all() == []
    assert len(world.subscription().consumers) == 1


def test_who_closes_while_a_rival_is_checked_does_not_join() -> None:
    # covers EX-1
    world = World(**QUIET)
    _silent, newcomer = world.connect_consumer(), world.connect()
    newcomer.send(requests.subscribe(1, TOPIC, "s", 1))
    assert newcomer.request(requests.close_consumer(2, 1), BaseCommand.SUCCESS).request_id == 2
    world.advance(10_000)  # no PONG came
    assert newcomer.take_all() == []
    assert world.subscription().consumers == []


def test_who_waits_for_a_silent_reader_gets_a_subscription_of_its_own() -> None:
    # covers EX-1: that of the reader went with it
    world = World(**QUIET)
    world.connect_consumer(durable=False)
    newcomer = world.connect()
    newcomer.send(requests.subscribe(1, TOPIC, "s", 1, durable=False))
    world.advance(10_000)
    assert newcomer.expect(BaseCommand.SUCCESS).request_id == 1
    assert len(world.subscription().consumers) == 1


def test_who_is_closed_before_its_subscription_is_on_disk_is_not_told_that_it_is_there() -> None:
    # covers PR-17
    world = World(**QUIET)
    world.disk_is_slow = True
    client = world.connect()
    client.send(requests.subscribe(1, TOPIC, "s", 1))
    client.send(requests.close_consumer(2, 1))
    go_on(world)
    answers = {(each.command.type, each.command.success.request_id) for each in client.effects}
    assert answers == {(BaseCommand.SUCCESS, 2), (BaseCommand.ERROR, 0)}


def test_who_waits_for_the_end_of_a_seek_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers CUR-11: hostile input, a client that asks again and again
    monkeypatch.setattr(subscribing, "MAX_WAITING_TO_JOIN", 3)
    world, newcomer = sought_world()
    for number in (2, 3):
        newcomer.send(requests.subscribe(number, TOPIC, "s", number, CommandSubscribe.Shared))
    assert newcomer.take_all() == []
    refused = newcomer.request(requests.subscribe(4, TOPIC, "s", 4, CommandSubscribe.Shared), BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (4, ServerError.ConsumerBusy)
    go_on(world)
    assert [newcomer.expect(BaseCommand.SUCCESS).request_id for _ in range(3)] == [1, 2, 3]
    newcomer.send(requests.subscribe(5, TOPIC, "s", 4, CommandSubscribe.Shared))
    assert newcomer.expect(BaseCommand.SUCCESS).request_id == 5
