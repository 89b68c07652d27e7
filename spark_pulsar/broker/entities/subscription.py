"""Subscriptions: a cursor, and the consumers connected to it (sections 6 and 7.1 of the rules)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import ProducerBusy
from spark_pulsar.wire import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe, KeySharedMeta

from .meters import Meter

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.cursor import Cursor

    from .consumer import Consumer
    from .core import Core
    from .features import Dispatcher
    from .topic import Topic

_RESERVED_PREFIX: Final = "pulsar.repl"
_RESERVED_NAMES: Final = frozenset({"pulsar.dedup"})
_READER_KEPT_MS: Final = 60_000
"""How long a reader's subscription waits for its client to come back after a seek."""


class Subscription:
    """A subscription of a topic: its cursor, and the consumers connected to it."""

    __slots__ = (
        "born_group",
        "bytes_out",
        "consumers",
        "core",
        "cursor",
        "dispatcher",
        "entries_expired",
        "entries_out",
        "fenced",
        "kept_for_seek",
        "last_acked_ms",
        "last_expired_ms",
        "last_flow_ms",
        "last_moved_ms",
        "last_sent_ms",
        "messages_dropped",
        "messages_out",
        "meter",
        "name",
        "reads_compacted",
        "throttled",
        "topic",
        "type",
        "waiting",
    )

    def __init__(self, core: Core, topic: Topic, cursor: Cursor) -> None:
        self.core = core
        self.topic = topic
        self.name = cursor.name
        self.cursor = cursor
        self.consumers: list[Consumer] = []
        self.type: int | None = None
        """Subscription type, fixed by the first consumer and open again when the last one leaves (SUB-1)."""
        self.dispatcher: Dispatcher = core.new_dispatcher(core, self, CommandSubscribe.Exclusive)
        self.born_group = core.group_of_now
        """The group that its creation is durable with; nobody is told of it before."""
        self.fenced = False
        """Whether a seek is looking for its place; requests to join wait in `waiting` (CUR-11)."""
        self.waiting: list[Callable[[], None]] = []
        self.messages_out = 0
        self.bytes_out = 0
        self.entries_out = 0
        self.messages_dropped = 0
        """That nobody could take, of a non-persistent topic (NP-3)."""
        self.entries_expired = 0
        self.last_expired_ms = 0
        """When entries expired last; 0 = never."""
        self.last_sent_ms = self.last_acked_ms = self.last_flow_ms = 0
        """When consumers that have left last got something, acked, gave permits; 0 = never."""
        self.last_moved_ms = 0
        """When mark-delete last moved forward; 0 = never."""
        self.meter = Meter(core.now_ms)
        self.reads_compacted = False
        """Whether a consumer wants the compacted view, or the last one did (CMP-C4)."""
        self.throttled: dict[str, int] = {}
        """How often rates kept it waiting, by the member of statistics (SUB-7)."""
        self.kept_for_seek = False
        """A reader's subscription without consumers whose position the next one takes over (wire-protocol 5.9)."""

    @property
    def is_durable(self) -> bool:
        """Whether it holds data and survives its consumers (CUR-8)."""
        return self.cursor.is_durable

    @property
    def type_name(self) -> str:
        """Name of the type, `None` before the first consumer."""
        return "None" if self.type is None else type_name(self.type)

    @property
    def backlog(self) -> int:
        """Entries on disk that are not acked."""
        return self.cursor.backlog(self.topic.last_add_confirmed)

    def dispatch(self) -> bool:
        """Send what may be sent now. True when more could be sent at once in the next turn."""
        limits = self.topic.dispatch_limits
        return self.dispatcher.dispatch() if limits is None else limits.dispatch(self)

    def mark_delete_moved(self) -> None:
        """Does what follows from a mark-delete that moved forward, by acks, expiry, skips or quotas: the ledger that it
        passed may go (TRIM-1), and consumers may have reached the end of the topic (TN-13). Acks call it."""
        core, topic, cursor = self.core, self.topic, self.cursor
        self.last_moved_ms = core.now_ms
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

    def note_throttled(self, member: str) -> None:
        """A rate keeps it waiting."""
        self.throttled[member] = self.throttled.get(member, 0) + 1

    def add(self, consumer: Consumer, wanted_type: int, key_shared: KeySharedMeta | None = None) -> None:
        """Let a consumer in; `key_shared` says how a Key_Shared subscription shares out its keys. ConsumerAssignFailed
        when it cannot have the slots that it wants."""
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
            self.topic.dispatch_limits.look(self)

    def remove(self, consumer: Consumer) -> None:
        """A consumer left; what it held goes to the others. A reader's subscription goes with its last one (RD-1)."""
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
        """Forget the subscription."""
        topic = self.topic
        if topic.subscriptions.get(self.name) is self:
            topic.remove_subscription(self)
            topic.messages_out_before += self.messages_out
            topic.bytes_out_before += self.bytes_out
            if topic.dispatch_limits is not None:
                topic.dispatch_limits.forget(self)

    def keep_for_seek(self) -> None:
        """Survive without consumers for a while, so that the client finds the position it sought."""
        if self.is_durable:
            return
        self.kept_for_seek = True

        def forget() -> None:
            if self.kept_for_seek and not self.consumers:
                self.drop()

        self.core.at(self.core.now_ms + _READER_KEPT_MS, forget)

    def unfence(self) -> None:
        """The seek is over: who waited may join."""
        self.fenced = False
        waiting, self.waiting = self.waiting, []
        for join in waiting:
            join()


def type_name(wanted_type: int) -> str:
    """Pulsar's name of a subscription type."""
    return CommandSubscribe.SubType.Name(CommandSubscribe.SubType.ValueType(wanted_type))


def check_subscription_name(name: str) -> None:
    """Refuse empty and reserved names; Pulsar answers them with ProducerBusy (TN-12)."""
    if not name:
        raise ProducerBusy("Empty subscription name")
    if name.startswith(_RESERVED_PREFIX) or name in _RESERVED_NAMES:
        raise ProducerBusy("Subscription with reserved subscription name attempted")


def disconnect(core: Core, subscription: Subscription) -> None:
    """Close all consumers from our side; their clients come back by themselves."""
    for consumer in list(subscription.consumers):
        core.send(consumer.session, commands.close_consumer(consumer.consumer_id))
        subscription.remove(consumer)
