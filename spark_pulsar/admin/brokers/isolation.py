"""Placement of namespaces on brokers: failure domains and isolation policies of clusters, and anti-affinity groups of
namespaces. They are kept and answered; one broker serves every namespace (ADM-57)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse, Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import NAMESPACE_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.namespace_lifecycle import ANTI_AFFINITY, existing, namespaces_of
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.topics.topic_patterns import matcher
from spark_pulsar.ledger.state.documents import CLUSTERS, FAILURE_DOMAINS, ISOLATION_POLICIES, DocumentSet
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.policies.json_values import members, number
from spark_pulsar.model.policies.policies_without_effect import names

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core

MAX_LENGTH: Final = 1 << 20
"""Characters of all failure domains, or all isolation policies, of one cluster, which one record holds."""
_MAX_GROUP_LENGTH: Final = 4_096
_LISTS: Final = ("namespaces", "primary", "secondary")
_FAILOVER: Final = "auto_failover_policy"
_LIMITS: Final = ("min_limit", "usage_threshold")
_SCOPES: Final = ("all_matching", "none", "changed")


def _cluster(core: Core, call: Call, status: int = 412) -> str:
    name = call.parts["cluster"]
    if name not in core.state.documents[CLUSTERS]:
        raise Refused(status, f"Cluster {name} does not exist.")
    return name


def _kept(core: Core, kind: str, cluster: str) -> dict[str, Any]:
    by_name: dict[str, Any] = json.loads(core.state.documents[kind].get(cluster, "{}"))
    return by_name


def _keep(core: Core, kind: str, cluster: str, values: Mapping[str, Any]) -> None:
    text = json.dumps(values)
    if len(text) > MAX_LENGTH:
        raise Refused(413, f"Cluster {cluster} has more than {MAX_LENGTH} characters of {kind.replace('_', ' ')}")
    core.append(DocumentSet(kind, cluster, text))


# ---- failure domains --------------------------------------------------------------------------------------------


def _domains(core: Core, call: Call) -> object:
    return _kept(core, FAILURE_DOMAINS, call.parts["cluster"])


def _domain(core: Core, call: Call) -> object:
    cluster, name = _cluster(core, call), call.parts["name"]
    domain = _kept(core, FAILURE_DOMAINS, cluster).get(name)
    if domain is None:
        raise Refused(404, f"Domain {name} for cluster {cluster} does not exist")
    return domain


def _set_domain(core: Core, call: Call) -> None:
    body = members(call.json() or {}, "failure domain")
    brokers = None if body.get("brokers") is None else names(body["brokers"], "brokers")
    cluster, name = _cluster(core, call), call.parts["name"]
    known = _kept(core, FAILURE_DOMAINS, cluster)
    for other, domain in known.items():
        both = [broker for broker in domain.get("brokers", ()) if broker in (brokers or ())]
        if both and other != name:
            raise Refused(409, f"[{', '.join(both)}] already exists in {other}")
    _keep(core, FAILURE_DOMAINS, cluster, {**known, name: {} if brokers is None else {"brokers": brokers}})


def _delete_domain(core: Core, call: Call) -> None:
    cluster, name = _cluster(core, call), call.parts["name"]
    known = _kept(core, FAILURE_DOMAINS, cluster)
    if name not in known:
        raise Refused(404, f"Domain-name {name} or cluster {cluster} does not exist")
    _keep(core, FAILURE_DOMAINS, cluster, {key: value for key, value in known.items() if key != name})


# ---- isolation policies -----------------------------------------------------------------------------------------


def _isolation_policies(core: Core, call: Call, status: int = 404) -> dict[str, Any]:
    cluster = _cluster(core, call, status)
    if cluster not in core.state.documents[ISOLATION_POLICIES]:
        raise Refused(404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
    return _kept(core, ISOLATION_POLICIES, cluster)


def _isolation_policy(core: Core, call: Call) -> object:
    name = call.parts["name"]
    policy = _isolation_policies(core, call, 412).get(name)
    if policy is None:
        raise Refused(404, f"Cannot find NamespaceIsolationPolicy {name} for cluster {call.parts['cluster']}")
    return policy


def _set_isolation_policy(core: Core, call: Call) -> None:
    name, body = call.parts["name"], call.json()
    try:
        value = _read_isolation(body)
    except (PulsarError, ValueError) as error:
        raise Refused(400, f"Invalid format of input policy data. policy: {name}; {error}") from error
    cluster = _cluster(core, call)
    _keep(core, ISOLATION_POLICIES, cluster, {**_kept(core, ISOLATION_POLICIES, cluster), name: value})


def _read_isolation(value: object) -> dict[str, Any]:
    body = members(value, "data")
    policy: dict[str, Any] = {member: names(body.get(member), member) for member in _LISTS}
    for member in _LISTS[:2]:
        if not policy[member]:
            raise ValueError(f"{member}: want at least one")
    for member in _LISTS:
        for pattern in policy[member]:
            matcher()(pattern, ("",))  # raises ValueError
    failover = members(body.get(_FAILOVER), _FAILOVER)
    if failover.get("policy_type") != "min_available":
        raise ValueError(f"policy_type: want min_available, got {failover.get('policy_type')!r:.80}")
    limits = members(failover.get("parameters"), "parameters")
    read = {limit: str(number(limits.get(limit), limit)) for limit in _LIMITS}
    policy[_FAILOVER] = {"parameters": read, "policy_type": "min_available"}
    if body.get("unload_scope") in _SCOPES:
        policy["unload_scope"] = body["unload_scope"]
    return policy


def _delete_isolation_policy(core: Core, call: Call) -> None:
    cluster, name = _cluster(core, call), call.parts["name"]
    known = _kept(core, ISOLATION_POLICIES, cluster)
    _keep(core, ISOLATION_POLICIES, cluster, {key: value for key, value in known.items() if key != name})


def _isolated_brokers(core: Core, call: Call) -> Steps[object]:
    return [(yield from _isolated(core, call, call.admin_url.partition("://")[2]))]


def _isolated_broker(core: Core, call: Call) -> Steps[object]:
    return (yield from _isolated(core, call, call.parts["broker"]))


def _isolated(core: Core, call: Call, broker: str) -> Steps[dict[str, Any]]:
    """Returns the namespaces that a broker is kept for, by the last policy that names it."""
    broker_data: dict[str, Any] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    for name, policy in _isolation_policies(core, call, 412).items():
        is_primary = _matches(policy["primary"], broker)
        if is_primary or _matches(policy["secondary"], broker):
            broker_data |= {"policyName": name, "namespaceRegex": policy["namespaces"], "primary": is_primary}
        yield
    return broker_data


def _matches(patterns: list[str], broker: str) -> bool:
    return any(matcher()(rf"\A(?:{pattern})\z", (broker,))[0] for pattern in patterns)


# ---- anti-affinity groups ---------------------------------------------------------------------------------------


async def _get_group(call: Call) -> Response:
    group = existing(call.core, call.namespace).get(ANTI_AFFINITY)
    return Response(status_code=204) if group is None else PlainTextResponse(group, media_type="application/json")


def _set_group(core: Core, call: Call) -> None:
    """Takes the name as it is, as pulsar-admin sends it, or as a text in JSON, as the Go client does."""
    text = call.body.decode(errors="replace")
    if text.startswith('"'):
        text = str(call.json())
    if not text:
        raise Refused(412, "antiAffinityGroup can't be empty")
    if len(text) > _MAX_GROUP_LENGTH:
        raise Refused(412, f"antiAffinityGroup: want at most {_MAX_GROUP_LENGTH} characters")
    existing(core, call.namespace)
    policy_changes.set_of_namespace(core, call.namespace, ANTI_AFFINITY, text)


def _delete_group(core: Core, call: Call) -> None:
    existing(core, call.namespace)
    policy_changes.set_of_namespace(core, call.namespace, ANTI_AFFINITY, None)


def _namespaces_of_group(core: Core, call: Call, parameter: str = "tenant") -> Steps[object]:
    if not call.query.get(parameter):
        raise Refused(400, "Tenant should not be null")
    _cluster(core, call)
    wanted = f'"{ANTI_AFFINITY}"'
    namespaces = []
    for namespace in namespaces_of(core, call.query[parameter]):
        text = core.state.namespaces.get(namespace, "")
        if wanted in text and json.loads(text).get(ANTI_AFFINITY) == call.parts["group"]:
            namespaces.append(namespace)
        yield
    return namespaces


_namespaces_of_group_by_property: Final = partial(_namespaces_of_group, parameter="property")
_CLUSTER: Final = "admin/v2/clusters/{cluster}"
_DOMAINS: Final = f"{_CLUSTER}/failureDomains"
_POLICIES: Final = f"{_CLUSTER}/namespaceIsolationPolicies"

ROUTES: Final[Routes] = (
    *routes(
        _DOMAINS,
        ("GET", access.cluster("GET_FAILURE_DOMAIN"), reads(_domains)),
        ("GET /{name}", access.cluster("GET_FAILURE_DOMAIN"), reads(_domain)),
        ("POST /{name}", access.cluster("UPDATE_FAILURE_DOMAIN"), changes(_set_domain)),
        ("DELETE /{name}", access.cluster("DELETE_FAILURE_DOMAIN"), changes(_delete_domain, 200)),
    ),
    *routes(
        _POLICIES,
        ("GET", access.cluster_policy("READ"), reads(_isolation_policies)),
        ("GET /brokers", access.cluster_policy("READ"), reads(_isolated_brokers)),
        ("GET /brokers/{broker}", access.cluster_policy("READ"), reads(_isolated_broker)),
        ("GET /{name}", access.cluster_policy("READ"), reads(_isolation_policy)),
        ("POST /{name}", access.cluster_policy("WRITE"), changes(_set_isolation_policy)),
        ("DELETE /{name}", access.cluster_policy("WRITE"), changes(_delete_isolation_policy)),
    ),
    *routes(
        NAMESPACE_PATH,
        ("GET /antiAffinity", access.namespace_policy("ANTI_AFFINITY", "READ"), _get_group),
        ("POST /antiAffinity", access.namespace_policy("ANTI_AFFINITY", "WRITE"), changes(_set_group)),
        ("DELETE /antiAffinity", access.namespace_policy("ANTI_AFFINITY", "WRITE"), changes(_delete_group)),
    ),
    *routes(
        "admin/v2/namespaces/{cluster}/antiAffinity",
        ("GET /{group}", access.administrator_in_query("tenant"), reads(_namespaces_of_group)),
    ),
    *routes(
        "admin/namespaces/{cluster}/antiAffinity",  # the older path, which pulsar-admin uses
        ("GET /{group}", access.administrator_in_query("property"), reads(_namespaces_of_group_by_property)),
    ),
)
