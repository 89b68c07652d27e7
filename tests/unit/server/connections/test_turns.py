"""Turns: many connections share them, and one takes in as much as a submit holds."""

import pytest

from spark_pulsar.broker.turn.events import AcksReceived, CommandReceived, Event, Requested
from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.server.connections.rotation import LIGHT_BYTES, PART_US
from spark_pulsar.server.connections.turn_budget import TURN_BYTES, TURN_US, taken, weight_us
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.acks import PlainAck
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata
from tests.unit.server.scene import Peer, Scene

TOPIC = "persistent://public/default/t"
PING = command_frame(commands.ping())
ENTRY = build_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x" * 100)
FLOODING = 50
FLOOD = 300

ASKING = {
    "LOOKUP": (requests.lookup, BaseCommand.LOOKUP_RESPONSE),
    "PARTITIONED_METADATA": (requests.partition_metadata, BaseCommand.PARTITIONED_METADATA_RESPONSE),
}


def flood(kind: str) -> bytes:
    return b"".join(command_frame(ASKING[kind][0](number, TOPIC)) for number in range(FLOOD))


@pytest.mark.parametrize("kind", ASKING)
def test_a_flood_of_many_connections_takes_many_turns_and_all_are_answered(kind: str) -> None:
    # covers SEC-29
    scene = Scene()
    answer, bytes_of_all = ASKING[kind][1], flood(kind)
    peers = [scene.connect() for _ in range(FLOODING)]
    for each in peers:
        each.arrive(bytes_of_all)
    most, counts = 0, dict.fromkeys(range(FLOODING), 0)
    a_turn = (TURN_US + PART_US) // 25
    while scene.loop.iterate():
        taken = {number: each.got(answer) for number, each in enumerate(peers)}
        most = max(most, sum(taken.values()))
        counts = {number: counts[number] + count for number, count in taken.items()}
    assert set(counts.values()) == {FLOOD}
    assert 0 < most <= a_turn
    assert all(each.is_read for each in peers)


def turns_until_answered(scene: Scene, peer: Peer, kind: BaseCommand.Type.ValueType) -> int:
    for turns in range(1, 10_000):
        assert scene.loop.iterate()
        if peer.got(kind):
            return turns
    raise AssertionError("no answer")


def test_one_that_asks_little_waits_for_few_turns_of_a_flood() -> None:
    # covers SEC-29
    scene = Scene()
    peers = [scene.connect() for _ in range(FLOODING)]
    canary = scene.connect()
    for each in peers:
        each.arrive(flood("LOOKUP"))
    for _ in range(20):
        canary.arrive(PING)
        assert turns_until_answered(scene, canary, BaseCommand.PONG) <= 2
    assert any(not each.is_read for each in peers), "the flood still goes on"


def test_one_that_sends_much_gets_its_part_of_each_round() -> None:
    scene = Scene()
    peers = [scene.connect() for _ in range(FLOODING)]
    producer = scene.connect()
    producer.arrive(command_frame(requests.producer(1, TOPIC, 1)))
    scene.loop.settle()
    assert producer.got(BaseCommand.PRODUCER_SUCCESS) == 1
    for each in peers:
        each.arrive(flood("LOOKUP"))
    sends = b"".join(payload_frame(requests.send(1, number), ENTRY) for number in range(100))
    assert len(sends) > LIGHT_BYTES
    producer.arrive(sends)
    a_round = FLOODING * (PART_US + 1_000) // TURN_US  # in its first, each is cut into frames too
    assert turns_until_answered(scene, producer, BaseCommand.SEND_RECEIPT) <= a_round + 2
    assert any(not each.is_read for each in peers)


def test_many_small_reads_do_not_keep_a_large_one_waiting() -> None:
    scene = Scene()
    small, large = [scene.connect() for _ in range(FLOODING)], scene.connect()
    for each in small:
        each.arrive(flood("LOOKUP")[: LIGHT_BYTES // 2])
    large.arrive(flood("LOOKUP"))
    assert turns_until_answered(scene, large, BaseCommand.LOOKUP_RESPONSE) <= 2


def test_commands_weigh_by_their_kind_and_their_size() -> None:
    ping = weight_us(CommandReceived(1, commands.ping()), len(PING))
    lookup = weight_us(CommandReceived(1, requests.lookup(1, TOPIC)), 100)
    subscribe = weight_us(CommandReceived(1, requests.subscribe(1, TOPIC, "s", 1)), 100)
    assert 0 < ping < lookup < subscribe
    assert weight_us(CommandReceived(1, commands.ping()), 5_000_000) > 10 * TURN_US


PART_BYTES = 1_000_000


def ack_with_properties() -> BaseCommand:
    command = requests.ack(1, [Position(1, 0)], cumulative=True)
    command.ack.properties.add(key="k" * PART_BYTES, value=1)
    return command


def ack_of_parts() -> BaseCommand:
    command = requests.ack(1, [Position(1, 0)])
    command.ack.message_id[0].ack_set.extend([-1] * (PART_BYTES // 8))
    return command


def seek_into_a_batch() -> BaseCommand:
    command = BaseCommand(type=BaseCommand.SEEK)
    command.seek.consumer_id = command.seek.request_id = 1
    command.seek.message_id.ledgerId = command.seek.message_id.entryId = 1
    command.seek.message_id.ack_set.extend([-1] * (PART_BYTES // 8))
    return command


@pytest.mark.parametrize("command", [ack_with_properties(), ack_of_parts(), seek_into_a_batch()])
def test_what_a_command_keeps_counts(command: BaseCommand) -> None:
    # covers ACK-5, ACK-9: hostile input
    events: list[Event] = [CommandReceived(1, command) for _ in range(300)]
    count = taken(events)
    assert count < 100
    assert count * PART_BYTES <= TURN_BYTES


def test_acks_of_whole_entries_count_by_their_ranges() -> None:
    few, many = ([(1, 2 * number, 2 * number + 1) for number in range(size)] for size in (1, 100_000))
    assert taken([AcksReceived(1, PlainAck(1, False, many, None)) for _ in range(300)]) < 30
    assert taken([AcksReceived(1, PlainAck(1, False, few, None)) for _ in range(300)]) == 300


def test_a_request_to_the_admin_api_may_make_a_topic_with_thousands_of_partitions() -> None:
    # covers TN-7: hostile input
    assert 1 <= taken([Requested(lambda core: None)] * 300) < 10


def test_asking_for_partitions_costs_nothing_beside() -> None:
    asked = CommandReceived(1, requests.partition_metadata(1, "persistent://public/default/t"))
    assert taken([asked] * 1_000) == 1_000


def test_small_commands_are_taken_all_and_one_is_taken_however_large() -> None:
    assert taken([CommandReceived(1, commands.ping())] * 1_000) == 1_000
    assert taken([CommandReceived(1, ack_of_parts())]) == 1
    assert taken([]) == 0
    assert MAX_SUBMIT_BYTES >= 4 * TURN_BYTES
