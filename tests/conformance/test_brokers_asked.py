"""What tools ask of a cluster's brokers (ADM-7), resource groups and resource quotas: the same answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from tests import changes
from tests.apache_pulsar.start import VERSIONS, chosen_version
from tests.brokers import Broker, topic_path
from tests.conformance.policies.test_publish_rates import seconds_of
from tests.conformance.test_namespaces import fresh

GROUPS = "/admin/v2/resourcegroups"
QUOTAS = "/admin/v2/resource-quotas"
DEFAULT_QUOTA = {
    "msgRateIn": 40.0,
    "msgRateOut": 120.0,
    "bandwidthIn": 100000.0,
    "bandwidthOut": 300000.0,
    "memory": 80.0,
    "dynamic": True,
}


@pytest.fixture
def group(broker: Broker) -> Iterator[str]:
    """The name of a group that is deleted when the test is over."""
    name = fresh("group")
    yield name
    if name in broker.rest("GET", GROUPS)[1]:
        assert broker.rest("DELETE", f"{GROUPS}/{name}")[0] == 204


@pytest.fixture
def namespace(broker: Broker) -> Iterator[str]:
    """The path of a namespace without topics, which belongs to no group when the test is over."""
    path = f"/admin/v2/namespaces/{broker.namespace()}"
    yield path
    assert broker.rest("DELETE", f"{path}/resourcegroup")[0] == 204


def rates(*values: int) -> dict[str, int]:
    members = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
    return dict(zip(members, values, strict=True))


def test_a_group_is_set_changed_and_deleted(broker: Broker, group: str) -> None:
    # covers T-13, ADM-5
    path = f"{GROUPS}/{group}"
    missing = 404, {"reason": "ResourceGroup does not exist"}
    assert broker.rest("GET", path) == missing
    given = {"publishRateInMsgs": 100, "publishRateInBytes": 1_000_000, "dispatchRateInMsgs": 50, "other": 1}
    assert broker.rest("PUT", path, given) == (204, "")
    assert broker.rest("GET", path) == (200, rates(100, 1_000_000, 50, -1))
    assert broker.rest("PUT", path, {"dispatchRateInBytes": 5}) == (204, "")
    assert broker.rest("GET", path) == (200, rates(100, 1_000_000, 50, 5)), "the others stay"
    assert group in broker.rest("GET", GROUPS)[1]
    for wrong in ([], {"publishRateInMsgs": "x"}):
        assert broker.rest("PUT", path, wrong)[0] == 400
    assert broker.rest("POST", path, {})[0] == 405
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == missing
    assert broker.rest("PUT", path, {}) == (204, "")
    assert broker.rest("GET", path) == (200, rates(-1, -1, -1, -1))
    assert broker.rest("PUT", f"{GROUPS}/{group}")[0] == (400 if broker.kind == "ours" else 500)


def test_a_namespace_belongs_to_a_group(broker: Broker, group: str, namespace: str) -> None:
    # covers ADM-5
    path = f"{namespace}/resourcegroup"
    assert broker.rest("GET", path) == (200, "")
    reason = {"reason": "ResourceGroup does not exist"}
    assert broker.rest("POST", f"{path}/{group}") == (412, reason)
    assert broker.rest("PUT", f"{GROUPS}/{group}", {"publishRateInMsgs": 10}) == (204, "")
    assert broker.rest("POST", f"{path}/{group}") == (204, "")
    assert broker.rest("GET", path) == (200, group)
    assert broker.rest("GET", namespace)[1]["resource_group_name"] == group
    assert broker.rest("DELETE", f"{GROUPS}/{group}") == (412, {"reason": "ResourceGroup is in use"})
    for _ in range(2):
        assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")


@pytest.mark.ours_only("ADM-5: the whole rate at once; Apache Pulsar shares it out between brokers, a minute later")
def test_topics_of_a_group_share_its_rate(broker: Broker, client: pulsar.Client, group: str, namespace: str) -> None:
    # covers ADM-5
    assert broker.rest("PUT", f"{GROUPS}/{group}", {"publishRateInMsgs": 50}) == (204, "")
    name = namespace.removeprefix("/admin/v2/namespaces/")
    topics = [f"persistent://{name}/t{number}" for number in range(2)]
    producers = [client.create_producer(topic, batching_enabled=False) for topic in topics]
    assert seconds_of(producers[0], 100) < 0.9
    assert broker.rest("POST", f"{namespace}/resourcegroup/{group}") == (204, "")
    assert seconds_of(producers[0], 50) < 0.9
    assert seconds_of(producers[1], 50) > 0.5, "the bucket of both is empty"
    assert broker.rest("PUT", f"{GROUPS}/{group}", {"publishRateInMsgs": -1}) == (204, "")
    assert seconds_of(producers[1], 100) < 0.9


def test_quotas_of_bundles(broker: Broker, namespace: str) -> None:
    # covers ADM-6
    name = namespace.removeprefix("/admin/v2/namespaces/")
    bundle = f"{QUOTAS}/{name}/0x00000000_0x40000000"
    assert broker.rest("GET", QUOTAS) == (200, DEFAULT_QUOTA)
    assert broker.rest("GET", bundle) == (200, DEFAULT_QUOTA)
    quota = {"msgRateIn": 7.0, "msgRateOut": 8, "bandwidthIn": 1, "bandwidthOut": 2, "memory": 3, "dynamic": False}
    assert broker.rest("POST", bundle, quota) == (204, "")
    assert broker.rest("GET", bundle) == (200, quota)
    assert broker.rest("DELETE", bundle) == (204, "")
    assert broker.rest("GET", bundle) == (200, DEFAULT_QUOTA)
    for wrong, status, reason in (
        (
            f"{name}/0x00000000_0x12345678",
            412,
            f"Invalid upper boundary for bundle {name}/0x00000000_0x12345678. Expected upper boundary of "
            f"{name}/0x00000000_0x40000000",
        ),
        (f"{name}/foo", 412, "Invalid bundle range: foo"),
    ):
        assert broker.rest("GET", f"{QUOTAS}/{wrong}") == (status, {"reason": reason})
    missing = (404, {"reason": "Namespace does not exist"})
    of_missing = (200, DEFAULT_QUOTA) if broker.has(changes.QUOTA_OF_ANY_BUNDLE) else missing
    assert broker.rest("GET", f"{QUOTAS}/{name}-nope/0x00000000_0xffffffff") == of_missing
    assert broker.rest("POST", bundle, [])[0] == 400


@pytest.mark.ours_only("ADM-6: a POST of the default quota leaves Apache Pulsar with 500 for later ones")
def test_the_default_quota(broker: Broker, namespace: str) -> None:
    # covers ADM-6
    bundle = f"{QUOTAS}/{namespace.removeprefix('/admin/v2/namespaces/')}/0x00000000_0x40000000"
    quota = {**DEFAULT_QUOTA, "msgRateIn": 1.5, "dynamic": False}
    assert broker.rest("POST", QUOTAS, quota) == (204, "")
    assert broker.rest("GET", QUOTAS) == broker.rest("GET", bundle) == (200, quota)
    assert broker.rest("POST", QUOTAS, DEFAULT_QUOTA) == (204, "")


def test_namespaces_that_a_broker_owns(broker: Broker, topic: str) -> None:
    # covers ADM-7
    broker.client().create_producer(topic)
    broker_id = broker.admin_url.removeprefix("http://")
    status, owned = broker.rest("GET", f"/admin/v2/brokers/standalone/{broker_id}/ownedNamespaces")
    assert status == 200
    bundle = broker.rest("GET", "/lookup/v2/topic/" + topic.replace("://", "/") + "/bundle")[1]
    assert owned[f"public/default/{bundle}"] == {
        "broker_assignment": "shared",
        "is_controlled": False,
        "is_active": True,
    }
    reason = {"reason": "Broker id '1.2.3.4:80' not found in available brokers."}
    assert broker.rest("GET", "/admin/v2/brokers/standalone/1.2.3.4:80/ownedNamespaces") == (404, reason)


def test_health_takes_both_forms_of_its_topic(broker: Broker) -> None:
    # covers ADM-7
    for version, status in (("V1", 200), ("V2", 200), ("V3", 200 if broker.has(changes.HEALTH_OF_ANY_TOPIC) else 404)):
        assert broker.rest("GET", f"/admin/v2/brokers/health?topicVersion={version}")[0] == status


def test_the_load_report(broker: Broker) -> None:
    # covers ADM-7
    broker.client().create_producer(broker.topic())
    status, report = broker.rest("GET", "/admin/v2/broker-stats/load-report")
    assert status == 200
    if isinstance(report, str):
        report = json.loads(report)
    wanted: dict[str, Any] = {
        "webServiceUrl": broker.admin_url,
        "pulsarServiceUrl": broker.service_url,
        "loadReportType": "LocalBrokerData",
        "brokerVersionString": VERSIONS[0] if broker.kind == "ours" else chosen_version(),
    }
    assert {member: report[member] for member in wanted} == wanted
    numbers = {"numTopics", "numBundles", "numConsumers", "numProducers", "msgRateIn", "msgRateOut", "lastUpdate"}
    assert numbers | {"bundles", "lastStats", "startTimestamp", "maxResourceUsage"} <= set(report)
    for member in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"):
        assert set(report[member]) == {"usage", "limit"}
    assert 0 < report["memory"]["usage"] < report["memory"]["limit"]


def test_metrics_as_json(broker: Broker, topic: str) -> None:
    # covers ADM-7
    broker.client().create_producer(topic).send(b"x")
    status, told = broker.rest("GET", "/admin/v2/broker-stats/metrics")
    assert status == 200
    assert all(set(each) == {"metrics", "dimensions"} for each in told)
    by_kind = {tuple(each["dimensions"].items()): each["metrics"] for each in told}
    (connections,) = (each for kind, each in by_kind.items() if ("metric", "broker_connection") in kind)
    assert set(connections) >= {"brk_active_connections", "brk_connection_closed_total_count"}
    assert "brk_ml_count" in by_kind[()]
    if broker.kind == "ours":  # Apache Pulsar tells namespaces of its last round, a minute ago
        namespace = by_kind[(("namespace", "public/default"),)]
        assert namespace["brk_no_of_producers"] >= 1
        assert namespace["brk_storage_size"] > 0
        assert by_kind[(("namespace", "public/default/persistent"),)]["brk_ml_StoredMessagesSize"] > 0


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


def test_a_bundle_is_unloaded_and_only_one_that_there_is(broker: Broker, topic: str) -> None:
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
def test_statistics_of_all_topics(broker: Broker, client: pulsar.Client, topic: str) -> None:
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


NOT_YET = "ADM-8: what is not built yet answers its request id with a clear error"


@pytest.mark.ours_only(NOT_YET)
@pytest.mark.parametrize("path", ["/admin/v2/namespaces/public/default/scanOffloadedLedgers"])
def test_a_rest_call_that_is_not_offered_says_so(broker: Broker, path: str) -> None:
    status, answer = broker.rest("GET", path)
    assert status in (404, 405, 501)
    assert answer["reason"]
