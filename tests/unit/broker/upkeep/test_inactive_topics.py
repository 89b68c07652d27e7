"""Inactive topics are deleted (TN-11, RET-6)."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.broker.topics import policy_changes
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
    set_policy(world, policy_table.INACTIVE_TOPIC, policy.to_json())
    return world


def set_policy(world: World, member: str, value: object) -> None:
    world.ask(lambda core: policy_changes.set_of_namespace(core, "public/default", member, value))


def exists(world: World) -> bool:
    return TOPIC in world.state.topics_by_name


def test_nothing_goes_unless_a_policy_says_so() -> None:
    # covers TN-11
    world = World()
    world.connect().open_producer()
    world.sessions[1].close()
    world.advance(10_000 * SECOND)
    assert exists(world)
    set_policy(world, policy_table.INACTIVE_TOPIC, ON.to_json())
    world.advance(300 * SECOND)
    assert not exists(world)


def test_the_configuration_may_say_so() -> None:
    # covers TN-11
    world = World(delete_inactive_topics=True, inactive_check_interval_ms=2000)
    client = world.connect()
    client.open_producer()
    client.close()
    world.advance(5 * SECOND)
    assert not exists(world)


@pytest.mark.parametrize(("policy", "goes"), [(ON, False), (CAUGHT_UP, True)])
def test_a_subscription_without_backlog_is_use_by_one_mode_only(policy: InactiveTopicPolicy, goes: bool) -> None:
    # covers TN-11 (modes)
    world = world_with(policy)
    client = world.connect()
    client.open_consumer()
    client.close()
    world.advance(400 * SECOND)
    assert exists(world) is not goes


def test_a_backlog_is_use_by_both_modes() -> None:
    # covers TN-11 (modes)
    world = world_with(CAUGHT_UP)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("a"))
    client.close()
    world.advance(400 * SECOND)
    assert exists(world)


@pytest.mark.parametrize(("minutes", "goes_after_s"), [(-1, None), (10, 800)])
def test_retention_time_keeps_a_topic(minutes: int, goes_after_s: int | None) -> None:
    # covers RET-6
    world = world_with(ON)
    set_policy(world, policy_table.RETENTION, RetentionPolicy(-1, minutes).to_json())
    client = world.connect()
    client.open_producer()
    client.close()
    world.advance(590 * SECOND)
    assert exists(world)
    world.advance(20_000 * SECOND if goes_after_s is None else (goes_after_s - 590) * SECOND)
    assert exists(world) is (goes_after_s is None)


def test_topics_of_a_restarted_broker_go_too() -> None:
    # covers TN-11
    world = world_with(ON)
    client = world.connect()
    client.open_producer()
    client.close()
    world = world.restart()
    world.advance(400 * SECOND)
    assert not exists(world)
    assert world.core.policies_of(TopicName.parse(TOPIC)).inactive_topic == ON


@pytest.mark.parametrize("use", ["producer", "consumer", "subscription"])
def test_a_use_between_two_rounds_counts(use: str) -> None:
    # covers TN-11, RET-6: what was published a moment ago would go with its topic
    world = world_with(InactiveTopicPolicy(True, 110))
    set_policy(world, policy_table.RETENTION, RetentionPolicy(-1, 1).to_json())
    world.connect().open_producer()
    world.sessions[1].close()
    world.advance(119 * SECOND)
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
