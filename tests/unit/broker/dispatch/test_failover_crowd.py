"""Thousands of consumers on one Failover subscription: the right one is active, found without a look at all."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.broker.dispatch.failover import FailoverDispatcher
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.ledger.state.topics import PartitionedTopicSet
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.keys.murmur3 import MASK, murmur3_32
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.world import TOPIC, World

Moves = list[tuple[str, int] | int]


def a_world(topic: str = TOPIC) -> tuple[World, Subscription]:
    """A subscription that its first and last consumer has left."""
    world = World()
    name = TopicName.parse(topic)
    if name.partition >= 0:
        world.ask(lambda core: core.append(PartitionedTopicSet(name.base.full, name.partition + 1, {})))
    client = world.connect()
    client.open_consumer(topic=topic, subscription_type=CommandSubscribe.Failover)
    subscription = world.core.topics[topic].subscriptions["s"]
    world.ask(lambda core: subscription.remove(subscription.consumers[0]))
    return world, subscription


def joined(core: Core, subscription: Subscription, number: int, name: str, priority: int) -> Consumer:
    session = next(iter(core.sessions.values()))
    consumer = Consumer(session, subscription, number, name, priority, None, {}, core.now_ms)
    subscription.add(consumer, CommandSubscribe.Failover)
    return consumer


def expected(subscription: Subscription, came: list[Consumer]) -> Consumer | None:
    """Finds the active consumer by the rule, among all (FO-2 ... FO-4)."""
    ordered = sorted(came, key=lambda each: (each.priority, each.name))
    best = [each for each in ordered if each.priority == ordered[0].priority]
    if not best:
        return None
    if subscription.topic.partition >= 0:
        return best[subscription.topic.partition % len(best)]
    place = murmur3_32(subscription.topic.full_name.encode())

    def distance(consumer: Consumer) -> int:
        return min((murmur3_32(f"{consumer.name}{point}".encode()) - place) & MASK for point in range(100))

    nearest = min(map(distance, best))
    return [each for each in best if distance(each) == nearest][-1]


@given(
    st.sampled_from([TOPIC, f"{TOPIC}-partition-3"]),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)) | st.integers(0, 9), max_size=25),
)
def test_the_active_consumer_is_the_one_of_the_rule(topic: str, moves: Moves) -> None:
    # covers FO-2, FO-3, FO-4
    world, subscription = a_world(topic)
    came: list[Consumer] = []

    def move(core: Core, number: int, wanted: tuple[str, int] | int) -> None:
        if isinstance(wanted, tuple):
            came.append(joined(core, subscription, number, *wanted))
        elif came:
            subscription.remove(came.pop(wanted % len(came)))

    for number, wanted in enumerate(moves, 10):
        world.ask(lambda core, number=number, wanted=wanted: move(core, number, wanted))  # type: ignore[misc]
        assert subscription.dispatcher.active_consumer is expected(subscription, came)


def calls_of(run: Callable[[], object]) -> int:
    """Python functions that are called by it."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("topic", [TOPIC, f"{TOPIC}-partition-3"])
def test_a_newcomer_costs_the_same_however_many_are_there(topic: str) -> None:
    # covers FO-2: thousands of consumers on one subscription
    world, subscription = a_world(topic)
    cost: list[int] = []

    def crowd(core: Core) -> None:
        assert isinstance(subscription.dispatcher, FailoverDispatcher)
        for first, end in ((0, 50), (50, 550), (550, 600)):
            names = [f"c{number * 7_919 % 600}" for number in range(first, end)]
            came: list[Any] = []
            numbers = range(10 + first, 10 + end)
            cost.append(
                calls_of(
                    lambda names=names, numbers=numbers, came=came: came.extend(  # type: ignore[misc]
                        joined(core, subscription, number, name, 0) for number, name in zip(numbers, names, strict=True)
                    )
                )
            )

    world.ask(crowd)
    assert len(subscription.consumers) == 600
    assert cost[2] < 2 * cost[0]
