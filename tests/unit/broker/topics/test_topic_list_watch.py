"""Watching lists of topics, and having them filtered: patterns of clients, news of topics, bounds."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow
import pyarrow.compute
import pytest

from spark_pulsar.broker.topics import lifecycle, topic_list_watch, topic_patterns, watched_creation
from spark_pulsar.broker.topics.topic_lists import topics_hash
from spark_pulsar.broker.topics.topic_patterns import InvalidPattern, TopicPattern
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import QUIET, Client, World

START = "persistent://public/default/"


def named(*locals_: str) -> list[TopicName]:
    return [TopicName.parse(START + each) for each in locals_]


def texts(*locals_: str) -> list[str]:
    return [START + each for each in locals_]


def watch(
    client: Client, pattern: str, *, watcher_id: int = 1, known: str = "", namespace: str = "public/default"
) -> None:
    command = BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST)
    content = command.watchTopicList
    content.request_id = client.request_id()
    content.watcher_id = watcher_id
    content.namespace = namespace
    content.topics_pattern = pattern
    if known:
        content.topics_hash = known
    client.send(command)


def watched(client: Client, pattern: str, **more: Any) -> list[str]:
    """Watch; the local names that match now."""
    watch(client, pattern, **more)
    answer = client.expect(BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
    return [name.removeprefix(START) for name in answer.topic]


def refused(client: Client, pattern: str, **more: Any) -> int:
    watch(client, pattern, **more)
    return int(client.expect(BaseCommand.ERROR).error)


def unwatch(client: Client, watcher_id: int) -> None:
    command = BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_CLOSE)
    command.watchTopicListClose.request_id = client.request_id()
    command.watchTopicListClose.watcher_id = watcher_id
    client.send(command)
    client.expect(BaseCommand.SUCCESS)


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
    assert refused(client, "[") == ServerError.InvalidTopicName
    assert refused(client, "x" * 51) == ServerError.NotAllowedError
    assert refused(client, "x", namespace="public") == ServerError.InvalidTopicName
    assert watched(client, "x" * 50) == []


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
