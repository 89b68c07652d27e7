"""Failover subscriptions: the active consumer, among thousands too, taking over, ACTIVE_CONSUMER_CHANGE."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.broker.dispatch.failover import FailoverDispatcher
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.ledger.state.topics import PartitionedTopicSet
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.keys.murmur3 import MASK, murmur3_32
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.broker import compacting
from tests.unit.broker.costs import instructions
from tests.unit.broker.world import TOPIC, Client, World, entry, payloads, producing

FAILOVER = CommandSubscribe.Failover
PARTITION = f"{TOPIC}-partition-"


def join(client: Client, name: str, *, consumer_id: int = 1, topic: str = TOPIC, priority: int = 0) -> None:
    """Subscribes with permits; what comes is for the test to look at."""
    command = requests.subscribe(
        client.request_id(), topic, "s", consumer_id, FAILOVER, initial_position=1, consumer_name=name
    )
    command.subscribe.priority_level = priority
    client.send(command)
    client.send(requests.flow(consumer_id, 100))


def news(client: Client) -> list[object]:
    """Lists the frames that came: "ok" for SUCCESS, True or False for ACTIVE_CONSUMER_CHANGE, texts of messages."""
    found: list[object] = []
    for effect in client.take_all():
        if isinstance(effect, fx.SendMessages):
            found += payloads(effect)
        elif effect.command.type == BaseCommand.SUCCESS:
            found.append("ok")
        else:
            assert effect.command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE, effect
            found.append(effect.command.active_consumer_change.is_active)
    return found


def publish(client: Client, first: int, end: int, topic: str = TOPIC, producer_id: int = 1) -> None:
    client.store(producer_id, *(entry(str(number)) for number in range(first, end)), first=first)


def active(world: World, topic: str = TOPIC) -> str:
    consumer = world.core.topics[topic].subscriptions["s"].dispatcher.active_consumer
    assert isinstance(consumer, Consumer)
    return consumer.name


def filled(count: int, **config: object) -> tuple[World, Client]:
    world, client = producing(**config)
    publish(client, 0, count)
    return world, client


def test_the_first_consumer_starts_after_the_delay() -> None:
    # covers FO-5, FO-6
    world, client = filled(3)
    join(client, "a")
    world.advance(999)
    assert news(client) == ["ok"]
    world.advance(1)
    assert news(client) == [True, "0", "1", "2"]


def test_without_delay_it_starts_at_once_but_after_success() -> None:
    # covers FO-6, A12
    _, client = filled(2, failover_delay_ms=0)
    join(client, "a")
    assert news(client) == ["ok", True, "0", "1"]


def test_a_consumer_that_has_to_wait_is_told_before_success() -> None:
    # covers FO-5
    world, client = filled(0)
    other = world.connect()
    join(client, "a")
    world.advance(1_000)
    command = requests.subscribe(1, TOPIC, "s", 1, FAILOVER, consumer_name="z")
    command.subscribe.priority_level = 1
    other.send(command)
    assert news(other) == [False, "ok"]
    assert news(client) == ["ok", True]


def test_a_further_change_during_the_delay_does_not_prolong_it() -> None:
    # covers FO-6
    world, client = filled(1)
    other = world.connect()
    join(client, "b", priority=1)
    world.advance(600)
    join(other, "a")
    world.advance(400)
    assert (news(client), news(other)) == (["ok", False], ["ok", True, "0"])


def test_the_ring_may_choose_for_partitions_too() -> None:
    # covers FO-4
    world = World(failover_ring_for_partitions=True)
    world.ask(lambda core: core.append(PartitionedTopicSet(TOPIC, 12, {})))
    client = world.connect()
    chosen = set()
    for number in range(12):
        for index, name in enumerate(("a", "b", "c")):
            join(client, name, consumer_id=10 * number + index, topic=f"{PARTITION}{number}")
        chosen.add((number % 3, active(world, f"{PARTITION}{number}")))
    assert len(chosen) > 3


def test_only_the_active_consumer_can_ask_for_entries_again() -> None:
    # covers NACK-2, RC-2, FO-1
    world, client = filled(3)
    other = world.connect()
    join(client, "a")
    join(other, "z", priority=1)
    world.advance(1_000)
    client.take_all()
    other.take_all()
    other.send(requests.redeliver(1, [Position(1, 0)]))
    assert (news(client), news(other)) == ([], [])
    client.send(requests.redeliver(1, [Position(1, 2)]))
    (delivery,) = client.deliveries()
    assert (payloads(delivery), delivery.redelivery_counts) == (["0", "1", "2"], None)


def test_a_waiting_consumer_keeps_the_epoch_it_told() -> None:
    # covers A19
    world, client = filled(1)
    other = world.connect()
    join(client, "a")
    join(other, "z", priority=1)
    world.advance(1_000)
    command = requests.redeliver(1)
    command.redeliverUnacknowledgedMessages.consumer_epoch = 4
    other.send(command)
    other.take_all()
    client.close()
    world.advance(1_000)
    change, delivery = other.take_all()
    assert change.command.active_consumer_change.is_active
    assert delivery.consumer_epoch == 4


def test_each_active_consumer_gets_the_view_that_it_wants() -> None:
    # covers CMP-C4, CMP-C5, FO-1
    world, client = producing(failover_delay_ms=0)
    client.open_consumer("keeps-all", 9)
    compacting.publish(client, *(compacting.keyed(key, value) for key, value in ("a1", "b1", "a2", "b2", "b3")))
    compacting.compact(world)
    compacting.publish(client, compacting.keyed("a", "a3"))
    whole, compacted = world.connect(), world.connect()
    for each, name, is_compacted in ((compacted, "a", True), (whole, "b", False)):
        command = requests.subscribe(
            1, TOPIC, "s", 1, FAILOVER, initial_position=1, consumer_name=name, read_compacted=is_compacted
        )
        command.subscribe.priority_level = int(name == "b")
        each.send(command, requests.flow(1, 100))
    assert news(compacted) == ["ok", True, "2", "3", "a3"]
    assert news(whole) == [False, "ok"]
    compacted.close()
    assert news(whole) == [True, "1", "1", "2", "2", "3", "a3"]


Moves = list[tuple[str, int] | int]


def a_world(topic: str = TOPIC) -> tuple[World, Subscription]:
    """A subscription that its first and last consumer has left."""
    world = World()
    name = TopicName.parse(topic)
    if name.partition >= 0:
        world.ask(lambda core: core.append(PartitionedTopicSet(name.base.full, name.partition + 1, {})))
    world.connect_consumer(topic=topic, subscription_type=CommandSubscribe.Failover)
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
                instructions(
                    lambda names=names, numbers=numbers, came=came: came.extend(  # type: ignore[misc]
                        joined(core, subscription, number, name, 0) for number, name in zip(numbers, names, strict=True)
                    )
                )
            )

    world.ask(crowd)
    assert len(subscription.consumers) == 600
    assert cost[2] < 2 * cost[0]
