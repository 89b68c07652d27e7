"""Corrections of the machine's clock: what follows the wall clock, and what does not."""

from typing import Any

import pytest

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.turn.events import ClockCorrected, SessionAuthenticated
from spark_pulsar.broker.turn.turn import Turn
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags
from tests.unit.broker.message_lifetime.test_delayed_delivery import later, shared
from tests.unit.broker.transacting import ON, begin
from tests.unit.broker.world import KEPT, QUIET, START_MS, TOPIC, Client, World, consuming, entry, producing

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


def test_a_delayed_message_comes_at_its_time_by_the_wall_clock() -> None:
    # covers CLK-1, CLK-2
    world = World(**QUIET)
    eater, producer = shared(world), world.connect()
    producer.open_producer()
    producer.publish(1, later("1", START_MS + HOUR_MS), later("2", START_MS + 2 * HOUR_MS + 1))
    world.correct_clock(HOUR_MS - 20)
    assert eater.messages() == []
    world.advance(20)
    assert eater.messages() == ["1"]
    world.correct_clock(-HOUR_MS)
    world.advance(2 * HOUR_MS)
    assert eater.messages() == [], "the clock was set back to before its time"
    world.advance(1)
    assert eater.messages() == ["2"]


def test_a_message_that_is_due_by_the_corrected_clock_is_not_held_back() -> None:
    # covers CLK-1
    world = World(**QUIET)
    world.correct_clock(HOUR_MS)
    eater, producer = shared(world), world.connect()
    producer.open_producer()
    producer.publish(1, later("due", START_MS + HOUR_MS), later("later", START_MS + HOUR_MS + 5))
    assert eater.messages() == ["due"]
    world.advance(5)
    assert eater.messages() == ["later"]


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_messages_expire_by_the_wall_clock(by_ms: int) -> None:
    # covers CLK-1, CLK-2
    world, client = producing(default_message_ttl_s=60, **QUIET)
    client.open_consumer(permits=0)
    client.publish(1, entry("old"))
    subscription = world.subscription()
    world.advance(59_999)
    assert subscription.backlog == 1
    world.correct_clock(by_ms)
    assert subscription.backlog == (0 if by_ms > 0 else 1)
    client.publish(1, entry("new", publish_time=world.now_ms + world.wall_ahead_ms), first=1)
    world.advance(59_999)
    assert subscription.backlog == (1 if by_ms > 0 else 2), "published by the corrected clock, it lives its minute"
    world.advance(1)
    assert subscription.backlog == (0 if by_ms > 0 else 1)


def test_markers_and_ledgers_have_the_corrected_time() -> None:
    # covers CLK-1
    world = World(**QUIET)
    world.correct_clock(HOUR_MS)
    client = world.connect_producer()
    client.publish(1, entry("x"))
    (info,) = world.state.ledgers.values()
    assert info.opened_ms == START_MS + HOUR_MS
    assert world.core.topics[TOPIC].last_published_ms == START_MS + HOUR_MS


def _logged_in(world: World, expires_ms: int) -> Client:
    client = world.open_socket()
    client.send(requests.connect("test", "token", b"good", features=FeatureFlags(supports_auth_refresh=True)))
    (order,) = client.take_all()
    world.happen([SessionAuthenticated(client.session_id, order.number, "u", expires_ms)])
    client.expect(BaseCommand.CONNECTED)
    return client


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_a_token_expires_by_the_wall_clock(by_ms: int) -> None:
    # covers CLK-2, AU-3
    world = World(authentication_enabled=True, authentication_refresh_check_ms=1_000, **QUIET)
    client = _logged_in(world, START_MS + 10_000)
    world.advance(5_000)
    world.correct_clock(by_ms)
    if by_ms < 0:
        world.advance(HOUR_MS)
        assert client.take_all() == [], "it has not expired by the clock as it is"
        world.advance(6_000)
    client.expect(BaseCommand.AUTH_CHALLENGE)


def test_time_outs_do_not_follow_the_wall_clock() -> None:
    # covers CLK-4
    world = World(keep_alive_interval_ms=30_000, **ON)
    client = world.connect()
    begin(client, 5_000)
    world.advance(1_000)
    for by_ms in (YEAR_MS, -2 * YEAR_MS):
        world.correct_clock(by_ms)
        assert client.take_all() == []
        assert len(world.state.transactions) == 1
    world.advance(3_999)
    assert len(world.state.transactions) == 1
    world.advance(1)
    assert world.state.transactions == {}
    assert world.core.transactions.of(0).timed_out == 1


def test_an_idle_subscription_does_not_age_by_a_correction() -> None:
    # covers CLK-4, CLK-3
    world, client = consuming(subscription_expiration_minutes=60, **QUIET)
    client.close()
    world.advance(59 * 60_000)
    for by_ms in (YEAR_MS, -2 * YEAR_MS):
        world.correct_clock(by_ms)
        world.ask(lambda core: core.idle.check(core.state.topics_by_name[TOPIC]))
        assert "s" in world.core.topics[TOPIC].subscriptions
    again = world.restart(START_MS - YEAR_MS, subscription_expiration_minutes=60, **QUIET)
    again.advance(60 * 60_000 - 1)
    assert again.state.cursors
    again.advance(1_001)
    assert not again.state.cursors, "its idle time lies in the future, so it counts from the start"


def ledgers_of_the_future(**config: Any) -> World:
    """A world whose clock stands a year before that of its ledgers: one closed and consumed, one that takes entries."""
    world, client = producing(now_ms=START_MS + YEAR_MS, ledger_max_entries=2, ledger_min_age_ms=0, **config)
    client.open_consumer()
    client.publish(1, *map(entry, "abc"))
    client.ack([each for run in world.state.ledgers.values() for each in _positions(run)])
    world.advance(200)  # until the acks are on disk
    return world


def _positions(info: Any) -> list[Any]:
    return [Position(info.ledger_id, entry_id) for entry_id in range(info.entries)]


def test_retention_of_the_future_ends() -> None:
    # covers CLK-3
    config = {**QUIET, "default_retention_time_minutes": 10, "default_retention_size_mb": -1}
    again = ledgers_of_the_future(**config).restart(START_MS, **config)
    first = min(again.state.ledgers)
    again.advance(10 * 60_000)
    assert first in again.state.ledgers
    again.advance(60_000)
    assert first not in again.state.ledgers


def test_a_full_ledger_of_the_future_is_followed_by_another() -> None:
    # covers CLK-3
    again = ledgers_of_the_future(**KEPT, **QUIET).restart(START_MS, ledger_max_entries=2, **KEPT, **QUIET)
    client = again.connect_producer(name="other")
    before = set(again.state.ledgers)
    client.publish(1, *(entry(str(number)) for number in range(4)))
    assert set(again.state.ledgers) - before, "not only when the clock has come to the year again"


def test_calls_at_wall_clock_times_are_spread_over_turns_after_a_correction() -> None:
    # covers CLK-2
    turn, calls = Turn(DurableState(), BrokerConfig()), []
    turn.begin_turn(1_000)
    for number in range(120):
        turn.at_wall(50_000 + number, lambda number=number: calls.append(number))
    cancelled = turn.at_wall(1_500, lambda: calls.append(-1))
    cancelled.cancel()
    turn.at(1_001, lambda: calls.append(1_000))
    turn.correct_clock(-500)
    counts = []
    for now_ms in (1_000, 1_001, 1_002, 1_003):
        turn.begin_turn(now_ms)
        turn.run_timers()
        counts.append(len(calls))
    assert counts == [50, 101, 121, 121]
    assert turn.next_deadline() is None
    assert (turn.wall_ms, turn.wall_since_ms, turn.age_ms(400), turn.age_ms(9_000)) == (503, 500, 103, 3)


def test_a_correction_is_an_event() -> None:
    # covers CLK-1
    world = World(**QUIET)
    world.happen([ClockCorrected(7)])
    assert (world.core.wall_ms, world.core.now_ms) == (START_MS + 7, START_MS)
