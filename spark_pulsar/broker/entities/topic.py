"""A topic in use: its durable part from the state, who is connected to it, and what changes with every entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.counter_columns import (
    LAST_ADD_CONFIRMED_ENTRY_ID,
    LAST_ADD_CONFIRMED_LEDGER_ID,
    LAST_PUBLISHED_MS,
    LOOK_AT_BYTES,
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
        NonPersistentEntries,
        OldestEntry,
        PublishLimit,
        QuotaWatch,
        TtlMonitor,
    )
    from .producer import Producer
    from .subscription import Subscription

NEVER_BYTES: Final = 1 << 62
"""`Topic.look_at_bytes` when nobody needs to look."""


class Topic(HasCounters):
    """A topic, or one partition of one, that somebody used since the start."""

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
        """By name."""
        self.access: Access | None = None
        """Who has the topic alone and who waits for it; None until somebody wants it alone (PR-4)."""
        self.publish_limit: PublishLimit | None = None
        """How fast it may be published to, when that is limited (PR-14)."""
        self.publish_limited_times = 0
        """How often a connection that publishes to it was not read because of a rate."""
        self.dispatch_limits: DispatchLimits | None = None
        """How fast it may be consumed, when that is limited (SUB-7)."""
        self.subscriptions: dict[str, Subscription] = {}
        """By name, durable or not. Changed by methods alone."""
        self.delays: DelayWatch | None = None
        """What watches its delayed entries, once there was one (DEL-4)."""
        self.non_persistent: NonPersistentEntries | None = None
        """What only a non-persistent topic has; None for others (NP-1)."""
        self.end_group = 0
        """The group that the end of the topic is durable with (TN-13)."""
        self.deduplicates = False
        """Whether repeated entries are found by their sequence ids (DED-1)."""
        self.messages_out_before = self.bytes_out_before = 0
        """What went to subscriptions that are gone."""
        self.meter = Meter(core.now_ms, (0, 0, state.ledger.total_entries))
        self.evictions_by_size = self.evictions_by_age = 0
        """How often backlogs lost entries because they reached a quota (BQ-6, BQ-7)."""
        self.ttl_monitor: TtlMonitor | None = None
        """What lets entries expire, when the topic has a time to live (TTL-1)."""
        self.quota: QuotaWatch | None = None
        """What watches its backlog, when it has a quota (BQ-1, BQ-2)."""
        self.oldest: OldestEntry | None = None
        """The last answer to `usage.with_oldest`."""
        self.held_ledger = NOTHING_HELD
        """The oldest ledger, when nothing but retention keeps it."""
        self.trim_timer: Timer | None = None
        """When that is over."""
        self.was_used = False
        """Whether a producer, consumer or subscription came since `inactive_topics` looked at it."""
        if self.ledger.row >= 0:
            core.topic_counters.put(self.ledger.row, self)

    last_add_confirmed_ledger_id = Counter(LAST_ADD_CONFIRMED_LEDGER_ID)
    last_add_confirmed_entry_id = Counter(LAST_ADD_CONFIRMED_ENTRY_ID)
    messages_in = Counter(TOPIC_MESSAGES_IN)
    bytes_in = Counter(TOPIC_BYTES_IN)
    look_at_bytes = Counter(LOOK_AT_BYTES)
    """Upkeep looks at what is appended when `bytes_in` has reached this."""
    last_published_ms = Counter(LAST_PUBLISHED_MS)
    """When something was published since the start; 0 = never."""
    subscription_count = Counter(SUBSCRIPTIONS)

    @property
    def last_add_confirmed(self) -> Position:
        """The last entry that is on disk (LAC): what may be delivered ends here (ML-5). Made when it is asked for: it
        changes more often than that."""
        return Position(self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id)

    @property
    def consumer_count(self) -> int:
        """Connected consumers of all subscriptions."""
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    def must_roll(self, core: Core) -> bool:
        """Whether a new ledger must be opened before the next entry (ML-1, ML-2)."""
        return self.ledger.must_roll(core.now_ms, core.roll_limits)

    def confirm_entries(self, core: Core, run: EntryRun) -> None:
        """A run is on disk: readers may have it."""
        self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id = (
            run.ledger_id,
            run.first_entry_id + len(run.starts) - 1,
        )
        if self.subscriptions:
            self.wake_subscriptions(core)

    def add_subscription(self, subscription: Subscription) -> None:
        """A subscription came into being."""
        self.subscriptions[subscription.name] = subscription
        self.subscription_count = len(self.subscriptions)

    def remove_subscription(self, subscription: Subscription) -> None:
        """One of them is gone."""
        del self.subscriptions[subscription.name]
        self.subscription_count = len(self.subscriptions)

    def remove_all_subscriptions(self) -> None:
        """The topic is gone, and they with it."""
        self.subscriptions.clear()
        self.subscription_count = 0

    def wake_subscriptions(self, core: Core) -> None:
        """Let every subscription with consumers send what is new."""
        for subscription in self.subscriptions.values():
            if subscription.consumers:
                core.wake(subscription)


NOTHING_HELD = -1
