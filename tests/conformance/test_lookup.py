"""Names, lookups, partition metadata, and the topics that come to be by being used."""

from __future__ import annotations

import re
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, receive, receive_texts, send_all
from tests.conformance.test_namespaces import fresh
from tests.eventually import eventually
from tests.raw import RawConnection

BAD_NAMES = ["foo://a/b/c", "n/a", "t/c/n/a", "persistent://a b/n/t", "persistent://public/default/"]


def test_lookup_answers_the_address_the_client_used_and_creates_nothing(
    broker: Broker, raw: RawConnection, topic: str
) -> None:
    # covers TN-7, A4
    found = broker.raw().request("LOOKUP", topic=broker.topic(), authoritative=False)
    assert (found.type, found["response"], found["authoritative"]) == ("LOOKUP_RESPONSE", "Connect", True)
    assert found["brokerServiceUrl"] == broker.service_url
    assert raw.request("LOOKUP", topic=topic)["response"] == "Connect"
    assert raw.request("PARTITIONED_METADATA", topic=topic)["partitions"] == 0
    unseen = raw.request("PARTITIONED_METADATA", topic=topic, metadata_auto_creation_enabled=False)
    assert (unseen["response"], unseen["error"]) == ("Failed", "TopicNotFound")


@pytest.mark.parametrize("command", ["LOOKUP", "PARTITIONED_METADATA"])
def test_a_missing_namespace_is_not_created(broker: Broker, command: str) -> None:
    # covers TN-7
    failed = broker.raw().request(command, topic="persistent://public/no-such-ns/t")
    assert (failed["response"], failed["error"]) == ("Failed", "TopicNotFound")
    assert "Namespace not found" in failed["message"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused(broker: Broker, name: str) -> None:
    # covers TN-1, TN-2, TN-4
    failed = broker.raw().request("LOOKUP", topic=name)
    assert (failed["response"], failed["error"]) == ("Failed", "InvalidTopicName")


@pytest.mark.ours_only("TN-3: a v1 name with a cluster is refused, not half supported")
def test_a_v1_name_is_refused(broker: Broker) -> None:
    # covers TN-3
    failed = broker.raw().request("LOOKUP", topic="persistent://t/c/n/a")
    assert (failed["response"], failed["error"]) == ("Failed", "InvalidTopicName")


def test_a_short_name_is_the_full_one(broker: Broker, client: pulsar.Client) -> None:
    # covers TN-1, TN-2
    full = broker.topic()
    local = full.rsplit("/", 1)[1]
    consumer = client.subscribe(full, "s", initial_position=EARLIEST)
    send_all(client.create_producer(local), ["one part"])
    send_all(client.create_producer(f"public/default/{local}"), ["three parts"])
    assert receive_texts(consumer, 2) == ["one part", "three parts"]


@pytest.mark.parametrize("local", ["a b", " ü%:", "x:y", "a%2Fb", "UPPER", "upper", "-partition-", "x-partition-y"])
def test_a_local_name_is_free_text_and_case_sensitive(broker: Broker, client: pulsar.Client, local: str) -> None:
    # covers TN-4
    stem = broker.topic()
    consumer = client.subscribe(stem + local, "s", initial_position=EARLIEST)
    for name in {local.swapcase(), local}:
        send_all(client.create_producer(stem + name), [name])
    assert receive_texts(consumer, 1) == [local]
    expect_nothing(consumer)


def test_a_topic_comes_to_be_by_a_producer_or_a_subscription(broker: Broker, raw: RawConnection) -> None:
    # covers TN-7, X15
    produced, subscribed = broker.topic(), broker.topic()
    for topic in (produced, subscribed):
        raw.request("LOOKUP", topic=topic)
    assert raw.request("PRODUCER", topic=produced, producer_id=1).type == "PRODUCER_SUCCESS"
    subscribe = raw.request("SUBSCRIBE", topic=subscribed, subscription="s", subType="Shared", consumer_id=1)
    assert subscribe.type == "SUCCESS"
    for topic in (produced, subscribed):
        found = raw.request("PARTITIONED_METADATA", topic=topic, metadata_auto_creation_enabled=False)
        assert (found["response"], found["partitions"]) == ("Success", 0)


def test_metadata_of_a_partitioned_topic_and_of_its_partitions(broker: Broker, raw: RawConnection) -> None:
    # covers TN-5, TN-6, TN-8
    topic = broker.topic(partitions=3)
    assert raw.request("PARTITIONED_METADATA", topic=topic)["partitions"] == 3
    assert raw.request("PARTITIONED_METADATA", topic=f"{topic}-partition-1")["partitions"] == 0
    missing = raw.request("PARTITIONED_METADATA", topic=f"{topic}-partition-7")
    assert (missing["response"], missing["error"]) == ("Failed", "TopicNotFound")


def test_a_partition_beyond_the_last_is_refused(broker: Broker, raw: RawConnection) -> None:
    # covers TN-6
    topic = broker.topic(partitions=3)
    raw.request("LOOKUP", topic=topic)
    raw.request("LOOKUP", topic=f"{topic}-partition-7")
    produce = raw.request("PRODUCER", topic=f"{topic}-partition-7", producer_id=1)
    subscribe = raw.request(
        "SUBSCRIBE", topic=f"{topic}-partition-7", subscription="s", subType="Exclusive", consumer_id=1
    )
    assert (produce["error"], subscribe["error"]) == ("TopicNotFound", "TopicNotFound")


def test_a_partition_is_a_topic_of_its_own_name(broker: Broker, client: pulsar.Client) -> None:
    # covers TN-5, C11
    topic = broker.topic(partitions=2)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    send_all(client.create_producer(f"{topic}-partition-1"), ["direct"])
    (message,) = receive(consumer, 1)
    assert message.data() == b"direct"
    assert message.message_id().partition() == 1
    assert message.topic_name() == f"{topic}-partition-1"
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{index}" for index in range(2)]


def test_the_topics_of_a_namespace_by_name(broker: Broker, raw: RawConnection) -> None:
    # covers MT-2
    plain, parted = broker.topic("list"), broker.topic("list", partitions=2)
    raw.request("LOOKUP", topic=plain)
    raw.request("PRODUCER", topic=plain, producer_id=1)
    for index in range(2):
        raw.request("PRODUCER", topic=f"{parted}-partition-{index}", producer_id=2 + index)
    listed = raw.request("GET_TOPICS_OF_NAMESPACE", namespace="public/default", mode="PERSISTENT")
    assert listed.type == "GET_TOPICS_OF_NAMESPACE_RESPONSE"
    expected = {plain, f"{parted}-partition-0", f"{parted}-partition-1"}
    assert expected <= set(listed["topics"])
    assert parted not in listed["topics"]
    assert not [name for name in listed["topics"] if "/__" in name]
    unknown = raw.request("GET_TOPICS_OF_NAMESPACE", namespace="public/no-such-ns", mode="PERSISTENT")
    assert unknown.fields.get("topics", []) == []


def test_a_list_of_topics_is_one_subscription(broker: Broker, client: pulsar.Client) -> None:
    # covers MT-1, C15
    topics = [broker.topic(), broker.topic(partitions=2)]
    consumer = client.subscribe(topics, "s", initial_position=EARLIEST)
    for number, topic in enumerate(topics):
        send_all(client.create_producer(topic), [f"{number}-{index}" for index in range(4)])
    assert sorted(receive_texts(consumer, 8)) == [f"{number}-{index}" for number in range(2) for index in range(4)]


def test_a_pattern_finds_every_topic_that_matches(broker: Broker, client: pulsar.Client) -> None:
    # covers MT-2, C12. Joining later matches is left out: this client polls every 60 s, whatever its option says.
    stem = broker.topic("pattern")
    for name in ("-a", "-b", "other"):
        send_all(client.create_producer(stem + name), [name])
    status, _ = broker.rest("PUT", f"{topic_path(stem)}-c/partitions", 2)
    assert status == 204
    send_all(client.create_producer(f"{stem}-c"), ["-c0", "-c1"])
    pattern = re.compile(f"public/default/{re.escape(stem.rsplit('/', 1)[1])}-.*")
    consumer = client.subscribe(pattern, "s", initial_position=EARLIEST)
    assert sorted(receive_texts(consumer, 4)) == ["-a", "-b", "-c0", "-c1"]
    expect_nothing(consumer)


def test_a_topic_that_is_used_by_many_at_once_comes_to_be_once(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers TN-7, A12
    raw.request("LOOKUP", topic=topic)
    for consumer_id in range(20):
        raw.send(
            "SUBSCRIBE",
            topic=topic,
            subscription=f"s{consumer_id}",
            subType="Exclusive",
            consumer_id=consumer_id,
            request_id=1_000 + consumer_id,
        )
        raw.send("PRODUCER", topic=topic, producer_id=consumer_id, request_id=2_000 + consumer_id)
    for consumer_id in range(20):
        assert raw.answer(1_000 + consumer_id).type == "SUCCESS"
        assert raw.answer(2_000 + consumer_id).type == "PRODUCER_SUCCESS"
    client = broker.client()
    producer = client.create_producer(topic)
    assert producer.send(b"x").entry_id() == 0
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    eventually(reader.has_message_available)


def test_a_topic_of_a_list_that_is_not_there_comes_to_be(broker: Broker, client: pulsar.Client) -> None:
    # covers MT-3, MT-1, TN-7
    there, missing = broker.topic(), broker.topic()
    producer = client.create_producer(there)
    consumer = client.subscribe([there, missing], "s")
    assert broker.rest("GET", f"{topic_path(missing)}/subscriptions") == (200, ["s"])
    producer.send(b"there")
    client.create_producer(missing).send(b"missing")
    assert sorted(receive_texts(consumer, 2)) == ["missing", "there"]


# ---- rules that go by a name alone


PREFIXES = ("persistent", "non-persistent")


def refusals(broker: Broker, topic: str, subscription: str = "s") -> tuple[Any, Any]:
    """The errors of a producer and of a consumer, None for those who may."""
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    produced = raw.request("PRODUCER", topic=topic, producer_id=1)
    consumed = raw.request("SUBSCRIBE", topic=topic, subscription=subscription, subType="Shared", consumer_id=1)
    return produced.fields.get("error"), consumed.fields.get("error")


@pytest.mark.parametrize("ending", ["-partition-0", "-partition-00", "-partition--1"])
@pytest.mark.parametrize("domain", PREFIXES)
def test_a_number_of_a_partition_needs_a_partitioned_topic(broker: Broker, domain: str, ending: str) -> None:
    # covers TN-6: apache/pulsar#23562
    topic = f"{domain}://public/default/{fresh('t')}{ending}"
    status, answer = broker.rest("PUT", topic_path(topic))
    assert status == 412
    assert "if there isn't a partitioned topic" in answer["reason"]
    assert broker.rest("PUT", topic_path(topic.replace(ending, "-partition-x")))[0] == 204


@pytest.mark.ours_only("TN-6: as Apache Pulsar 4.1 and newer; 4.0.8 makes a topic")
@pytest.mark.parametrize("domain", PREFIXES)
def test_a_partition_of_no_partitioned_topic_is_not_made(broker: Broker, domain: str) -> None:
    # covers TN-6: what a client of a deleted partitioned topic would bring back
    topic = f"{domain}://public/default/{fresh('t')}"
    assert refusals(broker, f"{topic}-partition-0") == ("NotAllowedError", "NotAllowedError")
    assert refusals(broker, f"{topic}-s-DLQ-partition-0") == ("NotAllowedError", "NotAllowedError")
    assert refusals(broker, f"{topic}-partition-00") == (None, None)
    assert refusals(broker, f"{topic}-partition-0-s-DLQ") == (None, None)


def test_topics_of_pending_acks_are_not_made(broker: Broker) -> None:
    # covers TN-14
    topic = f"persistent://public/default/{fresh('t')}-s__transaction_pending_ack"
    for path in (topic_path(topic), f"{topic_path(topic)}/partitions"):
        status, answer = broker.rest("PUT", path, 1 if path.endswith("partitions") else None)
        assert (status, answer["reason"]) == (400, "Cannot create topic in system topic format!")
    assert refusals(broker, topic) == ("NotAllowedError", "NotAllowedError")


@pytest.mark.parametrize("name", ["", " ", "\t \n", "pulsar.dedup", "pulsar.repl.x"])
def test_a_blank_or_reserved_subscription_is_refused(broker: Broker, name: str) -> None:
    # covers TN-12
    assert refusals(broker, broker.topic(), name) == (None, "ProducerBusy")


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", " lead", "a b", "..", "multiTopicsReader-1"])
def test_other_names_of_subscriptions_are_free(broker: Broker, name: str) -> None:
    # covers TN-12
    assert refusals(broker, broker.topic(), name) == (None, None)


@pytest.mark.parametrize("name", [" lead", "trail ", "a%2Fb", "..", "*", "__x", "x-DLQ", "x-RETRY", "x__compaction"])
def test_other_names_of_topics_are_free(broker: Broker, name: str) -> None:
    # covers TN-4
    namespace = broker.namespace()
    assert refusals(broker, f"persistent://{namespace}/{name}") == (None, None)


@pytest.mark.parametrize("name", [" ", "\t"])
def test_a_blank_topic_is_refused(broker: Broker, name: str) -> None:
    # covers TN-4: apache/pulsar#23691
    assert refusals(broker, f"persistent://public/default/{name}") == ("InvalidTopicName", "InvalidTopicName")
