"""Peers, migration, failure domains and isolation policies of clusters; anti-affinity groups of namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests import changes
from tests.brokers import Broker
from tests.conformance.test_namespaces import fresh, reason

CLUSTERS = "/admin/v2/clusters"
POLICY: dict[str, Any] = {
    "namespaces": ["x/.*"],
    "primary": ["b1"],
    "secondary": ["b2"],
    "auto_failover_policy": {
        "policy_type": "min_available",
        "parameters": {"min_limit": "1", "usage_threshold": "100"},
    },
}


@pytest.fixture
def cluster(broker: Broker) -> Iterator[str]:
    """The path of a cluster of the test's own."""
    path = f"{CLUSTERS}/{fresh('c')}"
    assert broker.rest("PUT", path, {"serviceUrl": "http://c:80"}) == (200, "")
    yield path
    broker.rest("DELETE", path)


def test_peers_of_a_cluster(broker: Broker, cluster: str) -> None:
    # covers ADM-56
    other = f"{CLUSTERS}/{fresh('d')}"
    assert broker.rest("PUT", other, {"serviceUrl": "http://d:80"}) == (200, "")
    name, peer = cluster.rpartition("/")[2], other.rpartition("/")[2]
    path = f"{cluster}/peers"
    assert broker.rest("GET", path) == (200, "")
    assert reason(broker.rest("POST", path, ["nope"])) == (412, "Peer cluster nope does not exist")
    assert reason(broker.rest("POST", path, [name])) == (412, f"{name} itself can't be part of peer-list")
    assert broker.rest("POST", path, "x")[0] == 400
    assert broker.rest("POST", path, {"a": 1})[0] == 400
    assert broker.rest("POST", path, [peer, peer]) == (204, "")
    assert broker.rest("GET", path) == (200, [peer])
    assert broker.rest("GET", cluster)[1]["peerClusterNames"] == [peer]
    assert broker.rest("POST", path, []) == (204, "")
    assert broker.rest("GET", path) == (200, [])
    assert broker.rest("POST", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")
    for answer in (broker.rest("GET", f"{cluster}x/peers"), broker.rest("POST", f"{cluster}x/peers", [peer])):
        assert reason(answer) == (404, "Cluster does not exist")
    own = broker.rest("GET", f"{CLUSTERS}/standalone")[1]
    assert broker.rest("POST", f"{CLUSTERS}/standalone/peers", [peer]) == (204, "")
    shown = broker.rest("GET", f"{CLUSTERS}/standalone")[1]
    assert {key: shown[key] for key in ("serviceUrl", "brokerServiceUrl")}.items() <= own.items()
    assert broker.rest("POST", f"{CLUSTERS}/standalone/peers", []) == (204, "")
    assert broker.rest("DELETE", other) == (204, "")


def test_a_cluster_is_marked_as_migrated(broker: Broker, cluster: str) -> None:
    # covers ADM-56
    path, urls = f"{cluster}/migrate", {"serviceUrl": "http://y:80", "brokerServiceUrl": "pulsar://y:6650"}
    assert reason(broker.rest("GET", path)) == (404, "Cluster does not exist")
    for is_migrated in (True, False):
        assert broker.rest("POST", f"{path}?migrated={str(is_migrated).lower()}", urls) == (200, "")
        shown = {"migrated": is_migrated, "migratedClusterUrl": {**urls, "empty": False}}
        assert broker.rest("GET", path) == (200, shown)
    assert "migrated" not in broker.rest("GET", cluster)[1]


def test_failure_domains(broker: Broker, cluster: str) -> None:
    # covers ADM-57
    path, name = f"{cluster}/failureDomains", cluster.rpartition("/")[2]
    assert broker.rest("GET", path) == (200, {})
    assert reason(broker.rest("GET", f"{path}/d1")) == (404, f"Domain d1 for cluster {name} does not exist")
    missing = reason(broker.rest("DELETE", f"{path}/d1"))
    assert missing == (404, f"Domain-name d1 or cluster {name} does not exist")
    for verb in ("GET", "DELETE"):
        refused = reason(broker.rest(verb, f"{CLUSTERS}/nope/failureDomains/d1"))
        assert refused == (412, "Cluster nope does not exist.")
    assert broker.rest("POST", f"{path}/d1", {"brokers": ["b1"]}) == (204, "")
    assert reason(broker.rest("POST", f"{path}/d2", {"brokers": ["b1", "b2"]})) == (409, "[b1] already exists in d1")
    assert broker.rest("POST", f"{path}/d2", {"brokers": ["b2", "b2"], "z": 1}) == (204, "")
    assert broker.rest("POST", f"{path}/d1", {"brokers": ["b4"]}) == (204, "")
    assert broker.rest("POST", f"{path}/d%20x", {"brokers": []}) == (204, "")
    assert broker.rest("GET", f"{path}/d2") == (200, {"brokers": ["b2"]})
    every = {"d1": {"brokers": ["b4"]}, "d2": {"brokers": ["b2"]}, "d x": {"brokers": []}}
    assert broker.rest("GET", path) == (200, every)
    assert broker.rest("POST", f"{path}/d3", {"brokers": "x"})[0] == 400
    assert broker.rest("POST", f"{path}/d3", ["x"])[0] == 400
    for domain in ("d1", "d2", "d%20x"):
        assert broker.rest("DELETE", f"{path}/{domain}") == (200, "")
    assert broker.rest("GET", path) == (200, {})


def test_isolation_policies(broker: Broker, cluster: str) -> None:
    # covers ADM-57
    path, name = f"{cluster}/namespaceIsolationPolicies", cluster.rpartition("/")[2]
    none = (404, f"NamespaceIsolationPolicies for cluster {name} does not exist")
    assert reason(broker.rest("GET", path)) == none
    assert reason(broker.rest("GET", f"{path}/p1")) == none
    assert reason(broker.rest("GET", f"{path}/brokers")) == none
    assert reason(broker.rest("GET", f"{path}/brokers/b")) == none
    assert broker.rest("DELETE", f"{path}/p1") == (204, "")
    assert broker.rest("GET", path) == (200, {})
    missing = f"{CLUSTERS}/nope/namespaceIsolationPolicies"
    assert reason(broker.rest("GET", missing)) == (404, "Cluster nope does not exist.")
    assert reason(broker.rest("GET", f"{missing}/p1")) == (412, "Cluster nope does not exist.")
    assert reason(broker.rest("POST", f"{missing}/p1", POLICY)) == (412, "Cluster nope does not exist.")
    for wrong in (
        {},
        {**POLICY, "namespaces": []},
        {**POLICY, "primary": []},
        {**POLICY, "secondary": None},
        {**POLICY, "secondary": ["["]},
        {**POLICY, "auto_failover_policy": None},
        {**POLICY, "auto_failover_policy": {"policy_type": "x", "parameters": {}}},
        {**POLICY, "auto_failover_policy": {"policy_type": "min_available", "parameters": {}}},
    ):
        status, text = reason(broker.rest("POST", f"{path}/p1", wrong))
        assert (status, text.partition(";")[0]) == (400, "Invalid format of input policy data. policy: p1")
    assert broker.rest("POST", f"{path}/p1", POLICY) == (204, "")
    assert broker.rest("GET", path) == (200, {"p1": POLICY})
    assert broker.rest("GET", f"{path}/p1") == (200, POLICY)
    absent = reason(broker.rest("GET", f"{path}/p2"))
    assert absent == (404, f"Cannot find NamespaceIsolationPolicy p2 for cluster {name}")
    assert broker.rest("POST", f"{path}/p1", {**POLICY, "unload_scope": "none"}) == (204, "")
    assert broker.rest("GET", f"{path}/p1") == (200, {**POLICY, "unload_scope": "none"})
    assert broker.rest("DELETE", f"{path}/p1") == (204, "")
    assert broker.rest("GET", path) == (200, {})


def test_brokers_of_isolation_policies(broker: Broker) -> None:
    # covers ADM-57
    path = f"{CLUSTERS}/standalone/namespaceIsolationPolicies"
    [own] = broker.rest("GET", "/admin/v2/brokers")[1]
    free = {"namespaceRegex": [], "primary": False}
    assert broker.rest("DELETE", f"{path}/p9") == (204, "")
    assert broker.rest("GET", f"{path}/brokers") == (200, [{"brokerName": own, **free}])
    policy = {**POLICY, "namespaces": ["public/none-of-these"], "primary": ["127.*", "local.*"], "secondary": []}
    assert broker.rest("POST", f"{path}/p9", policy) == (204, "")
    kept = {"policyName": "p9", "namespaceRegex": ["public/none-of-these"], "primary": True}
    assert broker.rest("GET", f"{path}/brokers") == (200, [{"brokerName": own, **kept}])
    assert broker.rest("GET", f"{path}/brokers/{own}") == (200, {"brokerName": own, **kept})
    assert broker.rest("GET", f"{path}/brokers/zzz") == (200, {"brokerName": "zzz", **free})
    assert broker.rest("DELETE", f"{path}/p9") == (204, "")


def test_anti_affinity_groups(broker: Broker) -> None:
    # covers ADM-57
    group, tenants = fresh("g"), [fresh("t"), fresh("u")]
    noun = "Anti-affinity group" if broker.has(changes.OF_GROUPS) else "antiAffinityGroup"
    unset = (200 if broker.has(changes.OF_GROUPS) else 204, "")
    for tenant in tenants:
        body = {"allowedClusters": ["standalone"], "adminRoles": []}
        assert broker.rest("PUT", f"/admin/v2/tenants/{tenant}", body)[0] == 204
        assert broker.rest("PUT", f"/admin/v2/namespaces/{tenant}/n")[0] == 204
        path = f"/admin/v2/namespaces/{tenant}/n/antiAffinity"
        assert broker.rest("GET", path) == unset
        assert reason(broker.rest("POST", path)) == (412, f"{noun} can't be empty")
        as_admin_sends_it = {"Content-Type": "application/json"}
        request = Request(f"{broker.admin_url}{path}", group.encode(), as_admin_sends_it, method="POST")
        with urlopen(request, timeout=30) as answer:
            assert answer.status == 204
        with urlopen(f"{broker.admin_url}{path}", timeout=30) as answer:
            assert answer.read() == group.encode()
        assert "antiAffinityGroup" not in broker.rest("GET", f"/admin/v2/namespaces/{tenant}/n")[1]
    listed = f"/admin/v2/namespaces/standalone/antiAffinity/{group}"
    assert broker.rest("GET", f"{listed}?tenant={tenants[0]}") == (200, [f"{tenants[0]}/n"])
    if not broker.has(changes.NO_FIRST_PATHS):
        as_admin_asks = listed.replace("/v2/", "/")
        assert broker.rest("GET", f"{as_admin_asks}?property={tenants[0]}") == (200, [f"{tenants[0]}/n"])
        assert reason(broker.rest("GET", f"{as_admin_asks}?tenant={tenants[0]}")) == (400, "Tenant should not be null")
    assert broker.rest("GET", f"{listed}x?tenant={tenants[0]}") == (200, [])
    assert reason(broker.rest("GET", listed)) == (400, "Tenant should not be null")
    refused = broker.rest("GET", f"/admin/v2/namespaces/nope/antiAffinity/{group}?tenant={tenants[0]}")
    assert reason(refused) == (412, "Cluster nope does not exist.")
    for tenant in tenants:
        path = f"/admin/v2/namespaces/{tenant}/n/antiAffinity"
        assert broker.rest("DELETE", path) == (204, "")
        assert broker.rest("GET", path) == unset
