"""Nothing is kept of topics that are gone, however many come and go, but what the next checkpoint is to remove."""

from __future__ import annotations

import gc
import sys
from collections import deque
from types import FunctionType, MethodType
from typing import Any

import pytest

from spark_pulsar.admin.topics import topic_lifecycle
from spark_pulsar.broker.entities import session as sessions
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import InactiveTopicPolicy
from spark_pulsar.wire.pulsar_api_pb2 import Schema
from tests.unit.broker.schemas.records import A, record
from tests.unit.broker.schemas.test_registry import produce
from tests.unit.broker.upkeep.test_inactive_topics import world_with
from tests.unit.broker.world import TOPIC, Client, World, entry

ROUNDS = 300
_CONTAINERS = (dict, list, set, deque)


def held_bytes(core: Any) -> int:
    """The bytes of all containers that a core reaches, apart from the notes of what the next checkpoint stores."""
    state = core.state
    seen = {id(each) for each in (state.dirty, state.gone_cursor_blocks, *state.dirty.values())}
    total, waiting = 0, [core]
    while waiting:
        each = waiting.pop()
        is_ours = type(each).__module__.startswith("spark_pulsar")
        if id(each) in seen or not (is_ours or isinstance(each, (*_CONTAINERS, tuple, MethodType, FunctionType))):
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            waiting += [cell.cell_contents for cell in each.__closure__ or () if cell.cell_contents is not each]
            continue
        total += sys.getsizeof(each) if isinstance(each, _CONTAINERS) else 0
        waiting += [*each, *each.values()] if isinstance(each, dict) else gc.get_referents(each)
    return total


def come_and_go(world: World, client: Client, numbers: range) -> None:
    """Topics with a schema, a producer, a subscription and an entry, each deleted."""
    for number in numbers:
        topic = f"persistent://public/default/t-{number}"
        assert produce(client, record(A), Schema.Avro, number, topic) == 0
        client.publish(number, entry("x"))
        client.take_all()
        client.open_consumer(consumer_id=number, topic=topic)
        world.advance(1_000)
        world.ask(lambda core, topic=topic: topic_lifecycle.delete(core, TopicName.parse(topic), force=True))  # type: ignore[misc]
        world.advance(1)
        client.take_all()


def test_producers_that_the_broker_closes_are_known_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_DROPPED_PRODUCERS", 3)
    world = World()
    client = world.connect()
    for number in range(1, 6):
        client.open_producer(producer_id=number, name=None)
    world.ask(lambda core: topic_lifecycle.delete(core, TopicName.parse(TOPIC), force=True))
    assert list(world.core.sessions[client.session_id].dropped_producers) == [3, 4, 5]
    client.take_all()
    client.publish(5, entry("x"))
    assert not client.closed, "its SEND was under way"
    client.publish(2, entry("x"))
    assert client.closed


def test_topics_that_come_and_go_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_DROPPED_PRODUCERS", 100)
    world = world_with(InactiveTopicPolicy(True, 10**6), keep_alive_interval_ms=10**9, cache_bytes=0)
    client = world.connect()
    come_and_go(world, client, range(1, ROUNDS))
    before = held_bytes(world.core)
    come_and_go(world, client, range(ROUNDS, 3 * ROUNDS))
    assert held_bytes(world.core) - before < 2_000
