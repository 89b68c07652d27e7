"""Orders of the admin API to a subscription: skip, clear, expire, reset; with and without consumers."""

from collections.abc import Callable

import pytest

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.message_lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.subscriptions.acks import MAX_BITS
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import EntriesLost
from spark_pulsar.model.errors import UnknownError
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.broker.dispatch.test_dispatch import filled, numbers
from tests.unit.broker.world import KEPT, START_MS, TOPIC, Client, World, entry, producing

SHARED = CommandSubscribe.Shared
HOUR_MS = 3_600_000


def order(world: World, request: Callable[[Core, Subscription], object]) -> None:
    world.ask(lambda core: request(core, world.subscription()))


def later(world: World, request: Callable[[Core, Subscription, Callable[[], None]], object]) -> list[str]:
    """Give an order with an answer; what was answered, when all of it is on disk."""
    answers: list[str] = []

    def begin(core: Core) -> None:
        request(core, world.subscription(), lambda: core.when_durable(lambda: answers.append("done")))

    world.ask(begin)
    world.settle()
    return answers


@pytest.mark.parametrize("ledger_max_entries", [50_000, 1])
def test_what_a_shared_consumer_holds_is_taken_from_it(ledger_max_entries: int) -> None:
    # covers CUR-14, SH-6: the consumer's unacked count falls and it gets more
    ledgers = {"ledger_max_entries": ledger_max_entries, "ledger_min_age_ms": -1}
    world, client = filled(0, max_unacked_per_consumer=4, **KEPT, **ledgers)
    for number in range(10):
        client.store(1, entry(str(number)), first=number)
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert client.messages() == numbers(0, 4)
    order(world, lambda core, sub: cursor_moves.skip(core, sub, 3))
    assert client.messages() == numbers(4, 7)
    (consumer,) = world.subscription().consumers
    assert consumer.unacked == 4
    client.request(requests.close_consumer(client.request_id(), 1), BaseCommand.SUCCESS)
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert client.messages() == numbers(3, 7), "nothing that was skipped comes back"


def test_what_was_to_be_redelivered_is_forgotten() -> None:
    # covers CUR-14
    world, client = filled(5)
    client.open_consumer(subscription_type=SHARED, permits=5)
    assert client.messages() == numbers(0, 5)
    client.send(requests.redeliver(1, [Position(1, 1), Position(1, 3)]))
    order(world, lambda core, sub: cursor_moves.skip(core, sub, 2))
    client.send(requests.flow(1, 10))
    assert client.messages() == ["3"]


def test_what_is_acked_while_it_waits_to_be_redelivered_is_forgotten() -> None:
    # covers ACK-1
    _, client = filled(5)
    client.open_consumer(subscription_type=SHARED, permits=5)
    assert client.messages() == numbers(0, 5)
    client.send(requests.redeliver(1, [Position(1, 1), Position(1, 3)]))
    client.ack([Position(1, 1)])
    client.send(requests.flow(1, 10))
    assert client.messages() == ["3"]


# ---- by age -----------------------------------------------------------------------------------------------------


def aged(*ages_ms: int, cache_bytes: int) -> tuple[World, Client]:
    """A subscription, and entries of these ages after it, over several ledgers."""
    world, client = producing(cache_bytes=cache_bytes, ledger_max_entries=3, ledger_min_age_ms=-1, **KEPT)
    client.open_consumer(subscription_type=SHARED)
    for number, age_ms in enumerate(ages_ms):
        client.publish(1, entry(str(number), publish_time=START_MS - age_ms), first=number)
    client.take_all()
    return world, client


@pytest.fixture(params=[0, 1 << 20], ids=["stored", "cached"])
def cache_bytes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize(
    ("ages_h", "left"),
    [
        ((9, 8, 7, 1), ["3"]),
        ((9, 9, 9, 9, 9, 9, 9), []),
        ((1, 9, 9), ["0", "1", "2"]),
        ((9, -24, 9, 1), ["1", "3"]),
        ((9, 5, 9, 1), ["3"]),
    ],
    ids=["old ones in front", "all", "behind a fresh one", "stepping over one from the future", "not in order"],
)
def test_expiring_by_age(ages_h: tuple[int, ...], left: list[str], cache_bytes: int) -> None:
    # covers TTL-8, TTL-4 (better: what is not old enough stays)
    world, client = aged(*(HOUR_MS * age for age in ages_h), cache_bytes=cache_bytes)
    assert later(world, lambda core, sub, done: expire_by_time.older_than(core, sub, START_MS - 3 * HOUR_MS, done)) == [
        "done"
    ]
    client.send(requests.flow(1, 100))
    assert client.messages() == left
    client = world.restart().connect()
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert client.messages() == left


def test_a_long_backlog_expires_in_many_turns() -> None:
    # covers TTL-8: no turn looks at more than some thousand entries
    world, client = producing()
    client.open_consumer()
    old = entry("x", publish_time=START_MS - HOUR_MS)
    for first in range(0, 5_000, 500):
        client.publish(1, *[old] * 500, first=first)
    client.take_all()
    world.disk_is_slow = True
    answers: list[str] = []
    world.ask(
        lambda core: expire_by_time.older_than(core, world.subscription(), START_MS, lambda: answers.append("done"))
    )
    assert (world.subscription().backlog, answers) == (3_000, [])
    world.disk_is_slow = False
    world.advance(10)
    assert (world.subscription().backlog, answers) == (0, ["done"])


def test_expiring_ends_when_storage_cannot_read() -> None:
    # covers TTL-8: nothing is consumed on doubt
    world, _ = aged(HOUR_MS, HOUR_MS, cache_bytes=0)
    answers: list[str] = []
    world.disk_is_slow = True
    world.ask(
        lambda core: expire_by_time.older_than(core, world.subscription(), START_MS, lambda: answers.append("done"))
    )
    world.serve_reads(fail=True)
    assert (world.subscription().backlog, answers) == (2, ["done"])


# ---- resetting --------------------------------------------------------------------------------------------------


def test_a_reset_closes_the_consumers_and_is_refused_while_another_runs() -> None:
    # covers CUR-11, CUR-13
    world, client = aged(5_000, 4_000, 3_000, cache_bytes=0)
    world.disk_is_slow = True
    sub = world.subscription()
    answers: list[str] = []
    world.ask(lambda core: cursor_moves.reset_to_time(core, sub, START_MS - 4_000, lambda: answers.append("done")))
    client.expect(BaseCommand.CLOSE_CONSUMER)
    with pytest.raises(UnknownError, match="Failed to fence"):
        cursor_moves.reset_to_position(world.core, sub, Position(1, 0), lambda: None)
    world.quicken()
    assert answers == ["done"]
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert client.messages() == ["1", "2"]


@pytest.mark.parametrize(
    ("index", "excluded", "expected"),
    [
        (-1, False, [(0, None), (1, None)]),
        (0, False, [(0, None), (1, None)]),
        (2, False, [(0, 0b1100), (1, None)]),
        (2, True, [(0, 0b1000), (1, None)]),
        (3, True, [(1, None)]),
        (9, False, [(1, None)]),
        (-1, True, [(1, None)]),
    ],
)
def test_a_reset_into_a_batch(
    index: int, excluded: bool, expected: list[tuple[int, int | None]], cache_bytes: int
) -> None:
    # covers CUR-11, CUR-3
    world, client = filled(2, batch=4, batch_index_acks=True, cache_bytes=cache_bytes)
    client.open_consumer()

    def reset(core: Core, sub: Subscription, done: Callable[[], None]) -> None:
        cursor_moves.reset_to_position(core, sub, Position(1, 0), done, batch_index=index, excluded=excluded)

    assert later(world, reset) == ["done"]
    client.take_all()
    client.open_consumer(permits=100)
    got = [
        (each.first_entry_id + offset, None if each.ack_sets is None else each.ack_sets[offset])
        for each in client.take_all()
        if isinstance(each, fx.SendMessages)
        for offset in range(len(each.starts))
    ]
    assert got == expected


@pytest.mark.parametrize(
    ("lost", "excluded", "first"), [(True, True, 1), (True, False, 0), (False, True, 0), (False, False, 0)]
)
def test_a_reset_into_a_batch_that_cannot_be_read(*, lost: bool, excluded: bool, first: int) -> None:
    # covers CUR-11: behind what is lost when that is asked for; never past what may be read tomorrow
    world, client = filled(2, batch=4, batch_index_acks=True, cache_bytes=0)
    client.open_consumer()
    world.disk_is_slow = True
    sub = world.subscription()
    answers: list[str] = []
    world.ask(
        lambda core: cursor_moves.reset_to_position(
            core, sub, Position(1, 0), lambda: answers.append("done"), batch_index=1, excluded=excluded
        )
    )
    if lost:
        world.happen([EntriesLost([(1, 0, 1)], "ledgers/1.ledger:0", "a checksum")])
    world.serve_reads(fail=True)
    assert answers == ["done"]
    assert sub.cursor.next_to_read == Position(1, first)


def test_a_seek_into_a_batch_keeps_no_more_than_an_ack_does() -> None:
    # covers CUR-3: hostile input
    for words, kept in ((MAX_BITS // 64, 1), (MAX_BITS // 64 + 1, 0)):
        world, client = filled(2, batch=4, batch_index_acks=True)
        client.open_consumer()
        seek = requests.seek_to_id(9, 1, MessageId(1, 0), 4)
        seek.seek.message_id.ack_set[:] = [-1] * words
        client.send(seek)
        assert len(world.state.cursors[1].batch_sets) == kept


def test_without_batch_indexes_a_reset_takes_the_whole_batch() -> None:
    # covers ACK-9 (switch off)
    world, client = filled(2, batch=4, batch_index_acks=False)
    client.open_consumer()

    def reset(core: Core, sub: Subscription, done: Callable[[], None]) -> None:
        cursor_moves.reset_to_position(core, sub, Position(1, 0), done, batch_index=2)

    assert later(world, reset) == ["done"]
    client.take_all()
    client.open_consumer(permits=100)
    assert [each.ack_sets for each in client.deliveries()] == [None]


def test_a_reset_to_the_end_frees_what_nobody_needs() -> None:
    # covers TRIM-1, CUR-11
    world, client = producing(ledger_max_entries=3, ledger_min_age_ms=-1)
    client.open_consumer()
    for number in range(7):
        client.publish(1, entry(str(number)), first=number)
    ledger = world.core.topics[TOPIC].ledger
    assert len(ledger.ledger_ids()) == 3
    order(world, lambda core, sub: cursor_moves.reset_to_position(core, sub, Position(9, 0), lambda: None))
    assert len(ledger.ledger_ids()) == 1
