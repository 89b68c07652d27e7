"""Key_Shared subscriptions: which consumer gets which entry, and when."""

import pytest

from spark_pulsar.broker.dispatch.key_shared import dispatcher as dispatcher_module
from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.dispatch.key_shared.sticky_hashes import StickyHashBook
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.turn.events import AcksReceived, WritingPaused, WritingResumed
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.model.positions.singles import Singles
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.acks import PlainAck
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.costs import instructions
from tests.unit.broker.key_sharing import dispatcher, got, join, keyed, keys_of, owner, places, publish, subscribe
from tests.unit.broker.world import START_MS, Client, World, positions_of, producing


def two(**config: object) -> tuple[World, Client, Client, Client]:
    """A world, a producer's client, and two with a consumer each, "c1" and "c2"."""
    world, client = producing(**config)
    first, second = world.connect(), world.connect()
    join(first, "c1")
    join(second, "c2")
    return world, client, first, second


def test_no_more_than_so_much_waits_for_a_slow_consumer() -> None:
    # covers KS-10
    world = World(look_ahead_per_consumer=5)
    client, slow, quick = world.connect_producer(), world.connect(), world.connect()
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
    refused = other.request(subscribe("c3", ranges=[(15, 16), (9, 8)]), BaseCommand.ERROR)
    assert (refused.error, refused.message) == (
        ServerError.ConsumerAssignError,
        "Fixed hash range start > end for range: [9,8]",
    )
    subscription = world.subscription()
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
    assert [each.name for each in world.subscription().consumers] == ["c2"]


def test_an_expired_blocker_frees_its_slot() -> None:
    # covers KS-15, TTL-1
    world = World(default_message_ttl_s=10)
    client, first, second = world.connect_producer(), world.connect(), world.connect()
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
    world, client = producing(cache_bytes=0, max_read_entries=10, max_dispatch_bytes=500)
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
    assert world.subscription().consumers == []
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


def test_an_ack_of_one_entry_too_many_looks_for_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers ACK-1: any consumer may ack what another holds; a copy of an ack must not look at all for each id
    world = World()
    client, first, second = world.connect_producer(), world.connect(), world.connect()
    join(first, "c1", permits=1_000)
    join(second, "c2", permits=1_000)
    publish(client, *(keyed(f"k{number % 50}") for number in range(200)))
    mine, theirs = (positions_of(each.deliveries()) for each in (first, second))
    looked: list[tuple[int, int]] = []
    release = KeySharedDispatcher._release

    def noting(self: KeySharedDispatcher, consumer: Consumer, ledger_id: int, low: int, high: int) -> int:
        looked.append((low, high))
        return release(self, consumer, ledger_id, low, high)

    monkeypatch.setattr(KeySharedDispatcher, "_release", noting)
    extra = theirs[0].entry_id
    ids = sorted([*(position.entry_id for position in mine), extra])
    world.happen([AcksReceived(first.session_id, PlainAck(1, False, Singles(1, ids), None))])
    assert set(looked) == {(extra, extra + 1)}
    unacked = [each.unacked for each in world.subscription().consumers]
    assert sorted(unacked) == [0, len(theirs) - 1]


def test_what_was_noted_is_known_whatever_the_order() -> None:
    # covers KS-14
    book = StickyHashBook()
    book.note(1, 10, [5, 6])
    book.note(1, 14, [8])
    book.note(1, 8, [3])
    book.note(2, 0, [65_535])
    assert book.of(1, 7, 16) == [0, 3, 0, 5, 6, 0, 0, 8, 0]
    assert book.of(1, 10, 12) == [5, 6]
    assert book.of(2, 0, 1) == [65_535]
    assert book.of(3, 0, 2) == [0, 0]
    assert book.of(1, 2, 7) == [0] * 5
    assert book.of(1, 14, 17) == [8, 0, 0]
    assert book.of(1, 20, 22) == [0, 0]
    assert book.of_each(1, [8, 10, 14]) == [3, 5, 8]
    assert book.of_each(1, [2, 7, 8, 11, 30]) == [0, 0, 3, 6, 0]
    assert book.of_each(3, [0, 2]) == [0, 0]


def test_the_past_is_forgotten() -> None:
    book = StickyHashBook()
    book.note(1, 0, [1])
    book.note(2, 0, [2] * 100_000)
    book.remove_before(2, 10)
    assert (book.of(1, 0, 1), book.of(2, 0, 1)) == ([0], [2])
    book.remove_before(2, 70_000)
    assert book.of(2, 69_999, 70_001) == [0, 2]
    book.clear()
    assert book.of(2, 70_000, 70_001) == [0]


def test_runs_of_one_entry_cost_no_step_for_each_consumer() -> None:
    # covers KS-1
    costs = {}
    for consumers in (2, 40):
        world, client = producing()
        receiver = world.connect()
        for consumer_id in range(1, consumers + 1):
            join(receiver, f"c{consumer_id}", consumer_id)
        world.happen([WritingPaused(receiver.session_id)])
        for number in range(100):
            publish(client, keyed(f"key-{number}", f"{number}"))
        resumed = [WritingResumed(receiver.session_id)]
        costs[consumers] = instructions(lambda by=world, on=resumed: by.happen(on), dispatcher_module.__file__)
        assert sorted(got(receiver), key=int) == [str(number) for number in range(100)]
    assert costs[40] < 2 * costs[2], costs
