"""Facts of a diagnosis: statistics, policies and roles of a topic, typed, of all that a Pulsar answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Final

COMPACTION: Final = "__compaction"
"""Subscription of the broker itself, which compacts the topic."""
FULL_RANGE: Final = 65_536
"""Hash slots of a Key_Shared subscription."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A connected consumer."""

    name: str
    address: str = ""
    since_ms: int = 0
    permits: int = 0
    unacked: int = 0
    per_entry: int = 1
    """Messages of an entry, on average: backlogs count entries, and unacknowledged messages count messages."""
    is_blocked: bool = False
    """The broker sends it nothing because of the messages that it has not acknowledged."""
    sent: int = 0
    hash_ranges: tuple[tuple[int, int], ...] = ()
    draining_hashes: int = 0
    draining_unacked: int = 0


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of one topic, or of several partitions together."""

    name: str
    type: str = ""
    backlog: int = 0
    delayed: int = 0
    unacked: int = 0
    is_blocked: bool = False
    sent: int = 0
    """Messages that were sent to its consumers since the topic was loaded."""
    sent_lately: int = 0
    """Messages sent between the two samples of the statistics."""
    expired: int = 0
    last_expire_ms: int = 0
    last_acked_ms: int = 0
    last_sent_ms: int = 0
    oldest_ms: int = 0
    dropped: float = 0.0
    """Rate of messages that a non-persistent topic discards."""
    active_consumer: str = ""
    consumers: tuple[Consumer, ...] = ()
    is_replicated: bool = False
    key_shared_mode: str = ""
    out_of_order: bool = False
    throttled: Mapping[str, int] = field(default_factory=dict)
    """Reads that a dispatch rate held back, by whose rate it is: subscription, topic or broker."""
    throttled_lately: frozenset[str] = frozenset()
    rejected: int = 0
    """Messages that entry filters refuse."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """A connected producer."""

    name: str
    address: str = ""
    since_ms: int = 0
    access_mode: str = "Shared"


@dataclass(frozen=True, slots=True)
class Log:
    """A topic without partitions, a partition, or several partitions together."""

    name: str
    number: int | None = None
    publishers: tuple[Publisher, ...] = ()
    waiting_publishers: int = 0
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    stored_bytes: int = 0
    published: int = 0
    """Messages published since it was loaded."""
    published_lately: int = 0
    last_publish_ms: int = 0
    rate_limited: int = 0
    rate_limited_lately: int = 0
    open_transactions: int = 0
    backlog_bytes: int = 0
    backlog_age_s: int = -1
    evicted: int = 0
    entries: int | None = None
    """Entries that are stored; None where it is not known."""
    added_entries: int = 0
    """Entries that were added since it was loaded, or longer; 0 where it is not known."""
    had_entries: bool = False
    is_terminated: bool = False

    @property
    def is_empty(self) -> bool:
        """Returns whether nothing is stored."""
        return self.entries == 0 if self.entries is not None else not self.stored_bytes


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit of messages and bytes in a period; 0: none."""

    messages: int = 0
    size_bytes: int = 0
    period_s: int = 1

    def __str__(self) -> str:
        limits = [f"{self.messages:,} messages"] if self.messages > 0 else []
        limits += [f"{self.size_bytes:,} bytes"] if self.size_bytes > 0 else []
        period = "a second" if self.period_s == 1 else f"every {self.period_s} seconds"
        return f"{' and '.join(limits)} {period}" if limits else ""


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies that apply to the topic; None or 0: no limit, or not known."""

    ttl_s: int = 0
    retention: tuple[int, int] | None = None
    """Minutes and megabytes."""
    quotas: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Backlog quotas by kind: limit and what is done beyond it."""
    unacked_on_consumer: int = 0
    unacked_on_subscription: int = 0
    unacked_on_broker: int = 0
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Dispatch rates by whose they are, and the publish rate."""
    types_enabled: tuple[str, ...] = ()
    max_consumers: int = 0
    max_consumers_of_subscription: int = 0
    max_producers: int = 0
    auto_update_schema: bool = True
    schema_validation: bool = False
    schema_strategy: str = ""
    encryption_required: bool = False
    clusters: tuple[str, ...] = ()
    auto_creation: bool | None = None


@dataclass(frozen=True, slots=True)
class Roles:
    """Roles that may use the topic, as far as the caller may see them."""

    is_on: bool | None = None
    """Authorization is on; None where it is not known."""
    consuming: frozenset[str] = frozenset()
    producing: frozenset[str] = frozenset()
    of_subscription: frozenset[str] = frozenset()
    superusers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has messages in the topic, or acknowledgements of a subscription."""

    id: str
    since_ms: int = 0
    produces: bool = True


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """First message of a backlog."""

    deliver_at_ms: int = 0
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that the rules are applied to."""

    topic: str
    subscription: str = ""
    role: str = ""
    partitions: int = 0
    logs: tuple[Log, ...] = ()
    policies: Policies = field(default_factory=Policies)
    roles: Roles = field(default_factory=Roles)
    schema: tuple[str, int] | None = None
    """Type and version of the newest schema."""
    transactions: tuple[OpenTransaction, ...] = ()
    first_messages: Mapping[str, FirstMessage] = field(default_factory=dict)
    refusal: tuple[int, str] | None = None
    """Status and reason with which the statistics were refused."""
    disk_reason: str = ""
    """Reason why the broker stores no more messages; ours says it."""
    near_names: tuple[str, ...] = ()
    """Names of topics like one that is not there."""
    unseen: tuple[str, ...] = ()
    """Facts that the role may not see."""
    window_s: float = 1.0
    """Time between the two samples."""
    now_ms: int = 0
    zone: tzinfo | None = None

    @property
    def subscriptions(self) -> list[str]:
        """Returns the names of all subscriptions of clients, in order."""
        return sorted({name for log in self.logs for name in log.subscriptions} - {COMPACTION})


def together(logs: Iterable[Log]) -> Log:
    """Returns several partitions as one: sums, the latest times, each consumer and producer once."""
    first, *others = logs
    for other in others:
        first = _sum_of_logs(first, other)
    return first


def _sum_of_logs(one: Log, other: Log) -> Log:
    subscriptions = dict(one.subscriptions)
    for name, subscription in other.subscriptions.items():
        known = subscriptions.get(name)
        subscriptions[name] = subscription if known is None else _sum_of_subscriptions(known, subscription)
    entries = None if one.entries is None or other.entries is None else one.entries + other.entries
    return replace(
        one,
        number=None,
        publishers=tuple({publisher.name: publisher for publisher in (*other.publishers, *one.publishers)}.values()),
        waiting_publishers=max(one.waiting_publishers, other.waiting_publishers),
        subscriptions=subscriptions,
        last_publish_ms=max(one.last_publish_ms, other.last_publish_ms),
        backlog_age_s=max(one.backlog_age_s, other.backlog_age_s),
        entries=entries,
        had_entries=one.had_entries or other.had_entries,
        is_terminated=one.is_terminated or other.is_terminated,
        **_sums(one, other, _SUMS_OF_LOGS),
    )


def _sum_of_subscriptions(one: Subscription, other: Subscription) -> Subscription:
    consumers = {consumer.name: consumer for consumer in one.consumers}
    for consumer in other.consumers:
        known = consumers.get(consumer.name)
        consumers[consumer.name] = consumer if known is None else _sum_of_consumers(known, consumer)
    levels = one.throttled.keys() | other.throttled.keys()
    return replace(
        one,
        type=one.type or other.type,
        is_blocked=one.is_blocked or other.is_blocked,
        last_expire_ms=max(one.last_expire_ms, other.last_expire_ms),
        last_acked_ms=max(one.last_acked_ms, other.last_acked_ms),
        last_sent_ms=max(one.last_sent_ms, other.last_sent_ms),
        oldest_ms=min((ms for ms in (one.oldest_ms, other.oldest_ms) if ms > 0), default=0),
        dropped=one.dropped + other.dropped,
        active_consumer=one.active_consumer if one.active_consumer == other.active_consumer else "",
        consumers=tuple(consumers.values()),
        throttled={level: one.throttled.get(level, 0) + other.throttled.get(level, 0) for level in levels},
        throttled_lately=one.throttled_lately | other.throttled_lately,
        **_sums(one, other, _SUMS_OF_SUBSCRIPTIONS),
    )


def _sum_of_consumers(one: Consumer, other: Consumer) -> Consumer:
    per_entry, is_blocked = max(one.per_entry, other.per_entry), one.is_blocked or other.is_blocked
    return replace(one, is_blocked=is_blocked, per_entry=per_entry, **_sums(one, other, _SUMS_OF_CONSUMERS))


_SUMS_OF_LOGS: Final = (
    *("stored_bytes", "published", "published_lately", "rate_limited", "rate_limited_lately", "open_transactions"),
    *("backlog_bytes", "evicted", "added_entries"),
)
_SUMS_OF_SUBSCRIPTIONS: Final = ("backlog", "delayed", "unacked", "sent", "sent_lately", "expired", "rejected")
_SUMS_OF_CONSUMERS: Final = ("permits", "unacked", "sent", "draining_hashes", "draining_unacked")


def _sums(one: object, other: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(one, name) + getattr(other, name) for name in names}
