"""Opens and closes producers: PRODUCER, CLOSE_PRODUCER (PR-1 ... PR-3, PR-11, PR-18, A18). Exclusive access is in
`entities.exclusive_access` (PR-4 ... PR-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities.meters import Meter
from spark_pulsar.broker.entities.producer import Producer
from spark_pulsar.broker.schemas import admission
from spark_pulsar.broker.security import revocation
from spark_pulsar.broker.topic_log import damage, disk_full, termination
from spark_pulsar.broker.topics import auto_creation, lifecycle
from spark_pulsar.model.errors import AuthorizationError, NotAllowed, ProducerBusy, PulsarError, ServiceNotReady
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandCloseProducer, CommandProducer, ProducerAccessMode

from . import backlog_quota, deduplication
from .deduplication import NOTHING_SENT

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic


def on_producer(core: Core, session: Session, command: CommandProducer) -> None:
    """Handles PRODUCER: opens a producer, once quotas let it in (BQ-4), or refuses it."""
    present = session.producers.get(command.producer_id)
    if present is not None:  # answered from the old one whatever the request says (A17)
        _answer_when_ready(core, session, command.request_id, present)
        return
    if command.producer_id in session.waiting_producers or command.producer_id in session.opening:
        raise ServiceNotReady("Producer is already present on the connection")
    if command.txn_enabled and not core.config.transactions_enabled:
        raise NotAllowed("Transactions are not enabled.")
    disk_full.admit_producer(core)
    topic = auto_creation.obtain(core, TopicName.parse(command.topic), may_create=True)

    def admitted(refusal: PulsarError | None) -> None:
        if not handshake.still_wanted(core, session, session.opening, command.producer_id, command):
            return
        try:
            if refusal is not None:
                raise refusal
            _open(core, session, command, topic, may_check=True)
        except PulsarError as error:
            handshake.refuse(core, session, error, command.request_id)

    session.opening[command.producer_id] = command
    backlog_quota.admit(core, topic, admitted)


def _open(core: Core, session: Session, command: CommandProducer, topic: Topic, *, may_check: bool) -> None:
    _check_open(core, session, topic, command)
    mode, epoch = command.producer_access_mode, exclusive_access.epoch_of(command)
    fences = mode == ProducerAccessMode.ExclusiveWithFencing
    name = command.producer_name or _fresh_name(core, topic)
    holder = topic.producers.get(name)
    if holder is not None and holder.session is not session and may_check and not fences:
        _when_holder_is_checked(core, session, command, topic, holder)
        return
    if exclusive_access.must_wait(topic, mode, epoch):
        _wait(core, session, command, topic, name)
        return
    if holder is not None and not fences:
        raise ProducerBusy(f"Producer with name '{name}' is already connected to topic '{topic.name}'")
    _join(core, session, command, topic, name)


def _check_open(core: Core, session: Session, topic: Topic, command: CommandProducer) -> None:
    """Refuses a producer that may not be opened now (PR-12, TN-13)."""
    if not revocation.may_produce(core, session, topic):  # any more, after a wait
        raise AuthorizationError("Client is not authorized to Produce")
    if core.topics.get(topic.full_name) is not topic:  # while something else was waited for
        raise ServiceNotReady(f"{topic.name} is being deleted")
    core.encryption.admit_producer(topic, command)
    damage.admit_producer(topic)
    termination.admit_producer(topic)


def _join(core: Core, session: Session, command: CommandProducer, topic: Topic, name: str) -> None:
    """Opens the producer, unless its topic has as many as it may (PR-13), or a schema that it does not fit (SC-7)."""
    mode = command.producer_access_mode
    fences = mode == ProducerAccessMode.ExclusiveWithFencing
    limit = core.policies_of(topic.name).max_producers
    if limit and len(topic.producers) >= limit and not fences:
        raise ProducerBusy(f"Topic '{topic.name}' reached max producers limit")
    limit = 0 if topic.name.is_system else core.config.max_same_address_producers
    if limit and sum(other.session.host == session.host for other in topic.producers.values()) >= limit and not fences:
        raise ProducerBusy(f"Topic '{topic.name}' reached max same address producers limit")
    schema_version = admission.admit_producer(core, topic, command)
    initial = command.initial_subscription_name
    if initial:
        lifecycle.create_initial_subscription(core, topic, initial)
    if fences:
        exclusive_access.fence(topic)
    properties = {pair.key: pair.value for pair in command.metadata}
    producer = Producer(session, topic, command.producer_id, name, command.epoch, properties, core.wall_ms, mode)
    producer.meter = Meter(core.now_ms)
    producer.schema_version = schema_version
    producer.is_encrypted = command.encrypted
    producer.join(core.producer_counters)
    if mode != ProducerAccessMode.Shared:
        exclusive_access.grant(core, topic, producer, exclusive_access.epoch_of(command))
    deduplication.on_joined(core, producer)
    _answer_when_ready(core, session, command.request_id, producer)


def _wait(core: Core, session: Session, command: CommandProducer, topic: Topic, name: str) -> None:
    """Sends PRODUCER_SUCCESS that says "not ready", and another one when the topic is free (PR-6)."""
    request_id = command.request_id

    def grant() -> None:
        disk_full.admit_producer(core)
        _check_open(core, session, topic, command)
        exclusive_access.check_epoch(topic, exclusive_access.epoch_of(command))
        _join(core, session, command, topic, name)

    def refuse(error: PulsarError) -> None:
        handshake.refuse(core, session, error, request_id)

    exclusive_access.wait(topic, session, command.producer_id, grant, refuse)
    queued = commands.producer_success(request_id, name, ready=False)
    core.when_durable(lambda: core.send(session, queued))


def _when_holder_is_checked(
    core: Core, session: Session, command: CommandProducer, topic: Topic, holder: Producer
) -> None:
    """Opens the producer when the connection of the producer with its name does not answer a PING (PR-2)."""

    session.opening[command.producer_id] = command

    def go_on(_alive: bool) -> None:
        if not handshake.still_wanted(core, session, session.opening, command.producer_id, command):
            return
        try:
            _open(core, session, command, topic, may_check=False)
        except PulsarError as error:
            handshake.refuse(core, session, error, command.request_id)

    handshake.check_alive(core, holder.session, go_on)


def _fresh_name(core: Core, topic: Topic) -> str:
    """Returns a name that no producer of this topic has, over all starts of this broker (PR-1)."""
    while True:
        name = f"{core.config.cluster_name}-{core.instance}-{core.producer_names_given}"
        core.producer_names_given += 1
        if name not in topic.producers:
            return name


def _answer_when_ready(core: Core, session: Session, request_id: int, producer: Producer) -> None:
    """Sends PRODUCER_SUCCESS when all that it rests on is on disk, the last sequence id too, and when the watchers of a
    new topic have joined it (MT-4)."""
    topic, name = producer.topic, producer.name
    last = deduplication.last_sequence_id(topic, name) if topic.deduplicates else NOTHING_SENT

    def refused(error: PulsarError) -> None:
        if session.producers.get(producer.producer_id) is producer:
            producer.leave()
        core.fail(session, request_id, error)

    version, epoch = producer.schema_version, exclusive_access.announced_epoch(topic)
    success = commands.producer_success(request_id, name, last, version, epoch)

    def ready() -> None:
        if session.producers.get(producer.producer_id) is producer:
            core.send(session, success)
        else:
            core.fail(session, request_id, ServiceNotReady("Producer was closed before it was ready"))

    disk_full.answer_when_durable(core, lambda: core.watchers.when_joined(topic.full_name, ready), refused)


def on_close_producer(core: Core, session: Session, command: CommandCloseProducer) -> None:
    """Handles CLOSE_PRODUCER: SUCCESS after the receipts of entries sent before, also for an unknown id."""
    producer = session.producers.get(command.producer_id)
    session.dropped_producers.pop(command.producer_id, None)
    session.opening.pop(command.producer_id, None)
    waiter = session.waiting_producers.get(command.producer_id)
    if waiter is not None:
        waiter.leave()
    if producer is None:
        core.succeed(session, command.request_id)
        return
    if producer.topic.publish_limit is not None:
        producer.topic.publish_limit.let_through(producer)
    producer.leave()
    if core.is_awaited(producer.last_group):
        core.when_durable(lambda: core.succeed(session, command.request_id))
    else:
        core.succeed(session, command.request_id)
