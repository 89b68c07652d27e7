"""Stores runs of SENDs as entries and sends their receipts (A2, PR-9). A batch is one entry: the messages inside are
not read (BAT-2)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.entities.producer import Producer, send_receipts
from spark_pulsar.broker.message_lifetime import delayed_delivery
from spark_pulsar.broker.topic_log import rollover
from spark_pulsar.broker.topics.non_persistent_topic import publish
from spark_pulsar.broker.transactions import entries
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.managed_ledgers.ledger import fitting
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.topics import TopicChunked
from spark_pulsar.model.errors import ChecksumFailed, NotAllowed, PulsarError
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.sends.send_runs import CHUNK

from . import deduplication, encryption, message_sizes, pending_publishes
from .deduplication import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.events import Flaw, SendsReceived
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
    from spark_pulsar.wire.sends.send_runs import SendRun

    from .parts import Part

    _Limit = Callable[[SendRun], Iterable[Part]]

FLAWS: Final[Mapping[Flaw, PulsarError]] = {
    "checksum": ChecksumFailed("Checksum failed on the broker"),
    "metadata": NotAllowed("The message metadata does not fit into the entry"),
    "marker": NotAllowed("Markers and shadow messages are the broker's own"),
}
"""Answer to a SEND with a flaw (PR-12)."""


def on_sends(core: Core, session: Session, event: SendsReceived) -> None:
    """Handles consecutive SENDs of one producer: one check, one record, one write of receipts. One of a producer that
    the broker closed lately is ignored (A13), one of any other ends the connection (A16)."""
    sends = event.run
    producer = session.producers.get(sends.producer_id)
    if producer is None:
        if sends.producer_id not in session.dropped_producers:
            handshake.end(core, session, f"SEND for producer {sends.producer_id}, which is not open")
        return
    if event.flaw is not None:
        _refuse_sends(core, producer, sends, FLAWS[event.flaw])
    elif producer.topic.publish_limit is None:
        accept(core, producer, sends)
    else:
        producer.topic.publish_limit.accept(producer, sends)


def accept(core: Core, producer: Producer, sends: SendRun) -> None:
    """Stores a run of SENDs without flaws, but for the entries that a limit of the topic refuses. A non-persistent
    topic delivers it instead."""
    if sends.transaction is not None:
        try:
            entries.check_open(core, producer.topic, sends.transaction)
        except PulsarError as error:
            _refuse_sends(core, producer, sends, error)
            return
    _accept_within(core, producer, sends, _limits(core, producer.topic))


def _limits(core: Core, topic: Topic) -> list[_Limit]:
    """Returns the limits of a topic in the order in which they refuse entries: those that had to be encrypted and are
    not (PR-12), that are too large (ADM-55), or delayed for too long (DEL-9)."""
    limits: list[_Limit] = []
    if topic in core.encryption.topics:
        limits.append(encryption.allowed_parts)
    if topic in core.message_sizes.limits:
        limits.append(partial(message_sizes.allowed_parts, limit_bytes=core.message_sizes.limits[topic]))
    if topic.non_persistent is None:
        delays = core.policies_of(topic.name).delayed_delivery
        if delays.max_delay_ms > 0 and delays.active:
            limits.append(partial(delayed_delivery.allowed_parts, max_delay_ms=delays.max_delay_ms))
    return limits


def _accept_within(core: Core, producer: Producer, sends: SendRun, limits: list[_Limit]) -> None:
    if limits:
        for part, refusal in limits[0](sends):
            if refusal is None:
                _accept_within(core, producer, part, limits[1:])
            else:
                _refuse_sends(core, producer, part, refusal)
    elif producer.topic.non_persistent is None:
        _store_new(core, producer, sends)
    else:
        publish(core, producer, sends)


def _store_new(core: Core, producer: Producer, sends: SendRun) -> None:
    """Stores the new entries of a run, which are all of them unless the topic de-duplicates (DED-2, DED-4)."""
    if not producer.topic.deduplicates:
        _store(core, producer, sends)
        return
    for name, part in deduplication.named_parts(producer, sends):
        _store_judged(core, producer, name, part)


def _store_judged(core: Core, producer: Producer, name: str, sends: SendRun) -> None:
    """Stores the new entries of a run that is judged under one name."""
    topic = producer.topic
    record = deduplication.record_if_new(core, topic, name, sends)
    if record is not None:
        _store(core, producer, sends)
        core.append(record)
        return
    for verdict, part in deduplication.judge(topic, name, sends):
        if verdict is Verdict.NEW:
            _store(core, producer, part)
            record = deduplication.record_of_judged(topic, name, part)
            if record is not None:
                core.append(record)
        elif verdict is Verdict.DUPLICATE:
            # Receipts without a position, when the first copies are on disk (DED-3).
            core.when_durable(partial(send_receipts, core, producer, part, -1, -1))
        else:
            _refuse_sends(core, producer, part, deduplication.mixed_batch_error(producer))


def _store(core: Core, producer: Producer, sends: SendRun) -> None:
    """Stores a run in the open ledger, and its rest in those after it (ML-2, CHK-7)."""
    topic = producer.topic
    if sends.flags & CHUNK:
        producer.chunks_in += len(sends.ends)
        if not topic.state.has_chunks:
            core.append(TopicChunked(topic.state.topic_id))
    while True:
        info = topic.ledger.open_ledger
        if info is None or topic.must_roll(core):
            info = rollover.open_ledger(core, topic)
        count = fitting(info, core.wall_ms, core.roll_limits, sends.starts, sends.ends)
        if count == len(sends.ends):
            _store_in(core, info, producer, sends)
            return
        _store_in(core, info, producer, sends.slice(0, count))
        sends = sends.slice(count, len(sends.ends))


def _store_in(core: Core, info: LedgerInfo, producer: Producer, sends: SendRun) -> None:
    """Appends one record, and sends one write of receipts when it is on disk (BAT-1, TX-8)."""
    session, topic = producer.session, producer.topic
    count = len(sends.ends)
    messages = sum(sends.message_counts)
    counts = None if messages == count else sends.message_counts
    run = EntryRun(info.ledger_id, info.entries, sends.buffer, sends.starts, sends.ends, counts)
    core.append(EntriesAppended(run))
    if sends.transaction is not None:
        entries.note(core, topic, sends.transaction, run)
    delayed_delivery.note(core, topic, run)
    if topic.subscriptions:  # else no consumer reads at its tail
        core.cache.insert(run)
    size_bytes = run.ends[-1] - run.starts[0]
    producer.last_group = core.group_of_now
    producer.messages_in += messages
    producer.bytes_in += size_bytes
    topic.messages_in += messages
    topic.bytes_in += size_bytes
    topic.last_published_ms = core.wall_ms
    core.when_durable(partial(_stored, core, producer, run, sends, size_bytes))
    pending_publishes.note_pending(core, session, count, size_bytes)
    if topic.bytes_in >= topic.check_at_bytes:
        core.monitors.appended(topic, run)


def _stored(core: Core, producer: Producer, run: EntryRun, sends: SendRun, size_bytes: int) -> None:
    """Lets readers see a run of entries that is on disk, and sends its receipts (J4)."""
    producer.topic.confirm_entries(core, run)
    send_receipts(core, producer, sends, run.ledger_id, run.first_entry_id)
    pending_publishes.settle_pending(core, producer.session, len(run.starts), size_bytes)


def _refuse_sends(core: Core, producer: Producer, sends: SendRun, error: PulsarError) -> None:
    """Sends SEND_ERROR for each entry, in its place among the receipts (A2). A batch is named by its highest sequence
    id: the Java client finds it by that, and waits for ever when it is another."""
    lows = sends.sequence_ids

    def send_receipts() -> None:
        for sequence_id in map(max, lows, sends.highest_sequence_ids or lows):
            core.send(producer.session, commands.send_error(producer.producer_id, sequence_id, error))

    if core.is_awaited(producer.last_group) or producer.topic.deduplicates:
        core.when_durable(send_receipts)
    else:
        send_receipts()
