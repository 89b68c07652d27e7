"""Namespaces over REST: life cycle, topics, bundles, properties, changes of all topics (ADM-64, ADM-65, TN-15). Those
that a broker has from the start are in `broker.policies.documents` (B-1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import text_map
from spark_pulsar.admin.http.calls import ADMIN_PATH, NAMESPACE_PATH, changes, reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.topics.topic_lifecycle import list_topics
from spark_pulsar.broker.entities import registry as topic_names
from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topics import lifecycle, name_limits, policy_changes
from spark_pulsar.broker.topics.partition_creation import most
from spark_pulsar.ledger.state.documents import (
    RESOURCE_QUOTAS,
    TENANTS,
    DocumentDeleted,
    NamespaceDeleted,
    NamespaceSet,
)
from spark_pulsar.model.errors import InvalidTopicName, NotAllowed
from spark_pulsar.model.limits import LONG
from spark_pulsar.model.names import check_entity, split_namespace
from spark_pulsar.model.policies.effective_policies import QUOTA_TYPES, BacklogQuota, TooManyPartitions
from spark_pulsar.model.policies.json_values import MalformedPolicy, members, number, truth
from spark_pulsar.model.policies.offload_policies import DELETION_LAG_MS, THRESHOLD_BYTES, THRESHOLD_S
from spark_pulsar.model.policies.permissions import AUTH_POLICIES, SUBSCRIPTION_AUTH_MODE, Permissions, auth_mode
from spark_pulsar.model.policies.policies_without_effect import (
    ALLOWED_CLUSTERS,
    BOOKIE_AFFINITY,
    REPLICATION_CLUSTERS,
    REPLICATOR_DISPATCH_RATE,
)
from spark_pulsar.model.policies.policy_table import (
    AUTO_TOPIC_CREATION,
    BACKLOG_QUOTAS,
    BY_MEMBER,
    DISPATCH_RATE,
    PUBLISH_RATE,
    SUBSCRIBE_RATE,
    SUBSCRIPTION_DISPATCH_RATE,
)
from spark_pulsar.model.policies.resource_groups import RESOURCE_GROUP, ResourceGroup

from . import cluster_lists
from .bundle_edges import edges_of, read_bundles

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core

MIGRATED: Final = "migrated"
ANTI_AFFINITY: Final = "antiAffinityGroup"
OLD_OFFLOAD_MEMBERS: Final = {
    THRESHOLD_BYTES: "offload_threshold",
    THRESHOLD_S: "offload_threshold_in_seconds",
    DELETION_LAG_MS: "offload_deletion_lag_ms",
}
"""Members of a namespace that hold where its offload policies say nothing."""
_ROUNDS: Final = 3
"""Times that topics are deleted which clients create meanwhile."""


def _permissions(value: Any, _member: str) -> Any:
    return Permissions.from_json(value).to_json()


def _group(value: Any, _member: str) -> Any:
    return ResourceGroup.check_name(value)


_KEPT: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "properties": text_map,
    AUTH_POLICIES: _permissions,
    MIGRATED: truth,
    **dict.fromkeys(OLD_OFFLOAD_MEMBERS.values(), partial(number, most=LONG)),
    RESOURCE_GROUP: _group,
}
"""Readers of the members that are no policies of the table."""
_FRESH: Final[dict[str, Any]] = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": [],
    "allowed_clusters": [],
    "bundles": {},
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "is_allow_auto_update_schema": True,
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
}
"""The policies that Apache Pulsar shows of a new namespace."""
_OF_THIS_CLUSTER: Final = (BOOKIE_AFFINITY, ANTI_AFFINITY)
"""Policies that Apache Pulsar keeps beside those that it shows."""
_BY_CLUSTER: Final = {
    "publishMaxMessageRate": PUBLISH_RATE,
    "clusterDispatchRate": DISPATCH_RATE,
    "topicDispatchRate": DISPATCH_RATE,
    "subscriptionDispatchRate": SUBSCRIPTION_DISPATCH_RATE,
    "clusterSubscribeRate": SUBSCRIBE_RATE,
    "replicatorDispatchRate": REPLICATOR_DISPATCH_RATE,
}
"""Rates, which Apache Pulsar shows and takes for each cluster; there is only our own. `clusterDispatchRate` is the old
name of `topicDispatchRate`."""


def existing(core: Core, namespace: str, reason: str = "Namespace does not exist") -> dict[str, Any]:
    """Returns the policies that are set for a namespace; 404 with this reason when it does not exist."""
    if namespace not in core.state.namespaces:
        raise Refused(404, reason)
    return policy_changes.of_namespace(core, namespace)


def check_tenant(core: Core, namespace: str) -> None:
    """Refuses a namespace whose tenant does not exist, 404, before the broker searches for the namespace. Apache Pulsar
    does so where it checks rights first: for properties, and for schemas that are deleted or compared."""
    if namespace.partition("/")[0] not in core.state.documents[TENANTS]:
        raise Refused(404, "Tenant does not exist")


def _bundles(stored: Mapping[str, Any]) -> dict[str, Any]:
    edges = edges_of(stored)
    return {"boundaries": edges, "numBundles": len(edges) - 1}


def bundle_edges(core: Core, namespace: str) -> list[str]:
    """Returns the edges of the bundles of a namespace that exists."""
    return edges_of(existing(core, namespace))


def _shown(core: Core, stored: Mapping[str, Any]) -> dict[str, Any]:
    own = core.config.cluster_name
    hidden = {*_BY_CLUSTER.values(), *_OF_THIS_CLUSTER}
    rest = {member: value for member, value in stored.items() if member not in hidden}
    rates = {shown: {own: stored[member]} for shown, member in _BY_CLUSTER.items() if member in stored}
    return {
        **_FRESH,
        "replication_clusters": [own],
        **rest,
        **rates,
        "bundles": _bundles(stored),
        "clusterThatCanDeleteNamespace": own,
    }


def _wanted(core: Core, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the policies in the body of a create call (B-4). A policy without effect in this broker must be at its
    default."""
    wanted: dict[str, Any] = {}
    for member, value in body.items():
        if value is None or value == _FRESH.get(member, None) or member == "clusterThatCanDeleteNamespace":
            continue
        if member == "bundles":
            wanted.update({member: read} if (read := read_bundles(value)) else {})
        elif member == SUBSCRIPTION_AUTH_MODE:
            wanted[member] = auth_mode(value)
        elif member in _KEPT:
            wanted[member] = _KEPT[member](value, member)
        elif member in _BY_CLUSTER:
            rate = members(value, member).get(core.config.cluster_name)
            if rate is not None and (member != "clusterDispatchRate" or DISPATCH_RATE not in wanted):
                wanted[_BY_CLUSTER[member]] = _read_member(_BY_CLUSTER[member], rate, namespace)
        elif member in _FRESH and member not in BY_MEMBER:
            raise Refused(501, f"The policy {member} is not built in this broker yet")
        else:
            policy = _read_member(member, value, namespace)
            if policy is not None:
                check_partitions(core, member, policy)
                wanted[member] = policy
    _check_clusters(core, namespace, wanted)
    return wanted


def _read_member(member: str, value: Any, namespace: str) -> Any:
    """Reads one policy of the body that creates a namespace; None for a member that Apache Pulsar does not know (T-16:
    ignored)."""
    if member == BACKLOG_QUOTAS:
        quotas = members(value, member)
        wrong = set(quotas) - set(QUOTA_TYPES)
        if wrong:
            raise MalformedPolicy(f"{member}: {min(wrong)!r} is no type of quota")
        return {kind: BacklogQuota.from_json(quota, namespace).to_json() for kind, quota in quotas.items()}
    policy = BY_MEMBER.get(member)
    if policy is None or policy.namespace is None or policy.kind.store is None:
        return None
    return policy.kind.store(value, policy.namespace)


def check_partitions(core: Core, member: str, value: Any) -> None:
    """Refuses a policy that would create topics with more partitions than this broker allows (TN-7)."""
    if member == AUTO_TOPIC_CREATION and value.get("defaultNumPartitions", 0) > most(core.config):
        raise TooManyPartitions(most(core.config))


def _check_clusters(core: Core, namespace: str, wanted: Mapping[str, Any]) -> None:
    replication = wanted.get(REPLICATION_CLUSTERS, [])
    allowed = wanted.get(ALLOWED_CLUSTERS, [])
    if replication:
        cluster_lists.check_tenant(core, namespace, replication)
        cluster_lists.check_replication(core, namespace, replication, ())
    if not allowed:
        return
    cluster_lists.check_allowed(core, namespace, allowed, [])
    if not set(replication) <= set(allowed):
        raise Refused(
            400,
            f"[{namespace}] All replication clusters should be included in allowed clusters. "
            f"Repl clusters: [{', '.join(replication)}], allowed clusters: [{', '.join(allowed)}]",
        )


def namespaces_of(core: Core, tenant: str) -> list[str]:
    """Returns the namespaces of a tenant, sorted."""
    return sorted(name for name in core.state.namespaces if name.startswith(f"{tenant}/"))


def _list(core: Core, call: Call) -> object:
    tenant = call.parts["tenant"]
    if tenant not in core.state.documents[TENANTS]:
        raise Refused(404, "Tenant not found")
    return namespaces_of(core, tenant)


def _create(core: Core, call: Call) -> None:
    tenant, namespace, body = call.parts["tenant"], call.namespace, call.json()
    try:
        check_entity(call.parts["namespace"])
        name_limits.check_name("Namespace", namespace)
    except (InvalidTopicName, NotAllowed) as error:
        raise Refused(412, "Namespace name is not valid") from error
    if tenant not in core.state.documents[TENANTS]:
        raise Refused(404, "Tenant does not exist")
    if namespace in core.state.namespaces:
        raise Refused(409, "Namespace already exists")
    wanted = _wanted(core, namespace, body if isinstance(body, Mapping) else {})
    core.append(NamespaceSet(namespace, json.dumps(wanted)))
    core.policies.changed(namespace)


def delete_in_steps(core: Core, namespace: str, *, force: bool) -> Steps[None]:
    """Deletes a namespace that exists; with `force` its topics first, with subscriptions, clients and messages. 409 for
    one that has topics (TN-15)."""
    for _ in range(_ROUNDS if force else 0):
        if _has_topics(core, namespace):
            yield from _delete_topics(core, namespace)
    if _has_topics(core, namespace):
        raise Refused(409, "Cannot delete non empty namespace")
    registry.delete_namespace(core, namespace)
    for quota in [bundle for bundle in core.state.documents[RESOURCE_QUOTAS] if bundle.startswith(f"{namespace}/")]:
        core.append(DocumentDeleted(RESOURCE_QUOTAS, quota))
    core.append(NamespaceDeleted(namespace))
    core.policies.changed(namespace)


def _has_topics(core: Core, namespace: str) -> bool:
    tenant, name = split_namespace(namespace)
    return bool(topic_names.count_in(core, tenant, name) or topic_names.partitioned_names_in(core, tenant, name))


def _delete_topics(core: Core, namespace: str) -> Steps[None]:
    tenant, name = split_namespace(namespace)
    for partitioned in topic_names.partitioned_names_in(core, tenant, name):
        if topic_names.partition_count(core, partitioned) is not None:  # else deleted meanwhile
            yield from lifecycle.delete_partitioned_in_steps(core, partitioned)
    for topic_name in topic_names.names_in(core, tenant, name):
        topic = topic_names.find(core, topic_name)
        if topic is not None:
            lifecycle.delete(core, topic)
        yield


def _delete(core: Core, call: Call) -> Steps[None]:
    force = call.flag("force")
    if force and not core.config.force_delete_namespace:
        raise Refused(405, "Broker doesn't allow forced deletion of namespaces")
    existing(core, call.namespace, f"Namespace {call.namespace} does not exist.")
    yield from delete_in_steps(core, call.namespace, force=force)


def _topics(core: Core, call: Call) -> Steps[list[str]]:
    mode = call.query.get("mode", "PERSISTENT")
    if mode not in ("PERSISTENT", "NON_PERSISTENT", "ALL"):
        raise Refused(404, f"{mode!r} is no mode of this list")
    tenant, name = call.parts["tenant"], call.parts["namespace"]
    with_system = call.flag("includeSystemTopic")
    names: list[str] = []
    for domain in ("persistent", "non-persistent"):
        if mode in ("ALL", domain.upper().replace("-", "_")):
            names += yield from list_topics(core, domain, tenant, name, with_system=with_system)
    return names


# ---- properties -------------------------------------------------------------------------------------------------


def _properties(core: Core, call: Call) -> dict[str, str]:
    check_tenant(core, call.namespace)
    return dict(existing(core, call.namespace).get("properties", {}))


def _set_properties(core: Core, call: Call, properties: Mapping[str, str]) -> None:
    name_limits.check_properties("Namespace properties", properties)
    policy_changes.set_of_namespace(core, call.namespace, "properties", properties or None)


def _put_properties(core: Core, call: Call) -> None:
    added = text_map(call.json(), "properties")
    _set_properties(core, call, _properties(core, call) | added)


def _delete_properties(core: Core, call: Call) -> None:
    check_tenant(core, call.namespace)
    existing(core, call.namespace)
    _set_properties(core, call, {})


async def _get_property(call: Call) -> Response:
    return PlainTextResponse(_properties(call.core, call).get(call.parts["key"]) or "")


def _put_property(core: Core, call: Call) -> None:
    _set_properties(core, call, _properties(core, call) | {call.parts["key"]: call.parts["value"]})


async def _delete_property(call: Call) -> Response:
    def delete(core: Core) -> str:
        left = _properties(core, call)
        old = left.pop(call.parts["key"], "")
        _set_properties(core, call, left)
        return old

    return PlainTextResponse(await call.gate.submit(delete))


def _migrate(core: Core, call: Call) -> None:
    """Marks a namespace as moved to another cluster; clients stay."""
    is_migrated = truth(call.json() or False, MIGRATED)
    existing(core, call.namespace)
    policy_changes.set_of_namespace(core, call.namespace, MIGRATED, is_migrated or None)


def _get(core: Core, call: Call) -> object:
    return _shown(core, existing(core, call.namespace))


ROUTES: Final[Routes] = (
    *routes(ADMIN_PATH, ("GET /namespaces/{tenant}", access.in_tenant("LIST_NAMESPACES"), reads(_list))),
    *routes(
        NAMESPACE_PATH,
        ("GET", access.namespace_policy("ALL", "READ"), reads(_get)),
        ("PUT", access.in_tenant("CREATE_NAMESPACE"), changes(_create)),
        ("DELETE", access.in_tenant("DELETE_NAMESPACE"), changes(_delete)),
        ("GET /topics", access.namespace("GET_TOPICS"), reads(_topics)),
        ("GET /properties", access.administrator, reads(_properties)),
        ("PUT /properties", access.administrator, changes(_put_properties)),
        ("DELETE /properties", access.administrator, changes(_delete_properties)),
        ("GET /property/{key}", access.administrator, _get_property),
        ("DELETE /property/{key}", access.administrator, _delete_property),
        ("PUT /property/{key}/{value}", access.administrator, changes(_put_property)),
        ("POST /migration", access.super_user, changes(_migrate)),
    ),
)
