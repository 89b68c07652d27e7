"""Subscriptions: a cursor, and the consumers connected to it (CUR-8, SUB-1). A durable one that is idle for long is
deleted by `upkeep.idle_subscriptions` (CUR-17), one that a client unsubscribes by `subscriptions.subscribing`
(CUR-16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import ProducerBusy
from spark_pulsar.model.names import REPLICATOR_PREFIX
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, KeySharedMeta

from .meters import Meter

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.cursors.cursor import Cursor

    from .consumer import Consumer
    from .core import Core
    from .features import Dispatcher
    from .topic import Topic

_RESERVED_NAMES: Final = frozenset({"pulsar.dedup"})
_READER_KEPT_MS: Final = 60_000
"""Time that a reader's subscription waits for its client to come back after a seek."""


@dataclass(slots=True, eq=False, repr=False)
class Subscription:
    """A subscription of a topic: its cursor, and the consumers connected to it."""

    core: Core
    topic: Topic
    cursor: Cursor
    name: str = field(init=False)
    consumers: list[Consumer] = field(default_factory=list)
    type: int | None = None
    """Subscription type, fixed by the first consumer and open again when the last one leaves (SUB-1)."""
    dispatcher: Dispatcher = field(init=False)
    born_group: int = field(init=False)
    """Group that its creation is durable with; clients hear of the subscription when it is."""
    fenced: bool = False
    """True while a seek searches for its position; consumers wait in `waiting` to join (CUR-11)."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    messages_out: int = 0
    bytes_out: int = 0
    entries_out: int = 0
    messages_dropped: int = 0
    """Messages of a non-persistent topic that no consumer had permits for (NP-3)."""
    entries_expired: int = 0
    last_expired_ms: int = 0
    """Time of the last expiry of entries; 0 = never."""
    last_sent_ms: int = 0
    """Time of the last message to a consumer that has left; 0 = never."""
    last_acked_ms: int = 0
    """Time of the last ack of a consumer that has left; 0 = never."""
    last_flow_ms: int = 0
    """Time of the last permits of a consumer that has left; 0 = never."""
    last_moved_ms: int = 0
    """Time when mark-delete last moved forward; 0 = never."""
    meter: Meter = field(init=False)
    reads_compacted: bool = False
    """True when a consumer reads the compacted view, or the last one did (CMP-C4)."""
    throttled: dict[str, int] = field(default_factory=dict)
    """Counts of waits for dispatch rates, by the member of statistics (SUB-7)."""
    transactions_committed: int = 0
    """Count of committed transactions that had acks here (TX-12)."""
    transactions_aborted: int = 0
    kept_for_seek: bool = False
    """True for a reader's subscription without consumers whose position the next one takes over (CUR-11)."""

    def __post_init__(self) -> None:
        self.name = self.cursor.name
        self.dispatcher = self.core.new_dispatcher(self.core, self, CommandSubscribe.Exclusive)
        self.born_group = self.core.group_of_now
        self.meter = Meter(self.core.now_ms)

    @property
    def is_durable(self) -> bool:
        """True for a subscription that retains its backlog and survives its consumers (CUR-8)."""
        return self.cursor.is_durable

    @property
    def type_name(self) -> str:
        """Name of the type, `None` before the first consumer."""
        return "None" if self.type is None else type_name(self.type)

    @property
    def backlog(self) -> int:
        """Entries on disk that are not acknowledged."""
        return self.cursor.backlog(self.topic.last_add_confirmed)

    def dispatch(self) -> bool:
        """Sends entries as far as permits, limits and rates allow. True when more could be sent in the next turn."""
        limits = self.topic.dispatch_limits
        return self.dispatcher.dispatch() if limits is None else limits.dispatch(self)

    def mark_delete_moved(self) -> None:
        """Acts on a mark-delete that moved forward, by acks, expiry, skips or quotas: the ledger that it passed may go
        (TRIM-1), and consumers may have reached the end of the topic (TN-13). Acks call it."""
        core, topic, cursor = self.core, self.topic, self.cursor
        self.last_moved_ms = core.wall_ms
        if cursor.is_durable:
            front = topic.ledger.front
            if (
                front is not None
                and front.sealed_ms is not None
                and front.ledger_id != topic.held_ledger
                and cursor.mark_delete >= (front.ledger_id, front.entries - 1)
            ):
                core.front_consumed(core, topic)
        if topic.state.is_terminated:
            core.end_acked(core, self)

    def note_expired(self, entries: int, time_ms: int) -> None:
        """Counts entries that expired at this time, by age or up to a position."""
        self.entries_expired += entries
        self.last_expired_ms = time_ms

    def note_throttled(self, member: str) -> None:
        """Counts a wait for a dispatch rate."""
        self.throttled[member] = self.throttled.get(member, 0) + 1

    def add(self, consumer: Consumer, wanted_type: int, key_shared: KeySharedMeta | None = None) -> None:
        """Adds a consumer; `key_shared` is the Key_Shared mode of the first one (SUB-1, SUB-2). ConsumerAssignFailed
        when it cannot have the sticky hashes that it names."""
        dispatcher = self.dispatcher
        if not self.consumers:
            compacted = consumer.read_compacted
            dispatcher = self.core.new_dispatcher(self.core, self, wanted_type, key_shared, read_compacted=compacted)
        dispatcher.admit(consumer)
        if not self.consumers:
            self.type = wanted_type
            self.reads_compacted = False
            self.dispatcher = dispatcher
            self.core.idle.joined(self)
        self.reads_compacted |= consumer.read_compacted
        self.kept_for_seek = False
        self.consumers.append(consumer)
        self.topic.was_used = True
        consumer.session.consumers[consumer.consumer_id] = consumer
        self.dispatcher.attach(consumer)
        if self.topic.dispatch_limits is not None:
            self.topic.dispatch_limits.refresh(self)

    def remove(self, consumer: Consumer) -> None:
        """Removes a consumer that closed and redelivers its unacknowledged messages (`shared_redelivery`, SUB-10). A
        reader's subscription goes with its last consumer (RD-1)."""
        try:
            self.consumers.remove(consumer)
        except ValueError:
            return
        if consumer.session.consumers.get(consumer.consumer_id) is consumer:
            del consumer.session.consumers[consumer.consumer_id]
        self.last_sent_ms = max(self.last_sent_ms, consumer.last_sent_ms)
        self.last_acked_ms = max(self.last_acked_ms, consumer.last_acked_ms)
        self.last_flow_ms = max(self.last_flow_ms, consumer.last_flow_ms)
        self.dispatcher.detach(consumer)
        if self.consumers:
            self.core.wake(self)
            return
        self.type = None
        self.core.idle.left(self)
        if not self.is_durable and not self.kept_for_seek and self.topic.non_persistent is None:
            self.drop()

    def drop(self) -> None:
        """Removes the subscription from its topic, whose counters keep what it has sent (ST-9)."""
        topic = self.topic
        if topic.subscriptions.get(self.name) is self:
            topic.remove_subscription(self)
            topic.messages_out_before += self.messages_out
            topic.bytes_out_before += self.bytes_out
            if topic.dispatch_limits is not None:
                topic.dispatch_limits.remove_subscription(self)
            self.release()

    def release(self) -> None:
        """Frees the dispatcher, once the topic does not have the subscription any more."""
        self.dispatcher = self.core.removed_dispatcher

    def keep_for_seek(self) -> None:
        """Keeps a reader's subscription without consumers for a while: its client comes back to the position it
        sought."""
        if self.is_durable:
            return
        self.kept_for_seek = True

        def drop_idle() -> None:
            if self.kept_for_seek and not self.consumers:
                self.drop()

        self.core.at(self.core.now_ms + _READER_KEPT_MS, drop_idle)

    def unfence(self) -> None:
        """Ends a seek and lets the consumers join that wait."""
        self.fenced = False
        waiting, self.waiting = self.waiting, []
        for join in waiting:
            join()


def type_name(wanted_type: int) -> str:
    """Returns Pulsar's name of a subscription type."""
    return CommandSubscribe.SubType.Name(CommandSubscribe.SubType.ValueType(wanted_type))


def check_subscription_name(name: str) -> None:
    """Refuses blank and reserved names, with ProducerBusy as Apache Pulsar does (TN-12)."""
    if not name.strip():
        raise ProducerBusy("Empty subscription name")
    if name.startswith(REPLICATOR_PREFIX) or name in _RESERVED_NAMES:
        raise ProducerBusy("Subscription with reserved subscription name attempted")


def disconnect(core: Core, subscription: Subscription) -> None:
    """Closes all consumers; their clients come back by themselves."""
    for consumer in list(subscription.consumers):
        core.send(consumer.session, commands.close_consumer(consumer.consumer_id))
        subscription.remove(consumer)
