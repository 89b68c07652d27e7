"""Every number of every command at the ends of its range: refused or taken, never the end of the broker.

An exception out of the core stops it: what is in memory can then no longer be trusted. So no number that a client sends
may be too large for a record, an array, or a loop.
"""

from __future__ import annotations

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
from tests.unit.broker.world import QUIET, START_MS, TOPIC, World, entry

EXTREMES: dict[int, tuple[int, ...]] = {
    FieldDescriptor.TYPE_INT32: (0, 1, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.TYPE_UINT32: (0, 1, 2**31, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (0, 1, -1, 2**63 - 1, -(2**63)),
    FieldDescriptor.TYPE_UINT64: (0, 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1),
}
KEPT_FOR_EVER: dict[str, Any] = {"default_retention_time_minutes": -1, "default_retention_size_mb": -1}


def a_world() -> World:
    """A topic with entries, a subscription of each type but one, and a client that has it all."""
    world = World(**QUIET, **KEPT_FOR_EVER, deduplication=True, failover_delay_ms=0)
    client = world.connect()
    client.open_producer()
    client.publish(1, *(entry(str(number), batch=number % 3) for number in range(10)))
    client.take_all()
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
    world.restart(**QUIET, **KEPT_FOR_EVER, deduplication=True).connect().open_consumer("exclusive", 1, permits=50)


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
    world.restart(**QUIET, **KEPT_FOR_EVER, deduplication=True).connect().open_producer()
