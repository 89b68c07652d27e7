"""Time to live: entries expire in time, none is delivered late, none is lost early (TTL-1 ... TTL-7)."""

import random

import pytest

from spark_pulsar.broker.message_lifetime import ttl
from spark_pulsar.broker.message_lifetime.ttl import MAX_OUTLIERS
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, MessageMetadata
from tests.cases import cases
from tests.unit.broker.compacting import compact
from tests.unit.broker.world import KEPT, QUIET, TOPIC, Client, World, at, consuming, entry, positions_of

HOUR_MS = 3_600_000
LATEST_MS = 1_000
"""Time by which entries may expire late."""
TYPES = {"Exclusive": CommandSubscribe.Exclusive, "Shared": CommandSubscribe.Shared}


def expire(world: World, ttl_s: int | None) -> None:
    world.set_policy(policy_table.MESSAGE_TTL, ttl_s)
    world.advance(10)


def publish(client: Client, *times_ms: int, text: str = "m") -> list[Position]:
    """One run of entries with these publish times; where they stand, as far as they are on disk."""
    if not client.world.core.sessions[client.session_id].producers:
        client.open_producer(name=None)
    client.publish(1, *(entry(text, publish_time=time_ms) for time_ms in times_ms))
    others = [each for each in client.effects if not isinstance(each, fx.SendReceipts)]
    client.effects = [each for each in client.effects if isinstance(each, fx.SendReceipts)]
    positions = [position for _, position in client.receipts()]
    client.effects = others
    return positions


@pytest.fixture(params=[0, 1 << 20], ids=["stored", "cached"])
def world(request: pytest.FixtureRequest) -> World:
    return World(**QUIET, cache_bytes=request.param)


@pytest.mark.parametrize("kind", TYPES)
def test_a_connected_consumer_is_no_exception(world: World, kind: str) -> None:
    # covers TTL-5 (better), TTL-7
    expire(world, 2)
    client = world.connect_consumer(subscription_type=TYPES[kind], permits=10)
    publish(client, world.now_ms)
    assert len(client.deliveries()) == 1
    world.advance(2_000 + LATEST_MS)
    assert world.subscription().backlog == 0
    assert all(not consumer.pending for consumer in world.subscription().consumers)
    client.send(requests.redeliver(1))
    assert client.deliveries() == []


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_expired_is_never_delivered(world: World, kind: str) -> None:
    """The consumer asks at the very moment, long before any walk could come by."""
    # covers TTL-2 (better)
    expire(world, 10)
    client = world.connect_consumer(subscription_type=TYPES[kind])
    start = world.now_ms
    publish(client, *(start + 1_000 * number for number in range(5)))
    world.now_ms = start + 12_500
    client.send(requests.flow(1, 100))
    assert [each.entry_id for each in positions_of(client.deliveries())] == [3, 4]
    assert world.subscription().backlog == 2


def test_expired_entries_in_the_middle_are_left_out(world: World) -> None:
    expire(world, 10)
    client = world.connect_consumer(subscription_type=TYPES["Shared"])
    now = world.now_ms
    publish(client, now, now - HOUR_MS, now, now - HOUR_MS, now - HOUR_MS, now)
    client.send(requests.flow(1, 100))
    assert [each.entry_id for each in positions_of(client.deliveries())] == [0, 2, 5]
    world.advance(LATEST_MS)
    assert world.subscription().backlog == 3


def test_past_publish_times_expire_at_once_future_ones_late(world: World) -> None:
    # covers TTL-3
    expire(world, 60)
    client = world.connect_consumer()
    now = world.now_ms
    publish(client, now - HOUR_MS)
    world.advance(LATEST_MS)
    assert world.subscription().backlog == 0
    publish(client, now + HOUR_MS)
    world.advance(HOUR_MS + 59_000 - LATEST_MS)
    assert world.subscription().backlog == 1
    world.advance(1_000 + 2 * LATEST_MS)
    assert world.subscription().backlog == 0


def test_a_subscription_made_or_sought_back_to_expired_entries_does_not_get_them() -> None:
    world = World(**QUIET, **KEPT)
    expire(world, 5)
    client = world.connect_consumer()
    publish(client, world.now_ms, world.now_ms)
    world.advance(6_000)
    late = world.connect_consumer("late", permits=10)
    assert late.deliveries() == []
    world.advance(LATEST_MS)
    assert world.subscription("late").backlog == 0


def test_expiry_works_on_a_topic_that_nobody_uses_after_a_restart(world: World) -> None:
    expire(world, 60)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    now_ms = world.now_ms
    world = world.restart(**QUIET)
    world.now_ms = now_ms
    world.advance(59_000)
    assert world.state.topics_by_name[TOPIC].cursors["s"].backlog() == 1
    world.advance(1_000 + LATEST_MS)
    assert world.state.topics_by_name[TOPIC].cursors["s"].backlog() == 0


def test_turning_it_off_stops_it_and_a_longer_time_gives_time(world: World) -> None:
    expire(world, 10)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    expire(world, 100)
    world.advance(50_000)
    assert world.subscription().backlog == 1
    expire(world, None)
    world.advance(100_000)
    assert world.subscription().backlog == 1
    expire(world, 1)
    world.advance(LATEST_MS)
    assert world.subscription().backlog == 0


def test_a_long_backlog_expires_in_slices(world: World) -> None:
    # covers TTL-2 (better)
    client = world.connect_consumer()
    for _ in range(20):
        publish(client, *[world.now_ms] * 400)
    world.advance(10_000)
    expire(world, 5)
    world.advance(LATEST_MS)
    assert world.subscription().backlog == 0
    assert world.subscription().entries_expired == 8_000


def test_nothing_is_visited_while_nothing_can_expire(world: World) -> None:
    expire(world, 3_600)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    world.advance(1_000)
    reads = []
    world.broker.core.read = lambda *order: reads.append(order)  # type: ignore[method-assign, assignment]
    world.advance(HOUR_MS - 2_000)
    assert not reads


def test_many_odd_clocks_stay_bounded() -> None:
    world = World(**QUIET)
    expire(world, 60)
    client = world.connect_consumer()
    for number in range(3 * MAX_OUTLIERS):
        publish(client, world.now_ms + (HOUR_MS if number % 2 else 0))
    topic = world.core.topics[TOPIC]
    assert topic.ttl_monitor is not None
    world.advance(62_000)
    assert len(topic.ttl_monitor._outliers) <= MAX_OUTLIERS + 1
    client.send(requests.flow(1, 10_000))
    assert all(each.entry_id % 2 for each in positions_of(client.deliveries()))


@cases("seed", range(40))
def test_walk_with_clocks_that_differ(seed: int) -> None:
    """Never delivered when expired, never acked when not; gone in time when its clock is right."""
    # covers TTL-1, TTL-3, TTL-4 (better)
    rng = random.Random(seed)
    ttl_ms = rng.choice([1_000, 5_000])
    world = World(**QUIET, cache_bytes=rng.choice([0, 1 << 20]), ledger_max_entries=7, ledger_min_age_ms=-1)
    expire(world, ttl_ms // 1000)
    kind = rng.choice(list(TYPES.values()))
    feeder, eater = world.connect(), world.connect_consumer(subscription_type=kind)
    skews = [0, 0, rng.randint(-3_000, 3_000), rng.choice([0, -HOUR_MS, HOUR_MS])]
    published: dict[Position, tuple[int, bool]] = {}
    acked: set[Position] = set()
    cursor = world.subscription().cursor
    for _ in range(60):
        what = rng.random()
        if what < 0.6:
            skew = rng.choice(skews)
            for position in publish(feeder, *[world.now_ms + skew] * rng.randint(1, 4)):
                published[position] = (world.now_ms + skew, skew == 0)
        elif what < 0.8:
            eater.send(requests.flow(1, rng.randint(1, 5)))
        else:
            world.advance(rng.randint(0, 1_500))
        delivered = positions_of(eater.deliveries())
        for position in delivered:
            assert published[position][0] + ttl_ms > world.now_ms - 1_500, "delivered although expired"
        ours = [position for position in delivered if rng.random() < 0.5]
        acked.update(ours)
        if ours:
            eater.ack(ours)
        for position, (time_ms, is_right) in published.items():
            if position not in acked and cursor.is_acked(*position):
                assert time_ms + ttl_ms <= world.now_ms, "acked although not expired"
            if is_right and time_ms + ttl_ms + LATEST_MS < world.now_ms:
                assert cursor.is_acked(*position), "expired, and still there"


def test_producers_in_turn(world: World) -> None:
    # covers TTL-1, TTL-3, TTL-4 (better)
    expire(world, 10)
    client = world.connect_consumer()
    client.open_producer(producer_id=1, name="a")
    client.open_producer(producer_id=2, name="b")
    now = world.now_ms
    times_ms = (now, now - HOUR_MS, now, now - HOUR_MS, now, now)
    sends = [(1 + number % 2, entry("m", publish_time=time_ms)) for number, time_ms in enumerate(times_ms)]
    client.publish_in_turn(sends, first=100)
    client.take_all()
    world.advance(LATEST_MS)
    assert world.subscription().backlog == 4
    world.advance(10_000)
    assert world.subscription().backlog == 0


def test_a_read_that_fails_is_tried_again() -> None:
    world = World(**QUIET, cache_bytes=0)
    expire(world, 2)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    world.disk_is_slow = True
    world.advance(2_500)
    world.sync()
    assert world.reads
    world.serve_reads(fail=True)
    assert world.subscription().backlog == 1
    world.disk_is_slow = False
    world.advance(1_500)
    assert world.subscription().backlog == 0


def test_entries_of_a_lagging_clock_that_are_not_on_disk_yet_are_not_forgotten() -> None:
    # covers TTL-3, TTL-4 (better)
    world = World(**QUIET, cache_bytes=0)
    expire(world, 60)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    world.disk_is_slow = True
    publish(client, world.now_ms - HOUR_MS)
    world.advance(1_000)
    world.serve_reads()
    world.quicken()
    world.advance(2_000)
    assert world.subscription().backlog == 1


@pytest.mark.parametrize("how", ["restart", "seek"])
def test_a_lagging_clock_is_noticed_again_after_a_restart_and_a_seek_back(how: str) -> None:
    # covers TTL-2 (better): found by the simulation, seed 2173
    world = World(**QUIET, **KEPT)
    expire(world, 30)
    client = world.connect_consumer()
    publish(client, world.now_ms)
    publish(client, *[world.now_ms - 20_000] * 5)
    publish(client, world.now_ms, world.now_ms - 10_000)
    assert world.subscription().backlog == 8
    if how == "restart":
        world = world.restart(**QUIET, **KEPT)
        world.advance(1_000)
    else:
        client.ack([Position(1, 7)], cumulative=True)
        assert world.subscription().backlog == 0
        client.send(requests.seek_to_id(client.request_id(), 1, at(Position(-1, -1))))
        world.advance(1_000)
    assert world.subscription().backlog == 8
    world.advance(9_000 + LATEST_MS)
    assert world.subscription().backlog == 3
    world.advance(10_000)
    assert world.subscription().backlog == 2
    world.advance(10_000)
    assert world.subscription().backlog == 0


def test_only_the_beginning_of_a_long_backlog_is_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    world, client = consuming(**QUIET, **KEPT)
    monkeypatch.setattr(ttl, "_SURVEYED_ENTRIES", 10)
    publish(client, *[world.now_ms] * 9, world.now_ms - 20_000)
    publish(client, *[world.now_ms - 20_000] * 5)
    expire(world, 30)
    world.advance(10_000 + LATEST_MS)
    assert world.subscription().backlog == 14
    world.advance(20_000 + LATEST_MS)
    assert world.subscription().backlog == 0


@pytest.mark.parametrize("permits", [1, 10])
@pytest.mark.parametrize("trims", [False, True], ids=["there", "trimmed"])
def test_what_is_expired_is_not_delivered_from_the_compacted_view_either(permits: int, *, trims: bool) -> None:
    # covers TTL-1, TTL-2 (better), CMP-C4
    world = World(**QUIET, ledger_max_entries=2, ledger_min_age_ms=-1)
    client = world.connect_consumer("keep", permits=0)
    client.open_producer(name=None)
    times = {"a": world.now_ms, "b": world.now_ms + HOUR_MS, "c": world.now_ms, "d": world.now_ms + HOUR_MS}
    times["e"] = times["b"]
    for key, time_ms in times.items():
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=time_ms, partition_key=key)
        client.publish(1, build_entry(metadata, key.encode()))
    compact(world)
    if trims:
        world.ask(lambda core: cursor_moves.clear_backlog(core, core.topics[TOPIC].subscriptions["keep"]))
        assert world.state.topics_by_name[TOPIC].ledger.ledger_ids() == [3]
    world.advance(HOUR_MS // 2)
    expire(world, 60)
    for is_durable, expected in ((True, ["b", "d", "e"]), (False, [*times])):
        late = world.connect()
        late.open_consumer("late" if is_durable else "reader", permits=permits, read_compacted=True, durable=is_durable)
        seen = late.messages()
        for _ in times:
            late.send(requests.flow(1, 1))
            seen += late.messages()
        assert seen == expected
