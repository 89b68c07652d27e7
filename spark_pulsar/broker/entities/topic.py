"""Topics in use: durable state, producers, subscriptions, features, and counters that change with every entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.turn.counter_columns import (
    CHECK_AT_BYTES,
    LAST_ADD_CONFIRMED_ENTRY_ID,
    LAST_ADD_CONFIRMED_LEDGER_ID,
    LAST_PUBLISHED_MS,
    SUBSCRIPTIONS,
    TOPIC_BYTES_IN,
    TOPIC_MESSAGES_IN,
)
from spark_pulsar.model.column_store import Counter, HasCounters
from spark_pulsar.model.ids import Position
from spark_pulsar.model.names import TopicName

from .meters import Meter

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.durable_state import TopicState
    from spark_pulsar.ledger.state.managed_ledger import ManagedLedger

    from .core import Core
    from .exclusive_access import Access
    from .features import (
        DelayWatch,
        DispatchLimits,
        PublishLimit,
        QuotaWatch,
        TtlMonitor,
    )
    from .producer import Producer
    from .subscription import Subscription

NEVER_BYTES: Final = 1 << 62
"""`Topic.check_at_bytes` when no monitor has to look."""


NOTHING_HELD: Final = -1
"""`Topic.held_ledger` when retention alone keeps none."""


class NonPersistentEntries:
    """Entries of a non-persistent topic, which are counted and not stored."""

    __slots__ = ("entries", "was_unused")

    def __init__(self) -> None:
        self.entries = 0
        """Entries published since the topic came into being; the id of the next one. Differs from Apache Pulsar, which
        gives all of them 0:0."""
        self.was_unused = False
        """True when no client was connected at the last visit."""


class OldestEntry(NamedTuple):
    """The oldest entry that the slowest durable subscription has not consumed, and its publish time (by its producer's
    clock; None when its metadata cannot be read)."""

    subscription: str
    position: Position
    publish_ms: int | None


class Topic(HasCounters):
    """A topic, or one partition of one, that was used since the start."""

    __slots__ = (
        "access",
        "bytes_out_before",
        "deduplicates",
        "delays",
        "dispatch_limits",
        "end_group",
        "evictions_by_age",
        "evictions_by_size",
        "full_name",
        "held_ledger",
        "ledger",
        "messages_out_before",
        "meter",
        "name",
        "non_persistent",
        "oldest",
        "partition",
        "producers",
        "publish_limit",
        "publish_limited_times",
        "quota",
        "state",
        "subscriptions",
        "trim_timer",
        "ttl_monitor",
        "was_used",
    )

    def __init__(self, core: Core, name: TopicName, state: TopicState, last_add_confirmed: Position) -> None:
        super().__init__((*last_add_confirmed, 0, 0, NEVER_BYTES, 0, 0))
        self.name, self.full_name = name, name.full
        self.partition = name.partition
        """Index of the partition, -1 for a topic without."""
        self.state = state
        self.ledger: ManagedLedger = state.ledger
        self.producers: dict[str, Producer] = {}
        """Producers by name."""
        self.access: Access | None = None
        """Exclusive access and the producers that wait for it; None until a producer wants it (PR-4)."""
        self.publish_limit: PublishLimit | None = None
        """Publish rate, when there is one (PR-14)."""
        self.publish_limited_times = 0
        """Count of pauses of connections that publish to the topic, for a publish rate."""
        self.dispatch_limits: DispatchLimits | None = None
        """Dispatch and subscribe rates, when there are some (SUB-6, SUB-7)."""
        self.subscriptions: dict[str, Subscription] = {}
        """Subscriptions by name, durable or not. Changed by methods alone."""
        self.delays: DelayWatch | None = None
        """Delayed entries, once there was one (DEL-4)."""
        self.non_persistent: NonPersistentEntries | None = None
        """Entries of a non-persistent topic; None for others (NP-1)."""
        self.end_group = 0
        """Group that the termination of the topic is durable with (TN-13)."""
        self.deduplicates = False
        """True when repeated entries are found by their sequence ids (DED-1)."""
        self.messages_out_before = self.bytes_out_before = 0
        """Messages and bytes sent to subscriptions that are gone."""
        self.meter = Meter(core.now_ms, (0, 0, state.ledger.total_entries))
        self.evictions_by_size = self.evictions_by_age = 0
        """Counts of evictions of entries by a backlog quota (BQ-6, BQ-7)."""
        self.ttl_monitor: TtlMonitor | None = None
        """Expiry of entries, when the topic has a time to live (TTL-1)."""
        self.quota: QuotaWatch | None = None
        """Watch of the backlog, when the topic has a quota (BQ-1, BQ-2)."""
        self.oldest: OldestEntry | None = None
        """Last answer of `backlog_size.with_oldest`."""
        self.held_ledger = NOTHING_HELD
        """Oldest ledger, when retention alone keeps it."""
        self.trim_timer: Timer | None = None
        """Timer for the end of that retention."""
        self.was_used = False
        """True when a producer, consumer or subscription came since the last look of `inactive_topics`."""
        if self.ledger.row >= 0:
            core.topic_counters.put(self.ledger.row, self)

    last_add_confirmed_ledger_id = Counter(LAST_ADD_CONFIRMED_LEDGER_ID)
    last_add_confirmed_entry_id = Counter(LAST_ADD_CONFIRMED_ENTRY_ID)
    messages_in = Counter(TOPIC_MESSAGES_IN)
    bytes_in = Counter(TOPIC_BYTES_IN)
    check_at_bytes = Counter(CHECK_AT_BYTES)
    """Value of `bytes_in` from which on monitors look at appended entries."""
    last_published_ms = Counter(LAST_PUBLISHED_MS)
    """Time of the last publish since the start; 0 = never."""
    subscription_count = Counter(SUBSCRIPTIONS)

    @property
    def last_add_confirmed(self) -> Position:
        """The last entry that is on disk (LAC): subscriptions read up to it (ML-5)."""
        return Position(self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id)

    @property
    def consumer_count(self) -> int:
        """Connected consumers of all subscriptions."""
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    def must_roll(self, core: Core) -> bool:
        """Tells whether a new ledger must be opened before the next entry (ML-1, ML-2)."""
        return self.ledger.must_roll(core.now_ms, core.roll_limits)

    def confirm_entries(self, core: Core, run: EntryRun) -> None:
        """Lets subscriptions read a run that is on disk now."""
        self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id = (
            run.ledger_id,
            run.first_entry_id + len(run.starts) - 1,
        )
        if self.subscriptions:
            self.wake_subscriptions(core)

    def add_subscription(self, subscription: Subscription) -> None:
        """Adds a subscription."""
        self.subscriptions[subscription.name] = subscription
        self.subscription_count = len(self.subscriptions)

    def remove_subscription(self, subscription: Subscription) -> None:
        """Removes a subscription."""
        del self.subscriptions[subscription.name]
        self.subscription_count = len(self.subscriptions)

    def remove_all_subscriptions(self) -> None:
        """Removes all subscriptions, with their topic."""
        self.subscriptions.clear()
        self.subscription_count = 0

    def wake_subscriptions(self, core: Core) -> None:
        """Wakes every subscription with consumers, to send new entries."""
        for subscription in self.subscriptions.values():
            if subscription.consumers:
                core.wake(subscription)
