"""The table of policies: one row each, with the member it is stored under, its type, its REST paths, its commands, its
meaning and its default (ADM-66, ADM-67).

`broker.policies.documents` reads stored policies with it, `admin.policies` makes REST paths of it, `cli.admin_policies`
commands, and `make tables` writes it into the docs. A new policy is a row here, a field of `EffectivePolicies`, and its
effect in the broker. Policies that have none here, entry filters too, are in `policies_without_effect` (ADM-50,
ADM-54). The two rows whose type has no `store` hold several values each: REST and commands treat them by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from spark_pulsar.model.limits import LONG
from spark_pulsar.model.schemas import AUTO_UPDATE_STRATEGIES, Compatibility

from .effective_policies import (
    INACTIVE_MODES,
    QUOTA_POLICIES,
    QUOTA_TYPES,
    RATE_OF_ONE,
    AutoTopicCreation,
    BacklogQuota,
    DelayedDeliveryPolicy,
    DispatchRate,
    InactiveTopicPolicy,
    PersistencePolicy,
    PublishRate,
    RetentionPolicy,
    SubscribeRate,
    rates_by_name,
)
from .json_values import MalformedPolicy, at_least_zero, members, number, subscription_types, truth
from .policies_without_effect import ROWS
from .policy_columns import Kind, Level, Null, Option, Policy, Written
from .policy_kinds import SWITCH, count_kind, dispatch_rate_policy, object_kind, rate_option, switch_kind
from .stored_policies import ByName

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
AUTO_SUBSCRIPTION_CREATION: Final = "autoSubscriptionCreationOverride"
SCHEMA_COMPATIBILITY: Final = "schema_compatibility_strategy"
SCHEMA_AUTO_UPDATE: Final = "schema_auto_update_compatibility_strategy"
ALLOW_SCHEMA_UPDATES: Final = "is_allow_auto_update_schema"
ENFORCE_SCHEMAS: Final = "schema_validation_enforced"
ENCRYPTION_REQUIRED: Final = "encryption_required"
MAX_MESSAGE_SIZE: Final = "maxMessageSize"


# ---- types ------------------------------------------------------------------------------------------------------


_TOO_LARGE: Final = (
    "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the broker-level"
)


def _store_message_size(body: Any, level: Level) -> Any:
    return 0 if body is None else at_least_zero(body, level.refusal)


def _store_types(body: Any, _level: Level) -> Any:
    subscription_types(body)
    return body


def _store_strategy(body: Any, level: Level) -> Any:
    if not isinstance(body, str) or body not in Compatibility.__members__:
        raise MalformedPolicy(f"{level.path}: want one of {', '.join(Compatibility)}, got {body!r}")
    return None if body == Compatibility.UNDEFINED else body


def _store_old_strategy(body: Any, level: Level) -> Any:
    if not isinstance(body, str) or body not in AUTO_UPDATE_STRATEGIES:
        raise MalformedPolicy(f"{level.path}: want one of {', '.join(AUTO_UPDATE_STRATEGIES)}, got {body!r}")
    return body


_ALLOW_SUBSCRIPTIONS: Final = "allowAutoSubscriptionCreation"


def _read_auto_subscriptions(stored: Any) -> bool:
    return truth(members(stored, AUTO_SUBSCRIPTION_CREATION)[_ALLOW_SUBSCRIPTIONS], AUTO_SUBSCRIPTION_CREATION)


def _store_auto_subscriptions(body: Any, level: Level) -> Any:
    allowed = members(body, level.path).get(_ALLOW_SUBSCRIPTIONS, False)
    return {_ALLOW_SUBSCRIPTIONS: truth(allowed, _ALLOW_SUBSCRIPTIONS)}


def _default_inactive(deletes: bool, max_s: int, mode: str, check_interval_ms: int) -> InactiveTopicPolicy:
    return InactiveTopicPolicy(deletes, max_s or check_interval_ms // 1000, mode)


def _default_creation(is_allowed: bool, is_partitioned: bool, partitions: int) -> AutoTopicCreation:
    return AutoTopicCreation(is_allowed, partitions if is_partitioned else 0)


def _limit(
    member: str,
    policy_name: str,
    effective: str,
    default: str,
    meaning: str,
    namespace: tuple[str, str],
    topic: Level | None,
) -> Policy:
    """A limit; `namespace` is its path and the names of its option there."""
    path, names = namespace
    return Policy(
        member,
        count_kind(member),
        f"{meaning}; 0 is no limit.",
        Level(path, unset=0 if topic is None else None),
        topic,
        policy_name=policy_name,
        field=effective,
        word=member.replace("_", "-"),
        options=(Option("", names, help="0 is no limit."),),
        help="Set {path}; 0 is no limit.",
        defaults=(default,),
    )


# ---- the rows ---------------------------------------------------------------------------------------------------


POLICIES: Final = (
    Policy(
        RETENTION,
        object_kind(RetentionPolicy),
        "the retention of acknowledged messages by size and time. Both limits or none may be 0.",
        Level("retention"),
        Level("retention"),
        policy_name="RETENTION",
        field="retention",
        word="retention",
        options=(
            Option(
                "retentionSizeInMB",
                "--size -s",
                Written.MIB,
                "Size limit: 10M, 16G, 1T; -1 is no limit, 0 keeps nothing.",
            ),
            Option(
                "retentionTimeInMinutes",
                "--time -t",
                Written.MINUTES,
                "Time limit: 100m, 3h, 2d; -1 is no limit, 0 keeps nothing.",
            ),
        ),
        defaults=("default_retention_size_mb", "default_retention_time_minutes"),
    ),
    Policy(
        MESSAGE_TTL,
        count_kind(MESSAGE_TTL),
        "the time after which a message counts as acknowledged; 0 is never.",
        Level("messageTTL", "Invalid value for message TTL, message TTL must >= 0"),
        Level(
            "messageTTL", "Invalid value for message TTL", parameter="messageTTL", null=Null.REMOVES, names="--ttl -t"
        ),
        policy_name="TTL",
        field="message_ttl_s",
        word="message-ttl",
        options=(Option("", "--messageTTL -ttl", Written.SECONDS, "120, 2m, 1h."),),
        defaults=("default_message_ttl_s",),
    ),
    Policy(
        BACKLOG_QUOTAS,
        Kind(
            "object by type of quota",
            lambda quotas: {
                kind: BacklogQuota.from_json(quotas[kind], "") for kind in QUOTA_TYPES if quotas.get(kind) is not None
            },
            parts=dict.fromkeys(QUOTA_TYPES, partial(BacklogQuota.from_json, namespace="")),
            make=BacklogQuota,
        ),
        "the limits of a backlog by size and age, and the effect of reaching them.",
        Level("backlogQuota"),
        Level("backlogQuota"),
        policy_name="BACKLOG",
        word="backlog-quota",
        options=(
            Option("policy", "--policy -p", Written.TEXT, f"{', '.join(QUOTA_POLICIES)}."),
            Option("limitSize", "--limit -l", Written.BYTES, "Size of a backlog: 10M, 16G; -1 is no limit.", "-1"),
            Option(
                "limitTime", "--limitTime -lt", Written.SECONDS, "Age of a backlog: 3600, 1h; -1 is no limit.", "-1"
            ),
        ),
        defaults=("default_quota_bytes", "default_quota_time_s", "default_quota_policy"),
    ),
    Policy(
        PERSISTENCE,
        object_kind(PersistencePolicy),
        "the numbers of bookies that Apache Pulsar uses; this broker keeps the numbers and uses its one disk.",
        Level("persistence"),
        Level("persistence"),
        policy_name="PERSISTENCE",
        field="persistence",
        word="persistence",
        options=(
            Option("bookkeeperEnsemble", "--bookkeeper-ensemble -e", default=2),
            Option("bookkeeperWriteQuorum", "--bookkeeper-write-quorum -w", default=2),
            Option("bookkeeperAckQuorum", "--bookkeeper-ack-quorum -a", default=2),
            Option("managedLedgerMaxMarkDeleteRate", "--ml-mark-delete-max-rate -r", Written.FRACTION, default=0.0),
        ),
        without_effect="every message is stored once, on the broker's disk",
    ),
    Policy(
        DEDUPLICATION,
        switch_kind(DEDUPLICATION),
        "whether the broker stores a message once that its producer sends again.",
        Level("deduplication"),
        Level("deduplicationEnabled", "deduplication"),
        policy_name="DEDUPLICATION",
        field="deduplication",
        word="deduplication",
        options=(SWITCH,),
        help="Turn de-duplication on or off.",
        defaults=("deduplication",),
    ),
    Policy(
        DEDUPLICATION_SNAPSHOT_INTERVAL,
        count_kind(DEDUPLICATION_SNAPSHOT_INTERVAL),
        "the interval at which Apache Pulsar stores sequence ids; this broker stores them with their messages.",
        Level(
            "deduplicationSnapshotInterval",
            "interval must be greater than or equal to 0",
            can_delete=False,
            null=Null.REMOVES,
        ),
        Level("deduplicationSnapshotInterval", "interval must be 0 or more", applied=False),
        policy_name="DEDUPLICATION_SNAPSHOT",
        word="deduplication-snapshot-interval",
        options=(Option("", "--interval -i", help="Seconds."),),
        without_effect="sequence ids are stored with their messages",
    ),
    Policy(
        COMPACTION_THRESHOLD,
        count_kind(COMPACTION_THRESHOLD, LONG),
        "the size of a topic's uncompacted part at which the broker compacts it.",
        Level("compactionThreshold", method="PUT"),
        Level("compactionThreshold", "Invalid value for compactionThreshold"),
        policy_name="COMPACTION",
        field="compaction_threshold_bytes",
        word="compaction-threshold",
        options=(Option("", "--threshold -t", Written.BYTES, "Size: 100M; 0 is never."),),
        defaults=("compaction_threshold_bytes",),
    ),
    Policy(
        SUBSCRIPTION_EXPIRATION,
        count_kind(SUBSCRIPTION_EXPIRATION),
        "the minutes after which the broker deletes a subscription without consumers.",
        Level("subscriptionExpirationTime", "Invalid value for subscription expiration time"),
        None,
        policy_name="SUBSCRIPTION_EXPIRATION_TIME",
        field="subscription_expiration_minutes",
        word="subscription-expiration-time",
        options=(Option("", "--time -t", help="Minutes; 0 is never."),),
        defaults=("subscription_expiration_minutes",),
    ),
    _limit(
        MAX_PRODUCERS,
        "MAX_PRODUCERS",
        "max_producers",
        "max_producers_per_topic",
        "the maximum number of producers of a topic",
        ("maxProducersPerTopic", "--max-producers-per-topic -p"),
        Level("maxProducers", word="max-producers", names="--max-producers -p"),
    ),
    _limit(
        MAX_CONSUMERS,
        "MAX_CONSUMERS",
        "max_consumers",
        "max_consumers_per_topic",
        "the maximum number of consumers of a topic",
        ("maxConsumersPerTopic", "--max-consumers-per-topic -c"),
        Level("maxConsumers", word="max-consumers", names="--max-consumers -c"),
    ),
    _limit(
        MAX_CONSUMERS_PER_SUBSCRIPTION,
        "MAX_CONSUMERS",
        "max_consumers_per_subscription",
        "max_consumers_per_subscription",
        "the maximum number of consumers of a subscription",
        ("maxConsumersPerSubscription", "--max-consumers-per-subscription -c"),
        Level(
            "maxConsumersPerSubscription",
            "Invalid value for maxConsumersPerSubscription",
            unset_status=204,
            applied=False,
        ),
    ),
    _limit(
        MAX_SUBSCRIPTIONS,
        "MAX_SUBSCRIPTIONS",
        "max_subscriptions",
        "max_subscriptions_per_topic",
        "the maximum number of subscriptions of a topic",
        ("maxSubscriptionsPerTopic", "--max-subscriptions-per-topic -m"),
        Level("maxSubscriptionsPerTopic", unset_status=204, applied=False, names="--max-subscriptions-per-topic -s"),
    ),
    _limit(
        MAX_UNACKED_PER_CONSUMER,
        "MAX_UNACKED",
        "max_unacked_per_consumer",
        "max_unacked_per_consumer",
        "the maximum number of unacknowledged messages of a consumer of a Shared subscription",
        ("maxUnackedMessagesPerConsumer", "--max-unacked-messages-per-topic -c"),
        Level("maxUnackedMessagesOnConsumer", "maxUnackedNum must be 0 or more", names="--maxNum -m"),
    ),
    _limit(
        MAX_UNACKED_PER_SUBSCRIPTION,
        "MAX_UNACKED",
        "max_unacked_per_subscription",
        "max_unacked_per_subscription",
        "the maximum number of unacknowledged messages of a Shared subscription",
        ("maxUnackedMessagesPerSubscription", "--max-unacked-messages-per-subscription -c"),
        Level("maxUnackedMessagesOnSubscription", "maxUnackedNum must be 0 or more", names="--maxNum -m"),
    ),
    _limit(
        MAX_TOPICS,
        "MAX_TOPICS",
        "max_topics",
        "max_topics_per_namespace",
        "the maximum number of topics and partitions of a namespace",
        ("maxTopicsPerNamespace", "--max-topics-per-namespace -t"),
        None,
    ),
    Policy(
        MAX_MESSAGE_SIZE,
        Kind("number", partial(number, what=MAX_MESSAGE_SIZE), _store_message_size, make=int),
        "the maximum size of an entry, a message or a batch; 0 is the broker's maximum.",
        None,
        Level("maxMessageSize", _TOO_LARGE, unset_status=204, applied=False),
        policy_name="MAX_MESSAGE_SIZE",
        field="max_message_size_bytes",
        word="max-message-size",
        options=(Option("", "--max-message-size -m", help="Bytes; 0 is what the broker allows."),),
    ),
    Policy(
        SUBSCRIPTION_TYPES,
        Kind("list of types", subscription_types, _store_types),
        "the types of subscriptions that consumers may use.",
        Level("subscriptionTypesEnabled", unset=[]),
        Level("subscriptionTypesEnabled", unset_status=204, applied=False),
        policy_name="SUBSCRIPTION_AUTH_MODE",
        field="subscription_types",
        word="subscription-types-enabled",
        options=(Option("", "--types -t", Written.WORDS, "Exclusive, Shared, Failover, Key_Shared, by commas."),),
        defaults=("subscription_types",),
    ),
    Policy(
        INACTIVE_TOPIC,
        object_kind(InactiveTopicPolicy, _default_inactive),
        "the time after which, and the mode in which, the broker deletes a topic without producers and consumers.",
        Level("inactiveTopicPolicies"),
        Level("inactiveTopicPolicies"),
        policy_name="INACTIVE_TOPIC",
        field="inactive_topic",
        word="inactive-topic-policies",
        options=(
            Option("maxInactiveDurationSeconds", "--max-inactive-duration -t", Written.SECONDS, "60s, 1h."),
            Option("inactiveTopicDeleteMode", "--delete-mode -m", Written.TEXT, f"{' or '.join(INACTIVE_MODES)}."),
            Option(
                "deleteWhileInactive", "--enable-delete-while-inactive --disable-delete-while-inactive", Written.SWITCH
            ),
        ),
        defaults=("delete_inactive_topics", "inactive_max_s", "inactive_mode", "inactive_check_interval_ms"),
    ),
    Policy(
        DELAYED_DELIVERY,
        object_kind(DelayedDeliveryPolicy),
        "whether messages wait for the time that their producers gave them.",
        Level("delayedDelivery"),
        Level("delayedDelivery"),
        policy_name="DELAYED_DELIVERY",
        field="delayed_delivery",
        word="delayed-delivery",
        options=(
            Option("tickTime", "--time -t", Written.MILLISECONDS, "Tick: 1s. Kept, and without effect.", "1s"),
            Option(
                "maxDeliveryDelayInMillis", "--max-delay --maxDelay", Written.MILLISECONDS, "1h; 0s is no limit.", "0s"
            ),
            SWITCH._replace(member="active"),
        ),
        defaults=("delayed_delivery", "delayed_tick_ms", "max_delay_ms"),
    ),
    Policy(
        PUBLISH_RATE,
        object_kind(PublishRate),
        "the maximum rate of publishing to a topic.",
        Level("publishRate", null=Null.REMOVES),
        Level("publishRate", null=Null.KEEPS, unset_status=204, applied=False),
        policy_name="RATE",
        field="publish_rate",
        word="publish-rate",
        options=(
            rate_option("publishThrottlingRateInMsg", "--msg-publish-rate -m", "Messages a second"),
            rate_option("publishThrottlingRateInByte", "--byte-publish-rate -b", "Bytes a second"),
        ),
        defaults=("max_publish_rate_messages", "max_publish_rate_bytes"),
    ),
    dispatch_rate_policy(
        DISPATCH_RATE,
        "dispatch_rate",
        "the maximum rate of dispatching to the consumers of a topic.",
        "dispatchRate",
        "dispatch-rate",
        ("topic_dispatch_rate_messages", "topic_dispatch_rate_bytes"),
    ),
    dispatch_rate_policy(
        SUBSCRIPTION_DISPATCH_RATE,
        "subscription_dispatch_rate",
        "the maximum rate of dispatching to each subscription.",
        "subscriptionDispatchRate",
        "subscription-dispatch-rate",
        ("subscription_dispatch_rate_messages", "subscription_dispatch_rate_bytes"),
    ),
    Policy(
        SUBSCRIPTION_POLICIES,
        Kind("object by subscription", rates_by_name, parts=ByName({RATE_OF_ONE: DispatchRate.from_json}), make=dict),
        "the maximum rate of dispatching to one subscription: `--subscription` of the command above.",
        None,
        Level("{subscription}/dispatchRate", null=Null.KEEPS),
        policy_name="RATE",
        field="dispatch_rates_by_name",
    ),
    Policy(
        SUBSCRIBE_RATE,
        object_kind(SubscribeRate),
        "the maximum rate at which one consumer may subscribe to a topic.",
        Level("subscribeRate", null=Null.REMOVES),
        Level("subscribeRate", null=Null.KEEPS),
        policy_name="RATE",
        field="subscribe_rate",
        word="subscribe-rate",
        options=(
            rate_option("subscribeThrottlingRatePerConsumer", "--subscribe-rate -sr", "Times in a period"),
            Option("ratePeriodInSecond", "--subscribe-rate-period -st", help="The period in seconds.", default=30),
        ),
        defaults=("subscribe_rate", "subscribe_rate_period_s"),
    ),
    Policy(
        AUTO_TOPIC_CREATION,
        object_kind(AutoTopicCreation, _default_creation),
        "whether using a topic creates it, and its number of partitions.",
        Level("autoTopicCreation"),
        None,
        policy_name="AUTO_TOPIC_CREATION",
        field="auto_topic_creation",
        word="auto-topic-creation",
        options=(
            SWITCH._replace(member="allowAutoTopicCreation"),
            Option("topicType", "--type -t", Written.TEXT, "partitioned or non-partitioned.", None),
            Option("defaultNumPartitions", "--num-partitions -n", default=None),
        ),
        defaults=("allow_auto_topic_creation", "auto_topic_creation_partitioned", "default_num_partitions"),
    ),
    Policy(
        AUTO_SUBSCRIPTION_CREATION,
        Kind(
            "object",
            _read_auto_subscriptions,
            _store_auto_subscriptions,
            lambda is_allowed: {_ALLOW_SUBSCRIPTIONS: is_allowed},
        ),
        "whether subscribing creates a subscription; without --enable it does not.",
        Level("autoSubscriptionCreation"),
        Level("autoSubscriptionCreation"),
        policy_name="AUTO_SUBSCRIPTION_CREATION",
        field="allow_auto_subscription_creation",
        word="auto-subscription-creation",
        options=(Option(_ALLOW_SUBSCRIPTIONS, "--enable -e", Written.FLAG, default=False),),
        defaults=("allow_auto_subscription_creation",),
    ),
    Policy(
        SCHEMA_COMPATIBILITY,
        Kind("strategy", Compatibility, _store_strategy, make=Compatibility),
        "the compatibility of new schemas with those of a topic.",
        Level("schemaCompatibilityStrategy", method="PUT", unset=Compatibility.UNDEFINED),
        Level("schemaCompatibilityStrategy", method="PUT", names="--strategy -s"),
        policy_name="SCHEMA_COMPATIBILITY_STRATEGY",
        field="schema_compatibility",
        word="schema-compatibility-strategy",
        options=(Option("", "--compatibility -c", Written.UPPER_CASE, f"One of {', '.join(Compatibility)}."),),
        defaults=("schema_compatibility",),
    ),
    Policy(
        SCHEMA_AUTO_UPDATE,
        Kind("old name of a strategy", AUTO_UPDATE_STRATEGIES.__getitem__, _store_old_strategy),
        "the strategy under its old name; that of set-schema-compatibility-strategy takes precedence.",
        Level("schemaAutoUpdateCompatibilityStrategy", method="PUT", unset_status=204),
        None,
        policy_name="SCHEMA_COMPATIBILITY_STRATEGY",
        word="schema-autoupdate-strategy",
        options=(Option("", "--compatibility -c", Written.TEXT, f"One of {', '.join(AUTO_UPDATE_STRATEGIES)}."),),
        shows="the strategy under its old name; null when it is not set.",
    ),
    Policy(
        ALLOW_SCHEMA_UPDATES,
        switch_kind(ALLOW_SCHEMA_UPDATES),
        "whether producers and consumers may bring new schemas.",
        Level("isAllowAutoUpdateSchema", unset_is_default=True),
        None,
        policy_name="SCHEMA_COMPATIBILITY_STRATEGY",
        field="allow_schema_updates",
        word="is-allow-auto-update-schema",
        options=(SWITCH,),
        shows="whether producers and consumers may bring new schemas.",
        defaults=("allow_schema_updates",),
    ),
    Policy(
        ENFORCE_SCHEMAS,
        switch_kind(ENFORCE_SCHEMAS),
        "whether the broker refuses producers without schema on a topic with one.",
        Level("schemaValidationEnforced", unset=False),
        Level("schemaValidationEnforced", unset=False),
        policy_name="SCHEMA_COMPATIBILITY_STRATEGY",
        field="enforce_schemas",
        word="schema-validation-enforce",
        options=(SWITCH,),
        shows="whether the broker refuses producers without schema on a topic with one.",
        defaults=("enforce_schemas",),
    ),
    Policy(
        ENCRYPTION_REQUIRED,
        switch_kind(ENCRYPTION_REQUIRED)._replace(make=lambda: False),
        "whether topics accept encrypted messages only.",
        Level("encryptionRequired", can_delete=False, unset=False),
        None,
        policy_name="ENCRYPTION",
        field="encryption_required",
        word="encryption-required",
        options=(SWITCH,),
        shows="whether topics accept encrypted messages only.",
    ),
    *ROWS,
)
"""All policies; those of `policies_without_effect` come last. What the configuration's `enforce_schemas` demands, no
policy takes back."""

BY_MEMBER: Final[Mapping[str, Policy]] = {policy.member: policy for policy in POLICIES}
