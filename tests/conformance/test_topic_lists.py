"""Lists of topics that clients watch or poll for: patterns, news, hashes, refusals, regex subscriptions."""

from __future__ import annotations

import re

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, receive, receive_texts, send_all, texts
from tests.raw import Frame, RawConnection

# The official client asks every 60 s for topics that match, whatever its option says.
POLL_S = 60


def stem_of(broker: Broker) -> tuple[str, str]:
    """A full name that begins those of this test, and a pattern of them that is not too long."""
    stem = broker.topic("w")
    return stem, f"public/default/{stem.rsplit('/', 1)[1]}-[a-c].*"


def watch(raw: RawConnection, pattern: str, **fields: object) -> Frame:
    return raw.request(
        "WATCH_TOPIC_LIST", **({"watcher_id": 1, "namespace": "public/default", "topics_pattern": pattern} | fields)
    )


def make(broker: Broker, topic: str) -> None:
    assert broker.rest("PUT", topic_path(topic))[0] == 204


def hash_of(broker: Broker, pattern: str) -> tuple[str, list[str]]:
    """Hash and names as GET_TOPICS_OF_NAMESPACE tells them."""
    listed = broker.raw().request("GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern=pattern)
    assert listed["filtered"]
    return listed["topics_hash"], listed.fields.get("topics", [])


def told(raw: RawConnection, news: int, gone: int = 0) -> tuple[set[str], set[str], str]:
    """So many names of WATCH_TOPIC_UPDATEs, however they are spread, and the last hash."""
    came: list[str] = []
    went: list[str] = []
    while len(came) < news or len(went) < gone:
        update = raw.expect("WATCH_TOPIC_UPDATE")
        assert update["watcher_id"] == 1
        came += update.fields.get("new_topics", [])
        went += update.fields.get("deleted_topics", [])
    return set(came), set(went), update["topics_hash"]


def test_a_watcher_is_told_what_matches_and_then_what_comes_and_goes(broker: Broker, raw: RawConnection) -> None:
    # covers MT-2, A20
    stem, pattern = stem_of(broker)
    make(broker, f"{stem}-a")
    first = watch(raw, pattern.replace("public/default", "persistent://.*"))
    assert (first.type, first["topic"]) == ("WATCH_TOPIC_LIST_SUCCESS", [f"{stem}-a"])
    assert (first["topics_hash"], first["topic"]) == hash_of(broker, pattern)
    make(broker, f"{stem}-z")
    send_all(broker.client().create_producer(f"{stem}-b"), ["auto-created"])
    came, _, fingerprint = told(raw, 1)
    assert came == {f"{stem}-b"}
    assert fingerprint == hash_of(broker, pattern)[0]
    assert broker.rest("PUT", f"{topic_path(stem)}-c/partitions", 2)[0] == 204
    assert told(raw, 2)[0] == {f"{stem}-c-partition-0", f"{stem}-c-partition-1"}
    assert broker.rest("DELETE", f"{topic_path(stem)}-a")[0] == 204
    _, went, fingerprint = told(raw, 0, 1)
    assert went == {f"{stem}-a"}
    assert fingerprint == hash_of(broker, pattern)[0]


def test_a_client_that_knows_the_names_is_not_told_them_again(broker: Broker, raw: RawConnection) -> None:
    # covers MT-2, A20
    stem, pattern = stem_of(broker)
    make(broker, f"{stem}-a")
    known = watch(raw, pattern)["topics_hash"]
    again = watch(raw, pattern, watcher_id=2, topics_hash=known)
    assert (again.type, again["topics_hash"], again.fields.get("topic", [])) == ("WATCH_TOPIC_LIST_SUCCESS", known, [])
    listed = raw.request(
        "GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern=pattern, topics_hash=known
    )
    assert (listed.fields.get("topics", []), listed.fields.get("changed", True)) == ([], False)


def test_a_watcher_that_was_closed_hears_nothing(broker: Broker) -> None:
    # covers MT-2, A20
    stem, pattern = stem_of(broker)
    raw, other = broker.raw(), broker.raw()
    watch(raw, pattern)
    watch(other, pattern)
    assert raw.request("WATCH_TOPIC_LIST_CLOSE", watcher_id=1).type == "SUCCESS"
    assert raw.request("WATCH_TOPIC_LIST_CLOSE", watcher_id=77).type == "SUCCESS"
    make(broker, f"{stem}-a")
    assert told(other, 1)[0] == {f"{stem}-a"}
    raw.barrier()
    assert raw.next_frame(0.1) is None


def test_what_is_no_pattern_to_watch(raw: RawConnection) -> None:
    # covers MT-2, A20
    wrong = watch(raw, "[")
    assert (wrong.type, wrong["error"]) == ("ERROR", "InvalidTopicName")
    long = watch(raw, "x" * 51)
    assert (long.type, long["error"]) == ("ERROR", "NotAllowedError")
    assert "Unable to create topic list watcher: Pattern longer than maximum: 50" in long["message"]
    listed = raw.request("GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern="[")
    assert (listed.type, listed["error"]) == ("ERROR", "MetadataError")
    listed = raw.request("GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern="x" * 51)
    assert not listed.fields.get("filtered", False)
    raw.barrier()


@pytest.mark.parametrize("rest", ["(?!b).*", ".*(?<!b)", "(a)\\1*.*", "a*+.*", r"\p{javaLowerCase}+"])
def test_a_pattern_of_java_alone_is_matched_by_whoever_can(broker: Broker, rest: str) -> None:
    # covers MT-2
    topic, raw = broker.topic(), broker.raw()
    make(broker, topic)
    pattern = f"public/default/{rest}"
    listed = raw.request("GET_TOPICS_OF_NAMESPACE", namespace="public/default", topics_pattern=pattern)
    assert listed.type == "GET_TOPICS_OF_NAMESPACE_RESPONSE"
    assert listed["filtered"] == (broker.kind != "ours")
    assert broker.kind != "ours" or topic in listed["topics"]
    watched = watch(raw, pattern)
    assert watched.type == ("ERROR" if broker.kind == "ours" else "WATCH_TOPIC_LIST_SUCCESS")


def test_a_tenant_that_is_not_there_has_no_list(broker: Broker) -> None:
    # covers MT-2: who mistypes a tenant is told so
    tenant = broker.topic("tenant").rpartition("/")[2]
    answer = broker.raw().request("GET_TOPICS_OF_NAMESPACE", namespace=f"{tenant}/ns", mode="ALL")
    assert (answer.type, answer["error"]) == ("ERROR", "MetadataError")
    assert answer["message"].endswith("Namespace not found")


def test_a_pattern_is_for_names_without_partition(broker: Broker) -> None:
    # covers MT-2, A20
    stem, _ = stem_of(broker)
    assert broker.rest("PUT", f"{topic_path(stem)}/partitions", 2)[0] == 204
    _, names = hash_of(broker, stem.removeprefix("persistent://"))
    assert sorted(names) == [f"{stem}-partition-0", f"{stem}-partition-1"]


@pytest.mark.ours_only("TN-14: system topics are hidden from watchers too")
def test_system_topics_are_hidden_from_watchers(raw: RawConnection) -> None:
    found = watch(raw, "public/default/__.*")
    assert found.fields.get("topic", []) == []


@pytest.mark.ours_only("TN-14: system topics are refused, their names are the broker's own")
@pytest.mark.parametrize("name", ["__change_events", "__transaction_buffer_snapshot", "t-s__transaction_pending_ack"])
def test_system_topics_are_not_for_clients(broker: Broker, client: pulsar.Client, name: str) -> None:
    for use in (client.create_producer, lambda topic: client.subscribe(topic, "s")):
        with pytest.raises(pulsar.PulsarException):
            use(f"persistent://public/default/{name}")
    _, listed = broker.rest("GET", "/admin/v2/persistent/public/default?includeSystemTopic=true")
    assert f"persistent://public/default/{name}" not in listed


@pytest.mark.long
def test_what_the_official_client_finds_out_once_a_minute(broker: Broker, client: pulsar.Client) -> None:
    # covers MT-2, MT-4, PT-7: topics that match later and partitions that are added lose nothing
    stem, grown = broker.topic("poll"), broker.topic("grown", partitions=1)
    send_all(client.create_producer(f"{stem}-a"), ["a"])
    pattern = re.compile(f"public/default/{re.escape(stem.rsplit('/', 1)[1])}-.*")
    matching = client.subscribe(pattern, "s", initial_position=EARLIEST)
    assert receive_texts(matching, 1) == ["a"]
    growing = client.subscribe(grown, "s")  # from the end: what is in new partitions is there before it looks
    send_all(client.create_producer(grown), ["before"])
    assert receive_texts(growing, 1) == ["before"]

    send_all(client.create_producer(f"{stem}-b"), ["b0", "b1"])
    assert broker.rest("PUT", f"{topic_path(stem)}-c/partitions", 2)[0] == 204
    send_all(client.create_producer(f"{stem}-c"), ["c0", "c1"])
    assert broker.rest("POST", f"{topic_path(grown)}/partitions", 3)[0] == 204
    everywhere = broker.client().create_producer(
        grown, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    send_all(everywhere, ["1", "2", "3"])

    wait_ms = 2 * POLL_S * 1_000
    assert sorted(texts(receive(matching, 4, wait_ms))) == ["b0", "b1", "c0", "c1"]
    assert sorted(texts(receive(growing, 3, wait_ms))) == ["1", "2", "3"]
    assert broker.rest("GET", f"{topic_path(stem)}-b/subscriptions") == (200, ["s"])
