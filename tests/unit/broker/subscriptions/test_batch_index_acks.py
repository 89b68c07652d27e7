"""Acks of parts of batches whose size is unknown, or a lie."""

from __future__ import annotations

import tracemalloc

import pytest

from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.unit.broker.world import TOPIC, World, entry

SHARED = CommandSubscribe.Shared


def test_a_batch_that_claims_to_be_larger_than_any_costs_nothing() -> None:
    # covers ACK-9: hostile input, a bit for each of its messages would be 256 MB
    world = World(batch_index_acks=True)
    feeder, client = world.connect(), world.connect()
    client.open_consumer(subscription_type=SHARED)
    feeder.open_producer()
    feeder.publish(1, entry("x"), messages=2**31 - 1)
    tracemalloc.start()
    client.ack([Position(1, 0)], ack_set=0b1110, request_id=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert client.expect(BaseCommand.ACK_RESPONSE).request_id == 1
    assert world.core.topics[TOPIC].subscriptions["s"].cursor.batch_set(1, 0) == 0b1110
    assert peak < 10_000_000


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
@pytest.mark.parametrize(("bits", "left"), [(65_536, 65_535), (65_537, None)])
def test_a_bit_set_has_a_limit(bits: int, left: int | None, cache_bytes: int) -> None:
    # covers ACK-9: hostile input
    world = World(batch_index_acks=True, cache_bytes=cache_bytes)
    feeder, client = world.connect(), world.connect()
    client.open_consumer(subscription_type=SHARED)
    feeder.open_producer()
    feeder.publish(1, entry("x"), messages=100_000)
    client.ack([Position(1, 0)], ack_set=(1 << bits) - 2, request_id=1)
    assert client.expect(BaseCommand.ACK_RESPONSE).request_id == 1
    kept = world.core.topics[TOPIC].subscriptions["s"].cursor.batch_set(1, 0)
    assert (None if kept is None else kept.bit_count()) == left
    client.ack([Position(1, 0)])
    assert world.core.topics[TOPIC].subscriptions["s"].backlog == 0
