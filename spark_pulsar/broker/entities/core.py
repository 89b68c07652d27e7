"""The core: durable state, sessions, topics in use, policies and features, as all rules of the broker share them.

The folders around it (`publishing`, `subscriptions`, `topics`, ...) hold the rules and are given the core as their
first argument; it holds none itself. `broker.Broker` builds it with its features and opens the only door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.policies.effective import PolicyBook
from spark_pulsar.broker.turn.effects import CloseSession, SendCommand
from spark_pulsar.broker.turn.turn import Turn
from spark_pulsar.wire import commands

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.config import BrokerConfig
    from spark_pulsar.ledger.cache import EntryCache
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.ledger import RollLimits
    from spark_pulsar.model.column_store import ColumnStore
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.policies import EffectivePolicies
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

    from . import features
    from .producer import Producer
    from .session import Session
    from .topic import Topic


class Core(Turn):
    """What every rule of the broker may use. `Broker` sets the members that stand here without a value."""

    roll_limits: RollLimits
    """When a ledger is full."""
    topic_counters: ColumnStore[Topic]
    producer_counters: ColumnStore[Producer]
    new_dispatcher: features.DispatcherFactory
    taken_into_use: tuple[features.TopicObserver, ...]
    """Told, in this order, of each persistent topic that is taken into use."""
    deleted: tuple[features.TopicObserver, ...]
    """Told, in this order, of each persistent topic that is deleted."""
    front_consumed: features.TopicObserver
    """Told when a durable subscription has consumed the oldest ledger of a topic."""
    end_acked: features.SubscriptionObserver
    """Told when the mark-delete of a subscription of a terminated topic moved."""
    monitors: features.Monitors
    idle: features.IdleSubscriptions
    watchers: features.TopicListWatchers
    non_persistent: features.NonPersistentTopics
    """The topics that are non-persistent, which are among `topics` too."""
    publish_limits: features.PublishLimits
    """How fast topics may be published to (PR-14)."""
    encryption: features.RequiredEncryption
    """Which topics take encrypted messages only (PR-12)."""
    dispatch_limit: features.DispatchLimiter | None
    """How fast all topics together may be consumed (SUB-7)."""
    unacked_limit: features.UnackedLimit | None
    """What Shared subscriptions together may hold (SH-8), when that is limited."""
    silent_producers: features.SilentProducers
    compactions: features.Compactions

    def __init__(self, state: DurableState, config: BrokerConfig, cache: EntryCache, instance: int) -> None:
        super().__init__(state, config)
        self.cache = cache
        self.policies = PolicyBook(state, config)
        """Effective policies; `policies_of` asks it."""
        self.schema_groups: dict[str, int] = {}
        """The group of records that the schemas of a name are on disk with, where they changed since the start."""
        self.instance = instance
        """A number that no earlier start of this broker had; part of generated producer names."""
        self.sessions: dict[int, Session] = {}
        self.topics: dict[str, Topic] = {}
        """Topics in use since the start, by full name. The durable ones of `state` come in when first asked for."""
        self.producer_names_given = self.pending_publish_bytes = 0
        self.readers_with_windows = 0
        """Subscriptions that hold entries read from storage; they share one bound of memory."""
        self.disk_full_reason = ""
        """Why the disk takes no more; empty when it does."""
        self.is_stalled = False
        """Whether nothing at all can be written for lack of space."""
        self.paused_sessions: set[int] = set()
        """Sessions that are not read because of back-pressure (PR-15)."""

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
