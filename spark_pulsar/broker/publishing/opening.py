"""Publishing: opening producers, runs of SENDs, receipts, back-pressure (rules section 2; wire-protocol 5.4, 5.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities import session as sessions
from spark_pulsar.broker.entities.producer import Producer, send_receipts
from spark_pulsar.broker.lifetime import delayed_delivery
from spark_pulsar.broker.schemas import registry
from spark_pulsar.broker.topic_log import damage, disk_full, termination
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.topics.non_persistent import publish
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.records.base import EntriesAppended
from spark_pulsar.ledger.records.topics import TopicChunked
from spark_pulsar.ledger.state.ledger import fitting
from spark_pulsar.model.errors import ChecksumFailed, NotAllowed, ProducerBusy, PulsarError, ServiceNotReady
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandCloseProducer, CommandProducer, ProducerAccessMode
from spark_pulsar.wire.send_runs import CHUNK

from . import backlog_quota, deduplication, encryption, pending_publishes
from .deduplication import NOTHING_SENT, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.events import Flaw, SendsReceived
    from spark_pulsar.ledger.state.ledger import LedgerInfo
    from spark_pulsar.wire.send_runs import SendRun

FLAWS: Final[Mapping[Flaw, PulsarError]] = {
    "checksum": ChecksumFailed("Checksum failed on the broker"),
    "metadata": NotAllowed("The message metadata does not fit into the entry"),
    "transaction": NotAllowed("Transactions are not enabled."),
    "marker": NotAllowed("Markers and shadow messages are the broker's own"),
}
"""What a SEND with a flaw is answered with (PR-12)."""


# ---- opening and closing ----------------------------------------------------------------------------------------


def on_producer(core: Core, session: Session, command: CommandProducer) -> None:
    """PRODUCER: opens a producer, or says why not."""
    present = session.producers.get(command.producer_id)
    if present is not None:  # answered from the old one whatever the request says (wire-protocol 5.4)
        _tell_when_ready(core, session, command.request_id, present)
        return
    if command.producer_id in session.waiting_producers or command.producer_id in session.opening:
        raise ServiceNotReady("Producer is already present on the connection")
    if command.txn_enabled:
        raise NotAllowed("Transactions are not enabled.")
    disk_full.admit_producer(core)
    topic = lifecycle.obtain(core, TopicName.parse(command.topic), may_create=True)

    def admitted(refusal: PulsarError | None) -> None:
        if not sessions.still_wanted(core, session, session.opening, command.producer_id, command):
            return
        try:
            if refusal is not None:
                raise refusal
            _open(core, session, command, topic, look_again=True)
        except PulsarError as error:
            sessions.refuse(core, session, error, command.request_id)

    session.opening[command.producer_id] = command
    backlog_quota.admit(core, topic, admitted)


def _open(core: Core, session: Session, command: CommandProducer, topic: Topic, *, look_again: bool) -> None:
    _check_open(core, topic, command)
    mode, epoch = command.producer_access_mode, exclusive_access.epoch_of(command)
    fences = mode == ProducerAccessMode.ExclusiveWithFencing
    name = command.producer_name or _fresh_name(core, topic)
    holder = topic.producers.get(name)
    if holder is not None and holder.session is not session and look_again and not fences:
        _when_holder_is_checked(core, session, command, topic, holder)
        return
    if exclusive_access.must_wait(topic, mode, epoch):
        _wait(core, session, command, topic, name)
        return
    if holder is not None and not fences:
        raise ProducerBusy(f"Producer with name '{name}' is already connected to topic '{topic.name}'")
    _join(core, session, command, topic, name)


def _check_open(core: Core, topic: Topic, command: CommandProducer) -> None:
    """Raises why the producer may not be opened now."""
    if core.topics.get(topic.full_name) is not topic:  # while something else was waited for
        raise ServiceNotReady(f"{topic.name} is being deleted")
    core.encryption.admit_producer(topic, command)
    damage.admit_producer(topic)
    termination.admit_producer(topic)


def _join(core: Core, session: Session, command: CommandProducer, topic: Topic, name: str) -> None:
    mode = command.producer_access_mode
    fences = mode == ProducerAccessMode.ExclusiveWithFencing
    limit = core.policies_of(topic.name).max_producers
    if limit and len(topic.producers) >= limit and not fences:
        raise ProducerBusy(f"Topic '{topic.name}' reached max producers limit")
    limit = 0 if topic.name.is_system else core.config.max_same_address_producers
    if limit and sum(each.session.host == session.host for each in topic.producers.values()) >= limit and not fences:
        raise ProducerBusy(f"Topic '{topic.name}' reached max same address producers limit")
    schema_version = registry.admit_producer(core, topic, command)
    initial = command.initial_subscription_name
    if initial:
        lifecycle.create_initial_subscription(core, topic, initial)
    if fences:
        exclusive_access.fence(topic)
    properties = {pair.key: pair.value for pair in command.metadata}
    producer = Producer(session, topic, command.producer_id, name, command.epoch, properties, core.now_ms, mode)
    producer.schema_version = schema_version
    producer.is_encrypted = command.encrypted
    producer.join(core.producer_numbers)
    if mode != ProducerAccessMode.Shared:
        exclusive_access.take(core, topic, producer, exclusive_access.epoch_of(command))
    deduplication.on_joined(core, producer)
    _tell_when_ready(core, session, command.request_id, producer)


def _wait(core: Core, session: Session, command: CommandProducer, topic: Topic, name: str) -> None:
    """PRODUCER_SUCCESS that says "not ready", and another one when the topic is free (PR-6)."""
    request_id = command.request_id

    def grant() -> None:
        disk_full.admit_producer(core)
        _check_open(core, topic, command)
        exclusive_access.check_epoch(topic, exclusive_access.epoch_of(command))
        _join(core, session, command, topic, name)

    def refuse(error: PulsarError) -> None:
        sessions.refuse(core, session, error, request_id)

    exclusive_access.wait(topic, session, command.producer_id, grant, refuse)
    queued = commands.producer_success(request_id, name, ready=False)
    core.when_durable(lambda: core.send(session, queued))


def _when_holder_is_checked(
    core: Core, session: Session, command: CommandProducer, topic: Topic, holder: Producer
) -> None:
    """The name is held over another connection: it stays there if that one still answers (PR-2)."""

    session.opening[command.producer_id] = command

    def go_on(_alive: bool) -> None:
        if not sessions.still_wanted(core, session, session.opening, command.producer_id, command):
            return
        try:
            _open(core, session, command, topic, look_again=False)
        except PulsarError as error:
            sessions.refuse(core, session, error, command.request_id)

    sessions.check_alive(core, holder.session, go_on)


def _fresh_name(core: Core, topic: Topic) -> str:
    """A name that no producer of this topic has, over all starts of this broker (PR-1)."""
    while True:
        name = f"{core.config.cluster_name}-{core.instance}-{core.producer_names_given}"
        core.producer_names_given += 1
        if name not in topic.producers:
            return name


def _tell_when_ready(core: Core, session: Session, request_id: int, producer: Producer) -> None:
    """PRODUCER_SUCCESS when all that it rests on is on disk, the last sequence id too."""
    topic, name = producer.topic, producer.name
    last = deduplication.last_sequence_id(topic, name) if topic.deduplicates else NOTHING_SENT

    def refused(error: PulsarError) -> None:
        if session.producers.get(producer.producer_id) is producer:
            producer.leave()
        core.fail(session, request_id, error)

    version, epoch = producer.schema_version, exclusive_access.told_epoch(topic)
    success = commands.producer_success(request_id, name, last, version, epoch)

    def ready() -> None:
        if session.producers.get(producer.producer_id) is producer:
            core.send(session, success)
        else:
            core.fail(session, request_id, ServiceNotReady("Producer was closed before it was ready"))

    disk_full.answer_when_durable(core, ready, refused)


def on_close_producer(core: Core, session: Session, command: CommandCloseProducer) -> None:
    """CLOSE_PRODUCER: SUCCESS after the receipts of what was sent before, also for an unknown id."""
    producer = session.producers.get(command.producer_id)
    session.dropped_producers.discard(command.producer_id)
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


# ---- entries ----------------------------------------------------------------------------------------------------


class _Stored:
    """What is due when one run of entries is on disk: readers may see it, and its receipts go out."""

    __slots__ = ("core", "producer", "run", "sends", "size_bytes")

    def __init__(self, core: Core, producer: Producer, run: EntryRun, sends: SendRun, size_bytes: int) -> None:
        self.core = core
        self.producer = producer
        self.run = run
        self.sends = sends
        self.size_bytes = size_bytes

    def __call__(self) -> None:
        core, producer, run, sends = self.core, self.producer, self.run, self.sends
        producer.topic.confirm(core, run)
        entries = len(run.starts)
        send_receipts(core, producer, sends, run.ledger_id, run.first_entry_id)
        pending_publishes.settle_pending(core, producer.session, entries, self.size_bytes)


class _Repeated:
    """What is due when the first copies of repeated entries are on disk: receipts without a position (DED-3)."""

    __slots__ = ("core", "producer", "sends")

    def __init__(self, core: Core, producer: Producer, sends: SendRun) -> None:
        self.core = core
        self.producer = producer
        self.sends = sends

    def __call__(self) -> None:
        send_receipts(self.core, self.producer, self.sends, -1, -1)


def on_sends(core: Core, event: SendsReceived) -> None:
    """Consecutive SENDs of one producer: one check, one record, one write of receipts."""
    session = core.sessions.get(event.session_id)
    if session is None:
        return
    sessions.heard_from(session)
    sends = event.run
    producer = session.producers.get(sends.producer_id)
    if producer is None:
        if sends.producer_id not in session.dropped_producers:
            sessions.end(core, session, f"SEND for producer {sends.producer_id}, which is not open")
        return
    if event.flaw is not None:
        _refuse_sends(core, producer, sends, FLAWS[event.flaw])
    elif producer.topic.publish_limit is None:
        take_now(core, producer, sends)
    else:
        producer.topic.publish_limit.take(producer, sends)


def take(core: Core, producer: Producer, sends: SendRun) -> None:
    """Store a good run of SENDs, or hold back what the topic's rate does not allow yet (PR-14)."""
    limit = producer.topic.publish_limit
    if limit is None:
        take_now(core, producer, sends)
    else:
        limit.take(producer, sends)


def take_now(core: Core, producer: Producer, sends: SendRun, *, is_encrypted: bool = False) -> None:
    """Store a good run of SENDs but for what had to be encrypted and is not (PR-12), and what is delayed for too long
    (DEL-9). A non-persistent topic passes it on."""
    if core.encryption.topics and not is_encrypted and producer.topic in core.encryption.topics:
        _take_encrypted(core, producer, sends)
        return
    if producer.topic.live is not None:
        publish(core, producer, sends)
        return
    policy = core.policies_of(producer.topic.name).delayed_delivery
    if policy.max_delay_ms <= 0 or not policy.active:
        _take(core, producer, sends)
        return
    for part, refusal in delayed_delivery.within_limit(sends, policy.max_delay_ms):
        if refusal is None:
            _take(core, producer, part)
        else:
            _refuse_sends(core, producer, part, refusal)


def _take_encrypted(core: Core, producer: Producer, sends: SendRun) -> None:
    for part, is_encrypted in encryption.in_parts(sends):
        if is_encrypted:
            take_now(core, producer, part, is_encrypted=True)
        else:
            _refuse_sends(core, producer, part, encryption.NOT_ENCRYPTED)


def _take(core: Core, producer: Producer, sends: SendRun) -> None:
    """Store what is new of a run, which is all of it unless the topic de-duplicates (DED-2)."""
    if not producer.topic.deduplicates:
        _store(core, producer, sends)
        return
    record = deduplication.record_if_new(core, producer, sends)
    if record is not None:
        _store(core, producer, sends)
        core.append(record)
        return
    for verdict, part in deduplication.judge(producer.topic, producer.name, sends):
        if verdict is Verdict.NEW:
            _store(core, producer, part)
            record = deduplication.record_of_judged(producer, part)
            if record is not None:
                core.append(record)
        elif verdict is Verdict.DUPLICATE:
            core.when_durable(_Repeated(core, producer, part))
        else:
            _refuse_sends(core, producer, part, deduplication.mixed_batch_error(producer))


def _store(core: Core, producer: Producer, sends: SendRun) -> None:
    """Store a run: what the open ledger takes, and the rest in those after it (ML-2)."""
    topic = producer.topic
    if sends.flags & CHUNK:
        producer.chunks_in += len(sends.ends)
        if not topic.state.has_chunks:
            core.append(TopicChunked(topic.state.topic_id))
    while True:
        info = topic.ledger.open_ledger
        if info is None or topic.must_roll(core):
            info = lifecycle.open_ledger(core, topic)
        entries = fitting(info, core.now_ms, core.roll_limits, sends.starts, sends.ends)
        if entries == len(sends.ends):
            _store_in(core, info, producer, sends)
            return
        _store_in(core, info, producer, sends.slice(0, entries))
        sends = sends.slice(entries, len(sends.ends))


def _store_in(core: Core, info: LedgerInfo, producer: Producer, sends: SendRun) -> None:
    """One record, and one write of receipts when it is on disk."""
    session, topic = producer.session, producer.topic
    entries = len(sends.ends)
    messages = sum(sends.message_counts)
    counts = None if messages == entries else sends.message_counts
    run = EntryRun(info.ledger_id, info.entries, sends.buffer, sends.starts, sends.ends, counts)
    core.append(EntriesAppended(run))
    delayed_delivery.note(core, topic, run)
    if topic.subscriptions:  # else nobody reads at its tail
        core.cache.insert(run)
    size_bytes = run.ends[-1] - run.starts[0]
    producer.last_group = core.group_of_now
    producer.messages_in += messages
    producer.bytes_in += size_bytes
    topic.messages_in += messages
    topic.bytes_in += size_bytes
    topic.last_published_ms = core.now_ms
    core.when_durable(_Stored(core, producer, run, sends, size_bytes))
    pending_publishes.note_pending(core, session, entries, size_bytes)
    if topic.bytes_in >= topic.look_at_bytes:
        core.upkeep.appended(topic, run)


def _refuse_sends(core: Core, producer: Producer, sends: SendRun, error: PulsarError) -> None:
    """SEND_ERROR for each entry, in its place among the receipts (A2)."""

    def tell() -> None:
        for sequence_id in sends.sequence_ids:
            core.send(producer.session, commands.send_error(producer.producer_id, sequence_id, error))

    if core.is_awaited(producer.last_group) or producer.topic.deduplicates:
        core.when_durable(tell)
    else:
        tell()
