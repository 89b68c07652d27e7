"""Subscriptions without backlog may be spared by dispatch rates (SUB-7)."""

from typing import Any

import pytest

from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DispatchRate
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.dispatch.test_dispatch_lines import TYPES, received
from tests.unit.broker.key_sharing import keyed
from tests.unit.broker.world import QUIET, TOPIC, Client, World, positions_of

SHARED = CommandSubscribe.Shared
MINUTE_MS = 60_000
HOURLY = DispatchRate(3, period_s=3_600).to_json()


def world_of(rate: object = HOURLY, *, member: str = policy_table.DISPATCH_RATE, **config: Any) -> World:
    """Three entries an hour, but for subscriptions with less than ten to get."""
    settings: dict[str, Any] = {"dispatch_rates_without_backlog": False, "backlogged_cursor_entries": 10} | config
    world = World(**QUIET, failover_delay_ms=0, stats_interval_ms=MINUTE_MS, **settings)
    set_policy(world, rate, member)
    return world


def set_policy(world: World, rate: object, member: str = policy_table.DISPATCH_RATE) -> None:
    world.ask(lambda core: policy_changes.set_of_topic(core, TopicName.parse(TOPIC), member, rate))
    world.advance(10)


def publish(world: World, count: int) -> None:
    client = world.connect()
    client.open_producer(name=None)
    client.publish(1, *(keyed(str(number % 5)) for number in range(count)))
    client.close()


def join(world: World, name: str = "s", kind: Any = SHARED, permits: int | None = 1_000) -> Client:
    client = world.connect()
    client.send(requests.subscribe(1, TOPIC, name, 1, kind, initial_position=1))
    if permits is not None:
        client.send(requests.flow(1, permits))
    return client


def count(client: Client) -> int:
    return received(client).get(1, 0)


@pytest.mark.parametrize("member", [policy_table.DISPATCH_RATE, policy_table.SUBSCRIPTION_DISPATCH_RATE])
@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
def test_who_has_less_to_get_than_the_threshold_is_spared(kind: Any, member: str) -> None:
    # covers SUB-7: whatever comes after the look
    world = world_of(member=member)
    publish(world, 9)
    client = join(world, kind=kind)
    assert count(client) == 9
    publish(world, 40)
    assert count(client) == 40
    assert not world.core.topics[TOPIC].subscriptions["s"].throttled


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
def test_who_has_a_backlog_is_not_until_statistics_are_taken(kind: Any) -> None:
    # covers SUB-7
    world = world_of()
    publish(world, 12)
    client = join(world, kind=kind)
    assert count(client) == 3
    world.advance(MINUTE_MS // 2)
    assert count(client) == 0
    world.advance(MINUTE_MS // 2)
    assert count(client) == 9
    publish(world, 40)
    assert count(client) == 40


def test_who_falls_behind_is_limited_again() -> None:
    # covers SUB-7
    world = world_of()
    client = join(world, permits=5)
    publish(world, 40)
    assert count(client) == 5
    world.advance(MINUTE_MS)
    client.send(requests.flow(1, 1_000))
    assert count(client) == 3


def test_what_was_acked_is_no_backlog() -> None:
    # covers SUB-7: entries from the read position on count, without those that are acked
    world = world_of()
    client = join(world)
    publish(world, 30)
    sent = positions_of(each for each in client.take_all() if isinstance(each, fx.SendMessages))
    assert len(sent) == 30
    client.ack([position for position in sent if position.entry_id % 4])
    client.close()
    assert count(join(world)) == 8, "every fourth of thirty"


def test_who_waits_does_not_once_it_is_spared_and_holds_up_nobody() -> None:
    # covers SUB-7
    world = world_of()
    publish(world, 12)
    first = join(world, "first")
    assert count(first) == 3
    second = join(world, "second")
    world.advance(MINUTE_MS)
    assert (count(first), count(second)) == (9, 0)
    publish(world, 100)
    world.advance(60 * MINUTE_MS)
    assert (count(first), count(second)) == (100, 3)


def test_a_new_consumer_is_a_reason_to_look() -> None:
    # covers SUB-7
    world = world_of()
    publish(world, 12)
    client = join(world)
    assert count(client) == 3
    other = join(world)
    assert count(client) + count(other) == 9


def test_a_policy_is_a_reason_to_look() -> None:
    # covers SUB-7
    world = world_of(None)
    behind, fast = join(world, "behind", permits=5), join(world, "fast")
    publish(world, 40)
    assert (count(behind), count(fast)) == (5, 40)
    set_policy(world, HOURLY)
    behind.send(requests.flow(1, 1_000))
    publish(world, 40)
    assert (count(behind), count(fast)) == (3, 40)
    set_policy(world, None)
    assert count(behind) == 72


def test_with_a_threshold_of_nothing_nobody_is_spared() -> None:
    # covers SUB-7
    world = world_of(backlogged_cursor_entries=0)
    client = join(world)
    publish(world, 9)
    assert count(client) == 3
