"""Costly changes of the admin API are done in slices: others change the same meanwhile, and the broker may end."""

from collections.abc import Callable

import pytest

from spark_pulsar.admin.topics import topic_lifecycle
from spark_pulsar.broker.topics import auto_creation, lifecycle
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.admin.http.conftest import Between
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import QUIET, Client, World

COUNT = 20
TOPIC = TopicName.parse("persistent://public/default/p")
NAMESPACE = "/admin/v2/namespaces/public/default"


@pytest.fixture
def world() -> World:
    return World(**QUIET)


def make(world: World, count: int = COUNT, name: str = "p") -> None:
    assert call(world, "PUT", f"{BASE}/{name}/partitions", str(count).encode())[0] == 204


def partitions(world: World) -> int:
    """The number of partitions that are told; all of them and no other exist."""
    known = world.state.partitioned.get(TOPIC.full)
    count = 0 if known is None else known.partitions
    assert set(world.state.topics_by_name) == {TOPIC.at_partition(index).full for index in range(count)}
    return count


def is_served(client: Client) -> bool:
    client.send(commands.ping())
    return [effect.command.type for effect in client.take_all()] == [BaseCommand.PONG]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{BASE}/p/partitions", b"40"),
        ("DELETE", f"{BASE}/p/partitions", b""),
        ("PUT", f"{BASE}/q/partitions", b"20"),
        ("PUT", f"{BASE}/p/unload", b""),
        ("DELETE", f"{BASE}/p/truncate", b""),
        ("POST", f"{BASE}/p/trim", b""),
        ("POST", f"{BASE}/p/terminate/partitions", b""),
        ("PUT", f"{BASE}/p/subscription/new", b""),
        ("PUT", f"{BASE}/p/subscription/new", b'{"ledgerId": -1, "entryId": -1}'),
        ("PUT", f"{BASE}/p/subscription/s/properties", b'{"a": "b"}'),
        ("POST", f"{BASE}/p/subscription/s/skip_all", b""),
        ("POST", f"{BASE}/p/subscription/s/resetcursor/1", b""),
        ("POST", f"{BASE}/p/all_subscription/expireMessages/1", b""),
        ("DELETE", f"{BASE}/p/subscription/s", b""),
        ("PUT", f"{NAMESPACE}/unload", b""),
        ("POST", f"{NAMESPACE}/clearBacklog", b""),
        ("POST", f"{NAMESPACE}/clearBacklog/s", b""),
        ("POST", f"{NAMESPACE}/unsubscribe/s", b""),
        ("GET", "/admin/v2/brokers/backlog-quota-check", b""),
    ],
)
def test_others_are_served_while_a_change_is_made_and_topics_go(
    world: World, between: Between, method: str, path: str, body: bytes
) -> None:
    make(world)
    assert call(world, "PUT", f"{BASE}/p/subscription/s")[0] == 204
    client, served = world.connect(), []
    between.slices = 0

    def happens(number: int) -> None:
        served.append(is_served(client))
        topic = world.core.topics.get(TOPIC.at_partition(COUNT - number).full) if 1 <= number <= COUNT else None
        if number % 4 == 0 and topic is not None and path != f"{BASE}/p/partitions":
            world.ask(lambda core: lifecycle.delete(core, topic))

    between.happens = happens
    status, _, answer = call(world, method, path, body)
    assert status in ((409,) if "expireMessages" in path else (200, 204)), answer  # nothing is old enough
    assert len(served) >= COUNT
    assert all(served)


def test_a_topic_that_is_created_by_two_at_once(world: World, between: Between) -> None:
    between.at(COUNT + 2, lambda core: topic_lifecycle.create_partitioned(core, TOPIC, 3, {}))
    status, _, _ = call(world, "PUT", f"{BASE}/p/partitions", str(COUNT).encode())
    assert (status, partitions(world)) == (409, 3)


def test_partitions_that_somebody_else_creates_first(world: World, between: Between) -> None:
    last = TOPIC.at_partition(COUNT - 1)
    between.at(2 * COUNT + 2, lambda core: auto_creation.obtain(core, last, may_create=False))
    make(world)
    assert not between.refused
    assert partitions(world) == COUNT


@pytest.mark.parametrize("body", [b"20", b"9"])
def test_a_topic_that_two_make_larger_at_once(world: World, between: Between, body: bytes) -> None:
    make(world, 5)
    between.at(between.slices + 8, lambda core: topic_lifecycle.grow(core, TOPIC, 12))
    assert call(world, "POST", f"{BASE}/p/partitions", body)[0] == 204
    assert not between.refused
    assert partitions(world) == max(12, int(body))


def test_a_topic_that_is_deleted_while_it_is_made(world: World, between: Between) -> None:
    between.at(2 * COUNT + 5, lambda core: topic_lifecycle.delete_partitioned(core, TOPIC, force=True))
    status, _, answer = call(world, "PUT", f"{BASE}/p/partitions", str(COUNT).encode())
    assert (status, partitions(world)) == (404, 0), answer


def test_a_partition_does_not_come_back_while_its_topic_is_deleted(world: World, between: Between) -> None:
    make(world)
    first = TOPIC.at_partition(0)
    between.at(between.slices + COUNT + 5, lambda core: auto_creation.obtain(core, first, may_create=True))
    assert call(world, "DELETE", f"{BASE}/p/partitions")[0] == 204
    assert [str(error) for error in between.refused] == [f"{TOPIC} is being deleted"]
    assert (partitions(world), world.core.being_deleted) == (0, set())


def test_a_topic_that_two_delete_at_once(world: World, between: Between) -> None:
    make(world)
    between.at(between.slices + COUNT + 5, lambda core: topic_lifecycle.delete_partitioned(core, TOPIC, force=True))
    assert call(world, "DELETE", f"{BASE}/p/partitions")[0] == 204
    assert [type(error).__name__ for error in between.refused] == ["ServiceNotReady"]
    assert partitions(world) == 0


class Ended(Exception):
    """The broker was killed."""


def killed(number: int) -> Callable[[int], object]:
    def happens(now: int) -> None:
        if now == number:
            raise Ended

    return happens


@pytest.mark.parametrize("number", range(1, 2 * COUNT, 3))
def test_a_broker_that_is_killed_while_it_makes_partitions(world: World, between: Between, number: int) -> None:
    between.happens = killed(number)
    with pytest.raises(Ended):
        make(world)
    again = world.restart(**QUIET)
    if TOPIC.full in again.state.partitioned:
        assert call(again, "POST", f"{BASE}/p/createMissedPartitions")[0] == 204
    else:
        make(again)
    assert partitions(again) == COUNT


@pytest.mark.parametrize("number", range(1, 3 * COUNT, 7))
def test_a_broker_that_is_killed_while_it_adds_or_deletes_partitions(
    world: World, between: Between, number: int
) -> None:
    make(world, 5)
    between.happens = killed(between.slices + number)
    with pytest.raises(Ended):
        call(world, "POST", f"{BASE}/p/partitions", b"40")
    again = between.world = world.restart(**QUIET)
    assert again.state.partitioned[TOPIC.full].partitions == 5
    assert call(again, "POST", f"{BASE}/p/partitions", b"40")[0] == 204
    assert partitions(again) == 40
    between.happens = killed(between.slices + number)
    with pytest.raises(Ended):
        call(again, "DELETE", f"{BASE}/p/partitions")
    once_more = again.restart(**QUIET)
    assert call(once_more, "DELETE", f"{BASE}/p/partitions")[0] == 204
    assert partitions(once_more) == 0
