"""SENDs of several producers in turn: stored at once, with the effects that they have one by one."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from spark_pulsar.broker.topic_log import rollover
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.world import KEPT, QUIET, Client, World, entry

HOUR_MS = 3_600_000


def name(number: int) -> str:
    return f"persistent://public/default/t{number}"


def feeding(world: World, count: int) -> Client:
    """A client with a producer for each of so many topics, its id that of the topic."""
    client = world.connect()
    for number in range(count):
        client.open_producer(name(number), number)
    return client


def send(client: Client, numbers: Sequence[int], first: int = 0, messages: int = 1) -> None:
    """SENDs of these producers in one read of the broker, with rising sequence ids over all."""
    frames = [
        payload_frame(requests.send(number, first + at, messages), entry(f"{number}.{first + at}", batch=messages - 1))
        for at, number in enumerate(numbers)
    ]
    client.send_bytes(b"".join(frames))


def turns(count: int, times: int) -> list[int]:
    return list(range(count)) * times


def answers(client: Client) -> Iterator[tuple[int, int, int, int]]:
    """Producer id, sequence id, ledger id and entry id of each receipt, in order."""
    for effect in client.take_all():
        if isinstance(effect, fx.SendColumnarReceipts):
            columns = (effect.producer_ids, effect.sequence_ids, effect.ledger_ids, effect.entry_ids)
            yield from zip(*columns, strict=True)
        elif isinstance(effect, fx.SendReceipts):
            for at, sequence_id in enumerate(effect.sequence_ids):
                yield effect.producer_id, sequence_id, effect.ledger_id, effect.first_entry_id + at


def facts(world: World) -> list[Any]:
    """Counters of the topics."""
    found: list[Any] = []
    for topic in world.core.topics.values():
        assert topic.last_add_confirmed == topic.ledger.last_position
        producers = [each.messages_in for each in topic.producers.values()]
        found.append((topic.messages_in, topic.last_published_ms, producers))
        found.append((topic.ledger.total_entries, topic.ledger.size_bytes))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_at_once_is_as_one_by_one(seed: int) -> None:
    # covers PR-9, ML-1, ML-5
    rng = random.Random(seed)
    ledger: dict[str, Any] = {"ledger_max_entries": rng.choice((3, 50)), "ledger_min_age_ms": rng.choice((0, HOUR_MS))}
    worlds = [World(**QUIET, **KEPT, **ledger) for _ in range(2)]
    clients = [feeding(world, 5) for world in worlds]
    clients[1]._connection.splitter.least_columnar_sends = 1 << 30
    told: list[list[Any]] = [[], []]
    first = 0
    for _ in range(12):
        step = rng.randrange(6)
        numbers = [rng.randrange(5) for _ in range(rng.randrange(1, 40))]
        messages = rng.choice((1, 1, 3))
        for world, client, heard in zip(worlds, clients, told, strict=True):
            if step == 0:
                world.disk_is_slow = not world.disk_is_slow
            elif step == 1 and not world.disk_is_slow:
                world.ask(lambda core: lifecycle.unload(core, core.topics[name(1)]))
                assert client.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
                client.open_producer(name(1), 1)
            elif step == 2:
                world.advance(HOUR_MS + 1)
            send(client, numbers, first, messages)
            heard += answers(client)
        first += len(numbers)
    for world, client, heard in zip(worlds, clients, told, strict=True):
        world.quicken()
        heard += answers(client)
    # A ledger that becomes full within columnar SENDs takes all of them, so that ids may differ.
    assert [receipt[:2] for receipt in told[0]] == [receipt[:2] for receipt in told[1]]
    assert facts(worlds[0]) == facts(worlds[1])
    for world in worlds:
        assert world.restart().state.ledgers == world.state.ledgers


def test_a_ledger_that_is_left_before_its_entries_are_on_disk() -> None:
    # covers ML-1, ML-5
    world = World(**QUIET, **KEPT)
    client = feeding(world, 2)
    world.disk_is_slow = True
    send(client, turns(2, 4))
    world.ask(lambda core: rollover.open_ledger(core, core.topics[name(0)]))
    send(client, turns(2, 4), first=8)
    left, kept = (world.core.topics[name(number)] for number in range(2))
    assert (left.last_add_confirmed, kept.last_add_confirmed) == (Position(-1, -1), Position(-1, -1))
    world.sync(1)
    assert left.last_add_confirmed == Position(left.ledger.ledger_ids()[0], 3)
    world.quicken()
    assert left.last_add_confirmed == Position(left.ledger.ledger_ids()[1], 3)
    assert kept.last_add_confirmed == Position(kept.ledger.ledger_ids()[0], 7)
    assert len(list(answers(client))) == 16


def test_a_topic_that_is_deleted_and_made_again_before_its_entries_are_on_disk() -> None:
    # covers ML-5, TN-9
    world = World(**QUIET)
    client = feeding(world, 3)
    world.disk_is_slow = True
    send(client, turns(3, 2))
    world.ask(lambda core: lifecycle.delete(core, core.topics[name(1)]))
    world.ask(lambda core: lifecycle.create(core, core.topics[name(0)].name.base.at_partition(7)))
    world.quicken()
    made = world.core.topics[name(0) + "-partition-7"]
    assert made.last_add_confirmed == Position(-1, -1)
    assert [world.core.topics[name(number)].last_add_confirmed.entry_id for number in (0, 2)] == [1, 1]


def test_a_producer_that_is_not_open_ends_the_connection_after_those_before_it() -> None:
    # covers A16
    world = World(**QUIET)
    client = feeding(world, 2)
    send(client, [0, 1, 0, 1, 9, 0, 1])
    assert client.closed
    assert [world.core.topics[name(number)].ledger.total_entries for number in range(2)] == [2, 2]


def test_what_comes_for_a_producer_that_we_closed_is_dropped() -> None:
    # covers A13
    world = World(**QUIET)
    client = feeding(world, 3)
    world.ask(lambda core: lifecycle.disconnect_all(core, core.topics[name(1)]))
    assert client.expect(BaseCommand.CLOSE_PRODUCER).producer_id == 1
    send(client, turns(3, 3))
    assert sorted(each[0] for each in answers(client)) == [0, 0, 0, 2, 2, 2]
    client.open_producer(name(1), 1)
    send(client, turns(3, 3), first=9)
    assert sorted(each[0] for each in answers(client)) == turns(1, 3) + [1] * 3 + [2] * 3


def test_closing_a_producer_is_answered_after_its_receipts() -> None:
    # covers PR-8
    world = World(**QUIET)
    client = feeding(world, 2)
    world.disk_is_slow = True
    send(client, turns(2, 4))
    client.send(requests.close_producer(50, 1))
    assert client.take_all() == []
    world.quicken()
    *receipts, success = client.take_all()
    assert [type(each) for each in receipts] == [fx.SendReceipts, fx.SendReceipts, fx.SendColumnarReceipts]
    assert success.command.success.request_id == 50


def test_ids_may_be_far_apart() -> None:
    world = World(**QUIET)
    client = world.connect()
    ids = [5, 16 + 5, 16, 2**40, 2**56 - 1, 2**56, 2**64 - 1]
    for number, producer_id in enumerate(ids):
        client.open_producer(name(number), producer_id)
    send(client, ids * 4)
    assert sorted(each[0] for each in answers(client)) == sorted(ids * 4)
    assert [world.core.topics[name(number)].messages_in for number in range(len(ids))] == [4] * len(ids)


@pytest.mark.parametrize("deletes", [False, True])
def test_a_ledger_that_is_trimmed_before_its_entries_are_on_disk(deletes: bool) -> None:
    # covers ML-5
    world = World(**QUIET)
    client = feeding(world, 3)
    world.disk_is_slow = True
    send(client, turns(3, 8))
    world.ask(lambda core: lifecycle.unload(core, core.topics[name(1)]))
    if deletes:  # then the topic of the entries is not known, and no consumer can read them
        world.ask(lambda core: lifecycle.delete(core, core.topics[name(2)]))
    world.quicken()
    found = world.core.topics[name(1)]
    assert found.ledger.last_position == Position(2, 7)
    assert deletes or found.last_add_confirmed == Position(2, 7)
    assert world.core.topics[name(0)].last_add_confirmed == Position(1, 7)


def test_readers_at_the_tail_get_what_is_stored() -> None:
    # covers ML-5, SUB-2
    world = World(**QUIET)
    client = feeding(world, 3)
    eater = world.connect_consumer(topic=name(1), permits=100)
    send(client, turns(3, 3))
    assert eater.messages() == ["1.1", "1.4", "1.7"]
    send(client, turns(3, 2), first=9)
    assert eater.messages() == ["1.10", "1.13"]


def test_recovered_topics_get_a_ledger_of_their_own() -> None:
    # covers ML-1
    world = World(**QUIET, **KEPT)
    send(feeding(world, 3), turns(3, 2))
    again = world.restart(**QUIET, **KEPT)
    client = feeding(again, 3)
    send(client, turns(3, 2))
    receipts = list(answers(client))
    assert [each[3] for each in receipts] == [0, 0, 0, 1, 1, 1]
    assert all(len(again.core.topics[name(number)].ledger.ledger_ids()) == 2 for number in range(3))
