"""Many watchers of many topics: watchers of one pattern share the work, and each hears what is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.entities import sliced_requests
from spark_pulsar.broker.topics import lifecycle, topic_lists
from spark_pulsar.broker.topics.topic_lists import topics_hash
from spark_pulsar.broker.topics.topic_patterns import TopicPattern
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.broker.topics.test_topic_list_watch import START, make, named, news, unwatch, watch, watched
from tests.unit.broker.world import QUIET, Client, World


@pytest.fixture
def world() -> World:
    return World(**QUIET)


def test_who_watches_the_same_shares_one_list_and_all_share_the_texts(world: World) -> None:
    # covers MT-2: a thousand watchers of ten thousand topics
    clients = [world.connect() for _ in range(3)]
    make(world, *(f"a{number}" for number in range(50)))
    for number, client in enumerate(clients):
        watched(client, "public/default/a.*", watcher_id=number)
        watched(client, f"public/default/a{number}.*", watcher_id=10 + number)
    lists = {id(each.list): each.list for client in world.core.sessions.values() for each in client.watchers.values()}
    assert len(lists) == 4
    texts = {id(name) for each in lists.values() for name in each.names}
    assert len(texts) == 50
    make(world, "a1x")
    for client in clients:
        assert news(client).new == ["a1x"]
    assert news(clients[1]).watcher_id == 11
    clients[0].close()
    unwatch(clients[1], 1)
    unwatch(clients[2], 2)
    make(world, "a1y")
    assert [news(clients[1]).watcher_id, clients[2].take_all()] == [11, []]


def test_what_matches_is_found_out_once_for_all_who_watch_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers MT-2
    client = world.connect()
    for number in range(20):
        watched(client, "public/default/a.*", watcher_id=number)
    hashed: list[int] = []
    real = topic_lists.hash_of
    monkeypatch.setattr(topic_lists, "hash_of", lambda names: hashed.append(len(names)) or real(names))
    make(world, "a1")
    assert [news(client).watcher_id for _ in range(20)] == list(range(20))
    assert hashed == [1]


def test_who_comes_while_news_wait_for_the_disk_hears_of_later_ones_only(world: World) -> None:
    # covers MT-2, DUR-7: of the same turn too, and also with a list that others watch already
    early, late, other = (world.connect() for _ in range(3))
    watched(early, "public/default/a.*")
    world.disk_is_slow = True
    make(world, "a1")
    watch(late, "public/default/a.*")
    watch(other, "public/default/a[0-9]")
    make(world, "a2")
    world.ask(lambda core: lifecycle.delete(core, core.topics[START + "a1"]))
    world.disk_is_slow = False
    world.settle()
    for client in (late, other):
        assert list(client.expect(BaseCommand.WATCH_TOPIC_LIST_SUCCESS).topic) == [START + "a1"]
        assert [(each.new, each.gone) for each in (news(client), news(client))] == [(["a2"], []), ([], ["a1"])]
        assert client.take_all() == []
    assert [news(early).new for _ in range(3)] == [["a1"], ["a2"], []]


STEPS = st.lists(
    st.tuples(
        st.just("make"), st.sets(st.sampled_from(["a", "ab", "b", "c", *(f"a{n}" for n in range(20))]), min_size=1)
    )
    | st.tuples(st.just("drop"), st.integers(0, 30))
    | st.tuples(st.just("watch"), st.tuples(st.integers(0, 3), st.sampled_from(["a.*", "a", ".*b", "[bc]"])))
    | st.tuples(st.just("unwatch"), st.integers(0, 3))
    | st.tuples(st.just("sync"), st.none())
    | st.tuples(st.just("turns"), st.integers(1, 20)),
    max_size=25,
)


def hear(client: Client, told: dict[int, set[str]]) -> None:
    """Checks that each watcher's list follows the changes, and that its hash says the same."""
    for effect in client.take_all():
        command = effect.command
        if command.type == BaseCommand.WATCH_TOPIC_LIST_SUCCESS:
            content = command.watchTopicListSuccess
            told[content.watcher_id] = set(content.topic)
        elif command.type == BaseCommand.WATCH_TOPIC_UPDATE:
            content = command.watchTopicUpdate
            names = told[content.watcher_id]
            assert not names & set(content.new_topics)
            assert names >= set(content.deleted_topics)
            names |= set(content.new_topics)
            names -= set(content.deleted_topics)
        else:
            assert command.type == BaseCommand.SUCCESS
            continue
        if command.type == BaseCommand.WATCH_TOPIC_LIST_SUCCESS:
            assert len(content.topic) == len(set(content.topic))
        assert content.topics_hash == topics_hash(told[content.watcher_id])


def change(core: Any, kind: str, what: Any) -> None:
    there = [topic.name for topic in core.topics.values()]
    if kind == "make":
        for name in named(*sorted(what)):
            if name not in there:
                lifecycle.create(core, name)
    elif there:
        lifecycle.delete(core, core.topics[there[what % len(there)].full])


@given(STEPS)
@settings(max_examples=60)
def test_a_list_and_its_news_together_are_what_is_there(steps: list[tuple[str, Any]]) -> None:
    # covers MT-2: whoever watches whatever since whenever, and however slow the disk is
    follow(steps)


@given(STEPS)
@settings(max_examples=100)
def test_they_are_also_when_every_name_takes_a_turn(steps: list[tuple[str, Any]]) -> None:
    # covers MT-2: topics come and go, and watchers, while lists are found and told
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sliced_requests, "TURN_COST", 1)
        patch.setattr(topic_lists, "STEP_COST", 1)
        follow(steps)


def follow(steps: list[tuple[str, Any]]) -> None:
    """Does the steps, and checks what each watcher is told."""
    world = World(**QUIET)
    client = world.connect()
    world.disk_is_slow = True
    watching_what: dict[int, str] = {}
    told: dict[int, set[str]] = {}

    for kind, what in steps:
        if kind in ("make", "drop"):
            world.ask(lambda core, kind=kind, what=what: change(core, kind, what))  # type: ignore[misc]
        elif kind == "watch":
            watch(client, f"public/default/{what[1]}", watcher_id=what[0])
            watching_what[what[0]] = what[1]
        elif kind == "unwatch":
            command = BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_CLOSE)
            command.watchTopicListClose.request_id, command.watchTopicListClose.watcher_id = 1, what
            client.send(command)
            watching_what.pop(what, None)
        elif kind == "turns":
            world.advance(what)
        else:
            world.sync()
        hear(client, told)
    world.disk_is_slow = False
    world.settle()
    world.advance(5_000)
    hear(client, told)
    there = [topic.full_name for topic in world.core.topics.values()]
    for watcher_id, pattern in watching_what.items():
        assert told[watcher_id] == set(TopicPattern(f"public/default/{pattern}").select(there))
