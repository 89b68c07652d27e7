"""Consumers join and leave subscriptions: SUBSCRIBE, FLOW, CLOSE_CONSUMER, UNSUBSCRIBE (SUB-1 ... SUB-5, EX-1).

Each topic and partition has consumers of its own: one of a list of topics is one on each (MT-1, C15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.dispatch.limits import subscribe_rates
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.entities.subscription import Subscription, check_subscription_name, disconnect, type_name
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.schemas import admission, registry
from spark_pulsar.broker.security import revocation
from spark_pulsar.broker.topic_log import damage, disk_full, retention, termination
from spark_pulsar.broker.topics import auto_creation, lifecycle
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.cursors.records import CursorDeleted
from spark_pulsar.model.errors import (
    AuthorizationError,
    ConsumerAssignFailed,
    ConsumerBusy,
    MetadataError,
    NotAllowed,
    PulsarError,
    ServiceNotReady,
    SubscriptionNotFound,
)
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST, Position, signed
from spark_pulsar.wire.pulsar_api_pb2 import (
    AUTO_SPLIT,
    STICKY,
    CommandCloseConsumer,
    CommandFlow,
    CommandSubscribe,
    CommandUnsubscribe,
    KeySharedMode,
)

from . import seek

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic

MAX_WAITING_TO_JOIN: Final = 10_000
"""Requests that may wait for the end of a seek of one subscription (CUR-11)."""

_SHARED_TYPES: Final = (CommandSubscribe.Shared, CommandSubscribe.Key_Shared)


def on_subscribe(core: Core, session: Session, command: CommandSubscribe) -> None:
    """Handles SUBSCRIBE: the consumer joins a subscription, which is created if need be, as its topic is (MT-3), or is
    refused (TN-12): for its name, its rate (SUB-6), its schema (SC-8)."""
    if command.consumer_id in session.consumers:  # already there, whatever the request says (A17)
        present = session.consumers[command.consumer_id].subscription
        core.when_group_durable(present.born_group, lambda: core.succeed(session, command.request_id))
        return
    check_subscription_name(command.subscription)
    name = TopicName.parse(command.topic)
    _check_built(core, name, command)
    topic = auto_creation.obtain(core, name, may_create=command.force_topic_creation)
    subscribe_rates.admit(session, topic, command.consumer_id, command.consumer_name)
    admission.admit_consumer(core, topic, command)
    subscription = topic.subscriptions.get(command.subscription)
    if subscription is None:
        subscription = _create(core, topic, command)
    elif subscription.is_durable != command.durable and topic.non_persistent is None:
        kind = "Durable" if subscription.is_durable else "NonDurable"
        raise NotAllowed(f"{kind} subscription with the same name already exists.")  # X4
    join_when_free(core, session, command, subscription)


def join_when_free(core: Core, session: Session, command: CommandSubscribe, subscription: Subscription) -> None:
    """Lets the consumer join now, or when the seek that runs is over (CUR-11; never refused, C1)."""

    def join() -> None:
        if handshake.still_wanted(core, session, session.joining, command.consumer_id, command):
            try:
                _join(core, session, command, subscription, may_check=True)
            except PulsarError as error:
                handshake.refuse(core, session, error, command.request_id)

    if subscription.fenced and len(subscription.waiting) >= MAX_WAITING_TO_JOIN:
        raise ConsumerBusy(f"Subscription is being reset, and {MAX_WAITING_TO_JOIN} consumers wait for that already")
    session.joining[command.consumer_id] = command
    if subscription.fenced:
        subscription.waiting.append(join)
    else:
        join()


def _check_built(core: Core, topic_name: TopicName, command: CommandSubscribe) -> None:
    """Refuses, with NotAllowed, a type of subscription that is switched off (SUB-3, KS-16), and a compacted view where
    there can be none (CMP-C5)."""
    name = type_name(command.subType)
    if name not in core.policies_of(topic_name).subscription_types:
        raise NotAllowed(f"Topic[{{{command.topic}}}] doesn't support {name} sub type!")
    if command.subType == CommandSubscribe.Key_Shared and not core.config.key_shared:
        raise NotAllowed("Key_Shared subscription is disabled by broker.")
    if command.read_compacted:  # CMP-C5
        if not topic_name.is_persistent:
            raise NotAllowed("readCompacted only valid on persistent topics")
        if command.subType in _SHARED_TYPES:
            raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")


def _create(core: Core, topic: Topic, command: CommandSubscribe) -> Subscription:
    """Creates a subscription at its initial position (CUR-9, CUR-10, A11), within the limit of its topic (CUR-18), with
    properties that later subscribers do not change (CUR-19): a durable one, or that of a reader (RD-1)."""
    properties = {pair.key: pair.value for pair in command.subscription_properties}
    latest = command.initialPosition == CommandSubscribe.Latest
    initial = lifecycle.at_end(topic) if latest else lifecycle.before_first(topic)
    if command.read_compacted and not latest and topic.state.compaction is not None:
        initial = EARLIEST  # trimmed messages may be left in the compacted ledger
    if topic.non_persistent is not None:  # no position, and durable or not makes no difference (TN-9, NP-8)
        return lifecycle.create_subscription(core, topic, command.subscription, initial, properties)
    if command.durable:
        if not core.policies_of(topic.name).allow_auto_subscription_creation:
            raise SubscriptionNotFound("Subscription does not exist")
        subscription = lifecycle.create_subscription(core, topic, command.subscription, initial, properties)
    else:
        mark_delete = _reader_start(topic, command, initial)
        cursor = Cursor(topic.ledger, command.subscription, mark_delete, properties=properties)
        subscription = Subscription(core, topic, cursor)
        subscription.born_group = 0  # nothing of it is ever on disk
        topic.add_subscription(subscription)
    if command.start_message_rollback_duration_sec:
        since_ms = core.wall_ms - 1000 * command.start_message_rollback_duration_sec
        subscription.fenced = True
        seek.place_at_time(core, subscription, since_ms, subscription.unfence)
    return subscription


def _reader_start(topic: Topic, command: CommandSubscribe, initial: Position) -> Position:
    """Returns the mark-delete of a new reader: before the entry that it names, which is delivered too; beyond the end
    its initial position decides (CUR-10)."""
    if not command.HasField("start_message_id"):
        return initial
    wanted = Position(signed(command.start_message_id.ledgerId), signed(command.start_message_id.entryId))
    if wanted > topic.ledger.last_position and wanted.entry_id >= 0:
        return initial
    if command.read_compacted and compaction.covers(topic, wanted):
        return EARLIEST if wanted <= EARLIEST else topic.ledger.previous_position(wanted)
    return topic.ledger.previous_position(topic.ledger.at_or_after(wanted))


def _join(
    core: Core, session: Session, command: CommandSubscribe, subscription: Subscription, *, may_check: bool
) -> None:
    if subscription.topic.subscriptions.get(command.subscription) is not subscription:
        raise MetadataError("The subscription was removed meanwhile")
    topic = subscription.topic
    if not revocation.may_consume(core, session, topic, subscription.name):  # any more, after a wait
        raise AuthorizationError("Client is not authorized to subscribe")
    limits = core.policies_of(topic.name)
    if subscription.consumers:
        if subscription.type != command.subType:
            raise ConsumerBusy(
                f"Subscription is of different type. Active subscription type of '{subscription.type_name}' is "
                f"different than the connecting consumer's type '{type_name(command.subType)}'."
            )
        _check_mode(subscription, command)
        rival = _rival(subscription, command)
        if rival is not None:
            _when_rival_is_checked(core, session, command, subscription, *rival, may_check=may_check)
            return
    if limits.max_consumers and topic.consumer_count >= limits.max_consumers:
        raise ConsumerBusy("Topic reached max consumers limit")
    if limits.max_consumers_per_subscription and len(subscription.consumers) >= limits.max_consumers_per_subscription:
        raise ConsumerBusy("Subscription reached max consumers limit")
    _check_host(core, session, topic)
    damage.admit_consumer(subscription, read_compacted=command.read_compacted)
    consumer = Consumer(
        session,
        subscription,
        command.consumer_id,
        command.consumer_name,
        command.priority_level,
        command.consumer_epoch if command.HasField("consumer_epoch") else None,
        {pair.key: pair.value for pair in command.metadata},
        core.wall_ms,
        read_compacted=command.read_compacted,
        hash_ranges=_ranges(command),
    )
    consumer.auto_consume = admission.is_auto_consume(command)
    subscription.add(consumer, command.subType, command.keySharedMeta)

    def ready() -> None:
        if session.consumers.get(command.consumer_id) is not consumer:  # else its client would take it for connected
            refused(ServiceNotReady("Consumer was closed before it was ready"))
            return
        core.succeed(session, command.request_id)
        consumer.ready = True
        core.watchers.joined(topic.full_name, session)
        termination.joined(core, consumer)
        core.wake(subscription)

    def refused(error: PulsarError) -> None:
        if session.consumers.get(command.consumer_id) is consumer:
            subscription.remove(consumer)
        handshake.refuse(core, session, error, command.request_id)

    group = max(subscription.born_group, registry.group_of(core, topic.name))
    disk_full.answer_when_durable(core, ready, refused, group)


def _check_host(core: Core, session: Session, topic: Topic) -> None:
    """Refuses, with ConsumerBusy, when clients of that host have as many consumers of the topic as they may (SUB-5); of
    a system topic they may have any number."""
    limit = 0 if topic.name.is_system else core.config.max_same_address_consumers
    if limit:
        consumers = (consumer for subscription in topic.subscriptions.values() for consumer in subscription.consumers)
        if sum(consumer.session.host == session.host for consumer in consumers) >= limit:
            raise ConsumerBusy("Topic reached max same address consumers limit")


def _check_mode(subscription: Subscription, command: CommandSubscribe) -> None:
    """Refuses, with ConsumerBusy, a Key_Shared consumer of another mode than the present ones (SUB-2)."""
    dispatcher = subscription.dispatcher
    if not isinstance(dispatcher, KeySharedDispatcher):
        return
    wanted = command.keySharedMeta
    if dispatcher.selector.is_fixed != (wanted.keySharedMode == STICKY):
        present = KeySharedMode.Name(STICKY if dispatcher.selector.is_fixed else AUTO_SPLIT)
        raise ConsumerBusy(
            f"Subscription is of different type. Active subscription key_shared mode of '{present}' is different than "
            f"the connecting consumer's key_shared mode '{KeySharedMode.Name(wanted.keySharedMode)}'."
        )
    if dispatcher.keeps_order == wanted.allowOutOfOrderDelivery:
        raise ConsumerBusy(
            "Subscription is of different type. Active subscription does not allow out of order delivery while the "
            "connecting consumer allows it."
            if dispatcher.keeps_order
            else "Subscription is of different type. Active subscription allows out of order delivery while the "
            "connecting consumer does not allow it."
        )


def _ranges(command: CommandSubscribe) -> tuple[tuple[int, int], ...]:
    """Returns the hash ranges that a consumer names (KS-7, RD-6)."""
    return tuple((hash_range.start, hash_range.end) for hash_range in command.keySharedMeta.hashRanges)


def _rival(subscription: Subscription, command: CommandSubscribe) -> tuple[Consumer, PulsarError] | None:
    """Returns the consumer that holds exclusively what the new one requests, an Exclusive subscription or hash ranges
    in mode STICKY, and the refusal; None without one."""
    if command.subType == CommandSubscribe.Exclusive:
        return subscription.consumers[0], ConsumerBusy("Exclusive consumer is already connected")
    dispatcher = subscription.dispatcher
    rival = dispatcher.selector.rival(_ranges(command)) if isinstance(dispatcher, KeySharedDispatcher) else None
    return None if rival is None else (rival, ConsumerAssignFailed(f"Range conflict with consumer {rival.name}"))


def _when_rival_is_checked(
    core: Core,
    session: Session,
    command: CommandSubscribe,
    subscription: Subscription,
    rival: Consumer,
    refusal: PulsarError,
    *,
    may_check: bool,
) -> None:
    """Lets the consumer join if the connection of its rival is dead, else refuses it (EX-1, KS-7)."""
    if rival.session is session or not may_check:
        raise refusal

    session.joining[command.consumer_id] = command

    def go_on(alive: bool) -> None:
        if not handshake.still_wanted(core, session, session.joining, command.consumer_id, command):
            return
        try:
            if alive and rival in subscription.consumers:
                raise refusal
            if not subscription.is_durable and not subscription.consumers:
                on_subscribe(core, session, command)  # the reader's subscription went with its owner
            else:
                _join(core, session, command, subscription, may_check=False)
        except PulsarError as error:
            handshake.refuse(core, session, error, command.request_id)

    handshake.check_alive(core, rival.session, go_on)


# ---- being there ------------------------------------------------------------------------------------------------


def on_flow(core: Core, session: Session, command: CommandFlow) -> None:
    """Handles FLOW: more permits. For an unknown consumer it is ignored; without permits the connection ends
    (SUB-4)."""
    if command.messagePermits == 0:
        handshake.end(core, session, "FLOW without permits")
        return
    consumer = session.consumers.get(command.consumer_id)
    if consumer is not None:
        consumer.permits += command.messagePermits
        consumer.permits_granted += command.messagePermits
        consumer.last_flow_ms = core.wall_ms
        consumer.first_flow_ms = consumer.first_flow_ms or core.wall_ms
        core.wake(consumer.subscription)


# ---- leaving ----------------------------------------------------------------------------------------------------


def on_close_consumer(core: Core, session: Session, command: CommandCloseConsumer) -> None:
    """Handles CLOSE_CONSUMER: SUCCESS, also for an unknown id. A consumer that waits to join does not any more."""
    session.joining.pop(command.consumer_id, None)
    consumer = session.consumers.get(command.consumer_id)
    if consumer is not None:
        consumer.subscription.remove(consumer)
    core.succeed(session, command.request_id)


def on_unsubscribe(core: Core, session: Session, command: CommandUnsubscribe) -> None:
    """Handles UNSUBSCRIBE: the subscription is deleted with its consumer, unless others are connected (CUR-16)."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        raise MetadataError("Consumer not found")
    disk_full.admit_order(core)
    subscription = consumer.subscription
    if len(subscription.consumers) > 1 and not command.force:
        raise MetadataError("Unconnected or shared consumer attempting to unsubscribe")
    subscription.remove(consumer)
    delete(core, subscription)
    core.when_durable(lambda: core.succeed(session, command.request_id))


def delete(core: Core, subscription: Subscription) -> None:
    """Deletes a subscription; connected consumers are closed."""
    disconnect(core, subscription)
    if subscription.is_durable and subscription.topic.subscriptions.get(subscription.name) is subscription:
        core.append(CursorDeleted(subscription.cursor.cursor_id))
        core.idle.remove(subscription.cursor.cursor_id)
        retention.trim(core, subscription.topic)
    subscription.drop()
