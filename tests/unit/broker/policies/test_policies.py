"""Effective policies: the topic's over the namespace's over the configuration."""

import pytest

from spark_pulsar.broker.topics import auto_creation, lifecycle
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    DispatchRate,
    EffectivePolicies,
    RetentionPolicy,
    SubscribeRate,
)
from tests.unit.broker.world import TOPIC, World, entry, producing

NAME = TopicName.parse(TOPIC)


def test_defaults_come_from_the_configuration() -> None:
    assert World().core.policies_of(NAME) == EffectivePolicies(
        max_unacked_per_consumer=50_000,
        max_unacked_per_subscription=200_000,
        dispatch_rate=DispatchRate(),
        subscription_dispatch_rate=DispatchRate(),
        subscribe_rate=SubscribeRate(0),
        replication_clusters=["standalone"],
    )
    world = World(default_message_ttl_s=7, default_retention_size_mb=-1, default_retention_time_minutes=3)
    assert world.core.policies_of(NAME).message_ttl_s == 7
    assert world.core.policies_of(NAME).retention == RetentionPolicy(-1, 3)


def test_policies_survive_a_restart_and_end_with_their_topic() -> None:
    world = World()
    parent = TopicName.parse("parted")
    world.ask(lambda core: lifecycle.create_partitioned(core, parent, 2, {}))
    world.ask(lambda core: lifecycle.create(core, NAME))
    for name in (parent, NAME):
        world.set_topic_policy(policy_table.MESSAGE_TTL, 5, name)
    world = world.restart()
    assert world.core.policies_of(parent.at_partition(1)).message_ttl_s == 5
    world.ask(lambda core: lifecycle.delete_partitioned(core, parent))
    world.ask(lambda core: lifecycle.delete(core, auto_creation.obtain(core, NAME, may_create=False)))
    assert world.core.policies_of(NAME).message_ttl_s == 0
    assert world.core.policies_of(parent).message_ttl_s == 0


def test_one_value_for_all_topics_of_a_namespace() -> None:
    core = World().core
    assert core.policies_of(NAME) is core.policies_of(TopicName.parse("other"))


def test_watchers_hear_of_every_change() -> None:
    world = World()
    heard: list[tuple[str, str | None]] = []
    world.core.policies.watch(lambda namespace, topic: heard.append((namespace, topic)))
    world.set_policy(policy_table.MESSAGE_TTL, 10)
    world.set_topic_policy(policy_table.MESSAGE_TTL, 10, NAME.at_partition(1))
    assert heard == [("public/default", None), ("public/default", TOPIC)]


@pytest.mark.parametrize("names", [("public/default",), ("public/default", "tenant/ns")])
def test_a_new_broker_has_its_cluster_tenants_and_namespaces(names: tuple[str, ...]) -> None:
    # covers B-1
    world = World(namespaces=names)
    world.sync()
    assert list(world.state.documents["clusters"]) == ["standalone"]
    assert set(world.state.namespaces) == set(names)
    assert set(world.state.documents["tenants"]) == {"public", "pulsar", *(name.split("/")[0] for name in names)}
    assert set(world.restart().state.documents["tenants"]) == set(world.state.documents["tenants"])


def test_a_new_limit_of_unacked_messages_holds_at_once() -> None:
    # covers SH-6, SH-7 (levels)
    world, client = producing(max_unacked_per_consumer=0)
    client.open_consumer(subscription_type=1, permits=100)

    def limit(value: int | None, member: str = policy_table.MAX_UNACKED_PER_CONSUMER) -> None:
        world.set_topic_policy(member, value, NAME)

    def sent() -> int:
        return len([each for each in client.take_all() if hasattr(each, "starts") for _ in each.starts])

    client.publish(1, *[entry(str(index)) for index in range(5)])
    assert sent() == 5
    limit(3)
    client.publish(1, *[entry(str(index)) for index in range(5)], first=5)
    assert sent() == 0
    limit(8)
    assert sent() == 3
    limit(None)
    assert sent() == 2
    limit(10, policy_table.MAX_UNACKED_PER_SUBSCRIPTION)
    client.publish(1, entry("x"), first=10)
    assert sent() == 0
    limit(20, policy_table.MAX_UNACKED_PER_SUBSCRIPTION)
    assert sent() == 1
