"""Policies in effect, and the level that each comes from: topic, all clusters' topic, namespace, broker.

Apache Pulsar returns the value in effect policy by policy (`?applied=true`, ADM-67: `policy_routes`), and no level.
These paths are ours: one answer for all policies of a namespace or a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import NAMESPACE_PATH, TOPIC_PATH, reads, routes
from spark_pulsar.admin.http.path_names import topic_name
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.namespace_lifecycle import existing
from spark_pulsar.admin.topics.topic_lifecycle import check_namespace, is_known
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.model.names import PERSISTENT
from spark_pulsar.model.policies.effective_policies import DESTINATION_STORAGE, MESSAGE_AGE, EffectivePolicies
from spark_pulsar.model.policies.policy_table import BACKLOG_QUOTAS, POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.policies.policy_columns import Policy

BROKER: Final = "broker"
NAMESPACE: Final = "namespace"
TOPIC_OF_ALL_CLUSTERS: Final = "topicOfAllClusters"
TOPIC: Final = "topic"
"""Levels; the later ones win."""


def _namespace_policies(core: Core, call: Call) -> object:
    stored = existing(core, call.namespace)
    tenant, _, namespace = call.namespace.partition("/")
    effective = core.policies.of_namespace(topic_name(PERSISTENT, tenant, namespace, "any"))
    return _with_levels(core, {NAMESPACE: stored}, effective)


def _topic_policies(core: Core, call: Call) -> object:
    name = call.topic.base
    check_namespace(core, name)
    if not is_known(core, name):
        raise Refused(404, f"Topic {name} not found")
    levels = {
        NAMESPACE: policy_changes.of_namespace(core, name.namespace_name),
        TOPIC_OF_ALL_CLUSTERS: policy_changes.of_topic(core, name, for_all_clusters=True),
        TOPIC: policy_changes.of_topic(core, name),
    }
    return _with_levels(core, levels, core.policies_of(name))


def _with_levels(core: Core, levels: Mapping[str, Mapping[str, Any]], effective: EffectivePolicies) -> dict[str, Any]:
    """Returns for each policy its value, the level that it comes from, and the values of all levels that have one."""
    return {
        policy.member: _policy(core, policy, levels, effective)
        for policy in POLICIES
        if policy.namespace is not None or TOPIC in levels
    }


def _policy(
    core: Core, policy: Policy, levels: Mapping[str, Mapping[str, Any]], effective: EffectivePolicies
) -> dict[str, Any]:
    by_level: dict[str, Any] = {}
    if policy.defaults:
        by_level[BROKER] = _shown(policy, policy.default(core.config))
    for level, stored in levels.items():
        if stored.get(policy.member) is not None:
            by_level[level] = stored[policy.member]
    last = next(reversed(by_level), BROKER)
    value = _in_effect(policy, effective, by_level.get(last))
    if value != by_level.get(last) and value == by_level.get(BROKER):
        last = BROKER  # the configuration demands it, or the list that is set is empty
    return {"value": value, "level": last, "values": by_level}


def _in_effect(policy: Policy, effective: EffectivePolicies, last: Any) -> Any:
    if policy.member == BACKLOG_QUOTAS:
        return {
            DESTINATION_STORAGE: effective.size_quota.to_json(),
            MESSAGE_AGE: effective.age_quota.to_json(),
        }
    return _shown(policy, getattr(effective, policy.field)) if policy.field else last


def _shown(policy: Policy, value: Any) -> Any:
    """Returns the JSON of a value."""
    value = policy.kind.show(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, dict):
        return {key: _shown_member(member) for key, member in value.items()}
    return _shown_member(value)


def _shown_member(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else value


ROUTES: Final[Routes] = (
    *routes(
        NAMESPACE_PATH, ("GET /appliedPolicies", access.namespace_policy("ALL", "READ"), reads(_namespace_policies))
    ),
    *routes(TOPIC_PATH, ("GET /appliedPolicies", access.topic_policy("ALL", "READ"), reads(_topic_policies))),
)
