"""Clusters, tenants and namespaces over REST."""

from __future__ import annotations

import itertools
import os
import zlib
from typing import Any

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import send_all
from tests.eventually import eventually

_numbers = itertools.count()
CLUSTER = {"serviceUrl": "http://localhost:18080", "brokerServiceUrl": "pulsar://localhost:16650"}


def fresh(word: str) -> str:
    """A name that nobody used before."""
    return f"{word}-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"


@pytest.fixture
def tenant(broker: Broker) -> str:
    """A tenant of the test's own."""
    name = fresh("tenant")
    assert broker.rest("PUT", f"/admin/v2/tenants/{name}", {"allowedClusters": ["standalone"]})[0] == 204
    return name


@pytest.fixture
def namespace(broker: Broker, tenant: str) -> str:
    """A namespace of the test's own."""
    name = f"{tenant}/{fresh('ns')}"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{name}")[0] == 204
    return name


def reason(answer: tuple[int, Any]) -> tuple[int, str]:
    """Status and reason of a refusal."""
    return answer[0], answer[1]["reason"]


def test_clusters_come_and_go(broker: Broker) -> None:
    # covers ADM-63
    name = fresh("cluster")
    path = f"/admin/v2/clusters/{name}"
    assert "standalone" in broker.rest("GET", "/admin/v2/clusters")[1]
    assert reason(broker.rest("GET", path)) == (404, "Cluster does not exist")
    assert reason(broker.rest("POST", path, CLUSTER)) == (404, "Cluster does not exist")
    assert broker.rest("PUT", path, CLUSTER) == (200, "")
    assert reason(broker.rest("PUT", path, CLUSTER)) == (409, "Cluster already exists")
    always = {"brokerClientTlsEnabled": False, "tlsAllowInsecureConnection": False}
    always["brokerClientTlsEnabledWithKeyStore"] = False
    assert broker.rest("GET", path) == (200, CLUSTER | always)
    assert broker.rest("POST", path, {"serviceUrl": "http://localhost:1"}) == (200, "")
    assert broker.rest("GET", path) == (200, {"serviceUrl": "http://localhost:1"} | always)
    assert name in broker.rest("GET", "/admin/v2/clusters")[1]
    assert broker.rest("DELETE", path) == (204, "")
    assert reason(broker.rest("DELETE", path)) == (404, "Cluster does not exist")


def test_clusters_are_refused_and_the_own_one_tells_where_it_is(broker: Broker) -> None:
    # covers ADM-63
    path = f"/admin/v2/clusters/{fresh('cluster')}"
    illegal = "Illegal service url, example: http://pulsar.example.com:8080"
    assert reason(broker.rest("PUT", path, {"serviceUrl": "nonsense"})) == (400, illegal)
    assert reason(broker.rest("PUT", path)) == (400, "cluster data is required")
    assert reason(broker.rest("PUT", "/admin/v2/clusters/a%20b", CLUSTER)) == (412, "Cluster name is not valid")
    status, data = broker.rest("GET", "/admin/v2/clusters/standalone")
    assert status == 200
    assert data["serviceUrl"].rpartition(":")[2] == broker.admin_url.rpartition(":")[2]
    assert data["brokerServiceUrl"].rpartition(":")[2] == broker.service_url.rpartition(":")[2]


def test_tenants_come_and_go(broker: Broker) -> None:
    # covers ADM-63
    name = fresh("tenant")
    path = f"/admin/v2/tenants/{name}"
    info = {"adminRoles": ["ops"], "allowedClusters": ["standalone"]}
    assert reason(broker.rest("GET", path)) == (404, "Tenant does not exist")
    assert reason(broker.rest("POST", path, info)) == (404, f"Tenant {name} not found")
    assert broker.rest("PUT", path, info) == (204, "")
    assert reason(broker.rest("PUT", path, info)) == (409, "Tenant already exist")
    assert broker.rest("GET", path) == (200, info)
    assert broker.rest("POST", path, info | {"adminRoles": ["others"]}) == (204, "")
    assert broker.rest("GET", path)[1]["adminRoles"] == ["others"]
    listed = broker.rest("GET", "/admin/v2/tenants")[1]
    assert {"public", "pulsar", name} <= set(listed)
    assert listed == sorted(listed)
    assert broker.rest("PUT", f"/admin/v2/namespaces/{name}/ns")[0] == 204
    assert reason(broker.rest("DELETE", path)) == (409, "The tenant still has active namespaces")
    assert broker.rest("DELETE", f"/admin/v2/namespaces/{name}/ns") == (204, "")
    assert broker.rest("DELETE", path) == (204, "")
    assert reason(broker.rest("DELETE", path)) == (404, "Tenant doesn't exist")


def test_tenants_are_refused(broker: Broker, tenant: str) -> None:
    # covers ADM-63
    path = f"/admin/v2/tenants/{fresh('tenant')}"
    refused = [
        (broker.rest("PUT", path), 412, "TenantInfo is null"),
        (broker.rest("PUT", path, {"adminRoles": []}), 412, "Clusters cannot be null"),
        (broker.rest("PUT", path, {"allowedClusters": []}), 412, "Clusters cannot be empty or blank"),
        (broker.rest("PUT", path, {"allowedClusters": ["nowhere"]}), 412, "Clusters do not exist"),
        (broker.rest("PUT", "/admin/v2/tenants/a%20b", {"allowedClusters": ["standalone"]}), 412, "name is not valid"),
        (
            broker.rest("DELETE", f"/admin/v2/tenants/{tenant}?force=true"),
            405,
            "Broker doesn't allow forced deletion of tenants",
        ),
    ]
    for answer, status, text in refused:
        assert (answer[0], text in answer[1]["reason"]) == (status, True), (answer, text)


def test_namespaces_come_and_go(broker: Broker, tenant: str) -> None:
    # covers ADM-64
    name = f"{tenant}/ns"
    path = f"/admin/v2/namespaces/{name}"
    assert broker.rest("GET", f"/admin/v2/namespaces/{tenant}") == (200, [])
    assert reason(broker.rest("GET", path)) == (404, "Namespace does not exist")
    assert broker.rest("PUT", path) == (204, "")
    assert reason(broker.rest("PUT", path)) == (409, "Namespace already exists")
    assert broker.rest("GET", f"/admin/v2/namespaces/{tenant}") == (200, [name])
    topic = f"persistent://{name}/t"
    producer = broker.client().create_producer(topic)
    assert broker.rest("GET", f"{path}/topics") == (200, [topic])
    assert reason(broker.rest("DELETE", path)) == (409, "Cannot delete non empty namespace")
    producer.close()
    assert broker.rest("DELETE", topic_path(topic))[0] == 204
    assert broker.rest("DELETE", path) == (204, "")
    assert reason(broker.rest("DELETE", path)) == (404, f"Namespace {name} does not exist.")


def test_namespaces_are_refused(broker: Broker, tenant: str, namespace: str) -> None:
    # covers ADM-64
    missing = f"/admin/v2/namespaces/{fresh('tenant')}/ns"
    refused = [
        (broker.rest("PUT", missing), 404, "Tenant does not exist"),
        (broker.rest("GET", missing), 404, "Namespace does not exist"),
        (broker.rest("GET", missing.rpartition("/")[0]), 404, "Tenant not found"),
        (broker.rest("GET", f"{missing}/topics"), 404, "Namespace does not exist"),
        (broker.rest("PUT", f"{missing}/unload"), 404, "Namespace not found"),
        (broker.rest("GET", f"{missing}/retention"), 404, "Namespace does not exist"),
        (
            broker.rest("POST", f"{missing}/retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": 1}),
            404,
            "Namespace policies does not exist",
        ),
        (broker.rest("DELETE", f"{missing}/retention"), 404, "Namespace policies does not exist"),
        (broker.rest("POST", f"{missing}/maxTopicsPerNamespace", 5), 404, "Namespace policies does not exist"),
        (broker.rest("DELETE", f"{missing}/maxTopicsPerNamespace"), 404, "Namespace policies does not exist"),
        (broker.rest("GET", f"{missing}/maxTopicsPerNamespace"), 404, "Namespace does not exist"),
        (broker.rest("POST", f"{missing}/messageTTL", 5), 404, "Namespace does not exist"),
        (broker.rest("PUT", f"/admin/v2/namespaces/{tenant}/a%20b"), 412, "Namespace name is not valid"),
        (
            broker.rest("PUT", f"/admin/v2/namespaces/{tenant}/x", {"replication_clusters": ["nowhere"]}),
            403,
            f"Cluster [nowhere] is not in the list of allowed clusters list for tenant [{tenant}]",
        ),
        (
            broker.rest("DELETE", f"/admin/v2/namespaces/{namespace}?force=true"),
            405,
            "Broker doesn't allow forced deletion of namespaces",
        ),
    ]
    for answer, status, text in refused:
        assert reason(answer) == (status, text)


def test_a_fresh_namespace_shows_these_policies(broker: Broker, namespace: str) -> None:
    # covers ADM-65
    status, policies = broker.rest("GET", f"/admin/v2/namespaces/{namespace}")
    assert status == 200
    assert policies["replication_clusters"] == ["standalone"]
    assert policies["bundles"]["boundaries"] == ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
    assert policies["bundles"]["numBundles"] == 4
    assert policies["backlog_quota_map"] == {}
    assert policies["schema_compatibility_strategy"] == "UNDEFINED"
    assert policies["subscription_auth_mode"] == "None"
    assert "retention_policies" not in policies
    assert broker.rest("GET", f"/admin/v2/namespaces/{namespace}/bundles") == (200, policies["bundles"])


def test_a_namespace_is_made_with_policies(broker: Broker, tenant: str) -> None:
    # covers B-4, ADM-65
    path = f"/admin/v2/namespaces/{tenant}/made"
    body = {
        "bundles": {"numBundles": 8},
        "replication_clusters": ["standalone"],
        "message_ttl_in_seconds": 60,
        "retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 7},
    }
    assert broker.rest("PUT", path, body)[0] == 204
    assert broker.rest("GET", f"{path}/messageTTL") == (200, 60)
    assert broker.rest("GET", f"{path}/retention") == (200, body["retention_policies"])
    policies = broker.rest("GET", path)[1]
    assert len(policies["bundles"]["boundaries"]) == 9
    assert policies["message_ttl_in_seconds"] == 60


def test_lists_of_topics_by_mode(broker: Broker, namespace: str) -> None:
    # covers ADM-64
    path = f"/admin/v2/namespaces/{namespace}/topics"
    parted = f"persistent://{namespace}/parted"
    assert broker.rest("PUT", f"{topic_path(parted)}/partitions", 2)[0] == 204
    listed = [f"{parted}-partition-0", f"{parted}-partition-1"]
    assert sorted(broker.rest("GET", path)[1]) == listed
    assert sorted(broker.rest("GET", f"{path}?mode=ALL")[1]) == listed
    assert broker.rest("GET", f"{path}?mode=NON_PERSISTENT") == (200, [])
    assert broker.rest("GET", f"{path}?mode=nonsense")[0] == 404


def test_properties_of_a_namespace(broker: Broker, namespace: str) -> None:
    # covers ADM-66 (properties)
    path = f"/admin/v2/namespaces/{namespace}"
    assert broker.rest("GET", f"{path}/properties") == (200, {})
    assert broker.rest("PUT", f"{path}/properties", {"a": "1", "b": "2"}) == (204, "")
    assert broker.rest("PUT", f"{path}/property/b/3") == (204, "")
    assert broker.rest("GET", f"{path}/properties") == (200, {"a": "1", "b": "3"})
    assert broker.rest("GET", f"{path}/property/b")[0] == 200
    assert broker.rest("DELETE", f"{path}/property/a")[0] == 200
    assert broker.rest("GET", f"{path}/properties") == (200, {"b": "3"})
    assert broker.rest("DELETE", f"{path}/properties") == (204, "")
    assert broker.rest("GET", f"{path}/properties") == (200, {})


def test_backlog_of_a_namespace_is_cleared(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    # covers ADM-64 (clearBacklog), CUR-14
    path = f"/admin/v2/namespaces/{namespace}"
    topics = [f"persistent://{namespace}/{name}" for name in ("one", "two")]
    for topic in topics:
        for subscription in ("a", "b"):
            client.subscribe(topic, subscription).close()
        send_all(client.create_producer(topic), ["x", "y"])

    def backlogs() -> list[int]:
        stats = [broker.rest("GET", f"{topic_path(topic)}/stats?getPreciseBacklog=true")[1] for topic in topics]
        return [each["subscriptions"][name]["msgBacklog"] for each in stats for name in ("a", "b")]

    assert backlogs() == [2, 2, 2, 2]
    assert broker.rest("POST", f"{path}/clearBacklog/a") == (204, "")
    eventually(lambda: backlogs() == [0, 2, 0, 2])
    assert broker.rest("POST", f"{path}/clearBacklog") == (204, "")
    eventually(lambda: backlogs() == [0, 0, 0, 0])
    missing = (404, {"reason": "Namespace not found"}) if broker.has(changes.MISSING_NAMESPACE) else (204, "")
    assert broker.rest("POST", f"/admin/v2/namespaces/{fresh('no')}/ns/clearBacklog") == missing


def test_backlog_of_a_bundle_is_cleared(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    # covers ADM-64 (clearBacklog of a bundle)
    path = f"/admin/v2/namespaces/{namespace}"
    topics = [f"persistent://{namespace}/t{number}" for number in range(8)]
    for topic in topics:
        client.subscribe(topic, "s").close()
        send_all(client.create_producer(topic), ["x"])

    def left() -> set[str]:
        stats = {topic: broker.stats(topic) for topic in topics}
        return {topic for topic, each in stats.items() if each["subscriptions"]["s"]["msgBacklog"]}

    edges = broker.rest("GET", f"{path}/bundles")[1]["boundaries"]
    for low, high in itertools.pairwise(edges):
        in_bundle = {topic for topic in topics if int(low, 16) <= zlib.crc32(topic.encode()) < int(high, 16)}
        if in_bundle:  # Apache Pulsar owns no bundle that nobody has used
            wanted = left() - in_bundle
            assert broker.rest("POST", f"{path}/{low}_{high}/clearBacklog") == (204, "")
            eventually(lambda wanted=wanted: left() == wanted)
    assert left() == set()


@pytest.mark.ours_only("ADM-64: a range that is none; Apache Pulsar looks for its owner first")
def test_a_bundle_that_is_none_is_refused(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    client.subscribe(f"persistent://{namespace}/t", "s").close()
    refused = reason(broker.rest("POST", f"/admin/v2/namespaces/{namespace}/nonsense/clearBacklog"))
    assert refused == (412, "Invalid bundle range: nonsense")


def test_a_subscription_of_a_whole_namespace_goes(broker: Broker, namespace: str) -> None:
    # covers ADM-64 (unsubscribe)
    path = f"/admin/v2/namespaces/{namespace}/unsubscribe"
    topic = f"persistent://{namespace}/t"
    consumer = broker.client().subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    assert reason(broker.rest("POST", f"{path}/s")) == (412, "Subscription has active connected consumers")
    consumer.close()
    assert broker.rest("POST", f"{path}/s") == (204, "")
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [])
    assert broker.rest("POST", f"{path}/none") == (204, "")


def test_replication_stays_at_home(broker: Broker, namespace: str) -> None:
    # covers ADM-51, ADM-66
    path = f"/admin/v2/namespaces/{namespace}/replication"
    assert broker.rest("GET", path) == (200, ["standalone"])
    assert broker.rest("POST", path, ["standalone"]) == (200, "")
    assert reason(broker.rest("POST", path, ["nope"])) == (403, "Invalid cluster id: nope")
    assert reason(broker.rest("POST", path, [])) == (412, "ClusterIds should not be null or empty")


@pytest.mark.parametrize("kind", ["namespaces", "tenants"])
def test_forced_deletion(switched_broker: Broker, kind: str) -> None:
    # covers TN-15
    own, name = switched_broker, fresh("acme")
    tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert own.rest("PUT", f"/admin/v2/tenants/{name}", tenant)[0] == 204
    assert own.rest("PUT", f"/admin/v2/namespaces/{name}/sales")[0] == 204
    client = own.client()
    assert own.rest("PUT", f"/admin/v2/persistent/{name}/sales/parted/partitions", 3)[0] == 204
    for topic in (f"{name}/sales/plain", f"{name}/sales/parted"):
        client.subscribe(topic, "s").close()
        client.create_producer(topic).send(b"x")
    path = f"/admin/v2/namespaces/{name}/sales" if kind == "namespaces" else f"/admin/v2/tenants/{name}"
    assert own.rest("DELETE", path)[0] == 409
    client.close()
    assert own.rest("DELETE", f"{path}?force=true")[0] == 204
    assert own.rest("GET", path)[0] == 404


SCHEMA = {"type": "STRING", "schema": "", "properties": {}}
NAMESPACES = "/admin/v2/namespaces/{}"
SCHEMAS = "/admin/v2/schemas/{}/t"
NO_TENANT, NO_NAMESPACE = "Tenant does not exist", "Namespace does not exist"


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("GET", f"{NAMESPACES}/properties", None, NO_TENANT),
        ("PUT", f"{NAMESPACES}/properties", {"a": "b"}, NO_TENANT),
        ("DELETE", f"{NAMESPACES}/properties", None, NO_TENANT),
        ("GET", f"{NAMESPACES}/property/a", None, NO_TENANT),
        ("PUT", f"{NAMESPACES}/property/a/b", None, NO_TENANT),
        ("DELETE", f"{NAMESPACES}/property/a", None, NO_TENANT),
        ("POST", f"{SCHEMAS}/compatibility", SCHEMA, NO_TENANT),
        ("GET", NAMESPACES, None, NO_NAMESPACE),
        ("GET", f"{NAMESPACES}/messageTTL", None, NO_NAMESPACE),
        ("POST", f"{NAMESPACES}/messageTTL", 5, NO_NAMESPACE),
        ("POST", f"{NAMESPACES}/replication", ["standalone"], NO_NAMESPACE),
    ],
)
def test_which_one_is_missing(broker: Broker, method: str, path: str, body: Any, reason: str) -> None:
    # covers T-1
    assert broker.rest(method, path.format("no-tenant/n"), body) == (404, {"reason": reason})
    assert broker.rest(method, path.format("public/no-namespace"), body) == (404, {"reason": NO_NAMESPACE})


def test_schemas_are_not_deleted_without_a_tenant(broker: Broker) -> None:
    # covers T-1
    answer = broker.rest("DELETE", f"{SCHEMAS}/schema".format("no-tenant/n"))
    assert answer == (404, {"reason": NO_TENANT})
