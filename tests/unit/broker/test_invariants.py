"""Invariants of every consumer after every turn: a state that breaks them is found, whatever the dispatcher."""

from collections.abc import Callable

import pytest

from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.invariants import TOPICS_OF_A_TURN, TurnChecks, check
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe
from tests.unit.broker.world import QUIET, TOPIC, World, entry

LIVE = "non-" + TOPIC
KINDS = list(CommandSubscribe.SubType.values())
SHARING = [CommandSubscribe.Shared, CommandSubscribe.Key_Shared]


def fed(kind: int, topic: str = TOPIC) -> tuple[World, Consumer]:
    """A consumer that got a batch of three, of which one is acked, and two plain messages."""
    world = World(**QUIET, batch_index_acks=True)
    client = world.connect_producer(topic)
    client.open_consumer(topic=topic, subscription_type=kind, permits=100)
    world.advance(2_000)  # Failover begins
    client.publish(1, entry("batch", batch=3), messages=3)
    client.publish(1, entry("a"), entry("b"), first=3)
    (consumer,) = world.core.topics[topic].subscriptions["s"].consumers
    assert consumer.messages_out == 5
    first = world.core.topics[topic].ledger.first_position
    client.send(requests.ack(1, [first], ack_set=0b110))
    check(world.broker)
    return world, consumer


@pytest.mark.parametrize("topic", [TOPIC, LIVE])
@pytest.mark.parametrize("kind", KINDS)
def test_granted_is_sent_and_left(kind: int, topic: str) -> None:
    # covers SUB-4
    world, consumer = fed(kind, topic)
    consumer.permits -= 1
    with pytest.raises(AssertionError, match="granted = sent"):
        check(world.broker)


@pytest.mark.parametrize("topic", [TOPIC, LIVE])
@pytest.mark.parametrize("kind", KINDS)
def test_unacked_is_what_is_pending(kind: int, topic: str) -> None:
    # covers SH-6
    world, consumer = fed(kind, topic)
    assert consumer.unacked == (4 if kind in SHARING and topic == TOPIC else 0)
    consumer.unacked += 1
    with pytest.raises(AssertionError, match="unacked"):
        check(world.broker)


def more_of_a_batch(consumer: Consumer) -> None:
    ((_, batches),) = consumer.batch_messages.items()
    batches[next(iter(batches))] += 1
    consumer.unacked += 1


def blocked(consumer: Consumer) -> None:
    consumer.blocked = True


def acked_behind_its_back(consumer: Consumer) -> None:
    ledger_id, first, end = next(iter(consumer.pending))
    consumer.subscription.cursor.acknowledge([(ledger_id, end - 1, end)])
    assert first < end


@pytest.mark.parametrize("kind", SHARING)
@pytest.mark.parametrize("harm", [more_of_a_batch, blocked, acked_behind_its_back])
def test_what_is_held_is_what_is_not_acked(kind: int, harm: Callable[[Consumer], None]) -> None:
    # covers SH-6, ACK-1, ACK-9
    world, consumer = fed(kind)
    harm(consumer)
    with pytest.raises(AssertionError, match=r"holds what|half is acked"):
        check(world.broker)


def test_after_a_turn_the_newest_topics_are_checked_and_the_others_within_some_turns() -> None:
    world = World(**QUIET)
    client = world.connect()
    names = [f"{TOPIC}-{number}" for number in range(3 * TOPICS_OF_A_TURN)]
    for number, name in enumerate(names):
        client.open_consumer(f"s{number}", number, topic=name)
    checks = TurnChecks(world.broker)
    for name, turns in ((names[-1], 1), (names[0], 3), (names[TOPICS_OF_A_TURN], 3)):
        world.core.topics[name].subscription_count += 1
        with pytest.raises(AssertionError, match="subscriptions hear"):  # noqa: PT012 - any of the turns may find it
            for _ in range(turns):
                checks.after_turn()
        world.core.topics[name].subscription_count -= 1
        for _ in range(4):
            checks.after_turn()
