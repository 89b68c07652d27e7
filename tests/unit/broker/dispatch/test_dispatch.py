"""Delivery: permits, turns, unacked limits, redelivery, reading from storage."""

import pytest

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import WritingPaused, WritingResumed
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.broker.world import TOPIC, Client, World, entry, payloads, positions_of, producing

SHARED = CommandSubscribe.Shared


def filled(count: int, *, batch: int = 0, **config: object) -> tuple[World, Client]:
    """A world whose topic holds `count` entries "0", "1", …"""
    world, client = producing(**config)
    client.store(1, *(entry(str(number), batch=batch) for number in range(count)), messages=max(1, batch))
    return world, client


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_flow_that_comes_with_subscribe_is_kept_and_success_comes_first() -> None:
    # covers A12
    world, client = filled(2)
    client.send(requests.subscribe(1, TOPIC, "s", 1, initial_position=CommandSubscribe.Earliest), requests.flow(1, 10))
    success, delivery = client.take_all()
    assert success.command.success.request_id == 1
    assert payloads(delivery) == ["0", "1"]
    assert world.core.sessions[1].consumers[1].permits == 8


def test_shared_deals_in_turns_of_twenty() -> None:
    # covers SH-1
    world = World()
    client = world.connect()
    other = world.connect()
    client.open_producer()
    client.open_consumer(subscription_type=SHARED, permits=100)
    other.open_consumer(subscription_type=SHARED, permits=100)
    client.publish(1, *(entry(str(number)) for number in range(100)))
    mine = [each for each in client.take_all() if isinstance(each, fx.SendMessages)]
    assert [len(each.starts) for each in mine] == [20, 20, 20]
    assert [len(each.starts) for each in other.deliveries()] == [20, 20]


def test_unacked_limit_counts_messages_of_batches_and_acks_inside_them() -> None:
    # covers SH-6, ACK-9
    world, client = filled(3, batch=6, max_unacked_per_consumer=10, batch_index_acks=True)
    client.open_consumer(subscription_type=SHARED, permits=100)
    assert positions_of(client.deliveries()) == [(1, 0), (1, 1)]
    consumer = world.core.sessions[1].consumers[1]
    assert consumer.unacked == 12
    client.ack([Position(1, 0)], ack_set=0b110000)
    assert consumer.unacked == 8
    client.ack([Position(1, 1)], ack_set=0b000111)
    assert consumer.unacked == 5 + 6  # unblocked at half the limit, and the third batch came
    client.ack([Position(1, 0)], ack_set=0)
    assert consumer.unacked == 3 + 6


def test_slow_socket_gets_nothing_until_it_has_drained() -> None:
    # covers SH-9
    world, client = filled(3)
    client.open_consumer()
    world.happen([WritingPaused(1)])
    client.send(requests.flow(1, 10))
    assert client.take_all() == []
    world.happen([WritingResumed(1)])
    assert client.messages() == numbers(0, 3)


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, SHARED])
def test_backlog_that_left_the_cache_is_read_from_storage(kind: "CommandSubscribe.SubType.ValueType") -> None:
    world, client = filled(25, cache_bytes=0, max_read_entries=4)
    world.disk_is_slow = True
    client.send(requests.subscribe(1, TOPIC, "s", 1, kind, initial_position=CommandSubscribe.Earliest))
    world.sync()
    client.expect(BaseCommand.SUCCESS)
    client.send(requests.flow(1, 100))
    assert client.take_all() == []
    seen: list[str] = []
    for _ in range(20):
        assert len(world.reads) <= 1  # bounded: one read at a time
        world.serve_reads()
        seen += client.messages()
    assert seen == numbers(0, 25)


def test_read_that_fails_is_tried_again() -> None:
    world, client = filled(2, cache_bytes=0)
    world.disk_is_slow = True
    client.send(requests.subscribe(1, TOPIC, "s", 1, initial_position=CommandSubscribe.Earliest), requests.flow(1, 9))
    world.sync()
    world.serve_reads(fail=True)
    client.expect(BaseCommand.SUCCESS)
    assert world.reads == []
    world.disk_is_slow = False
    world.advance(10)
    assert client.messages() == numbers(0, 2)


def test_one_turn_sends_a_bounded_amount_and_goes_on_by_itself() -> None:
    world, client = producing(max_dispatch_bytes=100)
    client.open_consumer()
    client.store(1, *(entry(str(number)) for number in range(10)))
    world.disk_is_slow = True
    client.send(requests.flow(1, 100))
    assert 1 <= len(client.messages()) < 10
    assert world.broker.next_deadline() == world.now_ms
    world.quicken()
    assert client.messages()[-1] == "9"


def test_deleted_entries_acked_one_by_one_are_skipped_without_a_loop() -> None:
    world, client = filled(6)
    client.open_consumer()
    client.ack([Position(1, 2), Position(1, 5)])
    client.send(requests.flow(1, 100))
    assert client.messages() == ["0", "1", "3", "4"]
    assert world.broker.next_deadline() != world.now_ms
    client.publish(1, entry("6"), first=6)
    assert payloads(client.take_all()[1]) == ["6"]


def test_all_subscriptions_together_send_a_bounded_amount_a_turn() -> None:
    world, client = producing(max_turn_bytes=100)
    for number in range(4):
        client.open_consumer(f"s{number}", number + 1)
    client.store(1, *(entry(str(number)) for number in range(5)))
    world.disk_is_slow = True
    client.send(*(requests.flow(number + 1, 100) for number in range(4)))
    first = {each.consumer_id for each in client.deliveries()}
    assert len(first) == 1
    world.happen([])
    second = {each.consumer_id for each in client.deliveries()}
    assert not first & second  # a subscription that waited goes first
    world.quicken()
    assert {each.consumer_id for each in client.deliveries()} | first | second == {1, 2, 3, 4}
