"""The core: durable state, sessions, topics in use, policies and features, as all rules of the broker share them.

The folders around it (`publishing`, `subscriptions`, `topics`, ...) hold the rules and are given the core as their
first argument; it holds none itself. `broker.Broker` builds it with its features and opens the only door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.policies.inheritance import PolicyBook
from spark_pulsar.broker.turn.effects import CloseSession, SendCommand
from spark_pulsar.broker.turn.turn import Turn
from spark_pulsar.wire.protocol import commands

from .sliced_requests import SlicedRequests

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.ledger.cache import EntryCache
    from spark_pulsar.ledger.managed_ledgers.ledger import RollLimits
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.model.column_store import ColumnStore
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.policies.effective_policies import EffectivePolicies
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

    from . import features
    from .producer import Producer
    from .session import Session
    from .topic import Topic


class Core(Turn):
    """State and features that all rules of the broker share. `Broker` sets the members that stand here without a
    value."""

    roll_limits: RollLimits
    """Entries, bytes and age of a full ledger."""
    topic_counters: ColumnStore[Topic]
    producer_counters: ColumnStore[Producer]
    new_dispatcher: features.DispatcherFactory
    removed_dispatcher: features.Dispatcher
    """Dispatcher of all subscriptions that were removed."""
    loaded: tuple[features.TopicObserver, ...]
    """Observers, in this order, of persistent topics that are taken into use."""
    deleted: tuple[features.TopicObserver, ...]
    """Observers, in this order, of persistent topics that are deleted."""
    front_consumed: features.TopicObserver
    """Observer of durable subscriptions that have consumed the oldest ledger of a topic."""
    end_acked: features.SubscriptionObserver
    """Observer of subscriptions of terminated topics whose mark-delete moved."""
    monitors: features.Monitors
    idle: features.IdleSubscriptions
    watchers: features.TopicListWatchers
    authentications: features.Authentications
    non_persistent: features.NonPersistentTopics
    """Non-persistent topics, which are among `topics` too."""
    publish_limits: features.PublishLimits
    """Publish rates (PR-14)."""
    encryption: features.RequiredEncryption
    """Topics that take encrypted messages only (PR-12)."""
    message_sizes: features.MessageSizes
    """Topics that limit the size of an entry (ADM-55)."""
    dispatch_limit: features.DispatchLimiter | None
    """Dispatch rate of all topics together (SUB-7)."""
    unacked_limit: features.UnackedLimit | None
    """Limit of unacknowledged messages of all Shared subscriptions together (SH-8), when there is one."""
    transactions: features.Coordinators
    silent_producers: features.SilentProducers
    compactions: features.Compactions

    def __init__(
        self,
        state: DurableState,
        config: BrokerConfig,
        cache: EntryCache,
        instance: int,
        static_config: BrokerConfig | None = None,
    ) -> None:
        super().__init__(state, config)
        self.static_config = static_config or config
        """Configuration without dynamic keys, as the process was started with it."""
        self.cache = cache
        self.policies = PolicyBook(state, config)
        """Effective policies; `policies_of` reads it."""
        self.schema_groups: dict[str, int] = {}
        """Group of records that the schemas of a name are durable with, where they changed lately."""
        self.instance = instance
        """Number that no earlier start of this broker had; part of generated producer names."""
        self.sessions: dict[int, Session] = {}
        self.sessions_opened = self.handshakes_done = 0
        """Connections since the start, and those of them that did their handshake."""
        self.sliced_requests = SlicedRequests(self)
        self.topics: dict[str, Topic] = {}
        """Topics in use since the start, by full name. Durable ones are taken into use at the first request."""
        self.being_deleted: set[str] = set()
        """Partitioned topics whose partitions are deleted at this moment, step by step; none is created."""
        self.producer_names_given = self.pending_publish_bytes = 0
        self.readers_with_windows = 0
        """Count of subscriptions that hold entries read from storage; they share one bound of memory."""
        self.disk_full_reason = ""
        """Reason why the disk takes no more; empty when it does."""
        self.is_full = False
        """True when nothing at all can be written for lack of space."""
        self.disk_hang_reason = ""
        """Reason why the disk answers nothing at all; empty while it does."""
        self.paused_sessions: set[int] = set()
        """Sessions that are not read because of back-pressure (PR-15)."""

    @property
    def is_stalled(self) -> bool:
        """Returns whether nothing at all can be written now."""
        return self.is_full or bool(self.disk_hang_reason)

    @property
    def disk_reason(self) -> str:
        """Reason why the broker takes no messages: the disk hangs, or is full; empty while it takes them."""
        return self.disk_hang_reason or self.disk_full_reason

    # Commands to clients

    def send(self, session: Session, command: BaseCommand) -> None:
        """Sends a command to a session, if it is still there."""
        if session.open:
            self.effects.append(SendCommand(session.session_id, command))

    def succeed(self, session: Session, request_id: int) -> None:
        """Answers SUCCESS."""
        self.send(session, commands.success(request_id))

    def fail(self, session: Session, request_id: int, error: PulsarError) -> None:
        """Answers ERROR."""
        self.send(session, commands.error(request_id, error))

    def close_session(self, session: Session, reason: str) -> None:
        """Closes a connection. Its session is released when the shell reports SessionClosed."""
        if session.open:
            session.open = False
            self.effects.append(CloseSession(session.session_id, reason))

    def policies_of(self, name: TopicName) -> EffectivePolicies:
        """Looks up the effective policies of a topic: its own over its namespace's over the configuration's. Cached."""
        return self.policies.of(name)
