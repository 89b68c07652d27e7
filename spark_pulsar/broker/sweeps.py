"""SENDs of many producers at once: the same rules as for runs, by column instead of by run.

A thousand producers that send in turn make runs of one entry, and an object per run would be an object per entry. A
sweep is one event, one record and one write of receipts for all of them.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from spark_pulsar.ledger.managed import next_entry_ids
from spark_pulsar.ledger.scattered import EntriesScattered
from spark_pulsar.wire.delays import delays_in
from spark_pulsar.wire.send_runs import SendRun

from . import back_pressure, deduplication, publishing, sessions, topics
from .effects import SendScatteredReceipts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.ledger.managed import LedgerInfo

    from .core import Core
    from .events import SweepReceived
    from .producers import Producer
    from .sessions import Session


def on_sweep(core: Core, event: SweepReceived) -> None:
    """Consecutive plain SENDs of several producers of one session."""
    session = core.sessions.get(event.session_id)
    if session is None:
        return
    sessions.heard_from(session)
    sweep = event.sweep
    found = list(map(session.producers.get, sweep.producer_ids))
    columns: tuple[Sequence[int], ...] = (sweep.sequence_ids, sweep.message_counts, sweep.starts, sweep.ends)
    stray = None
    if None in found:
        stray, keep = _without_strays(session, sweep.producer_ids, found)
        columns = tuple(list(compress(column, keep)) for column in columns)
        found = list(compress(found, keep))
    producers = [producer for producer in found if producer is not None]
    if producers:
        passes_on = core.live.by_name and any(producer.topic.live is not None for producer in producers)
        is_limited = core.publish_limits.topics and any(
            producer.topic.publish_limit is not None for producer in producers
        )
        encrypted = core.encryption.topics
        is_looked_at = encrypted and any(producer.topic in encrypted for producer in producers)
        if (
            passes_on
            or is_limited
            or is_looked_at
            or (1 in columns[1] and delays_in(sweep.buffer, columns[2], columns[3]))
        ):
            _take_each(core, producers, sweep.buffer, *columns)
        elif core.silent_producers.is_watching:
            _take(core, session, producers, sweep.buffer, *columns)
        else:
            _store(core, session, producers, sweep.buffer, *columns)
    if stray is not None:
        sessions.end(core, session, f"SEND for producer {stray}, which is not open")


def _without_strays(
    session: Session, producer_ids: Sequence[int], found: Sequence[Producer | None]
) -> tuple[int | None, list[bool]]:
    """Which entries count. SENDs for producers that we closed are dropped; at the first one for a producer that was
    never open, which is returned, the connection ends (wire-protocol 5.4)."""
    keep = [producer is not None for producer in found]
    for index, producer_id in enumerate(producer_ids):
        if not keep[index] and producer_id not in session.dropped_producers:
            keep[index:] = [False] * (len(keep) - index)
            return producer_id, keep
    return None, keep


def _take(
    core: Core,
    session: Session,
    producers: list[Producer],
    buffer: bytes,
    sequence_ids: Sequence[int],
    message_counts: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> None:
    """Store what is new where some topics de-duplicate: all at once, or one by one when something is repeated."""
    all_new, record = deduplication.reached_in_sweep(core, producers, sequence_ids, message_counts)
    if all_new:
        _store(core, session, producers, buffer, sequence_ids, message_counts, starts, ends)
        if record is not None:
            core.append(record)
        return
    _take_each(core, producers, buffer, sequence_ids, message_counts, starts, ends)


def _take_each(
    core: Core,
    producers: list[Producer],
    buffer: bytes,
    sequence_ids: Sequence[int],
    message_counts: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> None:
    """One by one, as runs of one entry are taken."""
    columns = zip(producers, sequence_ids, message_counts, starts, ends, strict=True)
    for producer, sequence_id, messages, start, end in columns:
        publishing.take(core, producer, SendRun(producer.producer_id, buffer, sequence_id, messages, start, end))


def _store(
    core: Core,
    session: Session,
    producers: list[Producer],
    buffer: bytes,
    sequence_ids: Sequence[int],
    message_counts: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
) -> None:
    """Append each entry to its topic's ledger: one record for all."""
    infos: list[LedgerInfo] = []
    to_look: list[int] = []
    anybody_reads = False
    may_roll_from_ms = core.now_ms - core.config.ledger_min_age_ms
    for producer, messages, start, end in zip(producers, message_counts, starts, ends, strict=True):
        topic = producer.topic
        info = topic.ledger.open_ledger
        if info is None or (info.opened_ms <= may_roll_from_ms and topic.must_roll(core)):
            info = topics.open_ledger(core, topic)
        infos.append(info)
        size_bytes = end - start
        producer.entries_pending += 1
        producer.messages_in += messages
        producer.bytes_in += size_bytes
        topic.messages_in += messages
        topic.bytes_in += size_bytes
        if topic.subscriptions:
            anybody_reads = True
        if topic.bytes_in >= topic.look_at_bytes:
            to_look.append(len(infos) - 1)
    ledger_ids = [info.ledger_id for info in infos]
    counts = None if sum(message_counts) == len(starts) else message_counts
    record = EntriesScattered(buffer, ledger_ids, next_entry_ids(ledger_ids, infos), starts, ends, counts)
    core.append(record)
    if anybody_reads:
        core.cache.insert_scattered(record)
    size_bytes = sum(ends) - sum(starts)
    core.when_durable(_SweepStored(core, session, producers, record, sequence_ids, size_bytes))
    back_pressure.note_pending(core, session, len(starts), size_bytes)
    for index in to_look:
        core.upkeep.appended(producers[index].topic, record.run(index))


class _SweepStored:
    """What is due when the entries of a sweep are on disk."""

    __slots__ = ("core", "producers", "record", "sequence_ids", "session", "size_bytes")

    def __init__(
        self,
        core: Core,
        session: Session,
        producers: list[Producer],
        record: EntriesScattered,
        sequence_ids: Sequence[int],
        size_bytes: int,
    ) -> None:
        self.core = core
        self.session = session
        self.producers = producers
        self.record = record
        self.sequence_ids = sequence_ids
        self.size_bytes = size_bytes

    def __call__(self) -> None:
        core, session, record = self.core, self.session, self.record
        columns = zip(self.producers, record.ledger_ids, record.entry_ids, strict=True)
        for producer, ledger_id, entry_id in columns:
            producer.entries_pending -= 1
            topic = producer.topic
            topic.confirmed_ledger_id = ledger_id
            topic.confirmed_entry_id = entry_id
            if topic.subscriptions:
                topic.wake_subscriptions(core)
        if session.open:
            producer_ids = [producer.producer_id for producer in self.producers]
            core.effects.append(
                SendScatteredReceipts(
                    session.session_id, producer_ids, record.ledger_ids, record.entry_ids, self.sequence_ids
                )
            )
        back_pressure.settle_pending(core, session, len(record), self.size_bytes)
