"""Topics that have ended: consumers hear of it when they have acked the last entry, and the last ledger stays."""

from typing import Any

import pytest

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import termination
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ProducerAccessMode, ServerError
from tests.unit.broker.world import QUIET, TOPIC, Client, World, entry, producing

LAST = Position(1, 1)


def end(world: World) -> Position:
    found: list[Position] = []

    def terminate(core: Any) -> None:
        topic = registry.find(core, TopicName.parse(TOPIC))
        assert topic is not None
        found.append(termination.terminate(core, topic))

    world.ask(terminate)
    return found[0]


def reached(client: Client) -> list[int]:
    """Consumer ids that were told; nothing else may have come."""
    return [client.expect(BaseCommand.REACHED_END_OF_TOPIC).consumer_id for _ in range(len(client.effects))]


@pytest.fixture
def full(world: World, feeder: Client) -> World:
    feeder.store(1, entry("a"), entry("b"))
    return world


def test_what_was_sent_before_is_answered_before_the_close(world: World, feeder: Client) -> None:
    # covers TN-13, DUR-1
    world.disk_is_slow = True
    feeder.publish(1, entry("a"))
    end(world)
    assert feeder.take_all() == []
    world.sync()
    assert [(each.ledger_id, each.first_entry_id) for each in feeder.take_all()[:1]] == [(1, 0)]


def test_waiters_hear_that_there_is_nothing_to_wait_for(world: World, feeder: Client) -> None:
    # covers TN-13, PR-6
    waiting = world.connect()
    waiting.send(requests.producer(3, TOPIC, 1, "w", access_mode=ProducerAccessMode.WaitForExclusive))
    waiting.take()
    end(world)
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.TopicTerminatedError


def test_nobody_hears_of_an_end_that_is_not_on_disk(full: World) -> None:
    # covers TN-13, DUR-3
    client, late = full.connect_consumer(permits=10), full.connect()
    client.take_all()
    full.disk_is_slow = True
    end(full)
    client.ack([Position(1, 0), LAST])
    late.send(requests.subscribe(3, TOPIC, "reader", 1, durable=False))
    assert client.take_all() == []
    late.expect(BaseCommand.SUCCESS)
    assert late.take_all() == []
    full.sync()
    assert set(reached(client)) == set(reached(late)) == {1}


def test_all_consumers_of_a_shared_subscription_are_told(full: World) -> None:
    # covers TN-13
    one, two = full.connect(), full.connect()
    for client in (one, two):
        client.open_consumer(permits=10, subscription_type=CommandSubscribe.Shared)
    end(full)
    one.take_all()
    two.take_all()
    one.ack([LAST])
    assert one.take_all() == []
    one.ack([Position(1, 0)])
    assert reached(one) == [1]
    assert reached(two) == [1]


def test_a_cumulative_ack_a_skip_and_a_late_consumer(full: World) -> None:
    # covers TN-13, CUR-14
    full.connect().open_consumer("slowest")
    end(full)
    client = full.connect_consumer(permits=10)
    client.take_all()
    client.ack([LAST], cumulative=True)
    assert reached(client) == [1]
    client.open_consumer("latest", 2, initial_position=CommandSubscribe.Latest)
    assert reached(client) == [2]
    client.open_consumer("other", 3)
    assert client.take_all() == []
    topic = full.core.topics[TOPIC]
    full.ask(lambda core: cursor_moves.clear_backlog(core, topic.subscriptions["other"]))
    assert reached(client) == [3]


def test_who_seeks_back_reads_again_and_is_told_again(full: World) -> None:
    # covers TN-13, CUR-11
    full.connect().open_consumer("slowest")
    client = full.connect_consumer(permits=10)
    end(full)
    client.take_all()
    client.ack([Position(1, 0)])
    client.ack([LAST])
    assert reached(client) == [1]
    topic = full.core.topics[TOPIC]
    full.ask(lambda core: cursor_moves.reset_to_position(core, topic.subscriptions["s"], Position(1, 1), lambda: None))
    client.expect(BaseCommand.CLOSE_CONSUMER)
    client.open_consumer(permits=10)
    assert client.messages() == ["b"]
    client.ack([LAST])
    assert reached(client) == [1]


@pytest.mark.parametrize("version", ["Pulsar-CPP-v3.7.2", "Pulsar-Go-version", "Pulsar Go 0.9"])
def test_clients_that_would_drop_their_connection_are_not_told(full: World, version: str) -> None:
    # covers TN-13
    end(full)
    client = full.open_socket()
    client.send(requests.connect(version))
    client.take()
    client.open_consumer(initial_position=CommandSubscribe.Latest)
    assert client.take_all() == []


def test_the_last_ledger_stays_for_readers_to_come(full: World) -> None:
    # covers TN-13, TRIM-1
    client = full.connect_consumer(permits=10)
    client.take_all()
    end(full)
    client.ack([LAST], cumulative=True)
    assert reached(client) == [1]
    reader = full.restart().connect()
    reader.open_consumer("reader", durable=False, permits=10)
    assert reader.messages() == ["a", "b"]


def test_the_last_ledger_does_not_roll_over_any_more() -> None:
    # covers TN-13, ML-2, ML-3
    world, client = producing(**QUIET, ledger_max_age_ms=1_000, ledger_min_age_ms=0, ledger_inactive_ms=500)
    client.open_consumer()
    client.publish(1, entry("a"))
    end(world)
    world.advance(10_000)
    assert world.core.topics[TOPIC].ledger.ledger_ids() == [1]
