"""Delayed delivery: who waits, until when, and what a wait survives."""

from typing import Any

import pytest

from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata, ServerError
from tests.unit.broker.world import KEPT, QUIET, START_MS, TOPIC, Client, World, at

SHARED = CommandSubscribe.Shared


def later(text: str, deliver_at_ms: int, publish_time: int = START_MS) -> bytes:
    """An entry that is to be delivered at a time."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=publish_time, deliver_at_time=deliver_at_ms
    )
    return build_entry(metadata, text.encode())


def published(world: World, *delays_ms: int | None) -> Client:
    """A producer that sent "0", "1", …, each to be delivered so much after the start (None: at once)."""
    client = world.connect_producer()
    send(client, *delays_ms)
    return client


def send(client: Client, *delays_ms: int | None) -> None:
    entries = [later(str(number), 0 if delay is None else START_MS + delay) for number, delay in enumerate(delays_ms)]
    client.publish(1, *entries)
    assert len(client.receipts()) == len(delays_ms)


def shared(world: World, permits: int = 1_000, kind: int = SHARED, **more: Any) -> Client:
    client = world.connect_consumer(subscription_type=kind, permits=permits, **more)
    return client


def test_entries_behind_many_that_wait_are_found() -> None:
    # covers DEL-3
    world = World(**QUIET)
    client = published(world)
    for delays_ms in ([60_000] * 900, [None], [60_000, None] * 300):
        for _ in range(10 if len(delays_ms) > 1 else 1):
            send(client, *delays_ms)
    eater = shared(world, permits=50)
    for _ in range(61):
        assert len(eater.messages()) in (50, 1, 0)
        eater.send(requests.flow(1, 50))
    assert world.subscription().dispatcher.delayed_count == 12_000
    assert world.core.sessions[2].consumers[1].messages_out == 3_001


def test_a_restart_keeps_the_times_and_reads_nothing_for_them() -> None:
    # covers DEL-7
    world = World(**QUIET)
    published(world, 300, None, 100, 200)
    world = world.restart(**QUIET)
    assert list(world.core.state.topics_by_name[TOPIC].delays.held) == [(1, 0, 1), (1, 2, 4)]  # type: ignore[union-attr]
    eater = shared(world)
    assert eater.messages() == ["1"]
    world.advance(150)
    assert eater.messages() == ["2"]
    eater.ack([Position(1, 1), Position(1, 2)])
    world.advance(100)
    assert eater.messages() == ["3"]
    world = world.restart(**QUIET)
    eater = shared(world)
    assert eater.messages() == ["3"]  # the clock stands at the start again: what was free stays free
    world.advance(300)
    assert eater.messages() == ["0"]


def test_acked_skipped_and_sought_back() -> None:
    # covers DEL-12
    world = World(**QUIET, **KEPT)
    eater = shared(world)
    published(world, 100, None, 200)
    assert eater.messages() == ["1"]
    eater.ack([Position(1, 0)])  # of what was never delivered (ACK-1)
    subscription = world.subscription()
    assert subscription.dispatcher.delayed_count == 1
    world.ask(lambda core: cursor_moves.clear_backlog(core, subscription))
    assert subscription.dispatcher.delayed_count == 0
    world.advance(150)
    assert eater.messages() == []
    eater.send(requests.seek_to_id(eater.request_id(), 1, at(Position(1, 0))))
    eater.take_all()
    eater = shared(world)
    assert eater.messages() == ["0", "1"]  # the first is due meanwhile
    world.advance(50)
    assert eater.messages() == ["2"]


def test_switching_it_off_delivers_what_waits_and_on_again_repeats_nothing() -> None:
    # covers DEL-2
    world = World(**QUIET)
    eater = shared(world)
    published(world, 100, None, 200)
    assert eater.messages() == ["1"]
    off = {"active": False, "tickTime": 1000}
    world.set_policy(policy_table.DELAYED_DELIVERY, off)
    assert eater.messages() == ["0", "2"]
    world.set_policy(policy_table.DELAYED_DELIVERY, None)
    world.advance(1_000)
    assert eater.messages() == []


@pytest.mark.parametrize("kind", [SHARED, CommandSubscribe.Key_Shared])
def test_what_waits_for_permits_once_it_is_switched_off_comes_once(kind: int) -> None:
    # covers DEL-2, SUB-4: whatever else is set meanwhile, and when its time comes
    world = World(**QUIET)
    eater = shared(world, permits=1, kind=kind)
    published(world, 100, None, 200)
    assert eater.messages() == ["1"]
    off = {"active": False, "tickTime": 1000}
    world.set_policy(policy_table.DELAYED_DELIVERY, off)
    for producers in (1, 2):
        world.set_policy(policy_table.MAX_PRODUCERS, producers)
    world.advance(1_000)
    eater.send(requests.flow(1, 10))
    assert eater.messages() == ["0", "2"]


def test_switched_off_in_the_configuration() -> None:
    # covers DEL-2
    world = World(**QUIET, delayed_delivery=False)
    eater = shared(world)
    published(world, 100, None)
    assert eater.messages() == ["0", "1"]


def test_too_long_a_delay_is_refused_in_its_place() -> None:
    # covers DEL-9
    world = World(**QUIET, max_delay_ms=100)
    client = published(world)
    world.advance(50)  # it counts from what the message says of its publishing
    client.publish(1, later("a", START_MS + 100), later("b", START_MS + 101), later("c", 0))
    receipt, error, last = client.take_all()
    assert receipt.sequence_ids == [0]
    assert (error.command.send_error.sequence_id, error.command.send_error.error) == (1, ServerError.NotAllowedError)
    assert error.command.send_error.message == "Exceeds max allowed delivery delay of 100 milliseconds"
    assert last.sequence_ids == [2]
    assert world.core.topics[TOPIC].ledger.total_entries == 2


def test_producers_in_turn_on_one_connection() -> None:
    # covers DEL-3: SENDs that come by column
    world = World(**QUIET)
    names = [f"persistent://public/default/t{number}" for number in range(3)]
    client = world.connect()
    for number, name in enumerate(names):
        client.open_producer(name, number)
    eaters = [shared(world, topic=name) for name in names]
    client.publish_in_turn(
        (number, later(f"{turn}", START_MS + 50 if turn == 1 else 0)) for turn in range(3) for number in range(3)
    )
    assert [eater.messages() for eater in eaters] == [["0", "2"]] * 3
    world.advance(50)
    assert [eater.messages() for eater in eaters] == [["1"]] * 3


def test_nothing_is_told_before_it_is_on_disk() -> None:
    # covers ML-5
    world = World(**QUIET)
    eater = shared(world)
    client = published(world)
    world.disk_is_slow = True
    client.publish(1, later("0", START_MS + 1))
    world.advance(10)
    assert eater.take_all() == []
    world.quicken()
    world.advance(20)
    assert eater.messages() == ["0"]


def test_a_deleted_topic_wakes_nobody() -> None:
    world = World(**QUIET)
    client = published(world, 100)
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    assert client.take().type == BaseCommand.CLOSE_PRODUCER
    world.advance(1_000)
    assert shared(world).messages() == []
