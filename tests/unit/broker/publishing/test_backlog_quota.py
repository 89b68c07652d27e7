"""Backlog quotas: size and age, times hold, exception and eviction (BQ-1 ... BQ-9)."""

from typing import Any

import pytest

from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    PRODUCER_EXCEPTION,
    REQUEST_HOLD,
    BacklogQuota,
)
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, consuming, entry

CODES = {
    REQUEST_HOLD: ServerError.ProducerBlockedQuotaExceededError,
    PRODUCER_EXCEPTION: ServerError.ProducerBlockedQuotaExceededException,
}
ENTRY_BYTES = len(entry("x" * 460))
"""About 500."""


def limit(world: World, policy: str, *, size: int = -1, seconds: int = -1) -> None:
    kind = DESTINATION_STORAGE if size >= 0 else MESSAGE_AGE
    quotas = {kind: BacklogQuota(size, seconds, policy).to_json()}
    world.set_policy(policy_table.BACKLOG_QUOTAS, quotas)
    world.advance(10)


def publish(client: Client, entries: int, *, first: int = 0, at_ms: int | None = None) -> None:
    """Entries one by one; what comes back stays."""
    time_ms = client.world.now_ms if at_ms is None else at_ms
    for number in range(first, first + entries):
        client.publish(1, entry("x" * 460, publish_time=time_ms), first=number)


def receipts(client: Client) -> int:
    return sum(len(each.sequence_ids) for each in client.effects if isinstance(each, fx.SendReceipts))


def is_closed(client: Client) -> bool:
    """Tells whether CLOSE_PRODUCER came, and came last."""
    kinds = [each.command.type for each in client.effects if isinstance(each, fx.SendCommand)]
    closes = kinds.count(BaseCommand.CLOSE_PRODUCER)
    assert closes <= 1
    return closes == 1 and isinstance(client.effects[-1], fx.SendCommand)


def refusal(world: World) -> Any:
    """The answer to a PRODUCER: the error, or None when it is let in."""
    client = world.connect()
    client.send(requests.producer(7, TOPIC, 1))
    command = client.take()
    client.close()
    return command.error if command.type == BaseCommand.ERROR else None


# ---- size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", CODES)
def test_producers_are_closed_after_the_receipt_of_what_reached_the_limit(
    world: World, eater: Client, feeder: Client, policy: str
) -> None:
    # covers BQ-1, BQ-3 (better), BQ-4, BQ-5
    limit(world, policy, size=10 * ENTRY_BYTES)
    publish(feeder, 9)
    assert not is_closed(feeder)
    publish(feeder, 3, first=9)
    assert is_closed(feeder)
    assert receipts(feeder) == 10
    error = refusal(world)
    assert error.error == CODES[policy]
    assert error.message.startswith("Cannot create producer on topic with backlog quota exceeded")
    assert f"subscription 's' leaves {10 * ENTRY_BYTES} bytes behind" in error.message
    assert "the oldest message is 0 seconds old" in error.message


def test_producers_in_turn(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-1, BQ-3 (better)
    feeder.open_producer(producer_id=2, name="other")
    limit(world, REQUEST_HOLD, size=6 * ENTRY_BYTES)
    feeder.publish_in_turn((1 + number % 2, entry("x" * 460)) for number in range(6))
    kinds = [type(each).__name__ for each in feeder.take_all()]
    assert kinds == ["SendReceipts", "SendReceipts", "SendColumnarReceipts", "SendCommand", "SendCommand"]
    assert refusal(world) is not None


def test_a_limit_may_be_as_large_as_numbers_are(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-1
    publish(feeder, 3)
    limit(world, REQUEST_HOLD, size=2**63 - 1)
    publish(feeder, 3, first=3)
    world.advance(world.core.config.quota_check_interval_ms + 1)
    assert refusal(world) is None
    assert world.subscription().backlog == 6


def test_eviction_meets_limits_of_less_than_an_entry(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-6: here we are better, Apache Pulsar leaves what its rounding cannot skip
    limit(world, BACKLOG_EVICTION, size=0)
    publish(feeder, 3)
    assert world.subscription().backlog == 0
    limit(world, BACKLOG_EVICTION, size=4 * ENTRY_BYTES)
    publish(feeder, 20, first=3)
    assert world.subscription().backlog == 3


def test_eviction_spares_who_is_quick(world: World, eater: Client, feeder: Client) -> None:
    eater.open_consumer("slow", 2)
    publish(feeder, 40)
    eater.ack([Position(1, number) for number in (30, 38)], consumer_id=1)
    eater.ack([Position(1, 29)], consumer_id=1, cumulative=True)
    limit(world, BACKLOG_EVICTION, size=20 * ENTRY_BYTES)
    assert world.subscription("slow").backlog == 18
    assert world.subscription().backlog == 8


def test_a_quota_is_found_exceeded_when_it_is_set_and_after_a_restart(
    world: World, eater: Client, feeder: Client
) -> None:
    publish(feeder, 20)
    limit(world, REQUEST_HOLD, size=10 * ENTRY_BYTES)
    assert is_closed(feeder)
    world = world.restart(**QUIET)
    assert refusal(world) is not None


def test_the_switch_turns_it_off() -> None:
    # covers BQ-3
    world, client = consuming(**QUIET, quota_check_enabled=False)
    client.open_producer()
    client.take_all()
    limit(world, REQUEST_HOLD, size=0)
    publish(client, 3)
    assert receipts(client) == 3
    assert not is_closed(client)


def test_what_came_while_the_disk_was_busy_is_evicted_when_it_is_on_disk(
    world: World, eater: Client, feeder: Client
) -> None:
    # covers BQ-6
    limit(world, BACKLOG_EVICTION, size=10 * ENTRY_BYTES)
    world.disk_is_slow = True
    publish(feeder, 12)  # the last two are not in the group that the check waits for
    publish(feeder, 28, first=12)
    world.sync(12)
    world.quicken()
    assert backlog_bytes.backlog_bytes(world.core.topics[TOPIC]) <= 9 * ENTRY_BYTES


# ---- age --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", CODES)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_the_open_ledger_counts(policy: str, cache_bytes: int) -> None:
    # covers BQ-2 (better)
    world = World(**QUIET, cache_bytes=cache_bytes)
    client, feeder = world.connect_consumer(), world.connect_producer()
    limit(world, policy, seconds=3)
    publish(feeder, 2)
    world.advance(3_000)
    assert not is_closed(feeder)
    assert refusal(world) is None
    world.advance(1)
    assert is_closed(feeder)
    error = refusal(world)
    assert error.error == CODES[policy]
    assert "'s'" in error.message
    assert "3 seconds old" in error.message
    client.ack([Position(1, 1)], cumulative=True)
    assert refusal(world) is None


def test_the_age_of_what_is_left_counts(world: World, eater: Client, feeder: Client) -> None:
    # covers BQ-2
    limit(world, REQUEST_HOLD, seconds=10)
    for number in range(20):
        publish(feeder, 1, first=number)
        world.advance(1_000)
        eater.ack([Position(1, max(0, number - 5))], cumulative=True)
    assert not is_closed(feeder)
    world.advance(20_000)
    assert is_closed(feeder)


def test_a_producer_that_came_late_is_closed_too(world: World, eater: Client, feeder: Client) -> None:
    limit(world, REQUEST_HOLD, seconds=3)
    publish(feeder, 1)
    world.advance(2_000)
    other = world.connect_producer(name="other")
    world.advance(1_001)
    assert is_closed(feeder)
    assert is_closed(other)


def test_eviction_by_age_leaves_entries_of_a_clock_that_is_ahead(world: World, eater: Client, feeder: Client) -> None:
    limit(world, BACKLOG_EVICTION, seconds=2)
    publish(feeder, 1, at_ms=world.now_ms)
    publish(feeder, 1, first=1, at_ms=world.now_ms + 3_600_000)
    publish(feeder, 1, first=2, at_ms=world.now_ms)
    world.advance(10_000)
    assert world.subscription().backlog == 1


def test_an_age_is_checked_again_when_a_read_failed() -> None:
    world = World(**QUIET, cache_bytes=0)
    _eater, feeder = world.connect_consumer("s", permits=0), world.connect_producer()
    publish(feeder, 3)
    world.advance(5_000)
    world.disk_is_slow = True
    limit(world, BACKLOG_EVICTION, seconds=2)
    world.sync()
    assert world.reads
    world.serve_reads(fail=True)
    world.disk_is_slow = False
    assert world.subscription().backlog == 3
    world.advance(2_000)
    assert world.subscription().backlog == 0


# ---- sizes and ages as statistics -------------------------------------------------------------------------------


LARGE, SMALL = entry("x" * 100_000), entry("x" * 100)


def send_large_then_small(feeder: Client, small: int = 1_000) -> None:
    """10 of 100 kB, each alone, then small ones in runs of 50."""
    for number in range(10):
        feeder.publish(1, LARGE, first=number)
    for number in range(10, 10 + small, 50):
        feeder.publish(1, *[SMALL] * 50, first=number)


def test_sizes_that_cannot_be_read_are_read_again(world: World) -> None:
    # covers BQ-1
    world = World(**QUIET, cache_bytes=0)
    eater, feeder = world.connect_consumer(), world.connect_producer()
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
