"""Batches that claim as many messages as the wire can say, and sequence ids at the end of their range."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, MessageMetadata
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import QUIET, START_MS, Client, World

MOST = 2**31 - 1
KEPT_APART = {"default_retention_time_minutes": -1, "default_retention_size_mb": -1}


def publish(client: Client, number: int, messages: int, sequence_id: int | None = None) -> None:
    sequence_id = number if sequence_id is None else sequence_id
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=START_MS, partition_key=f"k{number}")
    if messages > 1:
        metadata.num_messages_in_batch = messages
    entry = build_entry(metadata, f"m{number}".encode())
    client.send_bytes(payload_frame(requests.send(1, sequence_id, messages), entry))


def a_world(**config: Any) -> tuple[World, Client]:
    world = World(**QUIET, **KEPT_APART, **config)
    producer = world.connect()
    producer.open_producer()
    return world, producer


TYPES = [
    CommandSubscribe.Exclusive,
    CommandSubscribe.Failover,
    CommandSubscribe.Shared,
    CommandSubscribe.Key_Shared,
]


@pytest.mark.parametrize("subscription_type", TYPES)
def test_it_costs_one_consumer_its_permits_and_nobody_else(subscription_type: Any) -> None:
    # covers SUB-4: as in Apache Pulsar
    world, producer = a_world(failover_delay_ms=0)
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
    fresh = world.connect()
    fresh.open_consumer("s", 1, permits=10, subscription_type=subscription_type)
    assert [each for each in fresh.take_all() if hasattr(each, "starts")]
    fresh.send(requests.flow(1, MOST))
    fresh.ack([Position(1, 0), Position(1, 1)])
    assert world.core.topics["persistent://public/default/t"].subscriptions["s"].backlog == 0


@pytest.mark.parametrize("subscription_type", [CommandSubscribe.Shared, CommandSubscribe.Key_Shared])
def test_others_of_the_subscription_get_what_follows(subscription_type: Any) -> None:
    # covers SUB-4, SH-6: the unacked limits count messages
    world, producer = a_world(max_unacked_per_consumer=0, max_unacked_per_subscription=0, key_shared_ring=False)
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
    world, producer = a_world()
    client = world.connect()
    client.open_consumer("s", 1, permits=10, subscription_type=CommandSubscribe.Shared)
    for number in range(5):
        publish(producer, number, MOST)
        client.send(requests.flow(1, MOST))
    client.take_all()
    status, _, stats = call(world, "GET", f"{BASE}/t/stats")
    assert status == 200
    assert stats["msgInCounter"] == 5 * MOST
    world.happen([])
    again = world.restart(**QUIET, **KEPT_APART)
    fresh = again.connect()
    fresh.open_consumer("s", 1, permits=10, subscription_type=CommandSubscribe.Shared)
    assert fresh.messages() == ["m0"]


@pytest.mark.parametrize("sequence_id", [2**63 - 1, 2**63 - MOST, 2**63, 2**64 - 1, 2**64 - MOST, 0])
@pytest.mark.parametrize("messages", [1, 2, MOST])
def test_sequence_ids_at_the_end_of_their_range(sequence_id: int, messages: int) -> None:
    # covers DED-2, DED-7: the highest id of a batch is past the last one that can be written
    world, producer = a_world(deduplication=True)
    publish(producer, 0, messages, sequence_id)
    publish(producer, 1, messages, sequence_id)
    publish(producer, 2, messages, (sequence_id + 1) % 2**64)
    assert not producer.closed
    assert producer.take_all()
    again = world.restart(**QUIET, **KEPT_APART, deduplication=True)
    again.connect().open_producer()


@pytest.mark.parametrize("claimed", [0, -1, -(2**31)])
def test_a_batch_that_claims_none_or_fewer_counts_as_one(claimed: int) -> None:
    # covers SUB-4: permits are no gift
    world, producer = a_world()
    client = world.connect()
    client.open_consumer("s", 1, permits=10)
    publish(producer, 0, claimed)
    assert client.messages() == ["m0"]
    assert world.core.sessions[client.session_id].consumers[1].permits == 9
