"""Non-persistent topics: dispatch or drop, nothing on disk, forgotten when unused."""

import pytest

from spark_pulsar.broker.entities import meters, registry
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import WritingPaused
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.key_sharing import keyed
from tests.unit.broker.world import QUIET, Client, World, entry

TOPIC = "non-persistent://public/default/t"
EXCLUSIVE, SHARED, FAILOVER = CommandSubscribe.Exclusive, CommandSubscribe.Shared, CommandSubscribe.Failover
KEY_SHARED = CommandSubscribe.Key_Shared


def feeding(world: World) -> Client:
    client = world.connect_producer(TOPIC)
    return client


def eating(world: World, permits: int = 100, *, subscription: str = "s", kind: int = SHARED, **more: object) -> Client:
    client = world.connect()
    command = requests.subscribe(1, TOPIC, subscription, 1, kind, initial_position=1, **more)  # type: ignore[arg-type]
    client.request(command, BaseCommand.SUCCESS)
    if permits:
        client.send(requests.flow(1, permits))
    return client


def dropped(world: World, subscription: str = "s") -> int:
    return world.core.topics[TOPIC].subscriptions[subscription].messages_dropped


def test_receipts_come_at_once_and_nothing_is_written() -> None:
    # covers NP-1, NP-2
    world = World(**QUIET)
    feeder = feeding(world)
    eater = eating(world)
    world.settle()
    world.disk_is_slow = True
    assert not world.core._records
    assert not world.core._in_flight
    feeder.publish(1, entry("a"), entry("b"))
    assert [sequence_id for sequence_id, _ in feeder.receipts()] == [0, 1]
    assert eater.messages() == ["a", "b"]
    assert not world.core._records
    assert not world.core._in_flight
    assert world.state.topics == {}
    assert not world.core.cache.lookup(0, 0)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_without_permits_messages_are_dropped_and_counted(kind: int) -> None:
    # covers NP-3, NP-6
    world = World(**QUIET)
    feeder = feeding(world)
    eater = eating(world, 2, kind=kind)
    eater.take_all()
    feeder.publish(1, *(entry(str(number)) for number in range(5)))
    assert eater.messages() == ["0", "1"]
    assert dropped(world) == 3
    eater.send(requests.flow(1, 10))
    assert eater.messages() == []
    feeder.publish(1, entry("x", batch=20), messages=20)
    assert eater.messages() == ["x"]  # a batch is sent whole (SUB-4)
    feeder.publish(1, entry("y", batch=20), messages=20)
    assert eater.messages() == []
    assert dropped(world) == 23
    world.advance(60_000)
    assert meters.delivered(world.core.topics[TOPIC].subscriptions["s"]).dropped == pytest.approx(23 / 60, rel=0.1)


def test_a_full_socket_drops() -> None:
    # covers NP-3
    world = World(**QUIET)
    feeder, eater = feeding(world), eating(world)
    world.happen([WritingPaused(eater.session_id)])
    feeder.publish(1, entry("a"))
    assert (eater.messages(), dropped(world)) == ([], 1)


def test_a_key_goes_to_one_consumer() -> None:
    # covers NP-6, KS-1
    world = World(**QUIET)
    feeder = feeding(world)
    eaters = [eating(world, 1_000, kind=KEY_SHARED, consumer_name=name) for name in ("a", "b", "c")]
    keys = [f"key-{number % 20}" for number in range(200)]
    feeder.publish(1, *(keyed(key, key) for key in keys))
    received = [eater.messages() for eater in eaters]
    assert sum(map(len, received)) == 200
    assert all(received)
    owners = {key: index for index, texts in enumerate(received) for key in texts}
    assert len(owners) == 20
    assert [len(set(texts)) for texts in received] == [
        sum(owner == index for owner in owners.values()) for index in range(3)
    ]
    eaters[0].close()
    feeder.publish(1, *(keyed(key, key) for key in keys))
    assert len(eaters[1].messages()) + len(eaters[2].messages()) == 200
    assert dropped(world) == 0


def test_it_is_forgotten_when_nobody_uses_it_any_more() -> None:
    # covers NP-7, NP-8
    world = World(**QUIET)
    feeder, eater = feeding(world), eating(world)
    world.advance(300_000)
    assert TOPIC in world.core.topics
    eater.close()
    feeder.close()
    world.advance(120_000)
    assert TOPIC not in world.core.topics
    assert not world.core.non_persistent.by_name
    assert registry.names_in(world.core, "public", "default") == []


def test_a_restart_forgets_it_and_not_its_partitions() -> None:
    # covers NP-7
    world = World(**QUIET)
    feeding(world)
    base = TopicName.parse("non-persistent://public/default/p")
    world.ask(lambda core: lifecycle.create_partitioned(core, base, 3, {}))
    world = world.restart(**QUIET)
    assert registry.names_in(world.core, "public", "default") == []
    assert registry.partitioned_names_in(world.core, "public", "default") == [base]
    client = world.connect_producer(base.at_partition(1).full)
    assert registry.names_in(world.core, "public", "default") == [base.at_partition(1)]
    client.send(requests.producer(9, base.at_partition(3).full, 9, "q"))
    assert client.expect(BaseCommand.ERROR).error == ServerError.TopicNotFound


def test_switched_off() -> None:
    # covers NP-1
    world = World(**QUIET, non_persistent_topics=False)
    client = world.connect()
    error = client.request(requests.producer(1, TOPIC, 1, "p"), BaseCommand.ERROR)
    assert (error.error, error.message) == (
        ServerError.NotAllowedError,
        "Broker is unable to load persistent topic",
    )


def test_deleting_it_closes_who_is_connected() -> None:
    world = World(**QUIET)
    feeder, eater = feeding(world), eating(world)
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert feeder.take().type == BaseCommand.CLOSE_PRODUCER
    assert eater.take().type == BaseCommand.CLOSE_CONSUMER
    assert TOPIC not in world.core.topics


def test_producers_in_turn_on_one_connection_with_a_persistent_topic_among_them() -> None:
    # covers NP-2: columnar SENDs
    world = World(**QUIET)
    client = world.connect()
    names = [TOPIC, "persistent://public/default/t"]
    for number, name in enumerate(names):
        client.open_producer(name, number)
    eater = eating(world)
    client.publish_in_turn((number, entry(f"{turn}")) for turn in range(3) for number in range(2))
    assert eater.messages() == ["0", "1", "2"]
    assert sorted(sequence_id for sequence_id, _ in client.receipts()) == [*range(6)]
    assert world.core.topics[names[1]].last_add_confirmed == Position(1, 2)


def test_exclusive_access_has_epochs_while_the_topic_lives() -> None:
    # covers PR-4, NP-7
    world = World(**QUIET)
    client = world.connect()
    command = requests.producer(1, TOPIC, 1, "p")
    command.producer.producer_access_mode = 1
    assert client.request(command, BaseCommand.PRODUCER_SUCCESS).topic_epoch == 0
    assert world.state.topics == {}
