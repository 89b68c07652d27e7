"""Rows of transactions in the checkpoint: one each for the transaction, for its entries in a ledger and for its pending
acks on a cursor; and one for the withheld entries of a ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.ledger.records.codec import BodyReader, RecordDamaged, i64s_from, i64s_packed
from spark_pulsar.ledger.state.transactions import PendingAcks, Transaction
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.records.cursors import BatchSet
    from spark_pulsar.ledger.state.durable_state import DurableState

TRANSACTION_COLUMNS: Final = (
    "most INTEGER",
    "least INTEGER",
    "opened_ms INTEGER",
    "timeout_ms INTEGER",
    "owner TEXT",
    "names TEXT",
)
"""Columns of table `transactions`; the first two are its key. `names` is JSON: topics that were added, and topic and
subscription of each that was."""
ENTRY_COLUMNS: Final = ("most INTEGER", "least INTEGER", "ledger_id INTEGER", "ranges BLOB")
ACK_COLUMNS: Final = (
    "most INTEGER",
    "least INTEGER",
    "cursor_id INTEGER",
    "through_ledger_id INTEGER",
    "through_entry_id INTEGER",
    "ranges BLOB",
    "batch_sets BLOB",
)
WITHHELD_COLUMNS: Final = ("ledger_id INTEGER", "ranges BLOB")


def transaction_values(state: DurableState, key: tuple[int, int]) -> tuple[Any, ...] | None:
    """The row of a transaction after its key; None when it has ended."""
    found = state.transactions.get(TransactionId(*key))
    if found is None:
        return None
    pairs = [(topic, name) for topic, names in found.subscriptions.items() for name in names]
    return found.opened_ms, found.timeout_ms, found.owner, json.dumps([list(found.partitions), pairs])


def entry_values(state: DurableState, key: tuple[int, int, int]) -> tuple[bytes] | None:
    """The row of a transaction's entries in a ledger after its key; None when there are none any more."""
    most, least, ledger_id = key
    info, found = state.ledgers.get(ledger_id), state.transactions.get(TransactionId(most, least))
    entries = None if info is None or found is None else found.entries.get(info.topic_id)
    return None if entries is None else _ranges(entries, ledger_id)


def ack_values(state: DurableState, key: tuple[int, int, int]) -> tuple[Any, ...] | None:
    """The row of a transaction's pending acks on a cursor after its key; None when there are none any more."""
    most, least, cursor_id = key
    found = state.transactions.get(TransactionId(most, least))
    acks = None if found is None else found.acks.get(cursor_id)
    if acks is None:
        return None
    parts: list[bytes] = []
    for ledger_id, entry_id, bits in acks.sets():
        data = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
        parts += (i64s_packed((ledger_id, entry_id)), len(data).to_bytes(4, "little"), data)
    return *acks.through, i64s_packed([*chain.from_iterable(acks.ranges)]), b"".join(parts)


def withheld_values(state: DurableState, ledger_id: int) -> tuple[bytes] | None:
    """The row of a ledger's withheld entries after its id; None when it has none."""
    info = state.ledgers.get(ledger_id)
    return None if info is None else _ranges(state.topics[info.topic_id].ledger.withheld, ledger_id)


def load_transactions(state: DurableState, tables: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Gives topics and cursors, which are loaded, what the rows say of transactions. RecordDamaged, or ValueError, when
    a row does not fit."""
    for ledger_id, ranges in tables.get("withheld", ()):
        _load_ranges(state.topics[state.ledgers[ledger_id].topic_id].ledger.withheld, ledger_id, ranges)
    for most, least, opened_ms, timeout_ms, owner, names in sorted(tables.get("transactions", ()), key=_by_age):
        txn_id = TransactionId(most, least)
        found = state.transactions[txn_id] = Transaction(txn_id, opened_ms, timeout_ms, owner)
        partitions, pairs = json.loads(names)
        found.partitions = dict.fromkeys(partitions)
        for topic, name in pairs:
            found.subscriptions.setdefault(topic, {})[name] = None
    _load_entries(state, tables.get("transaction_entries", ()))
    for most, least, cursor_id, through_ledger, through_entry, ranges, batch_sets in tables.get("transaction_acks", ()):
        txn_id, cursor = TransactionId(most, least), state.cursors[cursor_id]
        if cursor.pending is None:
            cursor.pending = PendingAcks()
        flat = i64s_from(ranges)
        cursor.pending.add(txn_id, zip(flat[0::3], flat[1::3], flat[2::3], strict=True), _sets_from(batch_sets))
        if (through_ledger, through_entry) > EARLIEST:
            cursor.pending.add_through(txn_id, Position(through_ledger, through_entry))
        state.transactions[txn_id].acks[cursor_id] = cursor.pending.of[txn_id]


def _by_age(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[2], row[0], row[1]


def _load_entries(state: DurableState, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
    found: list[tuple[tuple[int, int], TransactionId, int, RangeSet]] = []
    for most, least, ledger_id, ranges in sorted(rows):
        transaction = state.transactions[TransactionId(most, least)]
        topic_id = state.ledgers[ledger_id].topic_id
        entries = transaction.entries.setdefault(topic_id, RangeSet())
        is_new = not entries
        _load_ranges(entries, ledger_id, ranges)
        if is_new:
            found.append((entries.first() or EARLIEST, transaction.txn_id, topic_id, entries))
    for _, txn_id, topic_id, entries in sorted(found, key=lambda each: each[0]):
        state.topics[topic_id].open_transactions[txn_id] = entries


def _ranges(entries: RangeSet, ledger_id: int) -> tuple[bytes] | None:
    packed = i64s_packed([*chain.from_iterable(entries.ranges_of(ledger_id))])
    return (packed,) if packed else None


def _load_ranges(entries: RangeSet, ledger_id: int, ranges: bytes) -> None:
    flat = i64s_from(ranges)
    if len(flat) & 1:
        raise RecordDamaged(f"ranges of ledger {ledger_id} are cut")
    entries.append(ledger_id, flat[0::2], flat[1::2])


def _sets_from(data: bytes) -> list[BatchSet]:
    reader, sets = BodyReader(data), []
    while reader.at < reader.end:
        ledger_id, entry_id, size = reader.i64(), reader.i64(), reader.u32()
        sets.append((ledger_id, entry_id, int.from_bytes(reader.take(size), "little")))
    return sets
