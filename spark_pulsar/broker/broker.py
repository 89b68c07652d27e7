"""The door: events in, effects out.

    broker.handle(events, now_ms) -> effects

`handle` alone changes the broker, one turn at a call (`turn.turn` describes its order). It reads no clock and does no
I/O: the same events at the same times always give the same effects. Commands may come pipelined: each is handled when
it comes, and waits for no answer (A12). `next_deadline` returns when the broker needs a turn even if nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.configuration.dynamic_config import configured
from spark_pulsar.broker.dispatch.factory import new_dispatcher
from spark_pulsar.broker.dispatch.limits import broker_unacked_limit, dispatch_rates
from spark_pulsar.broker.dispatch.removed_subscription import RemovedDispatcher
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.entities.features import Compactions, SilentProducers
from spark_pulsar.broker.topics.non_persistent_topic import NonPersistentTopics
from spark_pulsar.broker.turn.counter_columns import PRODUCER_WIDTH, TOPIC_WIDTH
from spark_pulsar.broker.upkeep.idle_subscriptions import IdleSubscriptions
from spark_pulsar.broker.upkeep.inactive_topics import InactiveTopics
from spark_pulsar.broker.upkeep.monitors import Monitors
from spark_pulsar.ledger.cache import EntryCache
from spark_pulsar.ledger.managed_ledgers.ledger import RollLimits
from spark_pulsar.ledger.state.documents import DYNAMIC_CONFIGURATION
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.model.column_store import ColumnStore
from spark_pulsar.model.errors import NotAllowed, PulsarError
from spark_pulsar.wire.protocol import transactions
from spark_pulsar.wire.protocol.commands import FIELD_OF
from spark_pulsar.wire.protocol.replies import refusal
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

from .connections import handshake
from .message_lifetime import compaction, delayed_delivery
from .policies import documents
from .publishing import deduplication, encryption, message_sizes, producers, publish_rates, storing_entries
from .schemas import requests as schema_requests
from .security import commands as security_commands
from .security import revocation
from .security.authentication import Authentications
from .subscriptions import acks, consumer_stats, last_message_id, seek, subscribing
from .topic_log import damage, disk_full, retention, termination
from .topics import lookup, name_limits, topic_list_watch
from .transactions import coordinator, entries
from .turn import events
from .upkeep import rate_sampling

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.turn.effects import Effect
    from spark_pulsar.broker.turn.events import Event
    from spark_pulsar.ledger.state.durable_state import DurableState

_INSTANCE_COUNTER: Final = "broker.starts"

CommandHandler = Callable[[Core, "Session", Any], None]

COMMANDS: Final[Mapping[int, CommandHandler]] = {
    BaseCommand.CONNECT: handshake.on_connect,
    BaseCommand.PING: handshake.on_ping,
    BaseCommand.PONG: handshake.on_pong,
    BaseCommand.AUTH_RESPONSE: handshake.on_auth_response,
    BaseCommand.LOOKUP: lookup.on_lookup,
    BaseCommand.PARTITIONED_METADATA: lookup.on_partition_metadata,
    BaseCommand.GET_TOPICS_OF_NAMESPACE: lookup.on_topics_of_namespace,
    BaseCommand.PRODUCER: producers.on_producer,
    BaseCommand.CLOSE_PRODUCER: producers.on_close_producer,
    BaseCommand.SUBSCRIBE: subscribing.on_subscribe,
    BaseCommand.FLOW: subscribing.on_flow,
    BaseCommand.UNSUBSCRIBE: subscribing.on_unsubscribe,
    BaseCommand.CLOSE_CONSUMER: subscribing.on_close_consumer,
    BaseCommand.ACK: acks.on_ack,
    BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: acks.on_redeliver,
    BaseCommand.SEEK: seek.on_seek,
    BaseCommand.GET_LAST_MESSAGE_ID: last_message_id.on_last_message_id,
    BaseCommand.CONSUMER_STATS: consumer_stats.on_consumer_stats,
    BaseCommand.WATCH_TOPIC_LIST: topic_list_watch.on_watch,
    BaseCommand.WATCH_TOPIC_LIST_CLOSE: topic_list_watch.on_close,
    BaseCommand.GET_SCHEMA: schema_requests.on_get_schema,
    BaseCommand.GET_OR_CREATE_SCHEMA: schema_requests.on_get_or_create_schema,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: coordinator.on_tc_client_connect,
    BaseCommand.NEW_TXN: coordinator.on_new_transaction,
    BaseCommand.ADD_PARTITION_TO_TXN: coordinator.on_add_partitions,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: coordinator.on_add_subscriptions,
    BaseCommand.END_TXN: coordinator.on_end,
    BaseCommand.END_TXN_ON_PARTITION: coordinator.on_end_on_partition,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: coordinator.on_end_on_subscription,
}
"""Handlers of commands. SENDs and plain ACKs come as events of their own."""

_NO_TRANSACTIONS: Final = NotAllowed("Transactions are not enabled.")

_OF_TRANSACTIONS: Final = transactions.COMMANDS | {BaseCommand.TC_CLIENT_CONNECT_REQUEST}

_BEFORE_CONNECT: Final = frozenset({BaseCommand.CONNECT, BaseCommand.PING, BaseCommand.PONG, BaseCommand.AUTH_RESPONSE})


def _on_columnar_sends(core: Core, session: Session, event: events.ColumnarSendsReceived) -> None:
    from spark_pulsar.broker.publishing.storing_columns import on_columnar_sends  # NumPy, for many topics in turn

    on_columnar_sends(core, session, event)


class Broker:
    """One broker: durable state, and all connections. A new one has its cluster, tenants and namespaces (B-1)."""

    def __init__(self, state: DurableState, static_config: BrokerConfig, now_ms: int, wall_ahead_ms: int = 0) -> None:
        """`wall_ahead_ms`: milliseconds that the wall clock is ahead of `now_ms`. Takes dynamic keys that `state`
        holds in place of the values of `static_config` (ADM-2)."""
        instance = state.counters.get(_INSTANCE_COUNTER, 0)
        config = configured(static_config, state.documents[DYNAMIC_CONFIGURATION])
        self.core = Core(state, config, EntryCache(config.cache_bytes), instance, static_config)
        self.core.start_clock(now_ms, wall_ahead_ms)
        self.core.roll_limits = RollLimits(
            config.ledger_max_entries, config.ledger_max_bytes, config.ledger_max_age_ms, config.ledger_min_age_ms
        )
        self.core.topic_counters = ColumnStore(TOPIC_WIDTH)
        self.core.producer_counters = ColumnStore(PRODUCER_WIDTH)
        self.core.monitors = Monitors(self.core)
        self.core.authentications = authentications = Authentications(self.core, handshake.connect, handshake.end)
        self.core.watchers = topic_list_watch.TopicWatchers()
        self.core.publish_limits = publish_rates.PublishLimits(self.core)
        self.core.encryption = encryption.RequiredEncryption(self.core)
        self.core.message_sizes = message_sizes.MessageSizes(self.core)
        self.core.new_dispatcher = new_dispatcher
        self.core.removed_dispatcher = RemovedDispatcher()
        self.core.non_persistent = NonPersistentTopics(self.core)
        self.core.unacked_limit = broker_unacked_limit.from_config(config, self.core.wake)
        self.core.silent_producers = SilentProducers()
        self.core.compactions = Compactions()
        self.core.loaded = (
            lambda core, topic: core.monitors.adopt(topic),
            delayed_delivery.adopt,
            entries.adopt,
        )
        self.core.front_consumed, self.core.end_acked = retention.trim, termination.notify_if_all_acked
        self.core.deleted = (compaction.stop_topic, lambda core, topic: core.monitors.remove_topic(topic))
        self.core.transactions = coordinator.new_coordinators(self.core)
        self.core.dispatch_limit = dispatch_rates.of_all(self.core)
        self.core.idle = IdleSubscriptions(self.core)
        self.core.append(CounterSet(_INSTANCE_COUNTER, instance + 1))
        for record in documents.records_of_a_new_broker(state, config):
            self.core.append(record)
        revocation.begin(self.core)
        deduplication.begin(self.core)
        compaction.begin(self.core)
        coordinator.begin(self.core)
        self.core.monitors.start()
        rate_sampling.start(self.core)
        InactiveTopics(self.core).start()
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            events.SendsReceived: self._heard(storing_entries.on_sends),
            events.ColumnarSendsReceived: self._heard(_on_columnar_sends),
            events.AcksReceived: self._heard(acks.on_acks),
            events.CommandReceived: self._heard(_on_command_received),
            events.UnknownCommandReceived: self._bound(_on_unknown_command_received),
            events.ClockCorrected: lambda event: self.core.correct_clock(event.wall_ahead_ms),
            events.RecordsDurable: lambda event: self.core.on_durable(event.group),
            events.EntriesRead: lambda event: self.core.on_read(event.token, event.runs),
            events.SizesRead: lambda event: self.core.on_read(event.token, event.sizes),
            events.ReadFailed: lambda event: self.core.on_read(event.token, None),
            events.EntriesCompacted: self._bound(compaction.on_entries),
            events.CompactionEnded: self._bound(compaction.on_ended),
            events.CompactionFailed: self._bound(compaction.on_failed),
            events.DiskFull: self._bound(disk_full.on_disk_full),
            events.DiskHangs: self._bound(disk_full.on_disk_hangs),
            events.EntriesLost: self._bound(damage.on_entries_lost),
            events.SessionOpened: self._bound(handshake.on_opened),
            events.SessionClosed: self._bound(handshake.on_closed),
            events.SessionAuthenticated: authentications.on_authenticated,
            events.AuthenticationRefused: authentications.on_refused,
            events.WritingPaused: self._bound(handshake.on_writing_paused),
            events.WritingResumed: self._heard(handshake.on_writing_resumed),
            events.StillReading: self._heard(lambda core, session, event: None),
            events.Requested: lambda event: event.request(self.core),
        }

    def _bound(self, handler: Callable[[Core, Any], None]) -> Callable[[Any], None]:
        core = self.core
        return lambda event: handler(core, event)

    def _heard(self, handler: Callable[[Core, Session, Any], None]) -> Callable[[Any], None]:
        """Gives a handler the session that an event came from, unless it is gone; its peer is alive."""
        core = self.core

        def handle(event: Any) -> None:
            session = core.sessions.get(event.session_id)
            if session is not None:
                handshake.heard_from(session)
                handler(core, session, event)

        return handle

    def handle(self, happened: Sequence[Event], now_ms: int) -> list[Effect]:
        """Runs one turn (`turn.turn`): takes events, returns effects. `now_ms`: milliseconds that neither go
        back nor leap; the wall clock is as far ahead of them as `ClockCorrected` said last."""
        self.core.begin_turn(now_ms)
        handlers = self._handlers
        for event in happened:
            handlers[type(event)](event)
        return self.core.end_turn()

    def next_deadline(self) -> int | None:
        """Returns the time of the next turn at the latest, in milliseconds; None = when something happens."""
        return self.core.next_deadline()


def _on_command_received(core: Core, session: Session, event: events.CommandReceived) -> None:
    command = event.command
    kind = command.type
    if not session.connected and kind not in _BEFORE_CONNECT:
        handshake.end(core, session, "a command before CONNECT")
        return
    handler = COMMANDS.get(kind)
    if handler is None:
        handshake.end(core, session, f"a {BaseCommand.Type.Name(kind)} command from a client")
        return
    content = getattr(command, FIELD_OF[kind])
    if kind in _OF_TRANSACTIONS and not core.config.transactions_enabled:
        core.fail(session, content.request_id, _NO_TRANSACTIONS)
        return
    try:
        name_limits.check_command(kind, content)
        if core.config.authorization_enabled:
            security_commands.CHECKS[kind](core, session, content)
        handler(core, session, content)
    except PulsarError as error:
        _refuse(core, session, command, error)


def _refuse(core: Core, session: Session, command: BaseCommand, error: PulsarError) -> None:
    answer = refusal(command, error)
    if answer is not None:
        core.send(session, answer)
    if error.closes == "session":
        handshake.end(core, session, error.message)


def _on_unknown_command_received(core: Core, event: events.UnknownCommandReceived) -> None:
    """Closes the connection, as Apache Pulsar does for command types of other versions (A14)."""
    session = core.sessions.get(event.session_id)
    if session is not None:
        handshake.end(core, session, f"command type {event.command_type} is unknown")
