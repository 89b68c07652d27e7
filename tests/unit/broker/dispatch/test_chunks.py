"""Chunks of large messages on Shared subscriptions: all of one message go to one consumer."""

from typing import Any

import pytest

from spark_pulsar.broker.dispatch.chunks import ChunkBook
from spark_pulsar.broker.dispatch.shared import SharedDispatcher
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.ledger.state.topics import TopicChunked
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, MessageMetadata
from tests.unit.broker.world import TOPIC, Client, World, entry, payloads, positions_of

SHARED = CommandSubscribe.Shared


def chunk(uuid: str, number: int, of: int = 3) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg = uuid, number, of
    metadata.total_chunk_msg_size = 100
    return build_entry(metadata, f"{uuid}{number}".encode())


def send_chunks(client: Client, *names: str, of: int = 3) -> None:
    """Chunks such as `a0`, in one read of the broker; what is not two letters is a plain message."""
    for name in names:
        data = chunk(name[0], int(name[1]), of) if len(name) == 2 else entry(name)
        client.send_bytes(payload_frame(requests.send(1, 0, is_chunk=len(name) == 2), data))
    client.take_all()


def consumers(world: World, count: int, permits: int = 100) -> list[Client]:
    clients = [world.connect() for _ in range(count)]
    for client in clients:
        client.open_consumer(permits=permits, subscription_type=SHARED)
    return clients


def place(entry_id: int) -> Position:
    return Position(1, entry_id)


def test_long_uuids_are_not_kept(world: World, feeder: Client) -> None:
    # covers CHK-6: hostile input, a name of megabytes for each message
    names = ["x" * 100_000 + each for each in "ab"]
    clients = consumers(world, 2)
    for number in range(3):
        for name in names:
            feeder.send_bytes(payload_frame(requests.send(1, 0, is_chunk=True), chunk(name, number)))
    dispatcher = world.subscription().dispatcher
    assert isinstance(dispatcher, SharedDispatcher)
    assert [len(uuid) for uuid in dispatcher.chunks._messages] == [64, 64]
    got = [[text[-2:] for text in client.messages()] for client in clients]
    assert sorted(got) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


@pytest.mark.parametrize("length", [4, 400])
def test_uuids_that_are_no_text_are_uuids(world: World, feeder: Client, length: int) -> None:
    # covers CHK-6: hostile input
    one, two = consumers(world, 2)
    for number in range(3):
        data = chunk("~" * length, number).replace(b"~" * length, b"\xff" * length, 1)
        # The checksum is of other bytes; a producer that sends none is served.
        feeder.send_bytes(payload_frame(requests.send(1, 0, is_chunk=True), data[6:]))
    assert sorted(len(client.deliveries()) for client in (one, two)) == [0, 3]


def test_chunks_wait_for_their_consumer_and_nobody_else_does(world: World, feeder: Client) -> None:
    # covers CHK-6
    one = world.connect_consumer(permits=1, subscription_type=SHARED)
    send_chunks(feeder, "a0")
    assert one.messages() == ["a0"]
    (two,) = consumers(world, 1)
    send_chunks(feeder, "a1", "plain", "a2", "other")
    assert two.messages() == ["plain", "other"]
    assert world.subscription().dispatcher.replay_count == 2
    one.send(requests.flow(1, 1))
    assert one.messages() == ["a1"]
    one.send(requests.flow(1, 10))
    assert one.messages() == ["a2"]
    assert two.take_all() == []


def test_a_chunk_that_is_wanted_again_brings_the_others_along(world: World, feeder: Client) -> None:
    # covers CHK-6
    (one,) = consumers(world, 1)
    send_chunks(feeder, "a0", "b0", "a1", "b1", "a2")
    one.take_all()
    one.send(requests.redeliver(1, [place(4)]))
    again = one.deliveries()
    assert positions_of(again) == [place(0), place(2), place(4)]
    assert [text for each in again for text in payloads(each)] == ["a0", "a1", "a2"]
    send_chunks(feeder, "b2")
    assert one.messages() == ["b2"]


def test_chunks_that_were_acked_do_not_come_again(world: World, feeder: Client) -> None:
    # covers CHK-6
    (one,) = consumers(world, 1)
    send_chunks(feeder, "a0", "a1", "a2")
    one.take_all()
    one.ack([place(0)])
    one.send(requests.redeliver(1, [place(1)]))
    assert one.messages() == ["a1", "a2"]
    one.ack([place(1), place(2)])
    book: Any = world.subscription().dispatcher
    assert not book.chunks


def test_chunks_that_waited_and_were_acked_do_not_come(world: World, feeder: Client) -> None:
    # covers CHK-6, CUR-14
    one = world.connect_consumer(permits=1, subscription_type=SHARED)
    send_chunks(feeder, "a0", "a1")
    one.take_all()
    (two,) = consumers(world, 1)
    subscription = world.subscription()
    assert subscription.dispatcher.replay_count + (subscription.backlog - 1) >= 1
    one.ack([place(0)])
    two.ack([place(1)])
    assert subscription.backlog == 0
    one.send(requests.flow(1, 5))
    assert one.take_all() == []


def test_a_topic_knows_over_a_restart_that_it_takes_chunks(world: World, feeder: Client) -> None:
    # covers CHK-6
    send_chunks(feeder, "a0", "b0", "a1", "b1", "a2", "b2")
    world = world.restart()
    clients = consumers(world, 2)
    got = [client.messages() for client in clients]
    assert sorted(got) in ([["a0", "a1", "a2"], ["b0", "b1", "b2"]], [[], ["a0", "b0", "a1", "b1", "a2", "b2"]])


def test_chunks_from_storage_and_a_topic_without(world: World) -> None:
    client = world.connect_producer()
    client.publish(1, entry("plain"))
    state = world.core.topics[TOPIC].state
    assert not state.has_chunks
    world.ask(lambda core: core.append(TopicChunked(state.topic_id)))
    (one,) = consumers(world, 1)
    assert one.messages() == ["plain"]
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))


def begun_and_out_of_permits(world: World, feeder: Client) -> tuple[Client, Position, Client]:
    """A consumer that got the first of three chunks and no permits for the others, that chunk, and another consumer."""
    one = world.connect_consumer(permits=1, subscription_type=SHARED)
    send_chunks(feeder, "a0")
    (first,) = positions_of(one.deliveries())
    send_chunks(feeder, "a1", "a2")
    (two,) = consumers(world, 1)
    return one, first, two


def test_chunks_do_not_wait_for_who_gave_the_message_back(world: World, feeder: Client) -> None:
    # covers CHK-6
    one, first, two = begun_and_out_of_permits(world, feeder)
    assert two.messages() == []
    one.send(requests.redeliver(1, [first]))
    assert two.messages() == ["a0", "a1", "a2"]


def test_chunks_of_a_message_whose_beginning_was_acked_go_to_anybody(world: World, feeder: Client) -> None:
    # covers CHK-6
    one, first, two = begun_and_out_of_permits(world, feeder)
    one.ack([first])
    assert two.messages() == ["a1", "a2"]


def test_the_end_of_one_message_leaves_what_waits_of_others_alone() -> None:
    # covers CHK-6: each ack of a small message must not deal out anew all that waits for its consumer
    world = World()
    world.connect_consumer(subscription_type=SHARED)
    [owner] = world.subscription().consumers
    book = ChunkBook()
    book.sent("small", owner, 1, 0)
    book.sent("large", owner, 1, 1)
    for entry_id in range(2, 100):
        book.wait("large", owner, 1, entry_id)
    book.wait("small", owner, 1, 100)
    book.done([(1, 0, 1)])
    assert list(book.free) == [(1, 100, 101)]
    assert list(book.waiting[owner]) == [(1, 2, 100)]
