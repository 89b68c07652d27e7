"""Entries that are dispatched at a rate, in the words of a test of the core."""

from collections import Counter
from typing import Any

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.world import QUIET, TOPIC, Client, World

OTHER = "persistent://public/default/other"
TYPES = (CommandSubscribe.Exclusive, CommandSubscribe.Shared, CommandSubscribe.Failover, CommandSubscribe.Key_Shared)


def world_of(**config: Any) -> World:
    """A quiet world whose Failover consumers begin at once."""
    return World(**QUIET, failover_delay_ms=0, **config)


def publish(world: World, *entries: bytes, topic: str = TOPIC, messages: int = 1) -> None:
    """Publishes entries of a producer that comes and goes."""
    client = world.connect_producer(topic, name=None)
    client.publish(1, *entries, messages=messages)
    client.close()


def join(world: World, kind: Any = CommandSubscribe.Shared, *, permits: int = 1_000, **more: Any) -> Client:
    """A client with a consumer, from the earliest entry on."""
    return world.connect_consumer(subscription_type=kind, permits=permits, **more)


def received_by(client: Client) -> Counter[int]:
    """Counts the entries that came to each consumer of a client since the last count."""
    counts: Counter[int] = Counter()
    for each in client.take_all():
        if isinstance(each, fx.SendMessages):
            counts[each.consumer_id] += len(each.starts)
    return counts


def received(client: Client) -> int:
    """Counts the entries that came since the last count."""
    return received_by(client).total()
