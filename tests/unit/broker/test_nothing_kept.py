"""Nothing is kept of clients that have left and topics that are gone: neither in tables, nor as garbage in cycles, for
which the broker's collector looks so seldom that it would pile up for days."""

import gc
import sys
from collections import Counter, deque
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

import pytest

from spark_pulsar.admin.topics import topic_lifecycle
from spark_pulsar.broker.entities import session as sessions
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.ledger.records import Record
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import InactiveTopicPolicy
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import Schema
from tests.unit.broker.schemas.records import A, record
from tests.unit.broker.schemas.test_registry import produce
from tests.unit.broker.upkeep.test_inactive_topics import world_with
from tests.unit.broker.world import TOPIC, Client, World, entry

SESSIONS = 40
PACKAGES = "spark_pulsar."
VOLATILE = "non-persistent://public/default/t"
TYPES = pytest.mark.parametrize("kind", [0, 1, 2, 3], ids=["exclusive", "shared", "failover", "key-shared"])
TOPICS = pytest.mark.parametrize("topic", [TOPIC, VOLATILE], ids=["persistent", "non-persistent"])
DOMAINS = pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
Scene = Callable[[Client, int], None]


def objects() -> Counter[str]:
    """Counts the objects of the package by their class; records are left out, which the disk in memory keeps."""
    kinds = (type(each) for each in gc.get_objects())
    ours = (kind for kind in kinds if str(kind.__module__).startswith(PACKAGES) and not issubclass(kind, Record))
    return Counter(kind.__qualname__ for kind in ours)


def play(world: World, scene: Scene, numbers: range) -> None:
    """Plays a scene on one connection after the other; each drops in the end."""
    for number in numbers:
        client = world.connect()
        scene(client, number)
        client.close()
        vars(client).clear()  # a cycle of its own
        world.sessions.clear()


def assert_nothing_is_kept(scene: Scene) -> None:
    """Asserts that many sessions leave as many objects as few did, without a collection of garbage."""
    gc.disable()
    gc.freeze()  # what the other tests have left is neither searched nor counted: there is much of it
    try:
        world = World()
        play(world, scene, range(5))
        gc.collect()
        before = objects()
        play(world, scene, range(5, 5 + SESSIONS))
        grown = {kind: count - before[kind] for kind, count in objects().items() if count - before[kind] >= SESSIONS}
    finally:
        gc.unfreeze()
        gc.enable()
    grown.pop("Timer", None)  # cancelled ones are removed by the thousand, and hold nothing
    assert not grown, "kept of each session"
    assert not world.core.sessions


def test_connections_alone() -> None:
    assert_nothing_is_kept(lambda client, number: None)


@TOPICS
def test_producers(topic: str) -> None:
    assert_nothing_is_kept(lambda client, number: client.open_producer(topic, name=None))


@TOPICS
@TYPES
def test_consumers_that_come_and_go(kind: int, topic: str) -> None:
    assert_nothing_is_kept(lambda client, number: client.open_consumer(topic=topic, subscription_type=kind, permits=9))


@TOPICS
@TYPES
def test_subscriptions_that_come_and_go(kind: int, topic: str) -> None:
    def scene(client: Client, number: int) -> None:
        client.open_consumer(f"s{number}", topic=topic, subscription_type=kind)
        client.send(requests.unsubscribe(client.request_id(), 1))

    assert_nothing_is_kept(scene)


@pytest.mark.parametrize("compacted", [False, True])
def test_readers(compacted: bool) -> None:
    def scene(client: Client, number: int) -> None:
        client.open_consumer(f"reader-{number}", durable=False, read_compacted=compacted, permits=9)

    assert_nothing_is_kept(scene)


@TYPES
@DOMAINS
def test_topics_that_come_and_go(kind: int, domain: str) -> None:
    def scene(client: Client, number: int) -> None:
        topic = f"{domain}://public/default/t{number}"
        client.open_producer(topic)
        client.open_consumer(topic=topic, subscription_type=kind)

        client.world.ask(lambda core: lifecycle.delete(core, core.topics[topic]))

    assert_nothing_is_kept(scene)


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


def come_and_go(world: World, client: Client, numbers: range, domain: str) -> None:
    """Topics with a schema, a producer, a subscription and an entry, each deleted."""
    for number in numbers:
        topic = f"{domain}://public/default/t-{number}"
        assert produce(client, record(A), Schema.Avro, number, topic) == 0
        client.store(number, entry("x"))
        client.open_consumer(f"s-{number}", number, topic=topic)
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


@DOMAINS
def test_topics_that_come_and_go_leave_nothing(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_DROPPED_PRODUCERS", 100)
    world = world_with(InactiveTopicPolicy(True, 10**6), keep_alive_interval_ms=10**9, cache_bytes=0)
    client = world.connect()
    come_and_go(world, client, range(1, ROUNDS), domain)
    before = held_bytes(world.core)
    come_and_go(world, client, range(ROUNDS, 3 * ROUNDS), domain)
    assert held_bytes(world.core) - before < 2_000
