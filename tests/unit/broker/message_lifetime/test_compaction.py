"""Compaction: what is left, who gets it, what a crash leaves behind (CMP-C1 ... CMP-C6)."""

import pytest

from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.events import CompactionFailed
from spark_pulsar.ledger.state.damage import DamageAccepted, TopicDamaged
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_bytes import build_entry, parse_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, BaseCommand, MessageMetadata
from tests.unit.broker.compacting import batch, compact, compacted_view, keyed, publish
from tests.unit.broker.world import TOPIC, Client, World, positions_of, producing

MINUTE_MS = 60_000


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    client = world.connect_producer()
    client.open_consumer("keep", consumer_id=9)
    return client


def test_a_compressed_batch_that_is_cut_stays_compressed(world: World, client: Client) -> None:
    # covers CMP-C3
    publish(client, batch(("a", "a" * 500), ("b", "b1"), codec=LZ4), messages=2)
    publish(client, keyed("b", "b2"))
    compact(world)
    reader = world.connect_consumer("r", permits=10, durable=False, read_compacted=True)
    first = reader.deliveries()[0]
    parsed = parse_entry(first.buffer[first.starts[0] : first.ends[0]])
    assert (parsed.metadata.compression, parsed.metadata.num_messages_in_batch) == (LZ4, 2)
    assert parsed.checksum.value == "ok"


def test_encrypted_and_unreadable_batches_stay_whole(world: World, client: Client) -> None:
    # covers CMP-C3
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=2)
    encrypted = MessageMetadata.FromString(metadata.SerializeToString())
    encrypted.encryption_keys.add(key="k", value=b"v")
    at = publish(client, build_entry(encrypted, b"secret"), build_entry(metadata, b"no batch"), messages=2)
    compact(world)
    client.close()
    reader = world.connect_consumer("r", permits=10, durable=False, read_compacted=True)
    assert positions_of(reader.deliveries()) == at


def test_chunks_stay_or_go_together(world: World, client: Client) -> None:
    # covers CMP-C1, CHK-6
    def chunk(key: str, uuid: str, chunk_id: int, chunks: int = 2) -> bytes:
        return keyed(key, uuid, uuid=uuid, chunk_id=chunk_id, num_chunks_from_msg=chunks)

    at = publish(client, chunk("a", "u1", 0), chunk("a", "u1", 1), chunk("a", "u2", 0), chunk("b", "u3", 0))
    at += publish(client, chunk("a", "u2", 1))
    compact(world)
    assert [position for position, _ in compacted_view(world)] == [at[2], at[3], at[4]], "u3 is not complete yet"
    at += publish(client, chunk("b", "u3", 1), keyed("a", "small"))
    compact(world)
    assert [position for position, _ in compacted_view(world)] == [at[3], at[5], at[6]]


def test_messages_without_key_can_be_kept() -> None:
    # covers CMP-C2
    world, client = producing(compaction_keeps_null_keys=True)
    publish(client, keyed(None, "x"), keyed("a", "a1"), keyed("a", "a2"))
    publish(client, batch((None, "y"), ("a", "a3")), messages=2)
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["x"], ["y", "a3"]]
    publish(client, keyed("a", "a4"))
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["x"], ["y", "-"], ["a4"]]


def test_nothing_may_be_left(world: World, client: Client) -> None:
    # covers RD-4: a reader would wait for ever for a last message that was taken out
    publish(client, keyed(None, "x"))
    compact(world)
    assert compacted_view(world) == []
    client.open_consumer("last", durable=False, read_compacted=True)
    last = client.request(requests.last_message_id(5, 1), BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE).last_message_id
    assert (last.ledgerId, last.entryId) == (2**64 - 1, 2**64 - 1)
    publish(client, keyed("a", "a1"))
    assert [texts for _, texts in compacted_view(world)] == [["a1"]]


def test_many_blocks_and_readers_that_begin_anywhere(world: World, client: Client) -> None:
    # covers CMP-C4
    world.block_entries = 7
    at: list[Position] = []
    for number in range(60):
        at += publish(client, keyed(f"k{number % 40}", f"v{number}"))
    compact(world)
    left = [(at[number], [f"v{number}"]) for number in range(20, 60)]
    assert compacted_view(world) == left
    for first in (0, 19, 20, 21, 33, 59):
        found = compacted_view(world, start=MessageId(*at[first]))
        assert found == [each for each in left if each[0] >= at[first]], first


def test_what_is_left_outlives_trimming_and_restarts(world: World, client: Client) -> None:
    # covers CMP-C4
    at = publish(client, keyed("a", "a1"), keyed("b", "b1"), keyed("a", "a2"))
    compact(world)
    client.ack([at[-1]], consumer_id=9, cumulative=True)
    world.storage.checkpoint(world.state)
    world.settle()
    world = world.restart()
    client = world.connect_producer()
    at += publish(client, keyed("b", "b2"))
    world.advance(MINUTE_MS)
    assert 1 not in world.state.ledgers, "the original ledger went with retention"
    assert compacted_view(world) == [(at[1], ["b1"]), (at[2], ["a2"]), (at[3], ["b2"])]
    compact(world)
    assert compacted_view(world) == [(at[2], ["a2"]), (at[3], ["b2"])]


def test_a_compaction_that_fails_changes_nothing(world: World, client: Client) -> None:
    # covers CMP-C6
    publish(client, keyed("a", "a1"), keyed("a", "a2"))
    world.disk_is_slow = True
    compact(world)
    (token,) = world.core.compactions.running
    world.happen([CompactionFailed(token, "no luck")])
    world.quicken()
    assert compaction.status(world.core, world.core.topics[TOPIC]) == ("ERROR", "no luck")
    assert len(compacted_view(world)) == 2
    compact(world)
    assert len(compacted_view(world)) == 1


def test_a_topic_that_is_deleted_meanwhile(world: World, client: Client) -> None:
    publish(client, keyed("a", "a1"))
    world.disk_is_slow = True
    compact(world)
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.quicken()
    assert world.state.ledgers.keys() == set()


def test_seeking_into_what_was_trimmed(world: World, client: Client) -> None:
    # covers CMP-C4, CUR-11, CUR-12
    at = publish(client, keyed("a", "a1"), keyed("b", "b1"), keyed("a", "a2"))
    compact(world)
    client.ack([at[-1]], consumer_id=9, cumulative=True)
    world.advance(200)
    world = world.restart()
    client = world.connect_producer()
    at += publish(client, keyed("c", "c1"))
    world.advance(MINUTE_MS)
    assert at[0].ledger_id not in world.state.ledgers
    reader = world.connect()
    for seek in (requests.seek_to_id(8, 1, MessageId(*at[2])), requests.seek_to_time(8, 1, 0)):
        reader.open_consumer("r", permits=10, durable=False, read_compacted=True)
        assert positions_of(reader.deliveries()) == at[1:]
        reader.send(seek)
        reader.take_all()
        reader.open_consumer("r", permits=10, durable=False, read_compacted=True)
        wanted = at[2:] if seek.seek.HasField("message_id") else at[1:]
        assert positions_of(reader.deliveries()) == wanted
        reader.send(requests.close_consumer(9, 1))
        reader.take_all()


def test_what_is_lost_and_accepted_is_passed_over(world: World, client: Client) -> None:
    at = publish(client, keyed("a", "a1"), keyed("b", "b1"), keyed("c", "c1"), keyed("d", "d1"))
    topic_id = world.state.topics_by_name[TOPIC].topic_id

    def lose(ledger_id: int, first: int, end: int) -> None:
        world.ask(lambda core: core.append(TopicDamaged(topic_id, ledger_id, first, end, "file:1", "test")))
        world.ask(lambda core: core.append(DamageAccepted(topic_id)))

    lose(at[1].ledger_id, 1, 2)
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["a1"], ["c1"], ["d1"]]
    compacted = world.state.topics_by_name[TOPIC].compaction
    assert compacted is not None
    assert compacted.ledger is not None
    lose(compacted.ledger.ledger_id, 0, 1)
    assert [texts for _, texts in compacted_view(world)] == [["c1"], ["d1"]]
    publish(client, keyed("d", "d2"))
    compact(world)
    assert [texts for _, texts in compacted_view(world)] == [["c1"], ["d2"]]
