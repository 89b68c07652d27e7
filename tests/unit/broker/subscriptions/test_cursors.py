"""Acks, seeks and readers: what moves a cursor."""

import tracemalloc

import pytest

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.broker.dispatch.test_dispatch import filled, numbers
from tests.unit.broker.world import KEPT, START_MS, TOPIC, Client, World, entry, producing

SHARED = CommandSubscribe.Shared


# ---- acks -------------------------------------------------------------------------------------------------------


def test_ack_receipt_comes_when_the_ack_is_on_disk() -> None:
    # covers ACK-4 (better)
    world, client = filled(3)
    client.open_consumer()
    world.disk_is_slow = True
    client.ack([Position(1, 0)], request_id=8)
    assert client.take_all() == []
    world.sync()
    assert client.expect(BaseCommand.ACK_RESPONSE).request_id == 8
    client = world.restart().connect()
    client.open_consumer(permits=10)
    assert client.messages() == ["1", "2"]


def test_ack_without_receipt_is_on_disk_within_100_ms() -> None:
    world, client = filled(3)
    client.open_consumer()
    client.ack([Position(1, 0)])
    assert world.broker.next_deadline() == world.now_ms + 100
    world.advance(100)
    client = world.restart().connect()
    client.open_consumer(permits=10)
    assert client.messages() == ["1", "2"]


def test_an_ack_that_did_not_reach_the_disk_is_forgotten_and_nothing_else() -> None:
    # covers CUR-7: on doubt entries come again, none is skipped
    world, client = filled(4)
    client.open_consumer(subscription_type=SHARED)
    client.ack([Position(1, 2)], request_id=7)
    world.disk_is_slow = True
    client.ack([Position(1, 0), Position(1, 3)], request_id=8)
    client = world.restart().connect()
    client.open_consumer(subscription_type=SHARED, permits=10)
    assert client.messages() == ["0", "1", "3"]


def test_ack_without_receipt_joins_the_next_group() -> None:
    world, client = filled(3)
    client.open_consumer()
    client.ack([Position(1, 0)])
    client.publish(1, entry("3"), first=3)
    client = world.restart().connect()
    client.open_consumer(permits=10)
    assert client.messages() == ["1", "2", "3"]


def test_hostile_acks_change_nothing() -> None:
    world, client = filled(2)
    client.open_consumer()
    ack = requests.ack(1, [Position(1, 1 << 40), Position(1 << 62, 5), Position(-1, -1)])
    client.send(ack)
    ack.ack.properties.add(key="k", value=1)  # read by protobuf
    client.send(ack)
    assert world.subscription().backlog == 2


# ---- seek -------------------------------------------------------------------------------------------------------


def reopened(client: Client, **more: object) -> list[str]:
    client.open_consumer(permits=100, **more)
    return client.messages()


def times(cache_bytes: int = 1 << 20) -> tuple[World, Client]:
    """Entries 0 ... 4 published one second apart, over two ledgers."""
    world, client = producing(cache_bytes=cache_bytes, ledger_max_entries=3, ledger_min_age_ms=-1, **KEPT)
    for number in range(5):
        client.publish(1, entry(str(number), publish_time=START_MS + 1000 * number), first=number)
    client.take_all()
    return world, client


@pytest.mark.parametrize("cache_bytes", [1 << 20, 0], ids=["cached", "stored"])
@pytest.mark.parametrize(
    ("after_ms", "first"), [(-1, 0), (0, 0), (1999, 2), (2000, 2), (2001, 3), (4000, 4), (4001, 5)]
)
def test_seek_by_time_goes_to_the_first_entry_not_older(cache_bytes: int, after_ms: int, first: int) -> None:
    # covers CUR-12
    _, client = times(cache_bytes)
    client.open_consumer()
    client.request(requests.seek_to_time(5, 1, START_MS + after_ms), BaseCommand.CLOSE_CONSUMER)
    client.expect(BaseCommand.SUCCESS)
    assert reopened(client) == numbers(first, 5)


def test_who_comes_while_a_time_is_searched_waits_and_a_second_seek_is_refused() -> None:
    # covers CUR-11, C1
    world, client = times(cache_bytes=0)
    other = world.connect()
    client.open_consumer(subscription_type=SHARED)
    other.open_consumer(subscription_type=SHARED)
    world.disk_is_slow = True
    client.request(requests.seek_to_time(5, 1, START_MS + 3000), BaseCommand.CLOSE_CONSUMER)
    other.expect(BaseCommand.CLOSE_CONSUMER)
    client.send(requests.subscribe(6, TOPIC, "s", 1, SHARED), requests.flow(1, 100))
    assert client.take_all() == []
    world.quicken()
    kinds = [each.command.type for each in client.take_all() if isinstance(each, fx.SendCommand)]
    assert kinds == [BaseCommand.SUCCESS, BaseCommand.SUCCESS]
    client.send(requests.flow(1, 100))
    assert client.messages() == ["3", "4"]


# ---- readers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("initial", "first"), [(CommandSubscribe.Earliest, 0), (CommandSubscribe.Latest, 4)])
def test_a_reader_that_begins_behind_the_last_entry_takes_the_initial_position(initial: int, first: int) -> None:
    # covers CUR-10
    _, client = filled(4)
    client.open_consumer("r", permits=100, durable=False, start=MessageId(1, 50), initial_position=initial)
    assert client.messages() == numbers(first, 4)


def test_reader_comes_back_to_where_it_sought() -> None:
    # covers CUR-11
    world, client = filled(4)
    client.open_consumer("r", durable=False)
    client.send(requests.seek_to_id(5, 1, MessageId(1, 2)))
    client.take_all()
    assert reopened(client, subscription="r", durable=False, start=EARLIEST_ID) == ["2", "3"]
    client.send(requests.seek_to_id(6, 1, MessageId(1, 1)))
    world.advance(60_000)
    assert "r" not in world.core.topics[TOPIC].subscriptions


# ---- last message id --------------------------------------------------------------------------------------------


# ---- coming and going -------------------------------------------------------------------------------------------


def test_a_batch_that_claims_to_be_larger_than_any_costs_nothing() -> None:
    # covers ACK-9: hostile input, a bit for each of its messages would be 256 MB
    world = World(batch_index_acks=True)
    feeder, client = world.connect(), world.connect_consumer(subscription_type=SHARED)
    feeder.open_producer()
    feeder.publish(1, entry("x"), messages=2**31 - 1)
    tracemalloc.start()
    client.ack([Position(1, 0)], ack_set=0b1110, request_id=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert client.expect(BaseCommand.ACK_RESPONSE).request_id == 1
    assert world.subscription().cursor.batch_set(1, 0) == 0b1110
    assert peak < 10_000_000


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
@pytest.mark.parametrize(("bits", "left"), [(65_536, 65_535), (65_537, None)])
def test_a_bit_set_has_a_limit(bits: int, left: int | None, cache_bytes: int) -> None:
    # covers ACK-9: hostile input
    world = World(batch_index_acks=True, cache_bytes=cache_bytes)
    feeder, client = world.connect(), world.connect_consumer(subscription_type=SHARED)
    feeder.open_producer()
    feeder.publish(1, entry("x"), messages=100_000)
    client.ack([Position(1, 0)], ack_set=(1 << bits) - 2, request_id=1)
    assert client.expect(BaseCommand.ACK_RESPONSE).request_id == 1
    kept = world.subscription().cursor.batch_set(1, 0)
    assert (None if kept is None else kept.bit_count()) == left
    client.ack([Position(1, 0)])
    assert world.subscription().backlog == 0
