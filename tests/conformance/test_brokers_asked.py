"""What tools ask of a cluster's brokers (ADM-7): the same questions, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.brokers import Broker, topic_path

NAMESPACE = "/admin/v2/namespaces/public/default"


def test_the_brokers_of_a_cluster(broker: Broker) -> None:
    own = [broker.admin_url.removeprefix("http://")]
    assert broker.rest("GET", "/admin/v2/brokers") == (200, own)
    assert broker.rest("GET", "/admin/v2/brokers/standalone") == (200, own)
    leader = {"serviceUrl": broker.admin_url, "brokerId": own[0]}
    assert broker.rest("GET", "/admin/v2/brokers/leaderBroker") == (200, leader)


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("brokers/configuration/values", 200, {}),
        ("resourcegroups", 200, []),
        ("clusters/standalone/failureDomains", 200, {}),
        ("clusters/nope/failureDomains", 200, {}),
        (
            "clusters/standalone/namespaceIsolationPolicies",
            404,
            {"reason": "NamespaceIsolationPolicies for cluster standalone does not exist"},
        ),
        ("clusters/nope/namespaceIsolationPolicies", 404, {"reason": "Cluster nope does not exist."}),
        ("namespaces/public/default/permissions", 200, {}),
        ("namespaces/public/default/permissions/subscription", 200, {}),
        ("namespaces/public/nope/permissions", 404, {"reason": "Namespace does not exist"}),
        (
            "persistent/public/default/nobody-made-this/permissions",
            404,
            {"reason": "Topic persistent://public/default/nobody-made-this not found"},
        ),
    ],
)
def test_what_nobody_uses_is_empty(broker: Broker, path: str, status: int, answer: Any) -> None:
    assert broker.rest("GET", f"/admin/v2/{path}") == (status, answer)


def test_nobody_has_permissions_on_a_topic(broker: Broker) -> None:
    for partitions in (0, 2):
        topic = broker.topic(partitions=partitions)
        if not partitions:
            assert broker.rest("PUT", topic_path(topic))[0] == 204
        assert broker.rest("GET", f"{topic_path(topic)}/permissions") == (200, {})


def test_a_bundle_is_unloaded_and_only_one_that_there_is(broker: Broker) -> None:
    topic = broker.topic()
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    where = "/lookup/v2/topic/" + topic.replace("://", "/") + "/bundle"
    status, bundle = broker.rest("GET", where)
    assert status == 200
    low, _, high = bundle.partition("_")
    assert broker.rest("PUT", f"{NAMESPACE}/{bundle}/unload")[0] == 204
    other = f"{low}_{int(high, 16) - 1:#010x}"
    reason = (
        f"Invalid upper boundary for bundle public/default/{other}. Expected upper boundary of public/default/{bundle}"
    )
    assert broker.rest("PUT", f"{NAMESPACE}/{other}/unload") == (412, {"reason": reason})
    other = f"{int(low, 16) + 1:#010x}_{high}"
    reason = f"Cannot find bundle public/default/{other} in the bundles list"
    assert broker.rest("PUT", f"{NAMESPACE}/{other}/unload") == (412, {"reason": reason})
    assert broker.rest("PUT", f"/admin/v2/namespaces/public/nope/{bundle}/unload")[0] == 404


@pytest.mark.ours_only("ADM-72: as they are now; Apache Pulsar tells those of its last round, a minute ago")
def test_statistics_of_all_topics(broker: Broker) -> None:
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for _ in range(3):
        producer.send(b"x")
    consumer.receive(30_000)

    def of_topic() -> Iterator[dict[str, Any]]:
        status, answer = broker.rest("GET", "/admin/v2/broker-stats/topics")
        assert status == 200
        for bundle in answer["public/default"].values():
            if topic in bundle["persistent"]:
                yield bundle["persistent"][topic]

    (stats,) = of_topic()
    assert [each["producerName"] for each in stats["publishers"]] == [producer.producer_name()]
    assert stats["producerCount"] == 1
    assert set(stats) >= {"msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut", "averageMsgSize"}
    assert stats["storageSize"] > 0
    assert stats["backlogSize"] >= 0
    found = stats["subscriptions"]["s"]
    assert (found["type"], found["msgBacklog"], len(found["consumers"])) == ("Exclusive", 3, 1)
    assert set(found) >= {"msgRateOut", "msgThroughputOut", "msgRateRedeliver", "msgRateExpired", "messageAckRate"}
