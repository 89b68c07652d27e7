"""The limit of what all Shared subscriptions together may hold unacknowledged (SH-8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.broker.dispatch.limits.broker_unacked_limit import UnackedLimit
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.dispatch.test_dispatch import filled, numbers
from tests.unit.broker.world import TOPIC

SHARED, KEY_SHARED = CommandSubscribe.Shared, CommandSubscribe.Key_Shared
LIMITED = {"max_unacked_of_all": 40, "max_unacked_share": 0.25}


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
def test_who_holds_most_waits_until_half_is_acked(kind: int) -> None:
    # covers SH-8
    world, greedy = filled(60, **LIMITED)
    modest = world.connect()
    greedy.open_consumer("greedy", subscription_type=kind, permits=100)
    assert greedy.messages() == numbers(0, 40)
    modest.open_consumer("modest", subscription_type=kind, permits=100)
    assert modest.messages() == numbers(0, 11), "a quarter, and the one that goes beyond it"
    stats = world.core.topics[TOPIC].subscriptions
    assert [stats[name].dispatcher.is_blocked for name in ("greedy", "modest")] == [True, True]
    modest.ack([Position(1, number) for number in range(7)])
    assert modest.messages() == numbers(11, 18), "less than half of its share was left"
    greedy.ack([Position(1, number) for number in range(25)])
    greedy.send(requests.redeliver(1, [Position(1, 35)]))
    assert greedy.messages() == ["35"], "what comes again is not held up (SH-7)"
    greedy.ack([Position(1, number) for number in range(25, 31)])
    assert greedy.messages() == [], "20 are half"
    greedy.ack([Position(1, 31)])
    assert greedy.messages() == numbers(40, 60)
    assert modest.messages() == ["18"], "forty together"


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
def test_a_consumer_that_leaves_holds_nothing(kind: int) -> None:
    # covers SH-8
    world, greedy = filled(60, **LIMITED)
    modest = world.connect()
    greedy.open_consumer("greedy", subscription_type=kind, permits=100)
    modest.open_consumer("modest", subscription_type=kind, permits=100)
    modest.take_all()
    greedy.close()
    assert modest.messages() == numbers(11, 40)


def test_non_durable_subscriptions_do_not_count() -> None:
    # covers SH-8
    world, reader = filled(60, **LIMITED)
    reader.open_consumer("reader", subscription_type=SHARED, permits=100, durable=False)
    assert reader.messages() == numbers(0, 60)
    other = world.connect_consumer("other", subscription_type=SHARED, permits=100)
    assert other.messages() == numbers(0, 40)


def test_without_a_share_there_is_no_limit() -> None:
    # covers SH-8
    _, client = filled(60, max_unacked_of_all=40, max_unacked_share=0.0)
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert client.messages() == numbers(0, 60)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60))
def test_nobody_waits_for_ever(steps: list[tuple[int, int]]) -> None:
    # covers SH-8: a subscription that waits is woken before, or when, all messages are acked
    woken: list[object] = []
    limit = UnackedLimit(40, 0.25, woken.append)
    subscriptions: list[object] = [object() for _ in range(4)]
    for index, wanted in steps:
        each = subscriptions[index]
        held = limit.held.get(each, 0)  # type: ignore[call-overload]
        unacked = wanted if wanted < held else held + min(wanted - held, limit.allowance(each))  # type: ignore[arg-type]
        limit.note(each, unacked)  # type: ignore[arg-type]
        assert limit.total == sum(limit.held.values())
        assert all(limit.held[each] > limit.most_each // 2 - 1 for each in limit.waiting)
        assert limit.total <= 40 + 4 * (limit.most_each + 1)
    waiting = list(limit.waiting)
    woken.clear()
    for each in subscriptions:
        limit.note(each, 0)  # type: ignore[arg-type]
    assert set(woken) >= set(waiting)
    assert not limit.waiting
    assert not limit.is_reached
    assert not limit.total


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
@pytest.mark.parametrize("limits", [{"max_unacked_of_all": 1}, {"max_unacked_per_subscription": 1}])
def test_a_limit_of_one_lets_one_after_the_other_pass(kind: int, limits: dict[str, int]) -> None:
    # covers SH-7, SH-8: better on purpose, Apache Pulsar would wait for less than none
    _, client = filled(5, **limits)
    client.open_consumer(subscription_type=kind, permits=100)
    for number in range(5):
        assert client.messages() == [str(number)]
        client.ack([Position(1, number)])


def test_a_share_of_less_than_one_message_lets_one_pass() -> None:
    # covers SH-8
    _, client = filled(8, max_unacked_of_all=4, max_unacked_share=0.1)
    client.open_consumer("one", 1, subscription_type=SHARED, permits=100)
    assert client.messages() == numbers(0, 4)
    client.open_consumer("two", 2, subscription_type=SHARED, permits=100)
    assert client.messages() == ["0"]
    client.ack([Position(1, 0)], 2)
    assert client.messages() == ["1"]
