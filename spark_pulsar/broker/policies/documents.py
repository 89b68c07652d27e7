"""Documents of policies as they are stored, and the values that hold when several are merged.

A namespace's policies are one JSON object with Apache Pulsar's members (`retention_policies`,
`message_ttl_in_seconds`, ...); a topic's are another with the same members, stored under the topic's name without
partition. `inheritance` remembers them merged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.state.documents import (
    CLUSTERS,
    GLOBAL_TOPIC_POLICIES,
    TENANTS,
    TOPIC_POLICIES,
    DocumentSet,
    NamespaceSet,
)
from spark_pulsar.model.policies.effective_policies import DESTINATION_STORAGE, MESSAGE_AGE, EffectivePolicies
from spark_pulsar.model.policies.json_values import members
from spark_pulsar.model.policies.permissions import AUTH_POLICIES, SUBSCRIPTION_AUTH_MODE, Permissions, auth_mode
from spark_pulsar.model.policies.policies_without_effect import OFFLOAD_POLICIES
from spark_pulsar.model.policies.policy_table import (
    BACKLOG_QUOTAS,
    BY_MEMBER,
    POLICIES,
    SCHEMA_AUTO_UPDATE,
    SCHEMA_COMPATIBILITY,
    SUBSCRIPTION_POLICIES,
)
from spark_pulsar.model.policies.resource_groups import RESOURCE_GROUP, ResourceGroup
from spark_pulsar.model.policies.stored_policies import Readable, readable
from spark_pulsar.model.schemas import AUTO_UPDATE_STRATEGIES

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.ledger.records import Record
    from spark_pulsar.ledger.state.durable_state import DurableState

_READERS: Final = {
    **{policy.member: policy.kind.parts or policy.kind.read for policy in POLICIES},
    "properties": partial(members, what="properties"),
    RESOURCE_GROUP: ResourceGroup.check_name,
    AUTH_POLICIES: Permissions.from_json,
    SUBSCRIPTION_AUTH_MODE: auth_mode,
}


MERGED: Final = (BACKLOG_QUOTAS, SUBSCRIPTION_POLICIES, OFFLOAD_POLICIES)
"""Policies of which each level may set a part."""


def merged(levels: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges policies of several levels, of which the later ones win; backlog quotas are merged by their type,
    policies of subscriptions by their names, offload policies by their members."""
    total: dict[str, Any] = {}
    for level in levels:
        parts = {member: {**total.get(member, {}), **level.get(member, {})} for member in MERGED}
        total = {**total, **level, **parts}
    return total


def stored(text: str) -> Readable:
    """Reads the document of a namespace or a topic; a member that cannot be read is left out."""
    return readable(json.loads(text), _READERS)


def notes(state: DurableState) -> Iterator[str]:
    """Yields a line for each member that an older version stored and this one reads otherwise."""
    read = cache(stored)  # thousands of topics have the same policies
    for documents in (state.namespaces, state.documents[GLOBAL_TOPIC_POLICIES], state.documents[TOPIC_POLICIES]):
        for name, text in documents.items():
            yield from (f"{name}: {note}" for note in read(text).notes)


def effective(policies: Mapping[str, Any], config: BrokerConfig) -> EffectivePolicies:
    """Returns the values of merged policies that can be read, and the configuration's for policies that are not set."""
    old_strategy = policies.get(SCHEMA_AUTO_UPDATE)
    if old_strategy is not None and policies.get(SCHEMA_COMPATIBILITY) is None:
        policies = {**policies, SCHEMA_COMPATIBILITY: AUTO_UPDATE_STRATEGIES[old_strategy]}
    values: dict[str, Any] = {policy.field: policy.value(policies, config) for policy in POLICIES if policy.field}
    values["subscription_types"] = values["subscription_types"] or config.subscription_types
    values["resource_group"] = policies.get(RESOURCE_GROUP) or ""
    values["enforce_schemas"] = values["enforce_schemas"] or config.enforce_schemas
    quotas = BY_MEMBER[BACKLOG_QUOTAS]
    by_type, default = quotas.kind.read(policies.get(BACKLOG_QUOTAS, {})), quotas.default(config)
    return EffectivePolicies(
        size_quota=by_type.get(DESTINATION_STORAGE, default), age_quota=by_type.get(MESSAGE_AGE, default), **values
    )


def records_of_a_new_broker(state: DurableState, config: BrokerConfig) -> list[Record]:
    """Returns the records of the cluster, tenants and namespaces that a broker starts with, unless they exist (B-1)."""
    records: list[Record] = []
    if not state.documents[CLUSTERS]:
        records.append(DocumentSet(CLUSTERS, config.cluster_name, "{}"))
    wanted = [] if state.documents[TENANTS] else ["public", "pulsar"]
    for namespace in config.namespaces:
        if namespace not in state.namespaces:
            records.append(NamespaceSet(namespace, "{}"))
            wanted.append(namespace.partition("/")[0])
    for tenant in dict.fromkeys(wanted):
        if tenant not in state.documents[TENANTS]:
            text = json.dumps({"adminRoles": [], "allowedClusters": [config.cluster_name]})
            records.append(DocumentSet(TENANTS, tenant, text))
    return records
