"""Key_Shared by the classic rule: a newcomer waits for what was read before its time."""

import pytest

from spark_pulsar.broker.dispatch.key_shared.classic import ClassicKeySharedDispatcher
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.key_sharing import dispatcher, got, join, keyed, keys_of, publish
from tests.unit.broker.world import TOPIC, Client, World

# Of c2 when c1 and c2 are there.
MOVING = ["key-1", "NONE_KEY"]
STAYING = "key-2"


def newcomer(**config: object) -> tuple[World, Client, Client, Client]:
    """c1 holds one message of each key, and c2 has joined it."""
    world = World(key_shared_classic=True, **config)
    client, first, second = world.connect_producer(), world.connect(), world.connect()
    join(first, "c1")
    publish(client, keyed(MOVING[0], "A1"), keyed(STAYING, "mine"))
    assert got(first) == ["A1", "mine"]
    join(second, "c2")
    return world, client, first, second


def test_the_first_one_and_who_joins_when_all_is_acked_need_not_wait() -> None:
    # covers KS-9
    world = World(key_shared_classic=True)
    client, first, second = world.connect_producer(), world.connect(), world.connect()
    publish(client, keyed(MOVING[0], "old"))
    join(first, "c1")
    assert got(first) == ["old"]
    first.ack([Position(1, 0)])
    join(second, "c2")
    publish(client, keyed(MOVING[0], "new"))
    assert got(second) == ["new"]


def test_what_comes_back_from_before_goes_to_the_newcomer() -> None:
    # covers KS-9, NACK-3
    _, client, first, second = newcomer()
    publish(client, keyed(MOVING[1], "B1"))
    first.send(requests.redeliver(1, [Position(1, 0)]))
    assert got(second) == ["A1"]
    second.ack([Position(1, 0)])
    assert second.take_all() == []
    first.ack([Position(1, 1)])
    assert got(second) == ["B1"]


def test_what_is_sent_again_is_bounded_by_the_first_newcomer() -> None:
    # covers KS-9
    world, client, first, second = newcomer()
    publish(client, *(keyed(f"key-{number}") for number in range(40)))
    held = {Position(1, 0), Position(1, 1), *(each for each in world.core.sessions[2].consumers[1].pending)}
    assert len(held) > 3
    third = world.connect()
    join(third, "c3")
    limits = list(dispatcher(world).newcomers.values())
    assert limits == [(1, 2), (1, 42)]
    assert third.take_all() == []  # some of the keys that waited for c2 are its own now
    first.close()
    publish(client, keyed(STAYING, "x"))
    for client in (second, third):
        assert all(place < limits[0] for place in world.core.sessions[client.session_id].consumers[1].pending)


def test_everything_arrives_when_the_old_consumer_is_gone() -> None:
    # covers KS-9, SH-4
    world, client, first, second = newcomer()
    publish(client, keyed(MOVING[0], "A2"))
    first.close()
    assert got(second) == ["A1", "mine"]
    second.ack([Position(1, 0), Position(1, 1)])
    assert got(second) == ["A2"]
    assert world.subscription().dispatcher.replay_count == 0


@pytest.mark.parametrize("how", ["skipped", "expired"])
def test_what_is_not_wanted_any_more_lets_the_newcomer_in(how: str) -> None:
    # covers KS-9, KS-15
    world, client, _, second = newcomer(default_message_ttl_s=10)
    world.advance(9_000)
    publish(client, keyed(MOVING[0], "A2", publish_time=world.now_ms))
    assert second.take_all() == []
    if how == "skipped":
        world.ask(lambda core: cursor_moves.skip(core, core.topics[TOPIC].subscriptions["s"], 2))
    else:
        world.advance(2_000)
    assert got(second) == ["A2"]


def test_without_order_or_with_ranges_nobody_waits() -> None:
    # covers KS-9, KS-11
    world = World(key_shared_classic=True)
    client = world.connect()
    join(client, "c1", any_order=True)
    assert not isinstance(dispatcher(world), ClassicKeySharedDispatcher)
    client.close()
    other = world.connect()
    join(other, "c1", ranges=[(0, 65535)])
    assert not isinstance(dispatcher(world), ClassicKeySharedDispatcher)
    other.close()
    last = world.connect()
    join(last, "c1")
    assert isinstance(dispatcher(world), ClassicKeySharedDispatcher)
    assert keys_of(world, "c1", 1)
