"""The core's shared ground: state, sessions, topics, timers, records being gathered, effects being ordered.

The rooms around it (`producers`, `subscriptions`, `acks`, ...) hold the rules and are given the core as their first
argument; it holds none itself. `broker.Broker` opens the only door.

Durability: `append` applies a record at once, so that memory runs ahead of the disk, and puts it into the group of this
turn. What may be told to anybody only when it is on disk is handed to `when_durable` and runs when the shell reports
the group, in the order it was handed over.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.dispatch.limits.unacked import unacked_limit
from spark_pulsar.broker.lifetime.compaction import Compactions
from spark_pulsar.broker.policies.effective import PolicyBook
from spark_pulsar.broker.publishing.deduplication import SilentProducers
from spark_pulsar.broker.topics.non_persistent import NonPersistentTopics
from spark_pulsar.broker.turn.effects import AppendRecords, CloseSession, Effect, ReadEntries, ReadSizes, SendCommand
from spark_pulsar.wire import commands

if TYPE_CHECKING:
    from spark_pulsar.broker.dispatch.limits.dispatch_limiter import DispatchLimiter
    from spark_pulsar.broker.publishing.encryption import RequiredEncryption
    from spark_pulsar.broker.publishing.publish_rates import PublishLimits
    from spark_pulsar.broker.topics.topic_list_watch import TopicWatchers
    from spark_pulsar.broker.turn.config import BrokerConfig
    from spark_pulsar.broker.upkeep.idle_subscriptions import IdleSubscriptions
    from spark_pulsar.broker.upkeep.monitors import Monitors
    from spark_pulsar.ledger.cache import EntryCache
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.records.base import Record
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.ledger import RollLimits
    from spark_pulsar.model.column_store import ColumnStore
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.policies import EffectivePolicies
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

    from .producer import Producer
    from .session import Session
    from .subscription import Subscription
    from .topic import Topic

_FEW_TIMERS: Final = 1_024

Due = Callable[[], None]
ReadDone = Callable[["list[EntryRun] | None"], None]
"""Takes the runs that were read, or None when the read failed."""
SizesDone = Callable[["list[int] | None"], None]
"""Takes sizes in the same way."""


class Timer:
    """A call that happens at a time, unless it is cancelled before."""

    __slots__ = ("call", "when_ms")

    def __init__(self, when_ms: int, call: Due) -> None:
        self.when_ms = when_ms
        self.call: Due | None = call

    def cancel(self) -> None:
        """Never make the call."""
        self.call = None


class Core:
    """What every room of the broker may use. `Broker` sets the members that stand here without a value."""

    publish_limits: PublishLimits
    """How fast topics may be published to (PR-14)."""
    encryption: RequiredEncryption
    """Which topics take encrypted messages only (PR-12)."""
    roll_limits: RollLimits
    """When a ledger is full."""
    topic_counters: ColumnStore[Topic]
    producer_counters: ColumnStore[Producer]

    def __init__(self, state: DurableState, config: BrokerConfig, cache: EntryCache, instance: int) -> None:
        self.state = state
        self.config = config
        self.cache = cache
        self.policies = PolicyBook(state, config)
        """Effective policies; `policies_of` asks it."""
        self.silent_producers = SilentProducers()
        self.compactions = Compactions()
        self.schema_groups: dict[str, int] = {}
        """The group of records that the schemas of a name are on disk with, where they changed since the start."""
        self.instance = instance
        """A number that no earlier start of this broker had; part of generated producer names."""
        self.now_ms = self.started_ms = 0
        self.sessions: dict[int, Session] = {}
        self.monitors: Monitors
        self.idle: IdleSubscriptions
        """Timers of topics; `Broker` sets it."""
        self.watchers: TopicWatchers
        """Who hears of topics that come and go; `Broker` sets it."""
        self.non_persistent = NonPersistentTopics(self)
        """The topics that are non-persistent, which are among `topics` too."""
        self.topics: dict[str, Topic] = {}
        """Topics in use since the start, by full name. The durable ones of `state` come in when first asked for."""
        self.effects: list[Effect] = []
        self.producer_names_given = self.pending_publish_bytes = 0
        self.dispatch_limit: DispatchLimiter | None = None
        """How fast all topics together may be consumed (SUB-7); `Broker` sets it."""
        self.unacked_limit = unacked_limit(config, self.wake)
        """What Shared subscriptions together may hold (SH-8), when that is limited."""
        self.dispatched_bytes = 0
        """Bytes of entries sent in this turn."""
        self.made_bytes = 0
        """What this turn writes of partitioned topics that it makes."""
        self.readers_with_windows = 0
        """Subscriptions that hold entries read from storage; they share one bound of memory."""
        self.disk_full_reason = ""
        """Why the disk takes no more; empty when it does."""
        self.is_stalled = False
        """Whether nothing at all can be written for lack of space."""
        self.paused_sessions: set[int] = set()
        """Sessions that are not read because of back-pressure (PR-15)."""
        self._records: list[Record] = []
        self._lazy_since_ms: int | None = None
        self._dues: list[Due] = []
        self._group = self._durable_group = self._last_read = self._timers_made = 0
        self._in_flight: deque[tuple[int, list[Due]]] = deque()
        self._reads: dict[int, Callable[[Any], None]] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._clear_timers_at = _FEW_TIMERS
        """With so many timers those that were cancelled are removed: their times may be far away."""
        self._awake: dict[Subscription, None] = {}

    # Telling

    def send(self, session: Session, command: BaseCommand) -> None:
        """Send a command to a session, if it is still there."""
        if session.open:
            self.effects.append(SendCommand(session.session_id, command))

    def succeed(self, session: Session, request_id: int) -> None:
        """Answer SUCCESS."""
        self.send(session, commands.success(request_id))

    def fail(self, session: Session, request_id: int, error: PulsarError) -> None:
        """Answer ERROR."""
        self.send(session, commands.error(request_id, error))

    def close_session(self, session: Session, reason: str) -> None:
        """Order the end of a connection. What it holds is released when the shell reports SessionClosed."""
        if session.open:
            session.open = False
            self.effects.append(CloseSession(session.session_id, reason))

    def policies_of(self, name: TopicName) -> EffectivePolicies:
        """What holds for a topic: its own policies over its namespace's over the configuration's. Cheap."""
        return self.policies.of(name)

    # Durability

    def append(self, record: Record) -> None:
        """Apply a record now and write it with the group of this turn."""
        self.state.apply(record)
        self._records.append(record)
        self._lazy_since_ms = None

    def append_lazily(self, record: Record) -> None:
        """Apply a record now and write it with the next group, in at most `lazy_record_delay_ms`."""
        self.state.apply(record)
        if not self._records:
            self._lazy_since_ms = self.now_ms
        self._records.append(record)

    def when_durable(self, due: Due) -> None:
        """Call `due` when all that was appended up to now is on disk; at once when it is already."""
        if self._records:
            self._lazy_since_ms = None
            self._dues.append(due)
        elif self._in_flight:
            self._in_flight[-1][1].append(due)
        else:
            due()

    @property
    def waiting_records(self) -> int:
        """Records appended and not yet ordered to be written."""
        return len(self._records)

    def waiting_for_disk(self) -> list[Due]:
        """What is to be called when something is on disk."""
        return [due for _, dues in self._in_flight for due in dues] + self._dues

    @property
    def group_of_now(self) -> int:
        """The group that what this turn appended up to now is durable with; 0 when it appended nothing."""
        return self._group + 1 if self._records else 0

    def is_awaited(self, group: int) -> bool:
        """Whether something of a group (see `group_of_now`), or of one before it, waits for the disk."""
        return group > self._group or (bool(self._in_flight) and group >= self._in_flight[0][0])

    def when_group_durable(self, group: int, due: Due) -> None:
        """Call `due` when a group (see `group_of_now`) is on disk, perhaps later; at once when it is already. What does
        not depend on later records so waits for none of them."""
        if group > self._durable_group:
            self.when_durable(due)
        else:
            due()

    def finish_group(self) -> None:
        """End of a turn: order the write of what was appended, unless it is all lazy and may wait."""
        if not self._records:
            return
        if self._lazy_since_ms is not None:
            if self.now_ms < self._lazy_since_ms + self.config.lazy_record_delay_ms:
                return
            self._lazy_since_ms = None
        self._group += 1
        self._in_flight.append((self._group, self._dues))
        self.effects.append(AppendRecords(self._group, self._records))
        self._records, self._dues = [], []

    def on_durable(self, group: int) -> None:
        """The shell reports that groups up to this one are on disk."""
        self._durable_group = max(self._durable_group, group)
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= group:
            for due in in_flight[0][1]:  # what one of them waits for comes behind the others, by growing the list
                due()
            in_flight.popleft()

    def force_lazy_records(self) -> None:
        """Write lazy records with this turn (shutdown)."""
        self._lazy_since_ms = None

    @property
    def all_durable(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._records and not self._in_flight

    # Reading

    def read(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int, done: ReadDone) -> None:
        """Order entries from storage; `done` gets them, or None, in a later turn."""
        self._last_read += 1
        self._reads[self._last_read] = done
        self.effects.append(ReadEntries(self._last_read, ledger_id, entry_id, max_entries, max_bytes))

    def on_read(self, token: int, answer: Any) -> None:
        """The shell answers a read, with None when it failed."""
        self._reads.pop(token)(answer)

    def read_sizes(self, ledger_id: int, first: int, end: int, done: SizesDone) -> None:
        """Order the sizes of entries `first … end - 1` from storage, which must be on disk; `done` gets them, or None,
        in a later turn."""
        self._last_read += 1
        self._reads[self._last_read] = done
        self.effects.append(ReadSizes(self._last_read, ledger_id, first, end))

    # Time

    def at(self, when_ms: int, call: Due) -> Timer:
        """Call at a time, in a turn of its own or the first one after it."""
        timer = Timer(when_ms, call)
        self._timers_made += 1
        if len(self._timers) >= self._clear_timers_at:
            self._timers[:] = [each for each in self._timers if each[2].call is not None]
            heapq.heapify(self._timers)
            self._clear_timers_at = max(_FEW_TIMERS, 2 * len(self._timers))
        heapq.heappush(self._timers, (when_ms, self._timers_made, timer))
        return timer

    def run_timers(self) -> None:
        """Make the calls whose time has come."""
        timers = self._timers
        while timers and timers[0][0] <= self.now_ms:
            call = heapq.heappop(timers)[2].call
            if call is not None:
                call()

    def next_deadline(self) -> int | None:
        """When the core wants to be called even if nothing happens, in its own milliseconds; None = never."""
        if self._awake:
            return self.now_ms
        first = self._timers[0][0] if self._timers else None
        if self._lazy_since_ms is None or not self._records:
            return first
        lazy = self._lazy_since_ms + self.config.lazy_record_delay_ms
        return lazy if first is None else min(first, lazy)

    # Dispatching

    def wake(self, subscription: Subscription) -> None:
        """Let a subscription send what it may at the end of this turn."""
        self._awake[subscription] = None

    def is_awake(self, subscription: Subscription) -> bool:
        """Whether a subscription sends in the next turn."""
        return subscription in self._awake

    def dispatch(self) -> None:
        """Let every subscription that was woken send, up to what one turn may send. Those that have more to send, or
        did not get their turn, stay awake for the next one; the latter go first then."""
        if not self._awake:
            return
        awake, self._awake = self._awake, {}
        self.dispatched_bytes = 0
        unfinished: list[Subscription] = []
        for subscription in awake:
            if self.dispatched_bytes >= self.config.max_turn_bytes:
                self._awake[subscription] = None
            elif subscription.dispatch():
                unfinished.append(subscription)
        for subscription in unfinished:
            self._awake[subscription] = None
