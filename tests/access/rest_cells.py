"""Calls of the REST API, one for each route and method of this broker, for every role of the access matrix."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.admin.app import ROUTES
from spark_pulsar.admin.http.path_names import OLD_PATHS

from .roles import ADMIN, PARTS, ROLES, SUBSCRIPTION, TOPIC, Rest

_PARTS: Final = {
    **{"domain": "persistent", "tenant": "own", "namespace": "space", "topic": TOPIC, "subscription": SUBSCRIPTION},
    **{"bundle": "0x00000000_0x40000000", "cluster": "standalone", "key": "k", "value": "v", "count": "0", "time": "1"},
    **{
        "seconds": "1000000",
        "number": "1",
        "ledger": "0",
        "entry": "0",
        "version": "0",
        "role": "guest",
        "mode": "None",
    },
    **{"file": "app.js", "release": "0", "name": "maxTopicsPerNamespace", "broker": "127.0.0.1:80", "group": "nobody"},
    **{"most": "0", "least": "0", "timeout": "1"},
}
"""Values of the named parts of paths."""
_RATE: Final = {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
_SCHEMA: Final = {"type": "STRING", "schema": "", "properties": {}}
_TENANT: Final = {"adminRoles": ["manager"], "allowedClusters": ["standalone"]}
_QUOTA: Final = {"msgRateIn": 1, "msgRateOut": 1, "bandwidthIn": 1, "bandwidthOut": 1, "memory": 1, "dynamic": True}
_AT_LEAST: Final = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "100"}}
_ISOLATION: Final = {
    **{"namespaces": ["none/none"], "primary": ["none"], "secondary": []},
    "auto_failover_policy": _AT_LEAST,
}
_BODIES: Final[dict[str, Any]] = {
    "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": True},
    "autoTopicCreation": {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    "backlogQuota": {"limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"},
    "backlogSize": {"ledgerId": 0, "entryId": 0, "partitionIndex": -1},
    "compactionThreshold": 0,
    "compatibility": _SCHEMA,
    "deduplication": False,
    "deduplicationEnabled": False,
    "deduplicationSnapshotInterval": 1000,
    "delayedDelivery": {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 0},
    "dispatchRate": _RATE,
    "encryptionRequired": False,
    "expireMessages": {"ledgerId": 0, "entryId": 0},
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        **{"maxInactiveDurationSeconds": 100000, "deleteWhileInactive": False},
    },
    "isAllowAutoUpdateSchema": True,
    "messageTTL": 0,
    "partitions": 2,
    "grantPermissionsOnTopics": [{"topic": f"persistent://own/space/{TOPIC}", "role": "guest", "actions": ["produce"]}],
    "revokePermissionsOnTopics": [{"topic": f"persistent://own/space/{TOPIC}", "role": "guest"}],
    "permissions/{role}": ["produce"],
    "permissions/subscription/{subscription}": ["guest"],
    "persistence": {
        **dict.fromkeys(("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum"), 1),
        "managedLedgerMaxMarkDeleteRate": 0.0,
    },
    "properties": {"k": "v"},
    "publishRate": {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": -1},
    "replication": ["standalone"],
    "resetcursor": {"ledgerId": 0, "entryId": 0},
    "retention": {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
    "schema": _SCHEMA,
    "schemaAutoUpdateCompatibilityStrategy": "Full",
    "schemaCompatibilityStrategy": "FULL",
    "schemaValidationEnforced": False,
    "subscribeRate": {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30},
    "subscriptionAuthMode": "None",
    "subscriptionDispatchRate": _RATE,
    "subscriptionExpirationTime": 0,
    "subscriptionTypesEnabled": ["Exclusive", "Shared", "Failover", "Key_Shared"],
    "tenants/{tenant}": _TENANT,
    "version": _SCHEMA,
    "clusters/{cluster}": {"serviceUrl": "http://127.0.0.1:1"},
    "resourcegroups/{group}": {"publishRateInMsgs": -1},
    "{bundle}": _QUOTA,
    "clusters/{cluster}/peers": [],
    "clusters/{cluster}/migrate": {"serviceUrl": "http://127.0.0.1:1"},
    "failureDomains/{name}": {"brokers": []},
    "namespaceIsolationPolicies/{name}": _ISOLATION,
    "antiAffinity": "apart",
    "offloadPolicies": {"managedLedgerOffloadDriver": "filesystem"},
    "offload": {"ledgerId": 0, "entryId": 0},
    "migration": False,
    "persistence/bookieAffinity": {"bookkeeperAffinityGroupPrimary": "g"},
    "replicatorDispatchRate": _RATE,
    "allowedClusters": ["standalone"],
    "shadowTopics": [f"persistent://own/space/{TOPIC}"],
    "replicatedSubscriptionStatus": False,
    "resource-quotas": _QUOTA,
}
"""Bodies of PUT and POST by the end of the path; counts and limits have none of their own and are 0."""
_ENDS: Final = """
{topic} {namespace} unload unsubscribe/{subscription} clearBacklog clearBacklog/{subscription}
property/{key}/{value} terminate terminate/partitions trim createMissedPartitions compaction
subscription/{subscription} skip_all skip/{count} resetcursor/{time} expireMessages/{seconds} analyzeBacklog
{name}/{value} resourcegroup/{group} {bundle}/split dispatcherPauseOnAckStatePersistent entryFilters {most}/{least}
"""
_WITHOUT_BODY: Final = frozenset(_ENDS.split())
_TOPIC_PATH: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_NAMESPACE_PATH: Final = "admin/v2/namespaces/{tenant}/{namespace}"
_EXTRA_TOPIC: Final = "admin/v2/persistent/own/space/extra"
_EXTRA_SUBSCRIPTION: Final = f"admin/v2/persistent/own/space/{TOPIC}/subscription/extra"
_EXTRA_NAMESPACE: Final = ("PUT", "admin/v2/namespaces/own/extra", {})
_SPARE: Final = {"cluster": "spare"}
_MADE_CLUSTER: Final = ("PUT", "admin/v2/clusters/spare", _BODIES["clusters/{cluster}"])
_EXTRA: Final = {"topic": "extra"}
_PARTED: Final = {"topic": PARTS}
_OF_EXTRA: Final = {"subscription": "extra"}
_MADE_SUBSCRIPTION: Final = ("PUT", _EXTRA_SUBSCRIPTION, None)
_RATES: Final = {"publishRateInMsgs": -1}
_SPACE: Final = "admin/v2/persistent/own/space"
_OWN: Final[dict[tuple[str, str], tuple[dict[str, str], tuple[str, str, Any] | None]]] = {
    ("POST", "admin/v2/brokers/configuration/{name}/{value}"): ({"value": "0"}, None),
    ("DELETE", "admin/v2/resourcegroups/{group}"): (
        {"group": "gone"},
        ("PUT", "admin/v2/resourcegroups/gone", _RATES),
    ),
    ("POST", f"{_NAMESPACE_PATH}/resourcegroup/{{group}}"): ({}, ("PUT", "admin/v2/resourcegroups/nobody", _RATES)),
    **{
        (method, f"{_NAMESPACE_PATH}/persistence/bookieAffinity"): ({"namespace": "extra"}, _EXTRA_NAMESPACE)
        for method in ("GET", "POST", "DELETE")
    },
    ("PUT", f"{_NAMESPACE_PATH}/{{bundle}}/split"): ({"namespace": "extra"}, _EXTRA_NAMESPACE),
    ("POST", f"{_NAMESPACE_PATH}/{{bundle}}/unsubscribe/{{subscription}}"): (_OF_EXTRA, None),
    ("PUT", f"{_TOPIC_PATH}/shadowTopics"): (_EXTRA, ("PUT", _EXTRA_TOPIC, None)),
    ("POST", "admin/v2/clusters/{cluster}/migrate"): (_SPARE, _MADE_CLUSTER),
    ("PUT", "admin/v2/clusters/{cluster}"): (_SPARE, None),
    ("POST", "admin/v2/clusters/{cluster}"): (_SPARE, _MADE_CLUSTER),
    ("DELETE", "admin/v2/clusters/{cluster}"): (_SPARE, _MADE_CLUSTER),
    ("PUT", "admin/v2/tenants/{tenant}"): ({"tenant": "spare"}, None),
    ("POST", "admin/v2/tenants/{tenant}"): ({}, None),
    ("DELETE", "admin/v2/tenants/{tenant}"): ({"tenant": "spare"}, ("PUT", "admin/v2/tenants/spare", _TENANT)),
    ("PUT", _NAMESPACE_PATH): ({"namespace": "extra"}, None),
    ("DELETE", _NAMESPACE_PATH): ({"namespace": "extra"}, _EXTRA_NAMESPACE),
    ("PUT", _TOPIC_PATH): (_EXTRA, None),
    ("DELETE", _TOPIC_PATH): (_EXTRA, ("PUT", _EXTRA_TOPIC, None)),
    ("PUT", f"{_TOPIC_PATH}/partitions"): ({"topic": "extra-parts"}, None),
    ("POST", f"{_TOPIC_PATH}/partitions"): (_PARTED, None),
    ("DELETE", f"{_TOPIC_PATH}/partitions"): ({"topic": "extra-parts"}, ("PUT", f"{_EXTRA_TOPIC}-parts/partitions", 2)),
    ("POST", f"{_TOPIC_PATH}/terminate"): ({"topic": "ended"}, ("PUT", f"{_SPACE}/ended", None)),
    ("POST", f"{_TOPIC_PATH}/terminate/partitions"): (
        {"topic": "ended-parts"},
        ("PUT", f"{_SPACE}/ended-parts/partitions", 2),
    ),
    ("GET", f"{_TOPIC_PATH}/backlog"): ({"topic": "offline"}, ("PUT", f"{_SPACE}/offline", None)),
    ("GET", f"{_TOPIC_PATH}/partitioned-stats"): (_PARTED, None),
    ("GET", f"{_TOPIC_PATH}/partitioned-internalStats"): (_PARTED, None),
    ("POST", f"{_TOPIC_PATH}/createMissedPartitions"): (_PARTED, None),
    ("PUT", f"{_TOPIC_PATH}/subscription/{{subscription}}"): (_OF_EXTRA, None),
    ("DELETE", f"{_TOPIC_PATH}/subscription/{{subscription}}"): (_OF_EXTRA, _MADE_SUBSCRIPTION),
    ("POST", f"{_NAMESPACE_PATH}/unsubscribe/{{subscription}}"): (_OF_EXTRA, _MADE_SUBSCRIPTION),
    ("DELETE", f"{_NAMESPACE_PATH}/permissions/{{subscription}}/{{role}}"): (
        {},
        ("POST", f"admin/v2/namespaces/own/space/permissions/subscription/{SUBSCRIPTION}", ["consumer", "guest"]),
    ),
    ("DELETE", f"{_TOPIC_PATH}/permissions/{{role}}"): (
        {},
        ("POST", f"{_SPACE}/{TOPIC}/permissions/guest", ["produce"]),
    ),
    ("POST", f"{_NAMESPACE_PATH}/permissions/subscription/{{subscription}}"): ({"subscription": "guests"}, None),
}
"""Other values of named parts, and what the super user does before each call, for calls that delete."""


@dataclass(frozen=True)
class RestCell:
    """One call, for all roles."""

    name: str
    """`METHOD route`."""
    method: str
    path: str
    body: Any
    before: tuple[str, str, Any] | None

    def ask(self, rest: Rest, role: str) -> tuple[int, str]:
        """Status and reason for a role."""
        if self.before is not None:
            rest.must(*self.before, allowed=(200, 204, 409))
        return rest.call(role, self.method, self.path, self.body)


def rest_cells() -> list[RestCell]:
    """The calls of all routes, those of each once; an old path has the rule of the one of today."""
    cells: dict[str, RestCell] = {}
    for route, methods in ROUTES:
        for method in methods if route not in OLD_PATHS else ():
            name = f"{method} /{route}"
            if name not in cells:
                parts, before = _OWN.get((method, route), ({}, None))
                path = route.format(**{**_PARTS, **parts})
                cells[name] = RestCell(name, method, path + _query(method, route), _body(method, route), before)
    return sorted(cells.values(), key=lambda cell: cell.path.endswith("/backlog"))  # which Apache Pulsar suffers from


def _query(method: str, route: str) -> str:
    if route.endswith("/examinemessage"):
        return "?initialPosition=latest&messagePosition=1"
    if route.endswith("/antiAffinity/{group}"):
        return "?tenant=own&property=own"  # the older path has another name for it
    return "?key=k" if method == "DELETE" and route == f"{_TOPIC_PATH}/properties" else ""


def _body(method: str, route: str) -> Any:
    if method not in ("PUT", "POST"):
        return None
    segments = route.split("/")
    ends = ["/".join(segments[-count:]) for count in (3, 2, 1)]
    for end in ends:
        if end in _BODIES:
            return _BODIES[end]
    return None if any(end in _WITHOUT_BODY for end in ends) else 0


def asked(rest: Rest) -> Iterator[tuple[RestCell, str, int, str]]:
    """Yields the answer of every cell, the super user's first of each call's."""
    for cell in rest_cells():
        for role in (ADMIN, *(role for role in ROLES if role != ADMIN)):
            yield (cell, role, *cell.ask(rest, role))
