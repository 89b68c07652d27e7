"""Watching lists of topics, and having them filtered: patterns of clients, news of topics, bounds."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.entities import sliced_requests
from spark_pulsar.broker.topics import lifecycle, topic_list_watch, topic_lists, topic_patterns, watched_creation
from spark_pulsar.broker.topics.topic_lists import topics_hash
from spark_pulsar.broker.topics.topic_patterns import InvalidPattern, TopicPattern
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import command_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandWatchTopicList, CommandWatchTopicListClose, ServerError
from tests.unit.broker.world import QUIET, Client, World

START = "persistent://public/default/"


def named(*locals_: str) -> list[TopicName]:
    return [TopicName.parse(START + each) for each in locals_]


def texts(*locals_: str) -> list[str]:
    return [START + each for each in locals_]


def watch(
    client: Client, pattern: str, *, watcher_id: int = 1, known: str | None = None, namespace: str = "public/default"
) -> None:
    names = {"namespace": namespace, "topics_pattern": pattern, "topics_hash": known}
    client.send(command_of(CommandWatchTopicList(request_id=client.request_id(), watcher_id=watcher_id, **names)))


def watched(client: Client, pattern: str, **more: Any) -> list[str]:
    """Watch; the local names that match now."""
    watch(client, pattern, **more)
    answer = client.expect(BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
    return [name.removeprefix(START) for name in answer.topic]


def refused(client: Client, pattern: str, **more: Any) -> int:
    watch(client, pattern, **more)
    return int(client.expect(BaseCommand.ERROR).error)


def unwatching(client: Client, watcher_id: int) -> BaseCommand:
    return command_of(CommandWatchTopicListClose(request_id=client.request_id(), watcher_id=watcher_id))


def news(client: Client) -> SimpleNamespace:
    update = client.expect(BaseCommand.WATCH_TOPIC_UPDATE)
    return SimpleNamespace(
        watcher_id=update.watcher_id,
        new=[name.removeprefix(START) for name in update.new_topics],
        gone=[name.removeprefix(START) for name in update.deleted_topics],
        hash=update.topics_hash,
    )


def make(world: World, *locals_: str) -> None:
    world.ask(lambda core: [lifecycle.create(core, name) for name in named(*locals_)])


def drop(world: World, *locals_: str) -> None:
    world.ask(lambda core: [lifecycle.delete(core, core.topics[name.full]) for name in named(*locals_)])


# ---- patterns ---------------------------------------------------------------------------------------------------


def in_pyarrow(expression: str, texts: Sequence[str]) -> list[bool]:
    """Finds matches by the RE2 inside pyarrow."""
    try:
        found = pyarrow.compute.match_substring_regex(pyarrow.array(texts, pyarrow.string()), expression)
    except (pyarrow.ArrowInvalid, UnicodeEncodeError) as error:
        raise InvalidPattern(str(error)) from error
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("public/default/a.*", ["a", "ab", "a-partition-3"]),
        ("persistent://public/default/a", ["a", "a-partition-3"]),
        ("^persistent://public/default/a$", ["a", "a-partition-3"]),
        ("public/default/.*b", ["ab", "b"]),
        ("a", []),
        (".*/(a|b)", ["a", "b", "a-partition-3"]),
        (r"public/default/\Qab\E", ["ab"]),
        ("public/default/a|public/default/b", ["a", "b", "a-partition-3"]),
    ],
)
def test_a_pattern_matches_names_as_a_whole(pattern: str, found: list[str]) -> None:
    # covers MT-2
    names = texts("a", "ab", "b", "a-partition-3")
    assert TopicPattern(pattern).select(names) == [START + each for each in found]


def test_a_pattern_that_is_made_to_take_for_ever_does_not() -> None:
    # covers MT-2: hostile input
    names = texts(*("a" * 200 + f"!{number}" for number in range(1_000)))
    began = time.process_time()
    assert TopicPattern("public/default/(a*)*(a*)*(a|a)*(aa|a?)*$").select(names) == []
    assert time.process_time() - began < 30


def test_a_pattern_that_is_made_to_fill_the_memory_is_refused() -> None:
    # covers MT-2: hostile input
    matches = topic_patterns.matcher()
    assert matches(r"\Aa{1000}\z", ["a" * 1000, "a"]) == [True, False]
    with pytest.raises(InvalidPattern, match="too large"):
        matches(r"[^\x{10000}]{1000}", [""])


def test_a_pattern_that_takes_long_for_each_name_is_refused() -> None:
    # covers MT-2: hostile input
    with pytest.raises(InvalidPattern, match="too large"):
        TopicPattern("(.?){900}x")
    hundred = "|".join(f"public/default/orders-of-region-{number:03}" for number in range(100))
    assert TopicPattern(hundred).select(texts("orders-of-region-042", "else")) == [START + "orders-of-region-042"]


@pytest.mark.parametrize(
    "pattern", ["", "a.*", r"\Qa.b\E", "(?i)A.B", "[^a]", r"\pL+", ".", "(a|b)*?c", "a{2,3}", r"x\b", "é"]
)
def test_both_engines_say_the_same(pattern: str) -> None:
    # covers MT-2
    texts = ["", "a", "a.b", "axb", "aa", "aaaa", "abc", "c", "é", "\n", "x y", "A.B"]
    for expression in (pattern, rf"\A(?:{pattern})\z"):
        assert topic_patterns.matcher()(expression, texts) == in_pyarrow(expression, texts)
    for wrong in ("(", "a**", "x{1001}", r"\1", "\ud800"):
        for engine in (topic_patterns.matcher(), in_pyarrow):
            with pytest.raises(InvalidPattern):
                engine(wrong, [""])


# ---- watchers ---------------------------------------------------------------------------------------------------


def test_news_wait_for_the_disk_and_come_together(world: World) -> None:
    # covers MT-2, DUR-7
    client = world.connect()
    watched(client, "public/default/.*")
    world.disk_is_slow = True
    world.ask(lambda core: lifecycle.create_partitioned(core, *named("p"), 3, {}))
    make(world, "later")
    assert client.take_all() == []
    world.sync()
    assert news(client).new == ["p-partition-0", "p-partition-1", "p-partition-2"]
    assert news(client).new == ["later"]


def test_what_comes_and_goes_at_once_is_no_news(world: World) -> None:
    client = world.connect()
    watched(client, "public/default/.*")
    (name,) = named("short")
    world.ask(lambda core: lifecycle.delete(core, lifecycle.create(core, name)))
    assert client.take_all() == []


def test_each_watcher_has_its_own_pattern(world: World) -> None:
    one, two = world.connect(), world.connect()
    watched(one, "public/default/a.*", watcher_id=1)
    watched(one, "public/default/.*b", watcher_id=2)
    watched(two, "other/ns/.*", namespace="other/ns")
    make(world, "ab")
    assert [news(one).watcher_id, news(one).watcher_id] == [1, 2]
    assert two.take_all() == []


def test_what_is_no_list_to_watch(world: World) -> None:
    # covers MT-2
    client = world.connect()
    assert watched(client, "x" * 50) == []
    assert refused(client, "x" * 51) == ServerError.NotAllowedError
    assert refused(client, "x", namespace="public") == ServerError.InvalidTopicName


def test_watchers_of_a_connection_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_list_watch, "MAX_WATCHERS_PER_SESSION", 2)
    client = world.connect()
    watched(client, "x", watcher_id=1)
    watched(client, "x", watcher_id=2)
    assert refused(client, "x", watcher_id=3) == ServerError.NotAllowedError
    assert watched(client, "y", watcher_id=2) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_a_broker_that_does_not_look_at_patterns_says_so(allowed: bool) -> None:
    # covers MT-2, J2
    world = World(**QUIET, topic_patterns=allowed)
    client = world.open_socket()
    client.send(requests.connect("test"))
    assert client.expect(BaseCommand.CONNECTED).feature_flags.supports_topic_watchers == allowed
    make(world, "a", "b")
    client.send(requests.topics_of_namespace(1, "public/default", pattern="public/default/a"))
    answer = client.expect(BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    assert (answer.filtered, list(answer.topics)) == (allowed, [START + "a"] + ([] if allowed else [START + "b"]))
    if not allowed:
        assert refused(client, "x") == ServerError.NotAllowedError


def test_a_list_that_is_filtered_here_or_by_the_client(world: World) -> None:
    # covers MT-2
    client = world.connect()
    make(world, "a", "b")

    def listed(pattern: str) -> Any:
        client.send(requests.topics_of_namespace(1, "public/default", pattern=pattern))
        return client.take()

    some = listed("persistent://public/default/b.*").getTopicsOfNamespaceResponse
    assert (some.filtered, list(some.topics), some.topics_hash) == (True, [START + "b"], topics_hash([START + "b"]))
    long = listed("x" * 51).getTopicsOfNamespaceResponse
    assert (long.filtered, len(long.topics)) == (False, 2)
    assert listed("[").error.error == ServerError.MetadataError


# ---- the first producer of a new topic --------------------------------------------------------------------------


def open_new(world: World, client: Client, local: str) -> None:
    """Opens a producer of a new topic, without waiting for success."""
    client.send(requests.producer(client.request_id(), START + local, 7, "p"))


def test_success_of_a_new_topics_producer_waits_for_those_who_watch(world: World) -> None:
    # covers MT-4
    watching, publishing = world.connect(), world.connect()
    watched(watching, "public/default/.*")
    open_new(world, publishing, "new")
    assert news(watching).new == ["new"]
    assert publishing.take_all() == []
    watching.open_consumer("s", topic=START + "new")
    publishing.expect(BaseCommand.PRODUCER_SUCCESS)


def test_success_of_a_new_topics_producer_waits_no_longer_than_its_time(world: World) -> None:
    # covers MT-4
    watching, publishing = world.connect(), world.connect()
    open_new(world, publishing, "unwatched")
    publishing.expect(BaseCommand.PRODUCER_SUCCESS)
    watched(watching, "public/default/a.*")
    client = world.connect()
    open_new(world, client, "else")
    client.expect(BaseCommand.PRODUCER_SUCCESS)
    client = world.connect()
    open_new(world, client, "ab")
    assert client.take_all() == []
    world.advance(watched_creation.LONGEST_WAIT_MS)
    client.expect(BaseCommand.PRODUCER_SUCCESS)


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
    clients[1].request(unwatching(clients[1], 1), BaseCommand.SUCCESS)
    clients[2].request(unwatching(clients[2], 2), BaseCommand.SUCCESS)
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
    world.quicken()
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


@given(STEPS, st.booleans())
@settings(max_examples=160)
def test_a_list_and_its_news_together_are_what_is_there(steps: list[tuple[str, Any]], is_sliced: bool) -> None:
    # covers MT-2: whoever watches whatever since whenever, however slow the disk is, and while lists are found and told
    with pytest.MonkeyPatch.context() as patch:
        if is_sliced:  # every name takes a turn
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
            client.send(unwatching(client, what))
            watching_what.pop(what, None)
        elif kind == "turns":
            world.advance(what)
        else:
            world.sync()
        hear(client, told)
    world.quicken()
    world.advance(5_000)
    hear(client, told)
    there = [topic.full_name for topic in world.core.topics.values()]
    for watcher_id, pattern in watching_what.items():
        assert told[watcher_id] == set(TopicPattern(f"public/default/{pattern}").select(there))
