"""Policies of namespaces and topics as values, and their JSON: the bodies of the admin API, which is also how they are
kept. Field names of the JSON and texts of the refusals are Apache Pulsar's (admin-rest.md 1.3.2, 1.3.3, 1.9).

`from_json` takes what a client sent: numbers may come as text, unknown members are ignored (T-16). It raises
`MalformedPolicy` (400) or `InvalidPolicy` (412). `to_json` gives what is stored and answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from spark_pulsar.model.limits import INT, LONG
from spark_pulsar.model.schemas import Compatibility

from .json_values import SUBSCRIPTION_TYPES, MalformedPolicy, members, number, truth

if TYPE_CHECKING:
    from .dispatch_rates import DispatchRate, SubscribeRate

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


MAX_ENSEMBLE: Final = 5
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What is kept of messages that every subscription has acknowledged (RET-1): -1 is no limit, both 0 is nothing."""

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
        """Whether acknowledged messages may go at once. One limit of 0 is enough (RET-2)."""
        return self.size_mb == 0 or self.time_minutes == 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """`{"retentionTimeInMinutes": 180, "retentionSizeInMB": 10240}`; an absent member is 0."""
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
        """As answered."""
        return {"retentionTimeInMinutes": self.time_minutes, "retentionSizeInMB": self.size_mb}


@dataclass(frozen=True, slots=True)
class BacklogQuota:
    """What happens when the backlog of a topic's slowest subscription reaches a limit (section 5.5).

    Of a `destination_storage` quota `limit_bytes` counts: negative is no limit, 0 is always exceeded (BQ-1). Of a
    `message_age` quota `limit_time_s` counts: 0 and below are no limit (BQ-2).
    """

    limit_bytes: int = NO_LIMIT
    limit_time_s: int = NO_LIMIT
    policy: str = REQUEST_HOLD

    @classmethod
    def from_json(cls, value: object, namespace: str) -> Self:
        """`{"limitSize": ..., "limitTime": ..., "policy": ...}`; an absent limit is 0, `limit` is an old name of
        `limitSize`. The policy must be there."""
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
        """As answered: `limit` mirrors `limitSize` for old clients."""
        return {
            "limit": self.limit_bytes,
            "limitSize": self.limit_bytes,
            "limitTime": self.limit_time_s,
            "policy": self.policy,
        }


def check_quota_fits(retention: RetentionPolicy, quota: BacklogQuota | None) -> bool:
    """Whether a `destination_storage` quota leaves room below the retention of the same topic (RET-3)."""
    if quota is None or retention.keeps_nothing:
        return True
    if retention.size_mb > 0 and quota.limit_bytes >= retention.size_bytes:
        return False
    return not (retention.time_minutes > 0 and quota.limit_time_s >= retention.time_minutes * 60)


@dataclass(frozen=True, slots=True)
class PersistencePolicy:
    """How many bookies a topic wants, and how often a cursor is stored at most; `topics.lifecycle` says what that
    means on one disk."""

    ensemble: int = 1
    write_quorum: int = 1
    ack_quorum: int = 1
    max_mark_delete_rate: float = 1.0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The four members; an absent or zero quorum is 2, an absent rate 0.0."""
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
            found = float(rate)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise MalformedPolicy(f"managedLedgerMaxMarkDeleteRate: want a number, got {rate!r}")
        return cls(ensemble, write, ack, found)

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {
            "bookkeeperEnsemble": self.ensemble,
            "bookkeeperWriteQuorum": self.write_quorum,
            "bookkeeperAckQuorum": self.ack_quorum,
            "managedLedgerMaxMarkDeleteRate": self.max_mark_delete_rate,
        }


@dataclass(frozen=True, slots=True)
class PublishRate:
    """How fast a topic may be published to, a second (PR-14); 0 and below is no limit."""

    messages: int = 0
    bytes: int = 0

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The two members; what is absent is -1."""
        body = {} if value is None else members(value, "publishRate")
        messages, size = (
            number(body.get(f"publishThrottlingRateIn{what}", -1), f"publishThrottlingRateIn{what}", most)
            for what, most in (("Msg", INT), ("Byte", LONG))
        )
        return cls(messages, size)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.messages > 0 or self.bytes > 0

    def to_json(self) -> dict[str, Any]:
        """As answered."""
        return {"publishThrottlingRateInMsg": self.messages, "publishThrottlingRateInByte": self.bytes}


@dataclass(frozen=True, slots=True)
class InactiveTopicPolicy:
    """When a topic that nobody uses is deleted (TN-11)."""

    delete_while_inactive: bool = False
    max_inactive_s: int = 60
    mode: str = NO_SUBSCRIPTIONS

    @classmethod
    def from_json(cls, value: object) -> Self:
        """The three members; an unknown mode is refused (T-16: Apache Pulsar forgets it)."""
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
        """As answered."""
        return {
            "inactiveTopicDeleteMode": self.mode,
            "maxInactiveDurationSeconds": self.max_inactive_s,
            "deleteWhileInactive": self.delete_while_inactive,
        }


@dataclass(frozen=True, slots=True)
class DelayedDeliveryPolicy:
    """Whether messages wait for the time that their producers gave them, and how long they may (DEL-2, DEL-9)."""

    active: bool = True
    tick_ms: int = 1_000
    """Kept and answered; this broker delivers at the time itself."""
    max_delay_ms: int = 0
    """0 and below = no limit."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """`{"active": true, "tickTime": 1000, "maxDeliveryDelayInMillis": 0}`; the Go client calls the last one
        `maxDelayInMillis`."""
        body = members(value, "delayedDelivery")
        longest = body.get("maxDeliveryDelayInMillis") or body.get("maxDelayInMillis") or 0
        return cls(
            truth(body.get("active", False), "active"),
            number(body.get("tickTime", 0), "tickTime", LONG),
            number(longest, "maxDeliveryDelayInMillis", LONG),
        )

    def to_json(self) -> dict[str, Any]:
        """As answered, the limit under both names."""
        return {
            "tickTime": self.tick_ms,
            "active": self.active,
            "maxDeliveryDelayInMillis": self.max_delay_ms,
            "maxDelayInMillis": self.max_delay_ms,
        }


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """What holds for one topic: its own policies over its namespace's over the broker's configuration.

    A number of 0 is "no limit" or "off" unless the policy's own class says otherwise.
    """

    retention: RetentionPolicy = RetentionPolicy()
    message_ttl_s: int = 0
    """TTL-1; 0 = off."""
    size_quota: BacklogQuota = BacklogQuota()
    """`destination_storage` (BQ-1)."""
    age_quota: BacklogQuota = BacklogQuota()
    """`message_age` (BQ-2)."""
    persistence: PersistencePolicy = PersistencePolicy()
    publish_rate: PublishRate = PublishRate()
    """PR-14."""
    dispatch_rate: DispatchRate | None = None
    subscription_dispatch_rate: DispatchRate | None = None
    dispatch_rates_by_name: Mapping[str, DispatchRate] = field(default_factory=dict)
    """Of single subscriptions, which go before that of all (SUB-7)."""
    subscribe_rate: SubscribeRate | None = None
    deduplication: bool = False
    """DED-1."""
    deduplication_snapshot_interval_s: int = 120
    compaction_threshold_bytes: int = 0
    """CMP-C: backlog of the compaction cursor at which compaction begins by itself; 0 = never."""
    subscription_expiration_minutes: int = 0
    """How long a subscription without consumers and without acks lives; 0 = for ever."""
    inactive_topic: InactiveTopicPolicy = InactiveTopicPolicy()
    delayed_delivery: DelayedDeliveryPolicy = DelayedDeliveryPolicy()
    max_producers: int = 0
    max_consumers: int = 0
    max_consumers_per_subscription: int = 0
    max_subscriptions: int = 0
    max_unacked_per_consumer: int = 0
    max_unacked_per_subscription: int = 0
    subscription_types: frozenset[str] = frozenset(SUBSCRIPTION_TYPES)
    """SUB-3."""
    max_topics: int = 0
    """Topics and partitions of the namespace (TN-10)."""
    allow_auto_topic_creation: bool = True
    """TN-7."""
    auto_topic_partitions: int = 0
    """Partitions of a topic that comes into being by itself; 0 is a topic without (TN-7)."""
    schema_compatibility: Compatibility = Compatibility.FULL
    """SC-4."""
    allow_schema_updates: bool = True
    """SC-6."""
    enforce_schemas: bool = False
    """SC-7."""
    allow_auto_subscription_creation: bool = True
    """TN-9."""
    encryption_required: bool = False
    """PR-12."""
