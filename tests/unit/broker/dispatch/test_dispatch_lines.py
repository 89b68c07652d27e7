"""Lines of subscriptions that wait for a dispatch rate: in turn, at no cost, and no longer than there is something to
wait for (SUB-7)."""

from typing import Any

import pytest

from spark_pulsar.broker.dispatch.limits import dispatch_rates
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.subscriptions import cursor_moves, subscribing
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DispatchRate, SubscribeRate
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata
from tests.unit.broker import throttling
from tests.unit.broker.costs import instructions
from tests.unit.broker.key_sharing import keyed
from tests.unit.broker.throttling import OTHER, TYPES, publish, received_by
from tests.unit.broker.world import START_MS, TOPIC, Client, World, entry


def world_of(**config: int) -> World:
    return throttling.world_of(stats_interval_ms=1 << 50, **config)


def joined(client: Client, count: int, kind: Any = CommandSubscribe.Shared, *, topic: str = TOPIC) -> None:
    """Makes subscriptions, each with a consumer of this client."""
    for number in range(1, count + 1):
        client.send(requests.subscribe(number, topic, f"s{number}", number, kind, initial_position=1))
        client.send(requests.flow(number, 100_000))


def set_policy(world: World, member: str, value: object) -> None:
    world.set_topic_policy(member, value)
    world.advance(10)


def timers_made(world: World) -> int:
    return world.core._timers_made


def throttled(world: World, topic: str = TOPIC) -> int:
    """Counts the waits of the subscriptions of a topic."""
    return sum(sum(each.throttled.values()) for each in world.core.topics[topic].subscriptions.values())


def test_rates_of_many_subscriptions_cost_as_much_as_there_are() -> None:
    # covers SUB-7
    world = world_of(subscription_dispatch_rate_messages=5)
    client = world.connect()
    joined(client, 200)
    topic = world.core.topics[TOPIC]
    set_policy(world, policy_table.SUBSCRIPTION_DISPATCH_RATE, DispatchRate(7).to_json())
    present = list(topic.subscriptions.values())
    limits = topic.dispatch_limits
    assert limits is not None
    cost = instructions(lambda: [limits.dispatch(each) for each in present], dispatch_rates.__file__)
    assert cost < 600 * len(present)
    assert limits._own.keys() == set(present)
    client.close()
    world.ask(lambda core: [subscribing.delete(core, each) for each in present[:150]])
    assert limits._own.keys() == set(present[150:]), "no rate is left of a removed subscription"


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
@pytest.mark.parametrize("level", ["topic_", ""])
def test_many_that_wait_get_their_turn_and_cost_as_much_as_is_sent(kind: Any, level: str) -> None:
    # covers SUB-7
    world = world_of(**{f"{level}dispatch_rate_messages": 50})
    client = world.connect()
    publish(world, *[keyed("k")] * 80)
    joined(client, 20, kind)
    world.advance(2_000)
    received_by(client)
    timers, waited = timers_made(world), throttled(world)
    world.advance(4_000)
    counts = received_by(client)
    assert sum(counts.values()) == 200
    assert set(counts.values()) == {10}, "each in turn"
    assert timers_made(world) - timers <= 210
    assert throttled(world) - waited <= 210


def test_turns_are_shares_when_there_is_much_to_share() -> None:
    # covers SUB-7
    world = world_of(dispatch_rate_messages=10_000)
    client = world.connect()
    publish(world, *[entry("x")] * 3_000)
    joined(client, 10)
    world.advance(500)
    counts = received_by(client)
    assert 14_900 <= sum(counts.values()) <= 15_000
    world.advance(50)
    counts = received_by(client)
    assert len(counts) >= 5, "not all of it to the first"
    assert max(counts.values()) <= 100


def test_subscriptions_of_limited_topics_get_their_turn_among_all_others() -> None:
    # covers SUB-7
    world = world_of(dispatch_rate_messages=100)
    set_policy(world, policy_table.DISPATCH_RATE, DispatchRate(10).to_json())
    publish(world, *[entry("x")] * 500)
    publish(world, *[entry("x")] * 900, topic=OTHER)
    one, other = world.connect(), world.connect()
    joined(one, 4)
    joined(other, 3, topic=OTHER)
    world.advance(5_000)
    received_by(one), received_by(other)
    world.advance(8_000)
    counts, others = received_by(one), received_by(other)
    assert 78 <= sum(counts.values()) <= 82
    assert len(counts) == 4
    assert max(counts.values()) - min(counts.values()) <= 2
    assert sum(counts.values()) + sum(others.values()) in range(798, 803)
    assert max(others.values()) - min(others.values()) <= 2


@pytest.mark.parametrize("kind", TYPES, ids=CommandSubscribe.SubType.Name)
@pytest.mark.parametrize("level", ["topic_", "subscription_", ""])
def test_who_has_everything_waits_for_nothing(kind: Any, level: str) -> None:
    # covers SUB-7
    world = world_of(**{f"{level}dispatch_rate_messages": 4})
    client = world.connect()
    joined(client, 4, kind)
    publish(world, *[keyed("k")] * (4 if level == "subscription_" else 1))
    assert sum(received_by(client).values()) == (16 if level == "subscription_" else 4), "all that a bucket holds"
    timers = timers_made(world)
    for consumer_id in range(1, 5):
        client.send(requests.flow(consumer_id, 10))
    assert (throttled(world), timers_made(world)) == (0, timers)
    publish(world, keyed("k"))
    assert throttled(world) == 4
    world.advance(60_000)
    assert sum(received_by(client).values()) == 4
    assert throttled(world) == 4 if level == "subscription_" else throttled(world) <= 8


def test_who_has_no_permits_or_only_what_is_delayed_waits_for_nothing() -> None:
    # covers SUB-7, DEL-4
    world = world_of(subscription_dispatch_rate_messages=1)
    client = world.connect_consumer(subscription_type=CommandSubscribe.Shared, permits=1)
    later = MessageMetadata(producer_name="p", sequence_id=0, publish_time=START_MS, deliver_at_time=START_MS + 9_000)
    publish(world, entry("a"), build_entry(later, b"b"))
    assert received_by(client) == {1: 1}
    client.send(requests.flow(1, 5))
    assert throttled(world) == 0
    publish(world, entry("c"))
    assert throttled(world) == 1
    world.advance(8_999)
    assert received_by(client) == {1: 1}
    world.advance(2)
    assert received_by(client) == {1: 1}, "when its time has come"
    assert throttled(world) == 1
    publish(world, *[entry("d")] * 9)
    world.advance(60_000)
    assert received_by(client) == {1: 3}, "what is left of the permits"
    waited = throttled(world)
    publish(world, entry("e"))
    assert throttled(world) == waited


def test_what_is_parked_waits_for_no_rate() -> None:
    # covers SUB-7, KS-10
    world = world_of(subscription_dispatch_rate_messages=3)
    client = world.connect()
    client.open_consumer(consumer_id=1, subscription_type=CommandSubscribe.Key_Shared, permits=3, consumer_name="a")
    publish(world, *[keyed("k")] * 9)
    assert received_by(client) == {1: 3}
    assert throttled(world) == 0, "no permits are left"
    client.send(requests.flow(1, 100))
    assert throttled(world) == 1
    world.advance(1_000)
    assert received_by(client) == {1: 3}
    client.send(requests.close_consumer(9, 1))
    world.advance(20_000)
    client.take_all()
    waited = throttled(world)
    world.advance(20_000)
    assert throttled(world) == waited
    client.open_consumer(consumer_id=2, subscription_type=CommandSubscribe.Key_Shared, permits=100, consumer_name="b")
    world.advance(5_000)
    assert received_by(client) == {2: 9}


@pytest.mark.parametrize("leaving", ["consumer", "subscription", "topic"])
def test_who_leaves_keeps_nobody_waiting(leaving: str) -> None:
    # covers SUB-7
    world = world_of(dispatch_rate_messages=1)
    first, second = world.connect(), world.connect()
    publish(world, *[entry("x")] * 5)
    publish(world, *[entry("x")] * 5, topic=OTHER)
    joined(first, 2)
    joined(second, 1, topic=OTHER)
    world.advance(300)
    topic = world.core.topics[TOPIC]
    if leaving == "consumer":
        first.close()
    elif leaving == "subscription":
        for each in list(topic.subscriptions.values()):
            world.ask(lambda core, each=each: subscribing.delete(core, each))
    else:
        world.ask(lambda core: lifecycle.delete(core, topic))
    limit = world.core.dispatch_limit
    assert limit is not None
    if leaving != "consumer":
        assert [each.topic.full_name for each in limit.line] == [OTHER]
    second.take_all()
    world.advance(5_000)
    assert received_by(second) == {1: 5}
    assert not limit.line


def test_nothing_is_kept_of_who_would_have_waited_for_hours() -> None:
    # covers SUB-7: hostile input
    world = world_of(subscription_dispatch_rate_bytes=1)
    publish(world, entry("x" * 100_000), entry("y"))
    client = world.connect()
    for number in range(1_500):
        client.open_consumer(subscription=f"r{number}", permits=10, durable=False)
        client.send(requests.close_consumer(client.request_id(), 1))
        client.take_all()
    assert len(world.core._timers) < 1_100


def test_a_policy_that_changes_while_some_wait() -> None:
    # covers SUB-7 (levels)
    world = world_of()
    client = world.connect()
    set_policy(world, policy_table.DISPATCH_RATE, DispatchRate(5, period_s=1_000).to_json())
    publish(world, *[entry("x")] * 100)
    joined(client, 2)
    world.advance(1_000)
    assert sum(received_by(client).values()) == 5
    set_policy(world, policy_table.SUBSCRIBE_RATE, SubscribeRate(1).to_json())
    world.advance(1_000)
    assert not received_by(client), "another policy fills no bucket"
    set_policy(world, policy_table.SUBSCRIPTION_DISPATCH_RATE, DispatchRate(1, period_s=1).to_json())
    world.advance(1_000)
    assert not received_by(client)
    set_policy(world, policy_table.DISPATCH_RATE, DispatchRate(50, period_s=1_000).to_json())
    world.advance(9_980)
    assert received_by(client) == {1: 10, 2: 10}, "ten seconds at one a second"
    set_policy(world, policy_table.SUBSCRIPTION_DISPATCH_RATE, None)
    assert sum(received_by(client).values()) == 30, "what was left of the fifty"
    set_policy(world, policy_table.DISPATCH_RATE, None)
    assert sum(received_by(client).values()) == 200 - 5 - 20 - 30


def test_an_active_consumer_is_told_at_once_that_it_is() -> None:
    # covers FO-5, SUB-7
    world = world_of(topic_dispatch_rate_messages=1)
    publish(world, *[entry("x")] * 5)
    one, two = world.connect(), world.connect()
    one.open_consumer(subscription_type=CommandSubscribe.Failover, permits=9, consumer_name="a")
    two.send(requests.subscribe(1, TOPIC, "s", 1, CommandSubscribe.Failover, consumer_name="b", initial_position=1))
    two.send(requests.flow(1, 9))
    now_active = world.subscription().dispatcher.active_consumer
    assert now_active is not None
    active, waiting = (one, two) if now_active.session.session_id == one.session_id else (two, one)
    waiting.take_all()
    active.close()
    told = [each.command for each in waiting.take_all() if isinstance(each, fx.SendCommand)]
    assert [each.active_consumer_change.is_active for each in told if each.type == BaseCommand.ACTIVE_CONSUMER_CHANGE]
    world.advance(6_000)
    assert received_by(waiting) == {1: 5}, "from the beginning"


@pytest.mark.parametrize("is_trimmed", [False, True], ids=["kept", "trimmed"])
def test_a_reader_of_the_compacted_view_waits_too(is_trimmed: bool) -> None:
    # covers SUB-7, CMP-C4
    world = world_of(topic_dispatch_rate_messages=2)
    publish(world, *(keyed(f"k{number % 4}", str(number)) for number in range(12)))
    world.ask(lambda core: compaction.request(core, core.topics[TOPIC]))
    if is_trimmed:
        world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    client = world.connect_consumer(permits=100, read_compacted=True)
    assert received_by(client) == {1: 2}
    world.advance(500)
    assert received_by(client) == {1: 1}
    publish(world, keyed("k0", "last"))
    world.advance(5_000)
    assert received_by(client) == {1: 2}
