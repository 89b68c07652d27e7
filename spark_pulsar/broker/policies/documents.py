"""Policies: where they are kept, and what holds for a topic: its own over its namespace's over the configuration.

A namespace's policies are one JSON object with Apache Pulsar's member names (`retention_policies`,
`message_ttl_in_seconds`, ...); a topic's are another with the same names, kept under the topic's name without
partition. `policy_book` merges and remembers them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import NamespaceSet
from spark_pulsar.ledger.records.documents import (
    CLUSTERS,
    GLOBAL_TOPIC_POLICIES,
    TENANTS,
    TOPIC_POLICIES,
    DocumentSet,
)
from spark_pulsar.model.auto_creation import AutoTopicCreation
from spark_pulsar.model.dispatch_rates import DISPATCH_RATE as RATE_OF_ONE
from spark_pulsar.model.dispatch_rates import DispatchRate, SubscribeRate, rates_by_name
from spark_pulsar.model.json_values import members, number, subscription_types, truth
from spark_pulsar.model.limits import LONG
from spark_pulsar.model.policies import (
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    QUOTA_TYPES,
    BacklogQuota,
    DelayedDeliveryPolicy,
    EffectivePolicies,
    InactiveTopicPolicy,
    PersistencePolicy,
    PublishRate,
    RetentionPolicy,
)
from spark_pulsar.model.schemas import AUTO_UPDATE_STRATEGIES, Compatibility
from spark_pulsar.model.stored_policies import ByName, Readable, Readers, readable

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.config import BrokerConfig
    from spark_pulsar.ledger.records.base import Record
    from spark_pulsar.ledger.state.durable_state import DurableState

RETENTION: Final = "retention_policies"
MESSAGE_TTL: Final = "message_ttl_in_seconds"
BACKLOG_QUOTAS: Final = "backlog_quota_map"
PERSISTENCE: Final = "persistence"
PUBLISH_RATE: Final = "publish_rate"
DISPATCH_RATE: Final = "dispatch_rate"
SUBSCRIPTION_DISPATCH_RATE: Final = "subscription_dispatch_rate"
SUBSCRIPTION_POLICIES: Final = "subscriptionPolicies"
SUBSCRIBE_RATE: Final = "subscribe_rate"
DEDUPLICATION: Final = "deduplicationEnabled"
DEDUPLICATION_SNAPSHOT_INTERVAL: Final = "deduplicationSnapshotIntervalSeconds"
COMPACTION_THRESHOLD: Final = "compaction_threshold"
SUBSCRIPTION_EXPIRATION: Final = "subscription_expiration_time_minutes"
INACTIVE_TOPIC: Final = "inactive_topic_policies"
DELAYED_DELIVERY: Final = "delayed_delivery_policies"
MAX_PRODUCERS: Final = "max_producers_per_topic"
MAX_CONSUMERS: Final = "max_consumers_per_topic"
MAX_CONSUMERS_PER_SUBSCRIPTION: Final = "max_consumers_per_subscription"
MAX_SUBSCRIPTIONS: Final = "max_subscriptions_per_topic"
MAX_UNACKED_PER_CONSUMER: Final = "max_unacked_messages_per_consumer"
MAX_UNACKED_PER_SUBSCRIPTION: Final = "max_unacked_messages_per_subscription"
SUBSCRIPTION_TYPES: Final = "subscription_types_enabled"
MAX_TOPICS: Final = "max_topics_per_namespace"
AUTO_TOPIC_CREATION: Final = "autoTopicCreationOverride"
SCHEMA_COMPATIBILITY: Final = "schema_compatibility_strategy"
SCHEMA_AUTO_UPDATE: Final = "schema_auto_update_compatibility_strategy"
ALLOW_SCHEMA_UPDATES: Final = "is_allow_auto_update_schema"
ENFORCE_SCHEMAS: Final = "schema_validation_enforced"
AUTO_SUBSCRIPTION_CREATION: Final = "autoSubscriptionCreationOverride"
ENCRYPTION_REQUIRED: Final = "encryption_required"


def merged(levels: list[dict[str, Any]]) -> dict[str, Any]:
    """One set of policies out of several, the later ones win; backlog quotas are merged by their type, policies of
    subscriptions by their names."""
    total: dict[str, Any] = {}
    for level in levels:
        parts = {
            member: {**total.get(member, {}), **level.get(member, {})}
            for member in (BACKLOG_QUOTAS, SUBSCRIPTION_POLICIES)
        }
        total = {**total, **level, **parts}
    return total


_READERS: Final[Readers] = {
    RETENTION: RetentionPolicy.from_json,
    MESSAGE_TTL: partial(number, what=MESSAGE_TTL),
    BACKLOG_QUOTAS: dict.fromkeys(QUOTA_TYPES, partial(BacklogQuota.from_json, namespace="")),
    PERSISTENCE: PersistencePolicy.from_json,
    PUBLISH_RATE: PublishRate.from_json,
    DISPATCH_RATE: DispatchRate.from_json,
    SUBSCRIPTION_DISPATCH_RATE: DispatchRate.from_json,
    SUBSCRIPTION_POLICIES: ByName({RATE_OF_ONE: DispatchRate.from_json}),
    SUBSCRIBE_RATE: SubscribeRate.from_json,
    DEDUPLICATION: partial(truth, what=DEDUPLICATION),
    DEDUPLICATION_SNAPSHOT_INTERVAL: partial(number, what=DEDUPLICATION_SNAPSHOT_INTERVAL),
    COMPACTION_THRESHOLD: partial(number, what=COMPACTION_THRESHOLD, most=LONG),
    SUBSCRIPTION_EXPIRATION: partial(number, what=SUBSCRIPTION_EXPIRATION),
    INACTIVE_TOPIC: InactiveTopicPolicy.from_json,
    DELAYED_DELIVERY: DelayedDeliveryPolicy.from_json,
    **{
        member: partial(number, what=member)
        for member in (
            *(MAX_PRODUCERS, MAX_CONSUMERS, MAX_CONSUMERS_PER_SUBSCRIPTION, MAX_SUBSCRIPTIONS),
            *(MAX_UNACKED_PER_CONSUMER, MAX_UNACKED_PER_SUBSCRIPTION, MAX_TOPICS),
        )
    },
    "properties": partial(members, what="properties"),
    "auth_policies": partial(members, what="auth_policies"),
    SUBSCRIPTION_TYPES: subscription_types,
    AUTO_TOPIC_CREATION: AutoTopicCreation.from_json,
    SCHEMA_COMPATIBILITY: Compatibility,
    SCHEMA_AUTO_UPDATE: AUTO_UPDATE_STRATEGIES.__getitem__,
    ALLOW_SCHEMA_UPDATES: partial(truth, what=ALLOW_SCHEMA_UPDATES),
    ENFORCE_SCHEMAS: partial(truth, what=ENFORCE_SCHEMAS),
    ENCRYPTION_REQUIRED: partial(truth, what=ENCRYPTION_REQUIRED),
    AUTO_SUBSCRIPTION_CREATION: lambda override: truth(
        members(override, AUTO_SUBSCRIPTION_CREATION)["allowAutoSubscriptionCreation"], AUTO_SUBSCRIPTION_CREATION
    ),
}
"""How each policy is read."""


def stored(text: str) -> Readable:
    """What was set for a namespace or a topic, as far as it can be read."""
    return readable(json.loads(text), _READERS)


def notes(state: DurableState) -> Iterator[str]:
    """What an older version stored and this one reads otherwise, a line each."""
    read = cache(stored)  # thousands of topics have the same policies
    for documents in (state.namespaces, state.documents[GLOBAL_TOPIC_POLICIES], state.documents[TOPIC_POLICIES]):
        for name, text in documents.items():
            yield from (f"{name}: {note}" for note in read(text).notes)


def effective(policies: Mapping[str, Any], config: BrokerConfig) -> EffectivePolicies:
    """The values of merged policies that can be read, with the configuration's where there is none."""
    quotas = policies.get(BACKLOG_QUOTAS, {})
    default_quota = BacklogQuota(config.default_quota_bytes, config.default_quota_time_s, config.default_quota_policy)

    def quota(kind: str) -> BacklogQuota:
        value = quotas.get(kind)
        return default_quota if value is None else BacklogQuota.from_json(value, "")

    def value(member: str, default: Any) -> Any:
        found = policies.get(member)
        return default if found is None else _READERS[member](found)  # type: ignore[operator]

    default_retention = RetentionPolicy(config.default_retention_size_mb, config.default_retention_time_minutes)
    default_rate = PublishRate(config.max_publish_rate_messages, config.max_publish_rate_bytes)
    default_inactive = InactiveTopicPolicy(
        config.delete_inactive_topics,
        config.inactive_max_s or config.inactive_check_interval_ms // 1000,
        config.inactive_mode,
    )
    default_delayed = DelayedDeliveryPolicy(config.delayed_delivery, config.delayed_tick_ms, config.max_delay_ms)
    default_partitions = config.default_num_partitions if config.auto_topic_creation_partitioned else 0
    creation = value(AUTO_TOPIC_CREATION, AutoTopicCreation(config.allow_auto_topic_creation, default_partitions))
    return EffectivePolicies(
        retention=value(RETENTION, default_retention),
        message_ttl_s=value(MESSAGE_TTL, config.default_message_ttl_s),
        size_quota=quota(DESTINATION_STORAGE),
        age_quota=quota(MESSAGE_AGE),
        persistence=value(PERSISTENCE, PersistencePolicy()),
        publish_rate=value(PUBLISH_RATE, default_rate),
        dispatch_rate=value(
            DISPATCH_RATE, DispatchRate(config.topic_dispatch_rate_messages, config.topic_dispatch_rate_bytes)
        ),
        subscription_dispatch_rate=value(
            SUBSCRIPTION_DISPATCH_RATE,
            DispatchRate(config.subscription_dispatch_rate_messages, config.subscription_dispatch_rate_bytes),
        ),
        dispatch_rates_by_name=rates_by_name(policies.get(SUBSCRIPTION_POLICIES) or {}),
        subscribe_rate=value(SUBSCRIBE_RATE, SubscribeRate(config.subscribe_rate, config.subscribe_rate_period_s)),
        deduplication=value(DEDUPLICATION, config.deduplication),
        deduplication_snapshot_interval_s=value(
            DEDUPLICATION_SNAPSHOT_INTERVAL, config.deduplication_snapshot_interval_s
        ),
        compaction_threshold_bytes=value(COMPACTION_THRESHOLD, config.compaction_threshold_bytes),
        subscription_expiration_minutes=value(SUBSCRIPTION_EXPIRATION, config.subscription_expiration_minutes),
        inactive_topic=value(INACTIVE_TOPIC, default_inactive),
        delayed_delivery=value(DELAYED_DELIVERY, default_delayed),
        max_producers=value(MAX_PRODUCERS, config.max_producers_per_topic),
        max_consumers=value(MAX_CONSUMERS, config.max_consumers_per_topic),
        max_consumers_per_subscription=value(MAX_CONSUMERS_PER_SUBSCRIPTION, config.max_consumers_per_subscription),
        max_subscriptions=value(MAX_SUBSCRIPTIONS, config.max_subscriptions_per_topic),
        max_unacked_per_consumer=value(MAX_UNACKED_PER_CONSUMER, config.max_unacked_per_consumer),
        max_unacked_per_subscription=value(MAX_UNACKED_PER_SUBSCRIPTION, config.max_unacked_per_subscription),
        subscription_types=value(SUBSCRIPTION_TYPES, config.subscription_types) or config.subscription_types,
        max_topics=value(MAX_TOPICS, config.max_topics_per_namespace),
        allow_auto_topic_creation=creation.allowed,
        auto_topic_partitions=creation.partitions,
        schema_compatibility=value(
            SCHEMA_COMPATIBILITY, value(SCHEMA_AUTO_UPDATE, Compatibility(config.schema_compatibility))
        ),
        allow_schema_updates=value(ALLOW_SCHEMA_UPDATES, config.allow_schema_updates),
        enforce_schemas=config.enforce_schemas or value(ENFORCE_SCHEMAS, False),
        allow_auto_subscription_creation=value(AUTO_SUBSCRIPTION_CREATION, config.allow_auto_subscription_creation),
        encryption_required=value(ENCRYPTION_REQUIRED, False),
    )


# ---- what is set ------------------------------------------------------------------------------------------------


# ---- the beginning ----------------------------------------------------------------------------------------------


def records_of_a_new_broker(state: DurableState, config: BrokerConfig) -> list[Record]:
    """What a broker makes when it starts and it is not there: its cluster, the tenants and namespaces that exist from
    the start (B-1)."""
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
