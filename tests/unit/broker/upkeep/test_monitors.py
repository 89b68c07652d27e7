"""Policies of many topics: a change takes effect on all of them, and no turn visits more than its share."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spark_pulsar.broker.entities.topic import Topic
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.upkeep.monitors import VISITS_A_TURN, Monitors
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import PublishRate
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.world import QUIET, TOPIC, World, entry, producing

TOPICS = 1_000
NAMESPACE = "public/default"
OTHER = "public/other"


class Visits:
    """Counts the visits of topics in each turn of a world."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.in_turn: list[int] = [0]
        handle, visit = world.broker.handle, Monitors._visit

        def counted_handle(events: Sequence[Any], now_ms: int) -> list[Any]:
            self.in_turn.append(0)
            return handle(events, now_ms)

        def counted_visit(monitors: Monitors, full_name: str, *, has_changed: bool) -> None:
            self.in_turn[-1] += 1
            visit(monitors, full_name, has_changed=has_changed)

        patch.setattr(world.broker, "handle", counted_handle)
        patch.setattr(Monitors, "_visit", counted_visit)

    @property
    def most(self) -> int:
        return max(self.in_turn)


def world_of(count: int = TOPICS, domain: str = "persistent") -> World:
    world = World(**QUIET, namespaces=(NAMESPACE, OTHER))
    names = [f"{domain}://{NAMESPACE}/t{number}" for number in range(count)] + [f"{domain}://{OTHER}/t"]
    world.ask(lambda core: [lifecycle.create(core, TopicName.parse(name)) for name in names])
    world.advance(1_000)
    return world


def topics_where(world: World, holds: Callable[[Topic], object]) -> int:
    return sum(bool(holds(topic)) for topic in world.core.topics.values())


SETTINGS: dict[str, tuple[object, Callable[[Topic], object]]] = {
    policy_table.DEDUPLICATION: (True, lambda topic: topic.deduplicates),
    policy_table.MESSAGE_TTL: (3_600, lambda topic: topic.ttl_monitor),
    policy_table.COMPACTION_THRESHOLD: (1_000_000, lambda topic: topic.state.compaction),
    policy_table.PUBLISH_RATE: (PublishRate(1_000, -1).to_json(), lambda topic: topic.publish_limit),
}


@pytest.mark.parametrize("member", SETTINGS)
def test_a_policy_of_a_namespace_reaches_a_thousand_topics_in_slices(
    member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers DED-1, TTL-1, CMP-C4, PR-14
    value, holds = SETTINGS[member]
    world = world_of()
    visits = Visits(world, monkeypatch)
    world.set_policy(member, value)
    assert topics_where(world, holds) == VISITS_A_TURN, "the first slice at once"
    world.advance(1_000)
    assert topics_where(world, holds) == TOPICS, "those of the other namespace have no such policy"
    assert sum(visits.in_turn) == TOPICS, "each once"
    assert visits.most == VISITS_A_TURN
    if member != policy_table.COMPACTION_THRESHOLD:
        world.set_policy(member, None)
        world.advance(1_000)
        assert not topics_where(world, holds)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_encryption_is_required_of_a_thousand_topics(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers PR-12
    world = world_of(domain=domain)
    visits = Visits(world, monkeypatch)
    world.set_policy(policy_table.ENCRYPTION_REQUIRED, True)
    world.advance(1_000)
    assert {topic.name.namespace_name for topic in world.core.encryption.topics} == {NAMESPACE}
    assert len(world.core.encryption.topics) == TOPICS
    assert visits.most == VISITS_A_TURN


def test_what_changes_during_a_round_takes_effect_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of()
    visits = Visits(world, monkeypatch)
    world.set_policy(policy_table.DEDUPLICATION, True)
    world.set_policy(policy_table.DEDUPLICATION, False)
    world.set_policy(policy_table.DEDUPLICATION, True, OTHER)
    world.advance(1_000)
    assert [topic.full_name for topic in world.core.topics.values() if topic.deduplicates] == [
        f"persistent://{OTHER}/t"
    ]
    assert visits.most == VISITS_A_TURN


def test_a_policy_of_one_topic_takes_effect_at_once_whatever_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of()
    visits = Visits(world, monkeypatch)
    world.set_policy(policy_table.MESSAGE_TTL, 3_600)
    last = world.core.topics[f"persistent://{NAMESPACE}/t{TOPICS - 1}"]
    world.set_topic_policy(policy_table.DEDUPLICATION, True, last.name)
    assert last.deduplicates
    assert last.ttl_monitor
    world.advance(1_000)
    assert topics_where(world, lambda topic: topic.deduplicates) == 1
    assert topics_where(world, lambda topic: topic.ttl_monitor) == TOPICS
    assert visits.most == VISITS_A_TURN


def test_a_policy_of_a_partitioned_topic_reaches_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(count=1)
    name = TopicName.parse(f"persistent://{NAMESPACE}/p")
    bears_the_name_of_a_partition = TopicName.parse(f"persistent://{NAMESPACE}/t0-partition-7")
    world.ask(lambda core: lifecycle.create_partitioned(core, name, 100, {}))
    world.ask(lambda core: lifecycle.create(core, bears_the_name_of_a_partition))
    visits = Visits(world, monkeypatch)
    for each in (name, TopicName.parse(f"persistent://{NAMESPACE}/t0")):
        world.set_topic_policy(policy_table.DEDUPLICATION, True, each)
    assert topics_where(world, lambda topic: topic.deduplicates) == VISITS_A_TURN
    world.advance(10)
    assert topics_where(world, lambda topic: topic.deduplicates) == 102
    assert visits.most == VISITS_A_TURN


def test_the_start_of_a_broker_visits_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of().restart(**QUIET, namespaces=(NAMESPACE, OTHER))
    visits = Visits(world, monkeypatch)
    world.advance(1_000)
    assert (sum(visits.in_turn), visits.most) == (TOPICS + 1, VISITS_A_TURN)


def test_policies_of_a_topic_take_effect_on_it_once() -> None:
    # covers SH-7
    world, client = producing(max_unacked_per_subscription=4, **QUIET)
    client.open_consumer(subscription_type=CommandSubscribe.Shared, permits=100)
    client.store(1, *(entry(str(number)) for number in range(10)))
    name = TopicName.parse(TOPIC)
    world.set_topic_policy(policy_table.MAX_UNACKED_PER_SUBSCRIPTION, 6, name)
    assert client.messages() == ["4", "5"]
    client.ack([Position(1, 0)])
    world.advance(1_000)
    assert client.messages() == []  # blocked until half of the six are acknowledged
    client.ack([Position(1, 1), Position(1, 2), Position(1, 3)])
    assert client.messages() == ["6", "7", "8", "9"]
