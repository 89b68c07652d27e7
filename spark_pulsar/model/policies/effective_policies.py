"""Policies of namespaces and topics as values, and their JSON: the bodies of the admin API, stored as they are. Members
of the JSON and texts of the refusals are Apache Pulsar's (ADM-65 ... ADM-67).

`from_json` reads a request's body: numbers may come as text, unknown members are ignored (T-16). It raises
`MalformedPolicy` (400) or `InvalidPolicy` (412). `to_json` returns the JSON that is stored and answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from spark_pulsar.model.limits import INT, LONG, MAX_PARTITIONS
from spark_pulsar.model.schemas import Compatibility

from .json_values import (
    SUBSCRIPTION_TYPES,
    InvalidPolicy,
    MalformedPolicy,
    OutOfRange,
    members,
    number,
    short_text,
    truth,
)

NO_LIMIT: Final = -1

DESTINATION_STORAGE: Final = "destination_storage"
MESSAGE_AGE: Final = "message_age"
QUOTA_TYPES: Final = (DESTINATION_STORAGE, MESSAGE_AGE)

REQUEST_HOLD: Final = "producer_request_hold"
PRODUCER_EXCEPTION: Final = "producer_exception"
BACKLOG_EVICTION: Final = "consumer_backlog_eviction"
QUOTA_POLICIES: Final = (REQUEST_HOLD, PRODUCER_EXCEPTION, BACKLOG_EVICTION)

NO_SUBSCRIPTIONS: Final = "delete_when_no_subscriptions"
SUBSCRIPTIONS_CAUGHT_UP: Final = "delete_when_subscriptions_caught_up"
INACTIVE_MODES: Final = (NO_SUBSCRIPTIONS, SUBSCRIPTIONS_CAUGHT_UP)

RATE_OF_ONE: Final = "dispatchRate"
"""Member of the policies of one subscription."""

MAX_ENSEMBLE: Final = 5
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Limits of the acknowledged messages that a topic keeps (RET-1): -1 is no limit, both 0 keeps nothing."""

    size_mb: int = 0
    time_minutes: int = 0

    @property
    def size_bytes(self) -> int:
        """The size limit in bytes; -1 is none."""
        return self.size_mb * _MIB if self.size_mb >= 0 else NO_LIMIT

    @property
    def time_ms(self) -> int:
        """The time limit in milliseconds; -1 is none."""
        return self.time_minutes * 60_000 if self.time_minutes >= 0 else NO_LIMIT

    @property
    def keeps_nothing(self) -> bool:
        """Returns whether acknowledged messages may go at once: one limit of 0 is enough (RET-2)."""
        return self.size_mb == 0 or self.time_minutes == 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads `{"retentionTimeInMinutes": 180, "retentionSizeInMB": 10240}`; an absent member is 0."""
        body = members(value, "retention")
        size_mb = number(body.get("retentionSizeInMB", 0), "retentionSizeInMB", LONG)
        time_minutes = number(body.get("retentionTimeInMinutes", 0), "retentionTimeInMinutes")
        for limit, name in ((time_minutes, "time"), (size_mb, "size")):
            if limit < NO_LIMIT:
                raise MalformedPolicy(f"Invalid retention policy: {name} limit must be >= -1")
        if (size_mb == 0) != (time_minutes == 0):
            raise MalformedPolicy(
                "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits "
                "has a non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable "
                "retention both limits must be set to 0."
            )
        return cls(size_mb, time_minutes)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {"retentionTimeInMinutes": self.time_minutes, "retentionSizeInMB": self.size_mb}


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """A limit of the backlog of a topic's slowest subscription, and what happens when it is reached.

    A `destination_storage` quota limits `limit_bytes`: negative is no limit, 0 is always exceeded (BQ-1). A
    `message_age` quota limits `limit_time_s`: 0 and below are no limit (BQ-2).
    """

    limit_bytes: int = NO_LIMIT
    limit_time_s: int = NO_LIMIT
    policy: str = REQUEST_HOLD

    @classmethod
    def from_json(cls, value: object, namespace: str) -> Self:
        """Reads `{"limitSize": ..., "limitTime": ..., "policy": ...}`: an absent limit is 0, `limit` is an old name of
        `limitSize`, the policy is required."""
        body = members(value, "backlogQuota")
        size = body.get("limitSize") or body.get("limit") or 0
        policy = body.get("policy")
        if policy not in QUOTA_POLICIES:
            raise MalformedPolicy(
                f"Set namespace[{namespace}] backlog quota failed because the data validation failed. "
                "the attribute policy cannot be null"
            )
        return cls(number(size, "limitSize", LONG), number(body.get("limitTime", 0), "limitTime"), policy)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered; `limit` mirrors `limitSize` for old clients."""
        return {
            "limit": self.limit_bytes,
            "limitSize": self.limit_bytes,
            "limitTime": self.limit_time_s,
            "policy": self.policy,
        }


def check_quota_fits(retention: RetentionPolicy, quota: BacklogQuota | None) -> bool:
    """Returns whether a `destination_storage` quota is below the retention of the same topic (RET-3)."""
    if quota is None or retention.keeps_nothing:
        return True
    if retention.size_mb > 0 and quota.limit_bytes >= retention.size_bytes:
        return False
    return not (retention.time_minutes > 0 and quota.limit_time_s >= retention.time_minutes * 60)


@dataclass(frozen=True, slots=True)
class PersistencePolicy:
    """Numbers of bookies that a topic wants, and how often a cursor is stored at most; `topics.lifecycle` says what
    that means on one disk."""

    ensemble: int = 1
    write_quorum: int = 1
    ack_quorum: int = 1
    max_mark_delete_rate: float = 1.0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the four members; an absent quorum is 2, an absent rate 0.0."""
        if value is None:
            raise MalformedPolicy("persistence policies should not be null")
        body = members(value, "persistence")
        ensemble, write, ack = (
            number(body.get(f"bookkeeper{name}", 2), f"bookkeeper{name}")
            for name in ("Ensemble", "WriteQuorum", "AckQuorum")
        )
        if not 0 < ensemble <= MAX_ENSEMBLE:
            raise MalformedPolicy(f"Bookkeeper-Ensemble must be <= {MAX_ENSEMBLE} and > 0.")
        if not ensemble >= write >= ack:
            raise MalformedPolicy(f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})")
        rate = body.get("managedLedgerMaxMarkDeleteRate", 0.0)
        try:
            mark_delete_rate = float(rate)
        except (TypeError, ValueError, OverflowError):
            mark_delete_rate = math.nan
        if not math.isfinite(mark_delete_rate):
            raise MalformedPolicy(f"managedLedgerMaxMarkDeleteRate: want a number, got {rate!r}")
        return cls(ensemble, write, ack, mark_delete_rate)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {
            "bookkeeperEnsemble": self.ensemble,
            "bookkeeperWriteQuorum": self.write_quorum,
            "bookkeeperAckQuorum": self.ack_quorum,
            "managedLedgerMaxMarkDeleteRate": self.max_mark_delete_rate,
        }


@dataclass(frozen=True, slots=True)
class PublishRate:
    """A limit of messages and bytes that a topic takes from producers in a second (PR-14); 0 and below is no limit."""

    messages: int = 0
    bytes: int = 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the two members; an absent one is -1."""
        body = {} if value is None else members(value, "publishRate")
        messages, size = (
            number(body.get(f"publishThrottlingRateIn{unit}", -1), f"publishThrottlingRateIn{unit}", most)
            for unit, most in (("Msg", INT), ("Byte", LONG))
        )
        return cls(messages, size)

    @property
    def is_limited(self) -> bool:
        """Returns whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {"publishThrottlingRateInMsg": self.messages, "publishThrottlingRateInByte": self.bytes}


@dataclass(frozen=True, slots=True)
class DispatchRate:
    """A limit of messages and bytes that consumers are sent in a period (SUB-7); 0 and below is no limit."""

    messages: int = 0
    bytes: int = 0
    period_s: int = 1
    is_relative: bool = False
    """Adds the messages published in a period to the limit, where there is one."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the four members; an absent one is 0."""
        body = {} if value is None else members(value, "dispatchRate")
        messages, size, period_s = (
            number(body.get(name, 0), name, most)
            for name, most in (
                ("dispatchThrottlingRateInMsg", INT),
                ("dispatchThrottlingRateInByte", LONG),
                ("ratePeriodInSecond", INT),
            )
        )
        relative = body.get("relativeToPublishRate")
        return cls(messages, size, period_s, relative is not None and truth(relative, "relativeToPublishRate"))

    @property
    def is_limited(self) -> bool:
        """Returns whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0

    @property
    def seconds(self) -> int:
        """The period: one second if none is written."""
        return max(1, self.period_s)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {
            "dispatchThrottlingRateInMsg": self.messages,
            "dispatchThrottlingRateInByte": self.bytes,
            "relativeToPublishRate": self.is_relative,
            "ratePeriodInSecond": self.period_s,
        }


@dataclass(frozen=True, slots=True)
class SubscribeRate:
    """A limit of subscribing by one consumer to a topic in a period (SUB-6); 0 and below is no limit."""

    times: int = -1
    period_s: int = 30

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the two members; an absent limit is -1, an absent period 30 seconds."""
        body = {} if value is None else members(value, "subscribeRate")
        times, period_s = (
            number(body.get(name, otherwise), name)
            for name, otherwise in (("subscribeThrottlingRatePerConsumer", -1), ("ratePeriodInSecond", 30))
        )
        return cls(times, period_s)

    @property
    def is_limited(self) -> bool:
        """Returns whether there is a limit at all."""
        return self.times > 0

    @property
    def seconds(self) -> int:
        """The period: thirty seconds if none is written."""
        return self.period_s if self.period_s > 0 else 30

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {"subscribeThrottlingRatePerConsumer": self.times, "ratePeriodInSecond": self.period_s}


def rates_by_name(value: object) -> Mapping[str, DispatchRate]:
    """Reads the dispatch rates of single subscriptions: `{"NAME": {"dispatchRate": {...}}}`."""
    by_name = members(value, "subscriptionPolicies")
    return {
        name: DispatchRate.from_json(members(policies, name).get(RATE_OF_ONE)) for name, policies in by_name.items()
    }


@dataclass(frozen=True, slots=True)
class InactiveTopicPolicy:
    """Conditions under which an unused topic is deleted (TN-11)."""

    delete_while_inactive: bool = False
    max_inactive_s: int = 60
    mode: str = NO_SUBSCRIPTIONS

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads the three members and refuses an unknown mode (T-16: Apache Pulsar drops it)."""
        body = members(value, "inactiveTopicPolicies")
        mode = body.get("inactiveTopicDeleteMode") or NO_SUBSCRIPTIONS
        if mode not in INACTIVE_MODES:
            raise MalformedPolicy(f"inactiveTopicDeleteMode: want one of {', '.join(INACTIVE_MODES)}, got {mode!r}")
        return cls(
            truth(body.get("deleteWhileInactive", False), "deleteWhileInactive"),
            number(body.get("maxInactiveDurationSeconds", 0), "maxInactiveDurationSeconds"),
            mode,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {
            "inactiveTopicDeleteMode": self.mode,
            "maxInactiveDurationSeconds": self.max_inactive_s,
            "deleteWhileInactive": self.delete_while_inactive,
        }


@dataclass(frozen=True, slots=True)
class DelayedDeliveryPolicy:
    """Delayed delivery on or off, and the longest delay (DEL-2, DEL-9)."""

    active: bool = True
    tick_ms: int = 1_000
    """Kept and answered without effect: this broker delivers at the time itself."""
    max_delay_ms: int = 0
    """0 and below = no limit."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads `{"active": true, "tickTime": 1000, "maxDeliveryDelayInMillis": 0}`. Other members have no effect, as
        in Apache Pulsar: the Go client sends `maxDelayInMillis`."""
        body = members(value, "delayedDelivery")
        longest = body.get("maxDeliveryDelayInMillis") or 0
        return cls(
            truth(body.get("active", False), "active"),
            number(body.get("tickTime", 0), "tickTime", LONG),
            number(longest, "maxDeliveryDelayInMillis", LONG),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        return {
            "tickTime": self.tick_ms,
            "active": self.active,
            "maxDeliveryDelayInMillis": self.max_delay_ms,
        }


class TooManyPartitions(OutOfRange):
    """A default number of partitions above the most that a topic may have."""

    http_status = 406

    def __init__(self, most: int) -> None:
        super().__init__(f"Number of partitions should be less than or equal to {most}", "defaultNumPartitions", most)


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Creation of topics at their first use, and the number of their partitions (TN-7); 0 is a topic without."""

    allowed: bool = True
    partitions: int = 0
    topic_type: str = ""
    """Type as it was set where creation is not allowed, and has no effect."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads `{"allowAutoTopicCreation": true, "topicType": "partitioned", "defaultNumPartitions": 3}`; type and
        number are required, and checked, when creation is allowed."""
        body = members(value, "autoTopicCreation")
        allowed = truth(body.get("allowAutoTopicCreation", False), "allowAutoTopicCreation")
        kind, partitions = body.get("topicType"), body.get("defaultNumPartitions")
        if not allowed:
            return cls(
                False,
                0 if partitions is None else number(partitions, "defaultNumPartitions", LONG),
                "" if kind is None else short_text(kind, "topicType"),
            )
        if kind == "partitioned":
            if partitions is None:
                raise _no_auto_creation("[defaultNumPartitions] cannot be null when the type is partitioned.")
            count = number(partitions, "defaultNumPartitions", LONG)
            if count < 1:
                raise _no_auto_creation("[defaultNumPartitions] cannot be less than 1 for partition type.")
            if count > MAX_PARTITIONS:
                raise TooManyPartitions(MAX_PARTITIONS)
            return cls(True, count)
        if kind != "non-partitioned":
            raise _no_auto_creation(f"Unknown topic type [{'null' if kind is None else kind}]")
        if partitions is not None:
            raise _no_auto_creation("[defaultNumPartitions] is not allowed to be set when the type is non-partition.")
        return cls(True)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON that is stored and answered."""
        kind = self.topic_type
        if self.allowed:
            kind = "partitioned" if self.partitions else "non-partitioned"
        return {
            "allowAutoTopicCreation": self.allowed,
            **({"topicType": kind} if kind else {}),
            **({"defaultNumPartitions": self.partitions} if self.partitions else {}),
        }


def _no_auto_creation(detail: str) -> InvalidPolicy:
    return InvalidPolicy(f"Invalid configuration for autoTopicCreationOverride. the detail is {detail}")


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """The policies that hold for one topic: its own over its namespace's over the broker's configuration.

    Rows of `policy_table` name these fields and say what they mean. A number of 0 is "no limit" or "off" unless the
    policy's own class says otherwise.
    """

    retention: RetentionPolicy = RetentionPolicy()
    message_ttl_s: int = 0
    size_quota: BacklogQuota = BacklogQuota()
    """The `destination_storage` quota (BQ-1)."""
    age_quota: BacklogQuota = BacklogQuota()
    """The `message_age` quota (BQ-2)."""
    persistence: PersistencePolicy = PersistencePolicy()
    publish_rate: PublishRate = PublishRate()
    dispatch_rate: DispatchRate = DispatchRate()
    subscription_dispatch_rate: DispatchRate = DispatchRate()
    dispatch_rates_by_name: Mapping[str, DispatchRate] = field(default_factory=dict)
    """Rates of single subscriptions, which go before that of all (SUB-7)."""
    subscribe_rate: SubscribeRate = SubscribeRate()
    deduplication: bool = False
    compaction_threshold_bytes: int = 0
    subscription_expiration_minutes: int = 0
    inactive_topic: InactiveTopicPolicy = InactiveTopicPolicy()
    delayed_delivery: DelayedDeliveryPolicy = DelayedDeliveryPolicy()
    max_producers: int = 0
    max_consumers: int = 0
    max_consumers_per_subscription: int = 0
    max_subscriptions: int = 0
    max_unacked_per_consumer: int = 0
    max_unacked_per_subscription: int = 0
    subscription_types: frozenset[str] = frozenset(SUBSCRIPTION_TYPES)
    max_topics: int = 0
    auto_topic_creation: AutoTopicCreation = AutoTopicCreation()
    schema_compatibility: Compatibility = Compatibility.FULL
    allow_schema_updates: bool = True
    enforce_schemas: bool = False
    allow_auto_subscription_creation: bool = True
    encryption_required: bool = False
    max_message_size_bytes: int = 0
    replication_clusters: Sequence[str] = ()
    replicator_dispatch_rate: DispatchRate = DispatchRate()
    offload_policies: Mapping[str, Any] = field(default_factory=dict)
    entry_filters: str = ""
    pause_on_ack_state: bool = False
    resource_group: str = ""
    """Name of the resource group of the namespace; empty: none (ADM-5)."""
