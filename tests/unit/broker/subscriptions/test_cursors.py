"""Acks, seeks, readers, last message id, unsubscribing: what moves a cursor and what shows where it stands."""

import pytest

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.dispatch.test_dispatch import filled, numbers
from tests.unit.broker.world import KEPT, START_MS, TOPIC, Client, World, entry

SHARED = CommandSubscribe.Shared


def backlog(world: World, subscription: str = "s") -> int:
    return world.core.topics[TOPIC].subscriptions[subscription].backlog


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
    assert backlog(world) == 2


# ---- seek -------------------------------------------------------------------------------------------------------


def reopened(client: Client, **more: object) -> list[str]:
    client.open_consumer(permits=100, **more)
    return client.messages()


def times(cache_bytes: int = 1 << 20) -> tuple[World, Client]:
    """Entries 0 ... 4 published one second apart, over two ledgers."""
    world = World(cache_bytes=cache_bytes, ledger_max_entries=3, ledger_min_age_ms=-1, **KEPT)
    client = world.connect()
    client.open_producer()
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
    client.send(requests.seek_to_time(5, 1, START_MS + after_ms))
    client.expect(BaseCommand.CLOSE_CONSUMER)
    client.expect(BaseCommand.SUCCESS)
    assert reopened(client) == numbers(first, 5)


def test_who_comes_while_a_time_is_searched_waits_and_a_second_seek_is_refused() -> None:
    # covers CUR-11, C1
    world, client = times(cache_bytes=0)
    other = world.connect()
    client.open_consumer(subscription_type=SHARED)
    other.open_consumer(subscription_type=SHARED)
    world.disk_is_slow = True
    client.send(requests.seek_to_time(5, 1, START_MS + 3000))
    client.expect(BaseCommand.CLOSE_CONSUMER)
    other.expect(BaseCommand.CLOSE_CONSUMER)
    client.send(requests.subscribe(6, TOPIC, "s", 1, SHARED), requests.flow(1, 100))
    assert client.take_all() == []
    world.disk_is_slow = False
    world.settle()
    kinds = [each.command.type for each in client.take_all() if isinstance(each, fx.SendCommand)]
    assert kinds == [BaseCommand.SUCCESS, BaseCommand.SUCCESS]
    client.send(requests.flow(1, 100))
    assert client.messages() == ["3", "4"]


def test_seek_of_an_unknown_consumer_or_without_target() -> None:
    client = World().connect()
    client.send(requests.seek_to_id(1, 9, EARLIEST_ID))
    assert client.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    client.open_consumer()
    command = requests.seek_to_id(2, 1, EARLIEST_ID)
    command.seek.ClearField("message_id")
    client.send(command)
    assert client.expect(BaseCommand.ERROR).error == ServerError.MetadataError


# ---- readers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "initial", "first"),
    [
        (EARLIEST_ID, CommandSubscribe.Latest, 0),
        (MessageId(1, 2), CommandSubscribe.Latest, 2),
        (MessageId(1, 2, -1, 4), CommandSubscribe.Latest, 2),
        (LATEST_ID, CommandSubscribe.Latest, 4),
        (LATEST_ID, CommandSubscribe.Earliest, 0),
        (MessageId(1, 50), CommandSubscribe.Earliest, 0),
        (None, CommandSubscribe.Earliest, 0),
        (None, CommandSubscribe.Latest, 4),
    ],
)
def test_reader_begins_at_the_entry_it_names(
    start: MessageId | None, initial: "CommandSubscribe.InitialPosition.ValueType", first: int
) -> None:
    # covers CUR-10, A11
    _, client = filled(4)
    client.open_consumer("r", permits=100, durable=False, start=start, initial_position=initial)
    assert client.messages() == numbers(first, 4)


def test_readers_subscription_goes_with_it_and_holds_no_data() -> None:
    # covers CUR-8, RD-1
    world, client = filled(2)
    client.open_consumer("r", durable=False)
    assert "r" in world.core.topics[TOPIC].subscriptions
    assert world.state.topics_by_name[TOPIC].cursors == {}
    client.send(requests.close_consumer(1, 1))
    assert "r" not in world.core.topics[TOPIC].subscriptions


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


@pytest.mark.parametrize("cache_bytes", [1 << 20, 0], ids=["cached", "stored"])
def test_last_message_id(cache_bytes: int) -> None:
    # covers RD-3, C13
    world = World(cache_bytes=cache_bytes)
    client = world.connect()
    client.open_producer()
    client.open_consumer()

    def last() -> tuple[int, int, int, tuple[int, int]]:
        client.take_all()
        client.send(requests.last_message_id(1, 1))
        answer = client.expect(BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
        last_id, mark = answer.last_message_id, answer.consumer_mark_delete_position
        assert last_id.HasField("partition")
        assert last_id.HasField("batch_index")
        return last_id.ledgerId, last_id.entryId, last_id.batch_index, (mark.ledgerId, mark.entryId)

    none = (1 << 64) - 1
    assert last() == (none, none, -1, (1, none))
    client.publish(1, entry("a"))
    assert last() == (1, 0, -1, (1, none))
    client.publish(1, entry("b", batch=3), first=1, messages=3)
    client.ack([Position(1, 0)])
    assert last() == (1, 1, 2, (1, 0))


# ---- coming and going -------------------------------------------------------------------------------------------


def test_ledgers_that_everybody_consumed_go_when_the_ledger_rolls() -> None:
    # covers ML-2, 5.2
    world = World(ledger_max_entries=2, ledger_min_age_ms=-1)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    for number in range(4):
        client.publish(1, entry("x"), first=number)
    client.ack([Position(2, 0)], cumulative=True)
    client.publish(1, entry("x"), first=4)
    assert list(world.core.topics[TOPIC].ledger.ledgers) == [2, 3]
