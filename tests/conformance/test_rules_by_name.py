"""Rules that go by a name alone, as Apache Pulsar's notices of 3.x and 4.x brought them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh

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


@pytest.mark.parametrize("name", ["", " ", "\t \n"])
def test_a_blank_subscription_is_refused(broker: Broker, name: str) -> None:
    # covers TN-12
    assert refusals(broker, broker.topic(), name) == (None, "ProducerBusy")


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", " lead", "a b", "..", "multiTopicsReader-1"])
def test_other_names_of_subscriptions_are_free(broker: Broker, name: str) -> None:
    # covers TN-12
    assert refusals(broker, broker.topic(), name) == (None, None)


@pytest.mark.parametrize("name", [" lead", "trail ", "a%2Fb", "..", "*", "__x", "x-DLQ", "x-RETRY", "x__compaction"])
def test_other_names_of_topics_are_free(broker: Broker, name: str) -> None:
    # covers TN-4
    namespace = f"public/{fresh('ns')}"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
    assert refusals(broker, f"persistent://{namespace}/{name}") == (None, None)


@pytest.mark.parametrize("name", [" ", "\t"])
def test_a_blank_topic_is_refused(broker: Broker, name: str) -> None:
    # covers TN-4: apache/pulsar#23691
    assert refusals(broker, f"persistent://public/default/{name}") == ("InvalidTopicName", "InvalidTopicName")
