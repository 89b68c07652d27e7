"""Rolling over and trimming: when ledgers are closed, and when they go. Time is an argument."""

from typing import Any

import pytest

from spark_pulsar.broker.subscriptions import subscribing
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import MESSAGE_AGE, BacklogQuota, RetentionPolicy
from spark_pulsar.model.positions.ids import Position
from tests.unit.broker.world import KEPT, QUIET, START_MS, TOPIC, Client, World, entry

MINUTE_MS = 60_000
SMALL: dict[str, Any] = {**QUIET, "ledger_max_entries": 10, "ledger_min_age_ms": -1}


def retain(world: World, time_minutes: int, size_mb: int) -> None:
    value = RetentionPolicy(size_mb=size_mb, time_minutes=time_minutes).to_json()
    world.set_policy(policy_table.RETENTION, value)
    world.advance(100)


def fill(world: World, entries: int, *, size: int = 10, client: Client | None = None) -> Client:
    client = client or world.connect()
    if not world.core.sessions[client.session_id].producers:
        client.open_producer(name=None)
    for number in range(entries):
        client.publish(1, entry("x" * size, publish_time=world.now_ms), first=number)
    client.take_all()
    return client


def ledgers(world: World) -> list[tuple[int, int]]:
    """(ledger id, entries) of each ledger of the topic."""
    return [(info.ledger_id, info.entries) for info in world.state.topics_by_name[TOPIC].ledger.ledgers.values()]


# ---- rolling over -----------------------------------------------------------------------------------------------


def test_a_ledger_that_nobody_appends_to_rolls_at_its_greatest_age() -> None:
    # covers ML-2
    world = World(**QUIET)
    world.connect_consumer()
    fill(world, 3)
    world.advance(240 * MINUTE_MS - 1)
    assert ledgers(world) == [(1, 3)]
    world.advance(1)
    assert ledgers(world) == [(1, 3), (2, 0)]
    world.advance(1000 * MINUTE_MS)
    assert ledgers(world) == [(1, 3), (2, 0)]
    fill(world, 1)
    assert ledgers(world)[1][1] == 1


def test_the_age_of_a_ledger_goes_on_over_a_restart() -> None:
    world = World(**QUIET)
    world.connect().open_consumer()
    fill(world, 3)
    world.advance(100 * MINUTE_MS)
    now_ms = world.now_ms
    world = world.restart(**QUIET)
    world.now_ms = now_ms
    world.advance(140 * MINUTE_MS - 1)
    assert ledgers(world) == [(1, 3)]
    world.advance(1)
    assert ledgers(world) == [(1, 3), (2, 0)]


def test_a_ledger_does_not_stay_open_for_longer_than_retention_keeps_it() -> None:
    # covers TRIM-2
    world = World(**QUIET)
    fill(world, 3)
    retain(world, 30, -1)
    world.advance(30 * MINUTE_MS - 101)
    assert ledgers(world) == [(1, 3)]
    world.advance(1)
    assert ledgers(world) == [(1, 3), (2, 0)]
    world.advance(30 * MINUTE_MS)
    assert ledgers(world) == [(1, 3), (2, 0)]
    world.advance(1)
    assert ledgers(world) == [(2, 0)]


def test_an_empty_ledger_is_rolled_by_the_entry_that_comes_too_late() -> None:
    world = World(**QUIET)
    retain(world, 30, -1)
    fill(world, 1)
    world.advance(40 * MINUTE_MS)
    assert ledgers(world) == [(1, 1), (2, 0)]
    world.advance(300 * MINUTE_MS)
    fill(world, 1)
    assert ledgers(world) == [(3, 1)]
    world.advance(30 * MINUTE_MS)
    assert ledgers(world) == [(3, 1), (4, 0)]


# ---- trimming ---------------------------------------------------------------------------------------------------


def test_unsubscribing_the_slowest_frees_what_it_held() -> None:
    # covers CUR-16
    world = World(**SMALL)
    client = world.connect_consumer("slow", 1)
    client.open_consumer("quick", 2)
    fill(world, 25)
    client.ack([Position(3, 4)], consumer_id=2, cumulative=True)
    assert len(ledgers(world)) == 3
    world.ask(lambda core: subscribing.delete(core, core.topics[TOPIC].subscriptions["slow"]))
    assert ledgers(world) == [(3, 5)]


# ---- retention --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subscribed", [True, False])
def test_retention_by_time_counts_from_the_closing(subscribed: bool) -> None:
    # covers RET-1, TRIM-2
    world = World(**SMALL)
    retain(world, 10, -1)
    client = world.connect()
    if subscribed:
        client.open_consumer()
    fill(world, 10)
    world.advance(7 * MINUTE_MS)
    opened = fill(world, 10)
    if subscribed:
        client.ack([Position(2, 9)], cumulative=True)
    closed_ms = world.now_ms
    fill(world, 1, client=opened)  # closes the second ledger
    world.now_ms = closed_ms
    world.advance(10 * MINUTE_MS)
    assert ledgers(world) == [(1, 10), (2, 10), (3, 1), (4, 0)]
    world.advance(1)
    assert ledgers(world) == [(3, 1), (4, 0)]


def test_a_shorter_retention_works_at_once_on_topics_that_nobody_uses() -> None:
    world = World(**SMALL, **KEPT)
    fill(world, 31)
    now_ms = world.now_ms
    world = world.restart(**SMALL, default_retention_time_minutes=1, default_retention_size_mb=-1)
    world.now_ms = now_ms + 2 * MINUTE_MS
    world.advance(200)
    assert ledgers(world) == [(4, 1), (5, 0)]


def test_consumed_entries_are_kept_when_settled() -> None:
    """Closed ledgers that retention keeps are copied out of the journal, though all subscriptions have left them."""
    # covers RET-1, TRIM-4
    world = World(**SMALL, cache_bytes=0)
    retain(world, 60, -1)
    client = world.connect_consumer()
    fill(world, 15)
    client.ack([Position(2, 4)], cumulative=True)
    world.storage.checkpoint(world.state)
    world.settle()
    assert [info.first_entry_id for info in world.state.ledgers.values()] == [0, 0]
    retain(world, 0, 0)
    assert ledgers(world) == [(2, 5)]


def test_trimming_drops_the_timers_of_a_deleted_topic() -> None:
    world = World(**SMALL)
    retain(world, 10, -1)
    fill(world, 25)
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.advance(1000 * MINUTE_MS)
    assert TOPIC not in world.state.topics_by_name
    assert world.now_ms == START_MS + 1000 * MINUTE_MS + 100


def test_timers_do_not_pile_up() -> None:
    """A cancelled timer stays in the heap until its time comes, which may be days."""
    world = World(**SMALL)
    retain(world, 7 * 24 * 60, -1)
    quotas = {MESSAGE_AGE: BacklogQuota(limit_time_s=7 * 24 * 3600).to_json()}
    world.set_policy(policy_table.BACKLOG_QUOTAS, quotas)
    client = world.connect_consumer()
    feeder = fill(world, 15)
    client.ack([Position(1, 9)], cumulative=True)
    before = len(world.core._timers)
    for number in range(300):
        world.advance(MINUTE_MS)
        fill(world, 1, client=feeder)
        client.ack([Position(2 + number // 10, number % 10)], cumulative=True)
    assert len(world.core._timers) < before + 50
