"""Idle subscriptions are deleted when their time is over (CUR-17)."""

import pytest

from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.dispatch.test_dispatch import filled
from tests.unit.broker.world import QUIET, TOPIC, Client, World

MINUTE_MS = 60_000


def set_minutes(world: World, minutes: int | None) -> None:
    world.set_policy(policy_table.SUBSCRIPTION_EXPIRATION, minutes)
    world.advance(10)


def names(world: World) -> list[str]:
    return sorted(world.state.topics_by_name[TOPIC].cursors)


def leave(client: Client, consumer_id: int = 1) -> None:
    client.request(requests.close_consumer(client.request_id(), consumer_id), BaseCommand.SUCCESS)


@pytest.fixture
def world() -> World:
    """Three entries, and a limit of two minutes."""
    world, _ = filled(3, **QUIET)
    set_minutes(world, 2)
    return world


def test_it_goes_with_its_backlog_and_its_time_begins_anew_with_every_leaving(world: World) -> None:
    # covers CUR-17
    client = world.connect_consumer()
    world.advance(10 * MINUTE_MS)
    assert names(world) == ["s"], "a consumer is connected"
    leave(client)
    world.advance(MINUTE_MS)
    client.open_consumer()
    leave(client)
    world.advance(2 * MINUTE_MS - 1)
    assert names(world) == ["s"]
    client.close()
    world.advance(1)
    assert names(world) == []
    assert TOPIC in world.core.topics, "its topic stays"


def test_of_several_consumers_the_last_one_counts(world: World) -> None:
    # covers CUR-17
    client = world.connect_consumer(subscription_type=1)
    client.open_consumer(consumer_id=2, subscription_type=1)
    leave(client)
    world.advance(10 * MINUTE_MS)
    assert names(world) == ["s"]
    leave(client, 2)
    world.advance(2 * MINUTE_MS)
    assert names(world) == []


def test_the_policy_works_on_what_is_idle_already() -> None:
    # covers CUR-17
    world, client = filled(3, **QUIET)
    client.open_consumer()
    leave(client)
    world.advance(5 * MINUTE_MS)
    set_minutes(world, 10)
    assert names(world) == ["s"]
    set_minutes(world, 0)
    world.advance(20 * MINUTE_MS)
    assert names(world) == ["s"], "0 is off"
    set_minutes(world, 5)
    assert names(world) == [], "it was idle for longer than that already"


def test_the_time_outlives_a_restart_and_one_in_use_at_a_crash_is_idle_since_the_start(world: World) -> None:
    # covers CUR-17
    client = world.connect_consumer()
    client.open_consumer("in use", 2)
    leave(client)
    world.advance(MINUTE_MS)
    again = world.restart(**QUIET)
    assert again.now_ms < world.now_ms, "a world begins at the same time; what counts is the stored one"
    again.advance(2 * MINUTE_MS - 1)
    assert "in use" in names(again)
    again.advance(1)
    assert "in use" not in names(again)
    again.advance(200)
    assert names(again) == []


def test_the_default_of_the_configuration_and_one_that_was_never_used() -> None:
    # covers CUR-17
    world, client = filled(3, **QUIET, subscription_expiration_minutes=1)
    topic = world.core.topics[TOPIC]
    world.ask(lambda core: lifecycle.create_subscription(core, topic, "made", lifecycle.at_end(topic), {}))
    client.open_consumer()
    leave(client)
    client.open_consumer("t")
    world.advance(MINUTE_MS)
    assert names(world) == ["t"]
    client.close()
    world.advance(MINUTE_MS)
    assert names(world) == []
