"""Key_Shared subscriptions: which consumer gets which entry, and when."""

from __future__ import annotations

import pytest

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.key_sharing import dispatcher, got, join, keyed, keys_of, owner, places, publish, subscribe
from tests.unit.broker.world import START_MS, TOPIC, Client, World


def two(**config: object) -> tuple[World, Client, Client, Client]:
    """A world, a producer's client, and two with a consumer each, "c1" and "c2"."""
    world = World(**config)
    client = world.connect()
    client.open_producer()
    first, second = world.connect(), world.connect()
    join(first, "c1")
    join(second, "c2")
    return world, client, first, second


def test_a_slot_that_comes_back_goes_on_at_once() -> None:
    # covers KS-10
    world = World()
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1")
    publish(client, keyed("key-1", "A1"))
    join(second, "c2")
    publish(client, keyed("key-1", "A2"))
    assert got(first) == ["A1"]
    assert second.take_all() == []
    second.close()
    assert got(first) == ["A2"]


def test_no_more_than_so_much_waits_for_a_slow_consumer() -> None:
    # covers KS-10
    world = World(look_ahead_per_consumer=5)
    client, slow, quick = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(slow, "c1", permits=1)
    join(quick, "c2", permits=1_000)
    mine, other = keys_of(world, "c1", 1)[0], keys_of(world, "c2", 1)[0]
    publish(client, *(keyed(mine, f"{number}") for number in range(20)), keyed(other, "behind"))
    assert quick.take_all() == []
    assert dispatcher(world).replay_count == 10
    slow.send(requests.flow(1, 12))
    assert got(quick) == ["behind"]
    assert got(slow) == [str(number) for number in range(13)]
    slow.send(requests.flow(1, 100))
    assert got(slow) == [str(number) for number in range(13, 20)]


@pytest.mark.parametrize("first", [None, [(0, 10)]])
def test_a_consumer_whose_ranges_cannot_be_never_was_there(first: list[tuple[int, int]] | None) -> None:
    # covers KS-7
    world = World()
    client, other = world.connect(), world.connect()
    if first:
        join(client, "c1", ranges=first)
    other.send(subscribe("c3", ranges=[(15, 16), (9, 8)]))
    refused = other.expect(BaseCommand.ERROR)
    assert (refused.error, refused.message) == (
        ServerError.ConsumerAssignError,
        "Fixed hash range start > end for range: [9,8]",
    )
    subscription = world.core.topics[TOPIC].subscriptions["s"]
    assert [each.name for each in subscription.consumers] == (["c1"] if first else [])
    assert (subscription.type is None) == (first is None)
    other.send(requests.flow(1, 10))
    join(other, "c4", consumer_id=4, ranges=[(500, 600)])


def test_ranges_that_are_taken_are_free_when_the_other_connection_is_dead() -> None:
    # covers KS-7, EX-1
    world = World()
    client, other = world.connect(), world.connect()
    join(client, "c1", ranges=[(0, 250)])
    other.send(subscribe("c2", ranges=[(100, 300)]))
    client.expect(BaseCommand.PING)
    client.send(commands.pong())
    refused = other.expect(BaseCommand.ERROR)
    assert (refused.error, refused.message) == (
        ServerError.ConsumerAssignError,
        "Range conflict with consumer c1",
    )
    other.send(subscribe("c2", ranges=[(100, 300)]))
    world.advance(5_000)
    assert other.expect(BaseCommand.SUCCESS).request_id == 1
    assert client.closed
    assert [each.name for each in world.core.topics[TOPIC].subscriptions["s"].consumers] == ["c2"]


def test_an_expired_blocker_frees_its_slot() -> None:
    # covers KS-15, TTL-1
    world = World(default_message_ttl_s=10)
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1")
    publish(client, keyed("key-1", "A1"))
    join(second, "c2")
    world.advance(8_000)
    publish(client, keyed("key-1", "A2", publish_time=START_MS + 8_000))
    assert second.take_all() == []
    world.advance(3_000)
    assert got(second) == ["A2"]


def test_unacked_limits_hold_for_each_consumer() -> None:
    # covers SH-6, SH-7
    world, client, first, second = two(max_unacked_per_consumer=4, max_unacked_per_subscription=100)
    mine, other = keys_of(world, "c1", 1)[0], keys_of(world, "c2", 1)[0]
    publish(client, *(keyed(mine, str(number)) for number in range(10)), keyed(other, "other"))
    assert (got(first), got(second)) == (["0", "1", "2", "3"], ["other"])
    first.ack([Position(1, 0), Position(1, 1)])
    assert got(first) == ["4", "5"]


def test_the_backlog_is_dealt_out_from_disk_and_in_pieces() -> None:
    # covers KS-1, SUB-8
    world = World(cache_bytes=0, max_read_entries=10, max_dispatch_bytes=500)
    client = world.connect()
    client.open_producer()
    publish(client, *(keyed(f"key-{number % 7}", str(number)) for number in range(200)))
    first, second = world.connect(), world.connect()
    join(first, "c1", permits=0)
    join(second, "c2", permits=0)
    first.send(requests.flow(1, 3))
    second.send(requests.flow(1, 1_000))
    theirs = got(second)
    assert theirs == [str(number) for number in range(200) if owner(world, f"key-{number % 7}") == "c2"]
    first.send(requests.flow(1, 1_000))
    assert sorted(map(int, [*got(first), *theirs])) == list(range(200))


def test_each_key_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers KS-14
    hashed = []

    def count(self: StickyHashes, buffer: bytes, starts: list[int], ends: list[int]) -> list[int]:
        hashed.append(len(starts))
        return original(self, buffer, starts, ends)

    original = StickyHashes.of
    monkeypatch.setattr(StickyHashes, "of", count)
    world, client, first, second = two()
    join(client, "c3", 3, permits=1)
    publish(client, *(keyed(f"key-{number % 9}", str(number)) for number in range(200)))
    for each in (first, second):
        for _ in range(50):
            each.send(requests.flow(1, 1))
    client.send(requests.close_consumer(8, 3))
    first.send(requests.flow(1, 1_000))
    second.send(requests.flow(1, 1_000))
    assert dispatcher(world).replay_count == 0
    assert len(places(first)) + len(places(second)) >= 199
    assert sum(hashed) == 200


def test_seeking_forgets_what_waits_and_drains() -> None:
    # covers CUR-11
    world, client, first, second = two()
    publish(client, *(keyed(f"key-{number}", str(number)) for number in range(10)))
    first.take_all()
    second.take_all()
    first.send(requests.seek_to_time(50, 1, 0))
    assert world.core.topics[TOPIC].subscriptions["s"].consumers == []
    first.take_all()
    join(first, "c1", 2)
    assert got(first) == [str(number) for number in range(10)]


def test_delayed_entries_go_to_the_owner_at_their_time() -> None:
    # covers DEL-1, DEL-4, KS-1
    world, client, first, second = two()
    mine, other = keys_of(world, "c1", 1)[0], keys_of(world, "c2", 1)[0]
    publish(client, keyed(mine, "late", deliver_at_time=START_MS + 5_000), keyed(mine, "soon"), keyed(other, "theirs"))
    assert (got(first), got(second)) == (["soon"], ["theirs"])
    world.advance(6_000)
    assert (got(first), second.take_all()) == (["late"], [])
