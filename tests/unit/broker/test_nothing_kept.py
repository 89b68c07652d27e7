"""Nothing is kept of clients that have left: neither in tables, nor as garbage in cycles, for which the broker's
collector looks so seldom that it would pile up for days."""

import gc
from collections import Counter
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.ledger.records import Record
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.world import TOPIC, Client, World

SESSIONS = 40
PACKAGES = "spark_pulsar."
VOLATILE = "non-persistent://public/default/t"
TYPES = pytest.mark.parametrize("kind", [0, 1, 2, 3], ids=["exclusive", "shared", "failover", "key-shared"])
TOPICS = pytest.mark.parametrize("topic", [TOPIC, VOLATILE], ids=["persistent", "non-persistent"])
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


def items_of(core: Core) -> int:
    """Counts all that can be reached from a core, plain numbers and texts in its tables too."""
    for ids in core.state.dirty.values():
        ids.clear()  # as the next checkpoint does
    seen: set[int] = set()
    found: list[object] = [core]
    while found:
        each = found.pop()
        if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
            seen.add(id(each))
            found += gc.get_referents(each)
    return len(seen)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_tables_keep_nothing_of_deleted_topics(domain: str) -> None:
    world = World()

    def scene(client: Client, number: int) -> None:
        topic = f"{domain}://public/default/a-name-of-its-own-{number}"
        client.open_producer(topic, name=None)
        client.open_consumer(f"s{number}", topic=topic, subscription_type=1, permits=9)

        def delete(core: Core) -> None:
            found = registry.find(core, TopicName.parse(topic))
            assert found is not None
            lifecycle.delete(core, found)

        world.ask(delete)

    play(world, scene, range(300))
    before = items_of(world.core)
    play(world, scene, range(300, 1_200))
    assert items_of(world.core) - before < 300  # an item of each would be 900


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
@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_topics_that_come_and_go(kind: int, domain: str) -> None:
    def scene(client: Client, number: int) -> None:
        topic = f"{domain}://public/default/t{number}"
        client.open_producer(topic)
        client.open_consumer(topic=topic, subscription_type=kind)

        def delete(core: object) -> None:
            found = registry.find(client.world.core, TopicName.parse(topic))
            assert found is not None
            lifecycle.delete(client.world.core, found)

        client.world.ask(delete)

    assert_nothing_is_kept(scene)
