"""Applies the records of the delay index to the durable state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.base import InvalidRecord, Record
from spark_pulsar.ledger.records.delays import DelaysElapsed, EntriesDelayed
from spark_pulsar.ledger.state.delay_index import Delays

if TYPE_CHECKING:
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState


def _entries_delayed(state: DurableState, record: EntriesDelayed) -> None:
    info = state.ledgers.get(record.ledger_id)
    entry_ids = record.entry_ids
    if info is None or len(entry_ids) != len(record.times_ms) or not entry_ids:
        raise InvalidRecord(f"delays for ledger {record.ledger_id}, which does not exist, or without entries")
    topic = state.topics[info.topic_id]
    delays = Delays() if topic.delays is None else topic.delays
    last = delays.held.last() or (-1, -1)
    if entry_ids[-1] >= info.entries or (record.ledger_id, entry_ids[0]) <= last:
        raise InvalidRecord(f"delays for entries {entry_ids[0]} … {entry_ids[-1]} of {info} after those of {last}")
    topic.delays = delays
    state.dirty["delays"].update(delays.add(record.ledger_id, entry_ids, record.times_ms))


def _delays_elapsed(state: DurableState, record: DelaysElapsed) -> None:
    info = state.ledgers.get(record.ledger_id)
    delays = None if info is None else state.topics[info.topic_id].delays
    if delays is not None:
        key = (record.ledger_id, record.block)
        delays.elapse(key, record.through_ms)
        state.dirty["delays"].add(key)


def forget_ledgers(state: DurableState, topic: TopicState, ledger_ids: Iterable[int]) -> None:
    """Ledgers of a topic are gone."""
    if topic.delays is not None:
        for ledger_id in ledger_ids:
            state.dirty["delays"].update(topic.delays.forget_ledger(ledger_id))


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    EntriesDelayed: _entries_delayed,
    DelaysElapsed: _delays_elapsed,
}
"""Effects of the records, by type."""
