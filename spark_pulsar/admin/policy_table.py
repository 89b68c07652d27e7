"""The policies that have an effect: under which member they are kept, how their value is read, and what the two levels
call them (admin-rest.md 1.3.3, 1.9.1). `policies` makes paths of this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.policies import documents as kept
from spark_pulsar.broker.topics.partitions import most
from spark_pulsar.model.auto_creation import AutoTopicCreation, TooManyPartitions
from spark_pulsar.model.dispatch_rates import DispatchRate, SubscribeRate
from spark_pulsar.model.json_values import MalformedPolicy, at_least_zero, members, subscription_types, truth
from spark_pulsar.model.limits import INT, LONG
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

from .answers import Refused

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.turn.config import BrokerConfig

Reader = Callable[[Any], Any]
"""From a body to what is stored and answered; raises what is refused."""


@dataclass(frozen=True, slots=True)
class Level:
    """One policy at one level: name in the path, how a body is read, what unset looks like."""

    name: str
    read: Reader
    verb: str = "POST"
    can_delete: bool = True
    null_removes: bool = False
    """A body of nothing removes what is set."""
    null_keeps: bool = False
    """A body of nothing changes nothing; without either it is a body like any other."""
    unset: Any = None
    """Answered when it is not set; None is nothing at all."""
    unset_status: int = 200
    unset_as: Callable[[BrokerConfig], Any] | None = None
    """What the configuration says instead of `unset`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy: its member in what is stored, and its paths. `applied` is what holds for a topic."""

    member: str
    namespace: Level | None
    topic: Level | None
    applied: Callable[[EffectivePolicies], Any]


def _limit(refusal: str, most: int = INT) -> Reader:
    return lambda body: at_least_zero(body, refusal, most)


def _retention(body: Any) -> Any:
    return RetentionPolicy.from_json(body).to_json()


def _persistence(body: Any) -> Any:
    return PersistencePolicy.from_json(body).to_json()


def _switch(body: Any) -> Any:
    return truth(body, "deduplication")


def _types(body: Any) -> Any:
    subscription_types(body)
    return body


def quotas_from_json(value: Any, namespace: str) -> dict[str, Any]:
    """A whole map of backlog quotas, as it stands in the body that creates a namespace."""
    found = members(value, "backlog_quota_map")
    wrong = set(found) - set(QUOTA_TYPES)
    if wrong:
        raise MalformedPolicy(f"backlog_quota_map: {sorted(wrong)[0]!r} is no type of quota")
    return {kind: BacklogQuota.from_json(quota, namespace).to_json() for kind, quota in found.items()}


def quotas_applied(effective: EffectivePolicies) -> dict[str, Any]:
    """Both quotas of a topic as answered."""
    return {
        DESTINATION_STORAGE: effective.size_quota.to_json(),
        MESSAGE_AGE: effective.age_quota.to_json(),
    }


def _inactive(body: Any) -> Any:
    return InactiveTopicPolicy.from_json(body).to_json()


def _publish_rate(body: Any) -> Any:
    return PublishRate.from_json(body).to_json()


def _dispatch_rate(body: Any) -> Any:
    return DispatchRate.from_json(body).to_json()


def _subscribe_rate(body: Any) -> Any:
    return SubscribeRate.from_json(body).to_json()


def _delayed(body: Any) -> Any:
    return DelayedDeliveryPolicy.from_json(body).to_json()


def _schema_strategy(body: Any) -> Any:
    if not isinstance(body, str) or body not in Compatibility.__members__:
        raise MalformedPolicy(f"schemaCompatibilityStrategy: want one of {', '.join(Compatibility)}, got {body!r}")
    return None if body == Compatibility.UNDEFINED else body


def _schema_auto_update(body: Any) -> Any:
    if not isinstance(body, str) or body not in AUTO_UPDATE_STRATEGIES:
        wanted = ", ".join(AUTO_UPDATE_STRATEGIES)
        raise MalformedPolicy(f"schemaAutoUpdateCompatibilityStrategy: want one of {wanted}, got {body!r}")
    return body


def _auto_topics(body: Any) -> Any:
    return AutoTopicCreation.from_json(body).to_json()


def check_partitions(core: Core, member: str, value: Any) -> None:
    """TooManyPartitions when topics that come into being would have more than this broker lets a topic have (TN-7)."""
    if member == kept.AUTO_TOPIC_CREATION and value.get("defaultNumPartitions", 0) > most(core.config):
        raise TooManyPartitions(most(core.config))


def _auto_subscriptions(body: Any) -> Any:
    allowed = members(body, "autoSubscriptionCreation").get("allowAutoSubscriptionCreation", False)
    return {"allowAutoSubscriptionCreation": truth(allowed, "allowAutoSubscriptionCreation")}


def _limits(
    member: str, name: str, topic_name: str, refusal: str, applied: Callable[[EffectivePolicies], Any] | None = None
) -> Policy:
    """A limit; without `applied`, one of those that Apache Pulsar answers with 204 when a topic has none."""
    return Policy(
        member,
        Level(name, _limit(f"{name} must be 0 or more")),
        Level(topic_name, _limit(refusal), unset_status=200 if applied else 204),
        applied or (lambda effective: None),
    )


POLICIES: Final = (
    Policy(
        kept.RETENTION,
        Level("retention", _retention),
        Level("retention", _retention),
        lambda effective: effective.retention.to_json(),
    ),
    Policy(
        kept.MESSAGE_TTL,
        Level("messageTTL", _limit("Invalid value for message TTL, message TTL must >= 0")),
        None,  # by query: policies._topic_ttl
        lambda effective: effective.message_ttl_s,
    ),
    Policy(
        kept.PERSISTENCE,
        Level("persistence", _persistence),
        Level("persistence", _persistence),
        lambda effective: effective.persistence.to_json(),
    ),
    Policy(
        kept.DEDUPLICATION,
        Level("deduplication", _switch),
        Level("deduplicationEnabled", _switch),
        lambda effective: effective.deduplication,
    ),
    Policy(
        kept.DEDUPLICATION_SNAPSHOT_INTERVAL,
        Level(
            "deduplicationSnapshotInterval",
            _limit("interval must be greater than or equal to 0"),
            can_delete=False,
            null_removes=True,
        ),
        Level("deduplicationSnapshotInterval", _limit("interval must be 0 or more")),
        lambda effective: None,  # as Apache Pulsar answers
    ),
    Policy(
        kept.COMPACTION_THRESHOLD,
        Level("compactionThreshold", _limit("compactionThreshold must be 0 or more", LONG), verb="PUT"),
        Level("compactionThreshold", _limit("Invalid value for compactionThreshold", LONG)),
        lambda effective: effective.compaction_threshold_bytes,
    ),
    Policy(
        kept.SUBSCRIPTION_EXPIRATION,
        Level("subscriptionExpirationTime", _limit("Invalid value for subscription expiration time")),
        None,
        lambda effective: effective.subscription_expiration_minutes,
    ),
    _limits(
        kept.MAX_PRODUCERS,
        "maxProducersPerTopic",
        "maxProducers",
        "maxProducers must be 0 or more",
        lambda effective: effective.max_producers,
    ),
    _limits(
        kept.MAX_CONSUMERS,
        "maxConsumersPerTopic",
        "maxConsumers",
        "maxConsumers must be 0 or more",
        lambda effective: effective.max_consumers,
    ),
    _limits(
        kept.MAX_UNACKED_PER_CONSUMER,
        "maxUnackedMessagesPerConsumer",
        "maxUnackedMessagesOnConsumer",
        "maxUnackedNum must be 0 or more",
        lambda effective: effective.max_unacked_per_consumer,
    ),
    _limits(
        kept.MAX_UNACKED_PER_SUBSCRIPTION,
        "maxUnackedMessagesPerSubscription",
        "maxUnackedMessagesOnSubscription",
        "maxUnackedNum must be 0 or more",
        lambda effective: effective.max_unacked_per_subscription,
    ),
    _limits(
        kept.MAX_CONSUMERS_PER_SUBSCRIPTION,
        "maxConsumersPerSubscription",
        "maxConsumersPerSubscription",
        "Invalid value for maxConsumersPerSubscription",
    ),
    _limits(
        kept.MAX_SUBSCRIPTIONS,
        "maxSubscriptionsPerTopic",
        "maxSubscriptionsPerTopic",
        "maxSubscriptionsPerTopic must be 0 or more",
    ),
    Policy(
        kept.SUBSCRIPTION_TYPES,
        Level("subscriptionTypesEnabled", _types, unset=[]),
        Level("subscriptionTypesEnabled", _types, unset_status=204),
        lambda effective: None,
    ),
    Policy(
        kept.MAX_TOPICS,
        Level("maxTopicsPerNamespace", _limit("maxTopicsPerNamespace must be 0 or more"), unset=0),
        None,
        lambda effective: effective.max_topics,
    ),
    Policy(
        kept.INACTIVE_TOPIC,
        Level("inactiveTopicPolicies", _inactive),
        Level("inactiveTopicPolicies", _inactive),
        lambda effective: effective.inactive_topic.to_json(),
    ),
    Policy(
        kept.PUBLISH_RATE,
        Level("publishRate", _publish_rate, null_removes=True),
        Level("publishRate", _publish_rate, null_keeps=True, unset_status=204),
        lambda effective: None,
    ),
    Policy(
        kept.DISPATCH_RATE,
        Level("dispatchRate", _dispatch_rate, null_removes=True),
        Level("dispatchRate", _dispatch_rate, null_keeps=True),
        lambda effective: (effective.dispatch_rate or DispatchRate()).to_json(),
    ),
    Policy(
        kept.SUBSCRIPTION_DISPATCH_RATE,
        Level("subscriptionDispatchRate", _dispatch_rate, null_removes=True),
        Level("subscriptionDispatchRate", _dispatch_rate, null_keeps=True),
        lambda effective: (effective.subscription_dispatch_rate or DispatchRate()).to_json(),
    ),
    Policy(
        kept.SUBSCRIBE_RATE,
        Level("subscribeRate", _subscribe_rate, null_removes=True),
        Level("subscribeRate", _subscribe_rate, null_keeps=True),
        lambda effective: (effective.subscribe_rate or SubscribeRate()).to_json(),
    ),
    Policy(
        kept.DELAYED_DELIVERY,
        Level("delayedDelivery", _delayed),
        Level("delayedDelivery", _delayed),
        lambda effective: effective.delayed_delivery.to_json(),
    ),
    Policy(
        kept.SCHEMA_COMPATIBILITY,
        Level("schemaCompatibilityStrategy", _schema_strategy, verb="PUT", unset=Compatibility.UNDEFINED),
        Level("schemaCompatibilityStrategy", _schema_strategy, verb="PUT"),
        lambda effective: effective.schema_compatibility,
    ),
    Policy(
        kept.SCHEMA_AUTO_UPDATE,
        Level("schemaAutoUpdateCompatibilityStrategy", _schema_auto_update, verb="PUT", unset_status=204),
        None,
        lambda effective: None,
    ),
    Policy(
        kept.ALLOW_SCHEMA_UPDATES,
        Level(
            "isAllowAutoUpdateSchema",
            lambda body: truth(body, "isAllowAutoUpdateSchema"),
            unset_as=lambda config: config.allow_schema_updates,
        ),
        None,
        lambda effective: None,
    ),
    Policy(
        kept.ENFORCE_SCHEMAS,
        Level("schemaValidationEnforced", lambda body: truth(body, "schemaValidationEnforced"), unset=False),
        Level("schemaValidationEnforced", lambda body: truth(body, "schemaValidationEnforced"), unset=False),
        lambda effective: effective.enforce_schemas,
    ),
    Policy(
        kept.ENCRYPTION_REQUIRED,
        Level("encryptionRequired", lambda body: truth(body, "encryptionRequired"), can_delete=False, unset=False),
        None,
        lambda effective: effective.encryption_required,
    ),
    Policy(kept.AUTO_TOPIC_CREATION, Level("autoTopicCreation", _auto_topics), None, lambda effective: None),
    Policy(
        kept.AUTO_SUBSCRIPTION_CREATION,
        Level("autoSubscriptionCreation", _auto_subscriptions),
        Level("autoSubscriptionCreation", _auto_subscriptions),
        lambda effective: {"allowAutoSubscriptionCreation": effective.allow_auto_subscription_creation},
    ),
)
"""Policies with an effect. Backlog quotas, which are two in one, and the topics' TTL have paths of their own."""

_BY_MEMBER: Final = {policy.member: policy.namespace.read for policy in POLICIES if policy.namespace is not None}


def read_member(member: str, value: Any, namespace: str) -> Any:
    """The value of a member in the body that creates a namespace; None for members that Apache Pulsar does not know
    (T-16: ignored). 501 for those that have no effect here."""
    if member == kept.BACKLOG_QUOTAS:
        return quotas_from_json(value, namespace)
    read = _BY_MEMBER.get(member)
    if read is not None:
        return read(value)
    if member in _NOT_BUILT:
        raise Refused(501, f"The policy {member} is not built in this broker yet")
    return None


_NOT_BUILT: Final = frozenset(
    {
        "offload_deletion_lag_ms",
        "offload_policies",
        "resource_group_name",
        "entryFilters",
    }
)
