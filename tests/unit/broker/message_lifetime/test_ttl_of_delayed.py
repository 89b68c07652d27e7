"""Time to live that is counted from the delivery of delayed entries, where the configuration says so."""

import random

import pytest

from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.message_lifetime.test_delayed_delivery import later, published, send, shared
from tests.unit.broker.world import QUIET, START_MS, Client, World, entry

LATEST_MS = 1_000
"""Time by which entries may expire late."""


def world_of(ttl_s: int = 1, **more: int) -> World:
    return World(**QUIET, default_message_ttl_s=ttl_s, ttl_from_delivery=True, **more)


def test_nothing_is_delivered_that_has_expired_since_it_was_due() -> None:
    # covers TTL-1, TTL-6 (better)
    world = world_of()
    shared(world, permits=0)
    published(world, 2_000, 2_500)
    world.advance(3_300)
    eater = shared(world)
    assert eater.messages() == ["1"]
    world.advance(200 + LATEST_MS)
    assert world.subscription().backlog == 0


def test_those_that_wait_hide_nothing_however_many_they_are() -> None:
    # covers TTL-6 (better), TTL-4
    world = world_of()
    eater = shared(world, permits=0)
    feeder = published(world)
    for _ in range(4):
        send(feeder, *[60_000, None] * 300)
    world.advance(1_000 + LATEST_MS)
    assert world.subscription().backlog == 1_200
    world.advance(60_000 - 1_100)
    assert world.subscription().backlog == 1_200
    eater.send(requests.flow(1, 10_000))
    assert len(eater.messages()) == 1_200
    world.advance(1_200 + LATEST_MS)
    assert world.subscription().backlog == 0


def test_a_restart_forgets_neither_those_that_wait_nor_those_that_were_due() -> None:
    # covers TTL-6 (better), DEL-7
    world = world_of(ttl_s=10)
    shared(world)
    feeder = published(world, 2_000, None, 20_000, None)
    world.advance(3_000)
    send(feeder, None)
    world = world.restart(**QUIET, default_message_ttl_s=10, ttl_from_delivery=True)
    world.now_ms = START_MS + 3_000
    eater = shared(world)
    world.advance(7_000 + LATEST_MS)
    assert world.subscription().backlog == 2, "one lives until 12 s, one until 30 s"
    world.advance(1_000 + LATEST_MS)
    assert world.subscription().backlog == 1
    eater.take_all()
    world.advance(8_000 - LATEST_MS)
    assert eater.messages() == ["2"]
    world.advance(9_000)
    assert world.subscription().backlog == 1
    world.advance(100 + LATEST_MS)
    assert world.subscription().backlog == 0


def test_a_time_to_live_that_comes_later_counts_the_same() -> None:
    # covers TTL-1, TTL-6 (better)
    world = world_of(ttl_s=0)
    shared(world)
    published(world, 2_000, None, 9_000)
    world.advance(2_500)
    world.set_policy(policy_table.MESSAGE_TTL, 1)
    world.advance(100)
    assert world.subscription().backlog == 2
    world.advance(400 + LATEST_MS)
    assert world.subscription().backlog == 1
    world.advance(7_500)
    assert world.subscription().backlog == 0


@pytest.mark.parametrize("seed", range(6))
def test_every_entry_goes_at_its_time_and_none_before(seed: int) -> None:
    # covers TTL-1, TTL-4, TTL-6 (better)
    rng = random.Random(seed)
    world = world_of(ttl_s=3, cache_bytes=rng.choice([0, 1 << 20]))
    client: Client = world.connect()
    client.open_producer()
    shared(world, permits=rng.choice([0, 1_000]))
    ends: list[int] = []
    for _ in range(20):
        entries = []
        for _ in range(rng.randrange(1, 40)):
            delay_ms = rng.choice([0, 0, rng.randrange(8_000), 4_000])
            begins_ms = world.now_ms + delay_ms
            entries.append(
                later("d", begins_ms, publish_time=world.now_ms) if delay_ms else entry("p", publish_time=world.now_ms)
            )
            ends.append(begins_ms + 3_000)
        client.publish(1, *entries)
        world.advance(rng.randrange(1_000))
        living = sum(end > world.now_ms for end in ends)
        assert living <= world.subscription().backlog <= sum(end > world.now_ms - LATEST_MS for end in ends)
    world.advance(11_000 + LATEST_MS)
    assert world.subscription().backlog == 0
