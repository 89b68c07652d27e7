"""Key_Shared subscriptions: which consumer gets which entry, and when."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.subscriptions import cursor_moves
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


def test_the_ordering_key_wins_and_entries_without_key_are_spread() -> None:
    # covers KS-2, X5
    world, client, first, second = two()
    mine, other = keys_of(world, "c1", 1)[0], keys_of(world, "c2", 1)[0]
    publish(client, keyed(other, "a", ordering_key=mine.encode()), keyed(mine, "b", ordering_key=other.encode()))
    assert (got(first), got(second)) == (["a"], ["b"])
    publish(client, *(keyed(None, "x", sequence_id=number) for number in range(40)))
    assert 5 <= len(got(first)) <= 35
    assert 5 <= len(got(second)) <= 35


def test_a_batch_goes_whole_by_its_outer_key_and_costs_its_messages() -> None:
    # covers KS-2, SUB-4
    world, client, first, second = two()
    key = keys_of(world, "c1", 1)[0]
    publish(client, keyed(key, num_messages_in_batch=70), keyed(key, num_messages_in_batch=70), messages=70)
    assert places(first) == [(1, 0), (1, 1)]
    assert world.core.sessions[2].consumers[1].permits == -40
    publish(client, keyed(key, "late"))
    assert first.take_all() == second.take_all() == []
    first.send(requests.flow(1, 41))
    assert got(first) == ["late"]


def test_a_slot_that_moves_waits_until_the_old_owner_acked() -> None:
    # covers KS-10, KS-1
    world = World()
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1")
    keys = ["key-1", "NONE_KEY"]  # both move to c2
    publish(client, keyed(keys[0], "A1"), keyed("key-2", "mine"))
    assert got(first) == ["A1", "mine"]
    join(second, "c2")
    assert [owner(world, key) for key in keys] == ["c2", "c2"]
    publish(client, keyed(keys[0], "A2"), keyed(keys[1], "B1"), keyed(keys[0], "A3"))
    assert got(second) == ["B1"]
    assert first.take_all() == []
    assert dispatcher(world).replay_count == 2
    first.ack([Position(1, 1)])
    assert second.take_all() == []
    first.ack([Position(1, 0)])
    assert got(second) == ["A2", "A3"]
    assert dispatcher(world).replay_queues.drained == {world.core.sessions[2].consumers[1]: 1} | {
        world.core.sessions[3].consumers[1]: 0
    }


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


def test_what_a_consumer_leaves_behind_goes_to_the_new_owner_in_order() -> None:
    # covers KS-10, SH-4, RC-1
    world, client, first, second = two()
    key = keys_of(world, "c2", 1)[0]
    publish(client, *(keyed(key, str(number)) for number in range(4)))
    assert got(second) == ["0", "1", "2", "3"]
    second.ack([Position(1, 1)])
    second.close()
    publish(client, keyed(key, "4"))
    deliveries = first.deliveries()
    assert [each.entry_ids for each in deliveries] == [[0, 2, 3], [4]]
    assert all(each.redelivery_counts is None for each in deliveries)


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


def test_fixed_ranges_and_messages_that_nobody_covers() -> None:
    # covers KS-7, KS-8
    world = World()
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1", ranges=[(0, 5_000)])
    publish(client, keyed("Order-3459134", "6067"), keyed("key1", "293"), keyed("Order-3459134", "again"))
    assert got(first) == ["293"]
    join(second, "c2", ranges=[(5_001, 6_067)])
    assert got(second) == ["6067", "again"]
    assert dispatcher(world).selector.ranges_of(world.core.sessions[3].consumers[1]) == [(5_001, 6_067)]


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


@pytest.mark.parametrize(
    ("ranges", "any_order", "text"),
    [
        (
            [(0, 1)],
            False,
            "Active subscription key_shared mode of 'AUTO_SPLIT' is different than the connecting consumer's "
            "key_shared mode 'STICKY'.",
        ),
        (
            None,
            True,
            "Active subscription does not allow out of order delivery while the connecting consumer allows it.",
        ),
    ],
)
def test_all_consumers_want_the_same_mode(ranges: list[tuple[int, int]] | None, any_order: bool, text: str) -> None:
    # covers SUB-2
    world, client, _, _ = two()
    client.send(subscribe("c3", 3, ranges, any_order=any_order))
    refused = client.expect(BaseCommand.ERROR)
    assert refused.error == ServerError.ConsumerBusy
    assert refused.message == f"Subscription is of different type. {text}"
    assert len(world.core.topics[TOPIC].subscriptions["s"].consumers) == 2


def test_it_can_be_switched_off() -> None:
    # covers KS-16
    client = World(key_shared=False).connect()
    client.send(subscribe("c1"))
    refused = client.expect(BaseCommand.ERROR)
    assert (refused.error, refused.message) == (
        ServerError.NotAllowedError,
        "Key_Shared subscription is disabled by broker.",
    )


def test_a_cumulative_ack_is_ignored() -> None:
    # covers KS-12, ACK-2
    world, client, first, _ = two()
    publish(client, *(keyed(f"key-{number}") for number in range(10)))
    first.ack([Position(1, 9)], cumulative=True)
    assert world.core.topics[TOPIC].subscriptions["s"].backlog == 10


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


def test_skipping_the_blocker_frees_its_slot() -> None:
    # covers KS-15
    world = World()
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1")
    publish(client, keyed("key-1", "A1"))
    join(second, "c2")
    publish(client, keyed("key-1", "A2"))
    subscription = world.core.topics[TOPIC].subscriptions["s"]
    world.ask(lambda core: cursor_moves.skip(core, subscription, 1))
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
