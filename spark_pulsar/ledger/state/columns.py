"""Appends to many open ledgers at once: the rules of `managed_ledgers.ledger` and `appending`, by column.

A row is that of `DurableState.open_ledgers`, a column an array of signed 64-bit numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from spark_pulsar.ledger.managed_ledgers.ledger import (
    ENTRIES,
    LEDGER_ID,
    MESSAGES,
    NEXT_MARK_BYTES,
    OPENED_MS,
    SIZE_BYTES,
    LedgerInfo,
    RollLimits,
    may_roll,
    reaches_limit,
)
from spark_pulsar.ledger.records import InvalidRecord
from spark_pulsar.model.column_store import ColumnStore

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import EntryColumns

    from .durable_state import DurableState

Column = npt.NDArray[np.int64]
_NO_ROWS: Final = np.empty(0, np.int64)


def must_roll(open_ledgers: ColumnStore[LedgerInfo], rows: Column, now_ms: int, limits: RollLimits) -> Column:
    """Returns the rows, each once, whose topic has no open ledger (ML-1) or a full one (ML-2)."""
    numbers = open_ledgers.matrix()
    wanted = numbers[:, LEDGER_ID][rows] == 0
    opened_ms = numbers[:, OPENED_MS][rows]
    if may_roll(opened_ms.min(), now_ms, limits) or opened_ms.max() > now_ms:
        entries, size_bytes = numbers[:, ENTRIES][rows], numbers[:, SIZE_BYTES][rows]
        wanted |= reaches_limit(entries, size_bytes, opened_ms, now_ms, limits) & may_roll(opened_ms, now_ms, limits)
    return np.unique(rows[wanted]) if wanted.any() else _NO_ROWS


def next_ids(open_ledgers: ColumnStore[LedgerInfo], rows: Column) -> tuple[Column, Column]:
    """The ledger ids and entry ids that entries get which are appended to the ledgers of these rows in this order."""
    numbers = open_ledgers.matrix()
    return numbers[:, LEDGER_ID][rows], numbers[:, ENTRIES][rows] + _times_before(rows)


def _times_before(rows: Column) -> Column:
    """Counts for each place how often its value stood before it."""
    places = np.arange(len(rows))
    last = np.empty(int(rows.max()) + 1, np.int64)
    last[rows] = places
    if (last[rows] == places).all():
        return np.zeros(len(rows), np.int64)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    is_first = np.empty(len(rows), np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    first = np.maximum.accumulate(np.where(is_first, places, 0))
    times = np.empty(len(rows), np.int64)
    times[order] = places - first
    return times


def append(state: DurableState, entries: EntryColumns) -> None:
    """Appends entries to their ledgers. InvalidRecord when an entry is not the next one of an open ledger."""
    entry_ids = np.asarray(entries.entry_ids)
    rows = _rows_of(state, entries)
    _, expected = next_ids(state.open_ledgers, rows)
    if not np.array_equal(expected, entry_ids):
        at = int(np.argmin(expected == entry_ids))
        entry = f"{entries.ledger_ids[at]}:{entries.entry_ids[at]}"
        raise InvalidRecord(f"entry {entry} is out of order, {expected[at]} is next")
    numbers = state.open_ledgers.matrix()
    np.add.at(numbers[:, ENTRIES], rows, 1)
    np.add.at(numbers[:, SIZE_BYTES], rows, entries.sizes())
    counts = entries.message_counts
    np.add.at(numbers[:, MESSAGES], rows, 1 if counts is None else np.asarray(counts, np.int64))
    must_mark = numbers[:, SIZE_BYTES][rows] >= numbers[:, NEXT_MARK_BYTES][rows]
    if must_mark.any():
        for row in np.unique(rows[must_mark]).tolist():
            info = state.open_ledgers.owners[row]
            assert info is not None, "its numbers stand there"
            info.mark()
    state.dirty_ledgers.update(entries.ledger_ids)


def _rows_of(state: DurableState, entries: EntryColumns) -> Column:
    """Returns the rows of the ledgers, which must be open: those that the columns name, unless they were made for
    another state. The rows of recovered ledgers are filled with their numbers."""
    if entries.rows is not None:
        rows_given = np.asarray(entries.rows)
        is_known = rows_given.max() < len(state.open_ledgers.owners)
        if is_known and np.array_equal(state.open_ledgers.matrix()[:, LEDGER_ID][rows_given], entries.ledger_ids):
            return rows_given
    rows: dict[int, int] = {}
    for ledger_id in set(entries.ledger_ids):
        info = state.ledgers.get(ledger_id)
        ledger = None if info is None else state.topics[info.topic_id].ledger
        if info is None or ledger is None or ledger.current is not info:
            raise InvalidRecord(f"entries for ledger {ledger_id}, which is not open")
        rows[ledger_id] = ledger.row
        if state.open_ledgers.owners[ledger.row] is not info:
            state.open_ledgers.put(ledger.row, info)
    return np.fromiter(map(rows.__getitem__, entries.ledger_ids), np.int64, len(entries))
