"""Protocols of the features that higher folders add to a subscription, a topic, a session or the core.

A feature is built by the folder that answers for it (`lifetime`, `publishing`, `dispatch`, ...), which imports the
entities; entities and lower folders know it by its protocol alone. Plain data stands here itself. `broker.Broker`
builds the features of the core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
    from spark_pulsar.ledger.state.delays import Delays
    from spark_pulsar.ledger.state.topics import TopicState
    from spark_pulsar.ledger.state.transactions import Transaction
    from spark_pulsar.model.name_index import NameIndex
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.policies.effective_policies import BacklogQuota, DispatchRate, PublishRate
    from spark_pulsar.model.positions.ranges import RangeSet
    from spark_pulsar.wire.pulsar_api_pb2 import (
        CommandAuthResponse,
        CommandConnect,
        CommandProducer,
        CommandWatchTopicList,
        KeySharedMeta,
    )
    from spark_pulsar.wire.sends.send_runs import SendRun

    from .consumer import Consumer
    from .core import Core
    from .producer import Producer
    from .session import Session
    from .subscription import Subscription
    from .topic import Topic

    EntryRange = tuple[int, int, int]


# ---- of a subscription ------------------------------------------------------------------------------------------


class Dispatcher(Protocol):
    """Sends a subscription's entries to its consumers (`dispatch.base`)."""

    turn_messages: int
    turn_entries: int
    turn_bytes: int
    stopping: bool

    def admit(self, consumer: Consumer) -> None:
        """Refuses a consumer that is about to join, by an error."""

    def attach(self, consumer: Consumer) -> None:
        """Takes a consumer that joined."""

    def detach(self, consumer: Consumer) -> None:
        """Redelivers the unacknowledged messages of a consumer that left."""

    def dispatch(self) -> bool: ...
    def begin(self) -> None: ...
    def has_work(self) -> bool: ...
    def has_to_send(self, entries: int) -> bool: ...
    def rewind(self) -> None: ...
    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None: ...
    def acked(self, consumer: Consumer, ranges: Iterable[EntryRange]) -> None: ...
    def batch_acked(self, consumer: Consumer, ledger_id: int, entry_id: int, messages_left: int) -> None: ...
    def passed(self) -> None: ...
    def expired(self, ranges: Iterable[EntryRange]) -> None: ...
    def released(self, ranges: Iterable[EntryRange]) -> None: ...
    def acks_aborted(self, ranges: Sequence[EntryRange]) -> None: ...
    def limits_changed(self) -> None: ...
    def check(self) -> None: ...

    @property
    def is_blocked(self) -> bool: ...
    @property
    def active_consumer(self) -> Consumer | None: ...
    @property
    def delayed_count(self) -> int: ...
    @property
    def replay_count(self) -> int: ...


class DispatcherFactory(Protocol):
    """Makes the dispatcher of a subscription type (`dispatch.factory`)."""

    def __call__(
        self,
        core: Core,
        subscription: Subscription,
        subscription_type: int,
        key_shared: KeySharedMeta | None = None,
        *,
        read_compacted: bool = False,
    ) -> Dispatcher: ...


# ---- of a topic -------------------------------------------------------------------------------------------------


class PublishLimit(Protocol):
    """The publish rate of a topic (`publishing.publish_rates`, PR-14)."""

    rate: PublishRate

    @property
    def is_shared(self) -> bool: ...
    @property
    def onward(self) -> PublishLimit | None: ...
    def accept(self, producer: Producer, sends: SendRun) -> None: ...
    def let_through(self, producer: Producer) -> None: ...
    def remove_producer(self, producer: Producer) -> None: ...
    def end(self) -> None: ...


class SubscribeLimit(Protocol):
    """The subscribe rate of a topic (`dispatch.limits.subscribe_rates`, SUB-6)."""

    def try_acquire(self, identity: tuple[str, str, int]) -> bool:
        """Returns whether a consumer may subscribe once more."""


class DispatchLimits(Protocol):
    """The dispatch rates of a topic and its subscriptions (`dispatch.limits.dispatch_rates`, SUB-7)."""

    @property
    def subscribers(self) -> SubscribeLimit | None: ...

    def dispatch(self, subscription: Subscription) -> bool: ...
    def refresh(self, subscription: Subscription) -> None: ...
    def remove_subscription(self, subscription: Subscription) -> None: ...
    def reset_subscribers(self) -> None: ...
    def end(self) -> None: ...
    def check(self) -> None: ...


class DelayWatch(Protocol):
    """The delayed entries of a topic (`lifetime.delayed_delivery`, DEL-4)."""

    delays: Delays

    @property
    def held(self) -> RangeSet | None: ...
    def arm(self, not_before_ms: int = 0) -> None: ...
    def check(self) -> None: ...
    def free(self, ranges: Sequence[EntryRange]) -> None: ...


class TtlMonitor(Protocol):
    """Expires the entries of a topic with a time to live (`lifetime.ttl`, TTL-1)."""

    age_ms: int

    def appended(self, run: EntryRun) -> None: ...
    def released(self, ranges: Iterable[EntryRange]) -> None: ...
    def has_expired(self, run: EntryRun, index: int, horizon_ms: int) -> bool: ...
    def begin_again(self) -> None: ...
    def end(self) -> None: ...


@dataclass(slots=True, eq=False)
class QuotaWatch:
    """The quotas of one topic (`publishing.backlog_quota`, BQ-1)."""

    size: BacklogQuota
    age: BacklogQuota
    timer: Timer | None = None
    evicting: int = 0
    """Number of subscriptions whose old entries are being evicted."""
    is_checking: bool = False
    """True while a check waits for the disk."""

    @property
    def has_size(self) -> bool:
        """True when there is a limit of size; 0 is one (BQ-1)."""
        return self.size.limit_bytes >= 0

    @property
    def has_age(self) -> bool:
        """True when there is a limit of age (BQ-2)."""
        return self.age.limit_time_s > 0

    def end(self) -> None:
        """Ends the checks of age."""
        if self.timer is not None:
            self.timer.cancel()


class SubscriptionObserver(Protocol):
    """Hears of a subscription that something happened to; a function of the folder that wants to."""

    def __call__(self, core: Core, subscription: Subscription, /) -> None: ...


class TopicObserver(Protocol):
    """Hears of every persistent topic that is taken into use, or deleted; a function of the folder that wants to."""

    def __call__(self, core: Core, topic: Topic, /) -> None: ...


# ---- of a session -----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class TopicListWatcher:
    """A watcher of one session (`topics.topic_list_watch`, MT-2)."""

    session: Session
    watcher_id: int
    list: Any
    """`topics.topic_list_watch.WatchedList`."""
    knows: int
    """Number of the last changes that the whole list sent to the watcher contains."""


# ---- of the core ------------------------------------------------------------------------------------------------


class TopicListWatchers(Protocol):
    """All watched lists of topics, notified when topics come and go."""

    def steps(self, core: Core, session: Session, command: CommandWatchTopicList, pattern: Any) -> Iterator[int]: ...
    def remove(self, watcher: Any) -> None: ...
    def changed(self, core: Core, name: TopicName, *, exists: bool) -> None: ...
    def when_joined(self, full_name: str, call: Callable[[], None]) -> None: ...
    def joined(self, full_name: str, session: Session) -> None: ...


class Authentications(Protocol):
    """Authentication of all sessions (`security.authentication`)."""

    def begin(self, session: Session, command: CommandConnect) -> None: ...
    def refresh(self, session: Session, command: CommandAuthResponse) -> None: ...
    def remove_session(self, session_id: int) -> None: ...


class NonPersistentTopics(Protocol):
    """The non-persistent topics in use (`topics.non_persistent`)."""

    by_name: dict[str, Topic]
    names: NameIndex

    def add(self, topic: Topic) -> None: ...
    def remove(self, topic: Topic) -> None: ...


class LedgerRolls(Protocol):
    """Rollover of ledgers by time (`topic_log.rollover`)."""

    def opened(self, info: LedgerInfo, name: TopicName) -> None: ...
    def remove(self, ledger_ids: Iterable[int]) -> None: ...


class Monitors(Protocol):
    """Monitors that visit topics by the clock (`upkeep.monitors`)."""

    @property
    def rolls(self) -> LedgerRolls: ...
    def adopt_non_persistent(self, topic: Topic) -> None: ...
    def appended(self, topic: Topic, run: EntryRun) -> None: ...
    def joined(self, topic: Topic) -> None: ...
    def unloaded(self, topic: Topic) -> None: ...
    def remove_topic(self, topic: Topic) -> None: ...
    def configure(self) -> None: ...


class IdleSubscriptions(Protocol):
    """Subscriptions without consumers, which expire (`upkeep.idle_subscriptions`)."""

    def made(self, subscription: Subscription) -> None: ...
    def joined(self, subscription: Subscription) -> None: ...
    def left(self, subscription: Subscription) -> None: ...
    def check(self, topic: TopicState) -> None: ...
    def remove(self, cursor_id: int) -> None: ...


class PublishLimits(Protocol):
    """Publish rates of all topics (`publishing.publish_rates`)."""

    of_all: Any
    of_groups: dict[str, Any]
    topics: int

    def shared_by(self, group: str) -> Any: ...
    def configure(self) -> None: ...


class RequiredEncryption(Protocol):
    """Topics that take encrypted messages only (`publishing.encryption`, PR-12)."""

    topics: set[Topic]

    def adopt(self, topic: Topic) -> None: ...
    def remove_topic(self, topic: Topic) -> None: ...
    def admit_producer(self, topic: Topic, command: CommandProducer) -> None: ...


class MessageSizes(Protocol):
    """Topics that limit the size of an entry (`publishing.message_sizes`, ADM-55)."""

    limits: dict[Topic, int]

    def adopt(self, topic: Topic) -> None: ...
    def remove_topic(self, topic: Topic) -> None: ...


class DispatchLimiter(Protocol):
    """One dispatch rate and the subscriptions that wait for it (`dispatch.limits.dispatch_limiter`)."""

    line: OrderedDict[Subscription, None]

    @property
    def rate(self) -> DispatchRate: ...

    def blocks(self, subscription: Subscription) -> bool: ...
    def keeps_waiting(self, subscription: Subscription) -> bool: ...
    def stand_in_line(self, subscription: Subscription) -> None: ...
    def leave(self, subscription: Subscription) -> None: ...
    def share(self) -> tuple[int, int]: ...
    def spend(self, messages: int, size_bytes: int) -> None: ...
    def check(self, onward: Sequence[DispatchLimiter]) -> None: ...


class OpenTransactionCounts(Protocol):
    """Open transactions by coordinator, role and connection (`transactions.open_transactions`)."""

    def count_of(self, most: int) -> int: ...
    def check_room(self, most: int, session: Session) -> None: ...
    def add(self, transaction: Transaction, session: Session | None) -> None: ...
    def remove(self, transaction: Transaction) -> None: ...


class Coordinators(Protocol):
    """The transaction coordinators (`transactions.coordinator`)."""

    @property
    def open(self) -> OpenTransactionCounts: ...

    counts: dict[int, Any]
    names_length: int

    def of(self, most: int) -> Any: ...


class UnackedLimit(Protocol):
    """Limit of unacknowledged messages of all Shared subscriptions together (`limits.broker_unacked_limit`, SH-8)."""

    held: dict[Subscription, int]
    waiting: dict[Subscription, None]

    def note(self, subscription: Subscription, unacked: int) -> None: ...
    def allowance(self, subscription: Subscription) -> int: ...


@dataclass(slots=True, eq=False)
class Compactions:
    """Running compactions by token, and the outcome of each topic's last one since the start of the broker
    (`lifetime.compaction`)."""

    running: dict[int, Any] = field(default_factory=dict)
    statuses: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Status and error of the last compaction, by topic id."""
    failed_ms: dict[int, int] = field(default_factory=dict)
    last_token: int = 0


@dataclass(slots=True, eq=False)
class SilentProducers:
    """Producers with known sequence ids that are not connected, and since when, as far as was noticed
    (`publishing.deduplication`, DED-9)."""

    since_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    """Times by topic id and producer name, as the last round found them."""
    found_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    """Times that the round which goes on has found."""
    is_watching: bool = False
    """True when any topic de-duplicates or did: a timer runs then."""
