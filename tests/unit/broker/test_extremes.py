"""Every number of every command at the ends of its range: refused or taken, never the end of the broker.

An exception out of the core stops it: what is in memory can then no longer be trusted. So no number that a client sends
may be too large for a record, an array, or a loop.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import FIELD_OF
from spark_pulsar.wire.protocol.field_counts import is_repeated
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata
from tests.cases import cases
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import KEPT, QUIET, START_MS, TOPIC, Client, World, entry, producing

EXTREMES: dict[int, tuple[int, ...]] = {
    FieldDescriptor.TYPE_INT32: (0, 1, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.TYPE_UINT32: (0, 1, 2**31, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (0, 1, -1, 2**63 - 1, -(2**63)),
    FieldDescriptor.TYPE_UINT64: (0, 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1),
}


def a_world() -> World:
    """A topic with entries, a subscription of each type but one, and a client that has it all."""
    world, client = producing(**QUIET, **KEPT, deduplication=True, failover_delay_ms=0)
    client.store(1, *(entry(str(number), batch=number % 3) for number in range(10)))
    client.open_consumer("exclusive", 1, permits=5)
    client.take_all()
    for number, kind in enumerate((CommandSubscribe.Shared, CommandSubscribe.Key_Shared), 2):
        client.open_consumer(f"s{number}", number, permits=5, subscription_type=kind)
        client.take_all()
    return world


def commands() -> Iterator[BaseCommand]:
    """One of each that has numbers, with all of them set to something that means something."""
    for consumer_id in (1, 2, 3):
        yield requests.ack(consumer_id, [Position(1, 0)], request_id=9)
        yield requests.redeliver(consumer_id, [Position(1, 0)])
        yield requests.seek_to_id(9, consumer_id, MessageId(1, 3), 5)
        yield requests.seek_to_time(9, consumer_id, START_MS)
        yield requests.flow(consumer_id, 3)
        yield requests.unsubscribe(9, consumer_id)
        yield requests.close_consumer(9, consumer_id)
        yield requests.last_message_id(9, consumer_id)
    ack = requests.ack(1, [Position(1, 1)], cumulative=True, request_id=9)
    ack.ack.message_id[0].ack_set.append(2)
    ack.ack.message_id[0].batch_size = 2
    ack.ack.message_id[0].batch_index = ack.ack.message_id[0].partition = 0
    yield ack
    for kind in (CommandSubscribe.Exclusive, CommandSubscribe.Failover, CommandSubscribe.Key_Shared):
        for durable in (True, False):
            subscribe = requests.subscribe(9, TOPIC, f"new-{kind}-{durable}", 7, kind)
            content = subscribe.subscribe
            content.durable = durable
            content.priority_level = content.consumer_epoch = content.start_message_rollback_duration_sec = 1
            content.start_message_id.ledgerId, content.start_message_id.entryId = 1, 3
            content.keySharedMeta.keySharedMode = 1
            content.keySharedMeta.hashRanges.add(start=1, end=2)
            yield subscribe
    for mode in range(4):
        producer = requests.producer(9, f"{TOPIC}{mode}", 7, "q")
        content = producer.producer  # type: ignore[assignment]
        content.epoch = content.topic_epoch = 1  # type: ignore[attr-defined]
        content.producer_access_mode = mode  # type: ignore[attr-defined]
        yield producer
    yield requests.close_producer(9, 1)
    yield requests.lookup(9, TOPIC)
    yield requests.partition_metadata(9, TOPIC)
    yield requests.topics_of_namespace(9, "public/default")


def numbers_in(message: Message) -> Iterator[tuple[Message, FieldDescriptor, int | None]]:
    """All fields that hold a number, inside it too; the index of one of several."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if is_repeated(field) else (value,):
                yield from numbers_in(part)
        elif field.type in EXTREMES:
            for index in range(len(value)) if is_repeated(field) else (None,):
                yield message, field, index


def with_extremes(command: BaseCommand) -> Iterator[BaseCommand]:
    """The command with one number after the other at each end of its range."""
    content = getattr(command, FIELD_OF[command.type])
    for place, (_, field, _) in enumerate(list(numbers_in(content))):
        for extreme in EXTREMES[field.type]:
            changed = BaseCommand()
            changed.CopyFrom(command)
            message, same, index = list(numbers_in(getattr(changed, FIELD_OF[command.type])))[place]
            if index is None:
                setattr(message, same.name, extreme)
            else:
                getattr(message, same.name)[index] = extreme
            yield changed


CASES = list(commands())


@cases("command", CASES)
def test_no_number_of_a_command_stops_the_broker(command: BaseCommand) -> None:
    world = a_world()
    client = world.sessions[1]
    for changed in with_extremes(command):
        if client.session_id not in world.core.sessions:
            world = a_world()
            client = world.sessions[1]
        client.send_bytes(command_frame(changed))
    world.advance(1_000)
    assert a_world().connect()


@pytest.mark.parametrize(
    "field",
    [
        *("publish_time", "event_time", "sequence_id", "num_messages_in_batch", "deliver_at_time", "uncompressed_size"),
        *("highest_sequence_id", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size", "txnid_most_bits"),
    ],
)
def test_no_number_in_the_metadata_of_an_entry_does(field: str) -> None:
    world = a_world()
    client = world.sessions[1]
    for number, extreme in enumerate(EXTREMES[MessageMetadata.DESCRIPTOR.fields_by_name[field].type], 100):
        metadata = MessageMetadata(producer_name="p", sequence_id=number, publish_time=START_MS, uuid="u")
        metadata.num_chunks_from_msg, metadata.chunk_id, metadata.total_chunk_msg_size = 2, 0, 10
        setattr(metadata, field, extreme)
        for is_chunk in (False, True):
            send = requests.send(1, number)
            send.send.is_chunk = is_chunk
            client.send_bytes(payload_frame(send, build_entry(metadata, b"x")))
    for number in (1, 2, 3):
        client.send(requests.flow(number, 1_000))
        client.send(requests.seek_to_time(50 + number, number, 2**64 - 1))
    world.advance(10_000)
    for path in ("stats", "internalStats"):
        assert call(world, "GET", f"{BASE}/t/{path}")[0] == 200
    world.restart(**QUIET, **KEPT, deduplication=True).connect().open_consumer("exclusive", 1, permits=50)


@cases("number", ["0", "-1", str(2**31), str(2**63), str(2**64), "9" * 400])
@cases(
    "method, path",
    [
        ("POST", "/t/subscription/exclusive/skip/{}"),
        ("POST", "/t/subscription/s2/expireMessages/{}"),
        ("POST", "/t/all_subscription/expireMessages/{}"),
        ("GET", "/t/subscription/s2/position/{}"),
        ("GET", "/t/ledger/{}/entry/{}"),
        ("GET", "/t/examinemessage?initialPosition=latest&messagePosition={}"),
        ("GET", "/t/messageid/{}"),
    ],
)
def test_no_number_in_a_path_does(method: str, path: str, number: str) -> None:
    world = a_world()
    status, _, _ = call(world, method, f"{BASE}{path.format(number, number)}")
    assert 200 <= status < 500


@pytest.mark.parametrize("messages", [1, 2**31 - 1, -1])
def test_no_number_of_a_send_does(messages: int) -> None:
    # covers DED-2, DED-7
    world = a_world()
    client = world.sessions[1]
    ids = EXTREMES[FieldDescriptor.TYPE_UINT64]
    for low in ids:
        for high in (None, *ids):
            send = requests.send(1, low, messages)
            if high is not None:
                send.send.highest_sequence_id = high
            client.send_bytes(payload_frame(send, entry("x")) + payload_frame(send, entry("y")))
    assert not client.closed
    world.restart(**QUIET, **KEPT, deduplication=True).connect().open_producer()


# ---- batches that claim as many messages as the wire can say ----------------------------------------------------

MOST = 2**31 - 1
ALL_TYPES = list(CommandSubscribe.SubType.values())


def publish(client: Client, number: int, messages: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=START_MS, partition_key=f"k{number}")
    if messages > 1:
        metadata.num_messages_in_batch = messages
    entry = build_entry(metadata, f"m{number}".encode())
    client.send_bytes(payload_frame(requests.send(1, number, messages), entry))


@pytest.mark.parametrize("subscription_type", ALL_TYPES)
def test_it_costs_one_consumer_its_permits_and_nobody_else(subscription_type: Any) -> None:
    # covers SUB-4: as in Apache Pulsar
    world, producer = producing(**QUIET, **KEPT, failover_delay_ms=0)
    victim, other = world.connect(), world.connect()
    victim.open_consumer("s", 1, permits=10, subscription_type=subscription_type, consumer_name="a")
    other.open_consumer("another", 1, permits=10, subscription_type=subscription_type)
    for client in (victim, other):
        client.take_all()
    publish(producer, 0, MOST)
    publish(producer, 1, 1)
    consumer = world.core.sessions[victim.session_id].consumers[1]
    assert victim.messages() == ["m0"]
    assert consumer.permits == 10 - MOST
    assert other.messages() == ["m0"], "as here"
    # Permits are added to what is left, and one ack makes up for all that count as unacked: a client goes on.
    other.send(requests.flow(1, MOST))
    other.ack([Position(1, 0)])
    assert other.messages() == ["m1"]
    other.ack([Position(1, 1)])
    # Whoever comes next is served; what the victim holds comes to it when the victim goes.
    victim.close()
    fresh = world.connect_consumer("s", 1, permits=10, subscription_type=subscription_type)
    assert [each for each in fresh.take_all() if hasattr(each, "starts")]
    fresh.send(requests.flow(1, MOST))
    fresh.ack([Position(1, 0), Position(1, 1)])
    assert world.subscription().backlog == 0


@pytest.mark.parametrize("subscription_type", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared])
def test_others_of_the_subscription_get_what_follows(subscription_type: Any) -> None:
    # covers SUB-4, SH-6: the unacked limits count messages
    world, producer = producing(
        **QUIET, **KEPT, max_unacked_per_consumer=0, max_unacked_per_subscription=0, key_shared_ring=False
    )
    clients = [world.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.open_consumer("s", 1, permits=100, subscription_type=subscription_type, consumer_name=f"c{number}")
    for number in range(30):
        publish(producer, number, MOST if number == 0 else 1)
    got = [client.messages() for client in clients]
    hit = next(number for number, texts in enumerate(got) if "m0" in texts)
    assert sum(map(len, got)) >= 3
    assert all(len(texts) > 1 for number, texts in enumerate(got) if number != hit)


def test_counters_take_it_and_survive_a_restart() -> None:
    # covers ST-1: statistics
    world, producer = producing(**QUIET, **KEPT)
    client = world.connect_consumer("s", 1, permits=10, subscription_type=CommandSubscribe.Shared)
    for number in range(5):
        publish(producer, number, MOST)
        client.send(requests.flow(1, MOST))
    client.take_all()
    status, _, stats = call(world, "GET", f"{BASE}/t/stats")
    assert status == 200
    assert stats["msgInCounter"] == 5 * MOST
    world.happen([])
    again = world.restart(**QUIET, **KEPT)
    fresh = again.connect_consumer("s", 1, permits=10, subscription_type=CommandSubscribe.Shared)
    assert fresh.messages() == ["m0"]


@pytest.mark.parametrize("claimed", [0, -1, -(2**31)])
def test_a_batch_that_claims_none_or_fewer_counts_as_one(claimed: int) -> None:
    # covers SUB-4: permits are no gift
    world, producer = producing(**QUIET, **KEPT)
    client = world.connect_consumer("s", 1, permits=10)
    publish(producer, 0, claimed)
    assert client.messages() == ["m0"]
    assert world.core.sessions[client.session_id].consumers[1].permits == 9
