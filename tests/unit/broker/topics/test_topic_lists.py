"""Lists of many topics are made in slices: others are served meanwhile, and what is there all the time is in them."""

import pytest

from spark_pulsar.broker.entities import sliced_requests
from spark_pulsar.broker.topics import lifecycle, topic_lists
from spark_pulsar.broker.topics.topic_lists import TopicsHash, hash_of_sorted, topics_hash
from spark_pulsar.broker.turn.events import WritingResumed
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.topics.test_topic_list_watch import START, drop, make, watch
from tests.unit.broker.world import QUIET, Client, World

MANY = 500


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(sliced_requests, "TURN_COST", 100)
    monkeypatch.setattr(topic_lists, "STEP_COST", 50)
    return World(**QUIET)


def make_many(world: World, count: int = MANY) -> None:
    world.ask(lambda core: lifecycle.create_partitioned(core, TopicName.parse(f"{START}many"), count, {}))


def ask_for_list(client: Client, pattern: str = "public/default/.*", request_id: int = 1) -> None:
    client.send(requests.topics_of_namespace(request_id, "public/default", pattern=pattern))


def is_answered(client: Client) -> bool:
    """Whether a PING is answered in the turn in which it comes, and nothing else."""
    client.send(commands.ping())
    found = [effect.command.type for effect in client.take_all()]
    return found == [BaseCommand.PONG]


def turns_until_listed(world: World, client: Client) -> tuple[list[str], int]:
    for turns in range(10_000):
        for effect in client.take_all():
            assert effect.command.type == BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE
            content = effect.command.getTopicsOfNamespaceResponse
            assert content.topics_hash == topics_hash(content.topics)
            return [name.removeprefix(START) for name in content.topics], turns
        world.advance(1)
    raise AssertionError("no answer")


def test_a_list_of_many_topics_takes_many_turns_in_which_others_are_served(world: World) -> None:
    # covers MT-2
    make_many(world)
    client, other = world.connect(), world.connect()
    ask_for_list(client, "public/default/[a-z-]*")
    costs = []
    for _ in range(5):
        assert client.take_all() == []
        assert is_answered(other)
        world.advance(1)
        costs.append(world.core.sliced_cost)
    names, turns = turns_until_listed(world, client)
    assert len(names) == MANY
    assert turns > 3
    assert max(costs) <= sliced_requests.TURN_COST + 2 * topic_lists.STEP_COST


def test_requests_of_many_sessions_share_the_turns_in_rotation(world: World) -> None:
    # covers MT-2
    make_many(world)
    greedy, modest = world.connect(), world.connect()
    for number in range(20):
        ask_for_list(greedy, request_id=number)
    ask_for_list(modest)
    while not (answers := modest.take_all()):
        world.advance(1)
    assert len(answers) == 1
    assert len(greedy.take_all()) <= 2
    world.advance(2_000)
    assert len(greedy.take_all()) == 18


def test_what_comes_and_goes_meanwhile_hides_nothing(world: World) -> None:
    make_many(world)
    client = world.connect()
    ask_for_list(client)
    for number in range(10):
        world.advance(1)
        make(world, f"a{number}", f"z{number}")
        drop(world, f"many-partition-{number * 7}", f"many-partition-{MANY - 1 - number}")
    assert client.take_all() == []
    names, _ = turns_until_listed(world, client)
    gone = {f"many-partition-{number * 7}" for number in range(10)}
    gone |= {f"many-partition-{MANY - 1 - number}" for number in range(10)}
    assert len(names) == len(set(names))
    assert set(names) >= {f"many-partition-{number}" for number in range(MANY)} - gone


def test_a_client_that_does_not_read_gets_no_more_answers_made(world: World) -> None:
    make_many(world, 10)
    client, other = world.connect(), world.connect()
    world.core.sessions[client.session_id].writable = False
    for number in range(10):
        ask_for_list(client, request_id=number)
    ask_for_list(other)
    world.advance(100)
    assert len(other.take_all()) == 1
    assert client.take_all() == []
    world.happen([WritingResumed(client.session_id)])
    world.advance(100)
    assert len(client.take_all()) == 10


def test_requests_that_wait_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_requests, "MAX_WAITING", 3)
    make_many(world)
    client = world.connect()
    for number in range(6):
        ask_for_list(client, request_id=number)
    refused = [effect.command.error.message for effect in client.take_all()]
    assert refused == ["Failed due to too many pending lookup requests"] * 2
    world.advance(500)
    assert len(client.take_all()) == 4


def test_requests_of_all_that_wait_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_requests, "MAX_ALL_WAITING", 2)
    make_many(world)
    clients = [world.connect() for _ in range(5)]
    for client in clients:
        ask_for_list(client)
    assert [len(client.take_all()) for client in clients] == [0, 0, 0, 1, 1]
    world.advance(500)
    assert [len(client.take_all()) for client in clients] == [1, 1, 1, 0, 0]


def test_a_client_that_leaves_leaves_nothing(world: World) -> None:
    make_many(world)
    client, watcher = world.connect(), world.connect()
    for number in range(3):
        ask_for_list(client, request_id=number)
        watch(watcher, f"public/default/[a-z-]*{number}", watcher_id=number)
    world.advance(1)
    client.close()
    watcher.close()
    world.advance(500)
    assert not world.core.sliced_requests.is_waiting(client.session_id)
    assert not world.core.sliced_requests.is_waiting(watcher.session_id)
    assert vars(world.core.sliced_requests)["_count"] == 0
    assert vars(world.core.watchers)["_being_found"] == {}
    make(world, "later")


def test_a_hash_of_pieces_is_that_of_the_whole() -> None:
    names = [f"{START}{number:04}" for number in range(100)]
    for size in (1, 7, 100):
        pieces = TopicsHash()
        for at in range(0, 100, size):
            pieces.add(names[at : at + size])
        assert pieces.text() == hash_of_sorted(names)
    assert TopicsHash().text() == hash_of_sorted([])


def test_topics_hash() -> None:
    # covers A20
    a, b = "persistent://public/default/a", "persistent://public/default/b"
    assert topics_hash([]) == "00000000"
    assert topics_hash([a]) == "e4a876e3"
    assert topics_hash([a, b]) == topics_hash([b, a]) == "c7559e98"
