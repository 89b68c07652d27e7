"""Backlog quotas over entries of very different sizes: the true bytes count (BQ-1, BQ-6)."""

import pytest

from spark_pulsar.broker.topic_log import backlog_size
from spark_pulsar.model.policies.effective_policies import BACKLOG_EVICTION, REQUEST_HOLD
from spark_pulsar.model.positions.ids import Position
from tests.unit.broker.publishing.test_backlog_quota import CODES, is_closed, limit, refusal, subscription
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

LARGE, SMALL = entry("x" * 100_000), entry("x" * 100)


def send_large_then_small(feeder: Client, small: int = 1_000) -> None:
    """10 of 100 kB, each alone, then small ones in runs of 50."""
    for number in range(10):
        feeder.publish(1, LARGE, first=number)
    for number in range(10, 10 + small, 50):
        feeder.publish(1, *[SMALL] * 50, first=number)


def test_statistics_tell_large_entries_from_small_ones(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-1, BQ-10
    send_large_then_small(feeder)
    topic = world.core.topics[TOPIC]
    for acked, left in ((0, 9), (4, 5), (9, 0)):
        eater.ack([Position(1, acked)], cumulative=True)
        assert backlog_size.backlog_bytes(topic) == left * len(LARGE) + 1_000 * len(SMALL)


@pytest.mark.parametrize("policy", CODES)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 24])
def test_small_entries_after_large_ones_reach_no_limit(policy: str, cache_bytes: int) -> None:
    # covers BQ-1: by the average entry, 800 of these would be 40 % too much
    world = World(**QUIET, cache_bytes=cache_bytes)
    eater, feeder = world.connect(), world.connect()
    eater.open_consumer()
    feeder.open_producer()
    send_large_then_small(feeder, 500)
    eater.ack([Position(1, 9)], cumulative=True)
    limit(world, policy, size=1_000 * len(SMALL))
    for number in range(510, 1_009):
        feeder.publish(1, SMALL, first=number)
    assert not is_closed(feeder)
    feeder.publish(1, SMALL, first=1_009)
    assert is_closed(feeder)
    assert f"leaves {1_000 * len(SMALL)} bytes behind" in refusal(world).message


@pytest.mark.parametrize("cache_bytes", [0, 1 << 24])
@pytest.mark.parametrize("restarts", [False, True])
def test_eviction_keeps_all_that_fits(cache_bytes: int, restarts: bool) -> None:
    # covers BQ-6
    world = World(**QUIET, cache_bytes=cache_bytes)
    feeder, eater = world.connect(), world.connect()
    eater.open_consumer()
    feeder.open_producer()
    send_large_then_small(feeder)
    if restarts:
        world = world.restart(**QUIET, cache_bytes=cache_bytes)
    # 90 % are 900 small ones and a bit.
    limit(world, BACKLOG_EVICTION, size=1_000 * len(SMALL) + 10)
    topic = world.state.topics_by_name[TOPIC]
    assert topic.cursors["s"].mark_delete == Position(1, 109)
    assert topic.cursors["s"].backlog() == 900


def test_eviction_spares_a_backlog_below_the_limit(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-6
    limit(world, BACKLOG_EVICTION, size=10 * len(LARGE) + 1_000 * len(SMALL) + 1)
    send_large_then_small(feeder)
    assert subscription(world).backlog == 1_010
    eater.ack([Position(1, 8)], cumulative=True)
    feeder.publish(1, *[LARGE] * 8, first=1_010)
    assert subscription(world).backlog == 1_009
    feeder.publish(1, LARGE, SMALL, first=1_018)
    assert subscription(world).cursor.mark_delete > Position(1, 9)
    kept = backlog_size.backlog_bytes(world.core.topics[TOPIC])
    assert kept <= 9 * len(LARGE) + 900 * len(SMALL)
    assert kept > 8 * len(LARGE) + 900 * len(SMALL)


def test_sizes_that_cannot_be_read_are_read_again(world: World) -> None:
    # covers BQ-1
    world = World(**QUIET, cache_bytes=0)
    eater, feeder = world.connect(), world.connect()
    eater.open_consumer()
    feeder.open_producer()
    send_large_then_small(feeder, 100)
    eater.ack([Position(1, 50)], cumulative=True)
    world.disk_is_slow = True
    limit(world, REQUEST_HOLD, size=20 * len(SMALL))
    world.sync()
    assert world.reads
    world.serve_reads(fail=True)
    assert not is_closed(feeder)
    world.disk_is_slow = False
    world.advance(1_000)
    assert is_closed(feeder)
