"""Applies the records of compactions to the durable state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.records.compaction import (
    CompactionAbandoned,
    CompactionBegun,
    CompactionFinished,
    CompactionForgotten,
    CompactionPrepared,
)
from spark_pulsar.ledger.state.compaction import Compaction
from spark_pulsar.ledger.state.durable_state import NEXT_LEDGER
from spark_pulsar.ledger.state.ledger import LedgerInfo
from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState


def _of(state: DurableState, topic_id: int) -> Compaction:
    compaction = state.topic(topic_id).compaction
    if compaction is None:
        raise InvalidRecord(f"topic {topic_id} is not compacted")
    state.dirty["compactions"].add(topic_id)
    return compaction


def _prepared(state: DurableState, record: CompactionPrepared) -> None:
    topic = state.topic(record.topic_id)
    if topic.compaction is None:
        topic.compaction = Compaction(Position(record.ledger_id, record.entry_id))
        state.dirty["compactions"].add(record.topic_id)


def _begun(state: DurableState, record: CompactionBegun) -> None:
    compaction = _of(state, record.topic_id)
    if compaction.writing is not None:
        raise InvalidRecord(f"topic {record.topic_id} is being compacted already")
    state.use_id(NEXT_LEDGER, record.ledger_id)
    info = LedgerInfo(record.ledger_id, record.topic_id, 0, record.begun_ms)
    compaction.writing = state.ledgers[record.ledger_id] = info
    state.dirty_ledgers.add(record.ledger_id)


def _finished(state: DurableState, record: CompactionFinished) -> None:
    compaction = _of(state, record.topic_id)
    info = compaction.writing
    if info is None or info.ledger_id != record.ledger_id:
        raise InvalidRecord(f"ledger {record.ledger_id} is not being written by a compaction")
    _drop(state, compaction.ledger)
    info.sealed_ms = record.finished_ms
    state.dirty_ledgers.add(info.ledger_id)
    compaction.ledger, compaction.writing = info, None
    compaction.horizon = Position(record.horizon_ledger_id, record.horizon_entry_id)
    compaction.index, compaction.removed = record.index, record.removed
    compaction.last = record.last[0], record.last[1], record.last[2]
    compaction.begun_ms, compaction.finished_ms = info.opened_ms, record.finished_ms
    compaction.note_index()


def _abandoned(state: DurableState, record: CompactionAbandoned) -> None:
    compaction = _of(state, record.topic_id)
    _drop(state, compaction.writing)
    compaction.writing = None


def _forgotten(state: DurableState, record: CompactionForgotten) -> None:
    compaction = _of(state, record.topic_id)
    _drop(state, compaction.writing)
    _drop(state, compaction.ledger)
    state.topics[record.topic_id].compaction = None


def _drop(state: DurableState, info: LedgerInfo | None) -> None:
    if info is not None:
        del state.ledgers[info.ledger_id]
        state.dirty_ledgers.add(info.ledger_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    CompactionPrepared: _prepared,
    CompactionBegun: _begun,
    CompactionFinished: _finished,
    CompactionAbandoned: _abandoned,
    CompactionForgotten: _forgotten,
}
"""Effects of the records, by type."""
