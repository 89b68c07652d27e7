"""De-duplication: what is stored, what is answered, what is known after a crash (DED-1 ... DED-11, DED-13)."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from spark_pulsar.broker.publishing import deduplication
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.ledger.state.deduplication import SequencesReached
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry

REPEATED = Position(-1, -1)
MINUTE_MS = 60_000


def send(client: Client, *ids: int | tuple[int, int], producer_id: int = 1) -> None:
    """One SEND per id in one read of the broker; a pair is a batch from its first to its last id."""
    frames = []
    for each in ids:
        low, high = each if isinstance(each, tuple) else (each, None)
        count = 1 if high is None else high - low + 1
        command = requests.send(producer_id, low, count, highest_sequence_id=high)
        frames.append(payload_frame(command, entry(f"{low}", batch=0 if high is None else count)))
    client.send_bytes(b"".join(frames))


def chunk(client: Client, sequence_id: int, chunk_id: int, chunks: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1, uuid="u")
    metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = chunk_id, chunks, chunks
    command = requests.send(1, sequence_id, is_chunk=True)
    client.send_bytes(payload_frame(command, build_entry(metadata, b"c")))


def stored(world: World) -> list[str]:
    """The payloads that a reader gets."""
    client = world.connect_consumer(f"reader-{len(world.sessions)}", permits=1000, durable=False)
    return client.messages()


@pytest.fixture
def world() -> World:
    return World(deduplication=True)


@pytest.fixture
def client(world: World) -> Client:
    client = world.connect()
    assert client.open_producer().last_sequence_id == -1
    return client


def test_a_repeated_entry_is_answered_when_its_first_copy_is_on_disk(world: World, client: Client) -> None:
    # covers DED-4: held, not refused
    world.disk_is_slow = True
    send(client, 1)
    send(client, 1)
    send(client, 2)
    assert client.take_all() == []
    world.sync()
    assert client.receipts() == [(1, (1, 0)), (1, REPEATED), (2, (1, 1))]


def test_the_last_id_is_told_when_it_is_durable(world: World, client: Client) -> None:
    # covers DED-7
    world.disk_is_slow = True
    send(client, 8)
    client.close()
    late = world.connect()
    late.send(requests.producer(1, TOPIC, 1, "p"))
    assert late.take_all() == []
    world.sync()
    assert late.expect(BaseCommand.PRODUCER_SUCCESS).last_sequence_id == 8


def test_batches_that_do_not_tell_their_highest_id(world: World, client: Client) -> None:
    # covers DED-13: C++ clients tell the lowest id and the number of messages
    for _ in range(2):
        client.publish(1, entry("0", batch=10), first=0, messages=10)
    assert client.receipts() == [(0, (1, 0)), (0, REPEATED)]
    client.publish(1, entry("9", batch=2), first=9, messages=2)
    assert client.expect(BaseCommand.SEND_ERROR).sequence_id == 9
    client.close()
    assert world.connect().open_producer().last_sequence_id == 9


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("Pulsar-CPP-v3.7.0", ServerError.ChecksumError),
        ("Pulsar-Java-v4.0.8", ServerError.NotAllowedError),
    ],
)
def test_a_batch_of_old_and_new_messages_is_refused(world: World, version: str, error: int) -> None:
    # covers DED-13
    client = world.open_socket()
    client.send(requests.connect(version))
    client.take_all()
    client.open_producer()
    send(client, (0, 9))
    client.take_all()
    world.disk_is_slow = True
    send(client, 10, (8, 12), 11)
    world.sync()
    first, refused, last = client.take_all()
    assert refused.command.send_error.error == error
    assert refused.command.send_error.sequence_id == 12  # as Apache Pulsar names a batch
    assert "mixes" in refused.command.send_error.message
    assert (list(first.sequence_ids), list(last.sequence_ids)) == ([10], [11])
    assert not client.closed


def test_chunks_without_an_end_are_stored_again(world: World, client: Client) -> None:
    # covers DED-8
    chunk(client, 4, 0, 2)
    world = world.restart(deduplication=True)
    client = world.connect()
    assert client.open_producer().last_sequence_id == -1
    chunk(client, 4, 0, 2)
    chunk(client, 4, 1, 2)
    assert [position for _, position in client.receipts()] == [(2, 0), (2, 1)]


def test_ids_that_java_reads_as_negative(world: World, client: Client) -> None:
    # covers DED-2
    send(client, 2**64 - 5, 2**64 - 4, 2**64 - 5, 3)
    assert [position for _, position in client.receipts()] == [(1, 0), (1, 1), REPEATED, (1, 2)]


def columnar_sends(client: Client, ids: Mapping[int, list[int]]) -> None:
    """SENDs of several producers in turn, in one read of the broker."""
    frames = []
    for index in range(max(map(len, ids.values()))):
        for producer_id, sequence_ids in ids.items():
            if index < len(sequence_ids):
                command = requests.send(producer_id, sequence_ids[index])
                frames.append(payload_frame(command, entry(f"{producer_id}:{sequence_ids[index]}")))
    client.send_bytes(b"".join(frames))


def test_producers_in_turn(world: World, client: Client) -> None:
    # covers DED-2
    client.open_producer(producer_id=2, name="q")
    client.open_producer(topic=TOPIC + "2", producer_id=3)
    columnar_sends(client, {1: [0, 1, 2], 2: [0, 1], 3: [5, 6]})
    *_, receipts = client.take_all()
    assert isinstance(receipts, fx.SendColumnarReceipts)
    assert world.state.topics_by_name[TOPIC].sequences == {"p": 2, "q": 1}
    assert world.state.topics_by_name[TOPIC + "2"].sequences == {"p": 6}
    columnar_sends(client, {1: [2, 3], 2: [2, 3], 3: [7, 7]})
    answers = [(each.producer_id, *each.sequence_ids, each.first_entry_id >= 0) for each in client.take_all()]
    assert answers == [(1, 2, False), (2, 2, True), (3, 7, True), (1, 3, True), (2, 3, True), (3, 7, False)]
    assert len(stored(world)) == 5 + 3


def test_it_is_turned_off_for_topics_that_nobody_uses(world: World, client: Client) -> None:
    # covers DED-1
    send(client, 3)
    world = world.restart(deduplication=True)
    assert TOPIC not in world.core.topics
    world.set_policy(policy_table.DEDUPLICATION, False)
    assert world.state.topics_by_name[TOPIC].sequences == {}
    send_again = world.restart()
    assert send_again.state.topics_by_name[TOPIC].sequences == {}


def test_it_is_turned_off_by_the_configuration(world: World, client: Client) -> None:
    # covers DED-1
    send(client, 3)
    world = world.restart()
    assert world.connect().open_producer().last_sequence_id == -1
    assert world.state.topics_by_name[TOPIC].sequences == {}


def test_silent_producers_of_many_topics_are_forgotten_in_slices() -> None:
    # covers DED-9
    topics = deduplication._TOPICS_A_TURN + 50
    world = World(deduplication=True, deduplication_producer_timeout_ms=10 * MINUTE_MS, **QUIET)
    names = [f"persistent://public/default/t{number}" for number in range(topics)]
    world.ask(lambda core: [lifecycle.create(core, TopicName.parse(name)) for name in names])
    ids = [world.state.topics_by_name[name].topic_id for name in names]
    world.ask(lambda core: core.append(SequencesReached(ids, ["p"] * topics, [7] * topics)))
    back = world.connect()
    world.advance(9 * MINUTE_MS)
    assert back.open_producer(topic=names[-1]).last_sequence_id == 7
    back.close()
    known = [sum(bool(topic.sequences) for topic in world.state.topics.values())]
    while (deadline := world.broker.next_deadline()) is not None and known[-1] > 1:
        world.advance(deadline - world.now_ms)
        known.append(sum(bool(topic.sequences) for topic in world.state.topics.values()))
    assert max(before - after for before, after in pairwise(known)) == deduplication._TOPICS_A_TURN
    assert world.state.topics_by_name[names[-1]].sequences == {"p": 7}, "its time began anew"
    world.advance(10 * MINUTE_MS)
    assert not world.state.topics_by_name[names[-1]].sequences


def test_producers_that_stay_away_are_forgotten() -> None:
    # covers DED-9
    config = {
        "deduplication": True,
        "deduplication_producer_timeout_ms": 10 * MINUTE_MS,
        "keep_alive_interval_ms": 9999 * MINUTE_MS,
    }
    world = World(**config)
    client, other = world.connect_producer(), world.connect_producer(name="stays")
    for each in (client, other):
        send(each, 7)
    client.close()
    world.advance(9 * MINUTE_MS)
    back = world.connect()
    assert back.open_producer().last_sequence_id == 7, "coming back begins the time anew"
    back.close()
    world.advance(9 * MINUTE_MS)
    assert world.state.topics_by_name[TOPIC].sequences == {"p": 7, "stays": 7}
    world.advance(2 * MINUTE_MS)
    assert world.state.topics_by_name[TOPIC].sequences == {"stays": 7}
    world.advance(1_000)
    world = world.restart(**config)
    world.advance(9 * MINUTE_MS)
    assert world.state.topics_by_name[TOPIC].sequences == {"stays": 7}, "recovery begins the time anew"
    world.advance(3 * MINUTE_MS)
    assert world.state.topics_by_name[TOPIC].sequences == {}


def test_names_are_bounded() -> None:
    # covers DED-6
    world = World(deduplication=True, deduplication_max_producers=3)
    client = world.connect()
    for number in range(4):
        client.open_producer(producer_id=number, name=f"p{number}")
    for number in range(3):
        send(client, 1, producer_id=number)
    client.send(requests.close_producer(9, 1))
    client.take_all()
    send(client, 1, producer_id=3)
    assert set(world.state.topics_by_name[TOPIC].sequences) == {"p0", "p2", "p3"}


def test_a_deleted_topic_leaves_nothing(world: World, client: Client) -> None:
    send(client, 3)
    world.storage.checkpoint(world.state)
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.storage.checkpoint(world.state)
    world.sync()
    again = world.restart(deduplication=True)
    assert again.connect().open_producer().last_sequence_id == -1
