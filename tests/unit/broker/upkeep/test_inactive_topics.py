"""Inactive topics are deleted (TN-11, RET-6)."""

from typing import Any

import pytest

from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import SUBSCRIPTIONS_CAUGHT_UP, InactiveTopicPolicy, RetentionPolicy
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.world import TOPIC, World, entry

ON = InactiveTopicPolicy(True, 100)
CAUGHT_UP = InactiveTopicPolicy(True, 100, SUBSCRIPTIONS_CAUGHT_UP)
SECOND = 1000


def world_with(policy: InactiveTopicPolicy, **config: Any) -> World:
    world = World(**config)
    world.set_policy(policy_table.INACTIVE_TOPIC, policy.to_json())
    return world


def abandoned(world: World) -> World:
    """The world, with a topic that a producer has left."""
    world.connect_producer().close()
    return world


def exists(world: World) -> bool:
    return TOPIC in world.state.topics_by_name


def test_nothing_goes_unless_a_policy_or_the_configuration_says_so() -> None:
    # covers TN-11
    world = abandoned(World())
    world.advance(10_000 * SECOND)
    assert exists(world)
    world.set_policy(policy_table.INACTIVE_TOPIC, ON.to_json())
    world.advance(300 * SECOND)
    assert not exists(world)
    world = abandoned(World(delete_inactive_topics=True, inactive_check_interval_ms=2000))
    world.advance(5 * SECOND)
    assert not exists(world)


@pytest.mark.parametrize(
    ("policy", "has_backlog", "goes"), [(ON, False, False), (CAUGHT_UP, False, True), (CAUGHT_UP, True, False)]
)
def test_which_subscriptions_are_use(policy: InactiveTopicPolicy, has_backlog: bool, goes: bool) -> None:
    # covers TN-11 (modes)
    world = world_with(policy)
    client = world.connect_producer()
    client.open_consumer()
    if has_backlog:
        client.publish(1, entry("a"))
    client.close()
    world.advance(400 * SECOND)
    assert exists(world) is not goes


@pytest.mark.parametrize(("minutes", "goes_after_s"), [(-1, None), (10, 800)])
def test_retention_time_keeps_a_topic(minutes: int, goes_after_s: int | None) -> None:
    # covers RET-6
    world = world_with(ON)
    world.set_policy(policy_table.RETENTION, RetentionPolicy(-1, minutes).to_json())
    abandoned(world).advance(590 * SECOND)
    assert exists(world)
    world.advance(20_000 * SECOND if goes_after_s is None else (goes_after_s - 590) * SECOND)
    assert exists(world) is (goes_after_s is None)


def test_topics_of_a_restarted_broker_go_too() -> None:
    # covers TN-11
    world = abandoned(world_with(ON)).restart()
    world.advance(400 * SECOND)
    assert not exists(world)
    assert world.core.policies_of(TopicName.parse(TOPIC)).inactive_topic == ON


@pytest.mark.parametrize("use", ["producer", "consumer", "subscription"])
def test_a_use_between_two_rounds_counts(use: str) -> None:
    # covers TN-11, RET-6: what was published a moment ago would go with its topic
    world = world_with(InactiveTopicPolicy(True, 110))
    world.set_policy(policy_table.RETENTION, RetentionPolicy(-1, 1).to_json())
    abandoned(world).advance(119 * SECOND)
    client = world.connect()
    if use == "producer":
        client.open_producer()
        client.publish(1, entry("a"))
    elif use == "consumer":
        client.open_consumer(durable=False)
    else:
        client.open_consumer()
        client.send(requests.unsubscribe(9, 1))
    client.close()
    world.advance(100 * SECOND)
    assert exists(world)
    world.advance(200 * SECOND)
    assert not exists(world)
