"""Topics in use: durable state, producers, subscriptions, features, and counters that change with every entry."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import partial
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
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.model.column_store import Counter, HasCounters
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import LATEST, Position, TransactionId

from .meters import Meter

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.topics import TopicState

    from .core import Core
    from .exclusive_access import Access
    from .features import DelayWatch, DispatchLimits, PublishLimit, QuotaWatch, TtlMonitor
    from .producer import Producer
    from .subscription import Subscription

NEVER_BYTES: Final = 1 << 62
"""`Topic.check_at_bytes` when no monitor has to check."""

NOTHING_HELD: Final = -1
"""`Topic.held_ledger` when retention alone keeps none."""


@dataclass(slots=True, eq=False)
class NonPersistentEntries:
    """Entries of a non-persistent topic, which are counted and not stored."""

    entries: int = 0
    """Entries published since the topic came into being; the id of the next one. Differs from Apache Pulsar, which
    gives all of them 0:0."""
    was_unused: bool = False
    """True when no client was connected at the last visit."""


@dataclass(slots=True, eq=False)
class OpenTransactions:
    """The transactions of a topic whose end consumers wait for: open, or ended and not yet on disk (TX-9)."""

    firsts: dict[TransactionId, Position] = field(default_factory=dict)
    """First entry of each, rising."""
    lost: list[Position] = field(default_factory=list)
    """First entries of open ones that lost all their entries here, which is not on disk yet (TX-26)."""
    committed: int = 0
    aborted: int = 0


class OldestEntry(NamedTuple):
    """The oldest entry that the slowest durable subscription has not consumed, and its publish time (by its producer's
    clock; None when its metadata cannot be read)."""

    subscription: str
    position: Position
    publish_ms: int | None


@dataclass(slots=True, eq=False, repr=False)
class Topic(HasCounters):
    """A topic, or one partition of one, that was used since the start."""

    core: InitVar[Core]
    name: TopicName
    state: TopicState
    confirmed: InitVar[Position]
    full_name: str = field(init=False)
    partition: int = field(init=False)
    """Index of the partition, -1 for a topic without."""
    ledger: ManagedLedger = field(init=False)
    producers: dict[str, Producer] = field(default_factory=dict)
    """Producers by name (PR-2, PR-13)."""
    access: Access | None = None
    """Exclusive access and the producers that wait for it; None until a producer wants it (PR-4)."""
    publish_limit: PublishLimit | None = None
    """Publish rate, when there is one (PR-14)."""
    publish_limited_times: int = 0
    """Count of pauses of connections that publish to the topic, for a publish rate."""
    dispatch_limits: DispatchLimits | None = None
    """Dispatch and subscribe rates, when there are some (SUB-6, SUB-7)."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """Subscriptions by name, durable or not (CUR-8, CUR-18). Changed by methods alone."""
    delays: DelayWatch | None = None
    """Delayed entries, once there was one (DEL-4)."""
    non_persistent: NonPersistentEntries | None = None
    """Entries of a non-persistent topic; None for others (NP-1)."""
    end_group: int = 0
    """Group that the termination of the topic is durable with (TN-13)."""
    transactions: OpenTransactions | None = None
    """Open transactions, once there was one (TX-9)."""
    deduplicates: bool = False
    """True when repeated entries are found by their sequence ids (DED-1)."""
    messages_out_before: int = 0
    """Messages sent to subscriptions that are gone (ST-9)."""
    bytes_out_before: int = 0
    meter: Meter = field(init=False)
    evictions_by_size: int = 0
    """Count of evictions of entries by the size of the backlog quota (BQ-6, BQ-7)."""
    evictions_by_age: int = 0
    ttl_monitor: TtlMonitor | None = None
    """Expiry of entries, when the topic has a time to live (TTL-1)."""
    quota: QuotaWatch | None = None
    """Watch of the backlog, when the topic has a quota (BQ-1, BQ-2)."""
    oldest: OldestEntry | None = None
    """Last answer of `backlog_bytes.with_oldest`."""
    held_ledger: int = NOTHING_HELD
    """Oldest ledger, when retention alone keeps it."""
    trim_timer: Timer | None = None
    """Timer for the end of that retention."""
    was_used: bool = False
    """True when a producer, consumer or subscription came since the last check of `inactive_topics`."""

    def __post_init__(self, core: Core, confirmed: Position) -> None:
        HasCounters.__init__(self, (*confirmed, 0, 0, NEVER_BYTES, 0, 0))
        self.full_name = self.name.full
        self.partition = self.name.partition
        self.ledger = self.state.ledger
        self.meter = Meter(core.now_ms, (0, 0, self.ledger.total_entries))
        if self.ledger.row >= 0:
            core.topic_counters.put(self.ledger.row, self)

    last_add_confirmed_ledger_id = Counter(LAST_ADD_CONFIRMED_LEDGER_ID)
    last_add_confirmed_entry_id = Counter(LAST_ADD_CONFIRMED_ENTRY_ID)
    messages_in = Counter(TOPIC_MESSAGES_IN)
    bytes_in = Counter(TOPIC_BYTES_IN)
    check_at_bytes = Counter(CHECK_AT_BYTES)
    """Value of `bytes_in` from which on monitors check appended entries."""
    last_published_ms = Counter(LAST_PUBLISHED_MS)
    """Time of the last publish since the start; 0 = never."""
    subscription_count = Counter(SUBSCRIPTIONS)

    @property
    def last_add_confirmed(self) -> Position:
        """The last entry that is on disk (LAC): subscriptions read up to it (ML-5)."""
        return Position(self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id)

    @property
    def max_read_position(self) -> Position:
        """The last entry that consumers may be sent: before the first one of an open transaction (TX-9)."""
        transactions = self.transactions
        if transactions is None or not (transactions.firsts or transactions.lost):
            return self.last_add_confirmed
        first = min((*transactions.lost, next(iter(transactions.firsts.values()), LATEST)))
        return min(self.last_add_confirmed, ManagedLedger.previous_position(first))

    @property
    def last_visible(self) -> Position:
        """The last entry that a consumer may get, at or before the max read position (RD-3, TX-11)."""
        position, withheld = self.ledger.last_passed(self.max_read_position), self.ledger.withheld
        while withheld and withheld.contains(*position):
            ranges = [
                entry_range
                for entry_range in withheld.ranges_of(position.ledger_id)
                if entry_range[0] <= position.entry_id
            ]
            position = self.ledger.last_passed(Position(position.ledger_id, ranges[-1][0] - 1))
        return position

    @property
    def consumer_count(self) -> int:
        """Connected consumers of all subscriptions (SUB-5)."""
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    def must_roll(self, core: Core) -> bool:
        """Returns whether a new ledger must be opened before the next entry (ML-1, ML-2)."""
        return self.ledger.must_roll(core.wall_ms, core.roll_limits)

    def confirm_entries(self, core: Core, run: EntryRun) -> None:
        """Lets subscriptions read a run that is on disk now."""
        self.last_add_confirmed_ledger_id, self.last_add_confirmed_entry_id = (
            run.ledger_id,
            run.first_entry_id + len(run.starts) - 1,
        )
        if self.subscriptions:
            self.wake_subscriptions(core)

    def ledgers_trimmed(self, core: Core) -> None:
        """Lets consumers past open transactions that have lost all their entries here, once that is on disk: their end
        may not concern this topic any more (TX-26)."""
        transactions = self.transactions
        if transactions is None:
            return
        for txn_id in list(transactions.firsts):
            if txn_id in core.state.transactions and txn_id not in self.state.open_transactions:
                first = transactions.firsts.pop(txn_id)
                transactions.lost.append(first)
                core.when_durable(partial(self._pass_lost, core, transactions, first))

    def _pass_lost(self, core: Core, transactions: OpenTransactions, lost: Position) -> None:
        transactions.lost.remove(lost)
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
        for subscription in self.subscriptions.values():
            subscription.release()
        self.subscriptions.clear()
        self.subscription_count = 0

    def wake_subscriptions(self, core: Core) -> None:
        """Wakes every subscription with consumers, to send new entries."""
        for subscription in self.subscriptions.values():
            if subscription.consumers:
                core.wake(subscription)
