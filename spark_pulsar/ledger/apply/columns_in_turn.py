"""Appends to many open ledgers, entry by entry: the twin of `columns` where NumPy is missing."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from spark_pulsar.ledger.records.base import InvalidRecord

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import EntryColumns
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.ledger import LedgerInfo


def append(state: DurableState, entries: EntryColumns) -> None:
    """Appends entries to their ledgers. InvalidRecord when an entry is not the next one of an open ledger."""
    open_ledgers = {ledger_id: _open_ledger(state, ledger_id) for ledger_id in set(entries.ledger_ids)}
    next_ids = {ledger_id: info.entries for ledger_id, info in open_ledgers.items()}
    for ledger_id, entry_id in zip(entries.ledger_ids, entries.entry_ids, strict=True):
        if entry_id != next_ids[ledger_id]:
            raise InvalidRecord(f"entry {ledger_id}:{entry_id} is out of order, {next_ids[ledger_id]} is next")
        next_ids[ledger_id] += 1
    counts = repeat(1, len(entries)) if entries.message_counts is None else entries.message_counts
    for ledger_id, start, end, messages in zip(entries.ledger_ids, entries.starts, entries.ends, counts, strict=True):
        info = open_ledgers[ledger_id]
        info.entries += 1
        info.size_bytes += end - start
        info.messages += messages
    for info in open_ledgers.values():
        if info.size_bytes >= info.next_mark_bytes:
            info.mark()
    state.dirty_ledgers.update(open_ledgers)


def _open_ledger(state: DurableState, ledger_id: int) -> LedgerInfo:
    info = state.ledgers.get(ledger_id)
    ledger = None if info is None else state.topics[info.topic_id].ledger
    if info is None or ledger is None or ledger.current is not info:
        raise InvalidRecord(f"entries for ledger {ledger_id}, which is not open")
    return info
