"""Open transactions (TX-8, TX-17): what each has stored, the records that change it, their effect and their rows.

An entry of a transaction is an ordinary entry of its ledger; the transaction knows which ones are its own. At its end
they become visible, or are withheld from all consumers (`ManagedLedger.withheld`). Acks in a transaction are pending on
their cursor until then (`cursors.pending_acks`).

`most` and `least` are the two numbers of a transaction's id. A record of a transaction that is not open fits no state:
the coordinator and the topics are one broker. So there are no system topics of transactions (TX-27).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import (
    BodyReader,
    DeclaredRecord,
    InvalidRecord,
    Record,
    RecordDamaged,
    Table,
    i64s_from,
    i64s_packed,
)
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks, TransactionAcks, unsized
from spark_pulsar.ledger.state.cursors.records import CursorAcked
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import BatchSet, EntryRange
    from spark_pulsar.ledger.state.cursors.cursor import Cursor
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.state.topics import TopicState

_ID: Final = Struct("<qq")


class Transaction:
    """An open transaction.

    | attribute | meaning |
    | --- | --- |
    | `owner` | role that opened it; empty without authentication |
    | `partitions` | topics that were added to it, as its client wrote them |
    | `subscriptions` | topics, likewise, and their subscriptions that were added |
    | `entries` | its entries by topic id |
    | `acks` | its pending acks by cursor id |
    """

    __slots__ = ("acks", "entries", "opened_ms", "owner", "partitions", "subscriptions", "timeout_ms", "txn_id")

    def __init__(self, txn_id: TransactionId, opened_ms: int, timeout_ms: int, owner: str) -> None:
        self.txn_id = txn_id
        self.opened_ms = opened_ms
        self.timeout_ms = timeout_ms
        self.owner = owner
        self.partitions: dict[str, None] = {}
        self.subscriptions: dict[str, dict[str, None]] = {}
        self.entries: dict[int, RangeSet] = {}
        self.acks: dict[int, TransactionAcks] = {}


@dataclass(frozen=True, slots=True)
class TransactionOpened(DeclaredRecord):
    """A transaction is open; its number was never used before by its coordinator (TX-3)."""

    most: int
    least: int
    opened_ms: int
    timeout_ms: int
    owner: str
    TYPE: ClassVar[int] = 120


@dataclass(frozen=True, slots=True)
class TransactionPartitionsAdded(DeclaredRecord):
    """The client announced that it publishes to these topics in the transaction, in its own spelling."""

    most: int
    least: int
    partitions: tuple[str, ...]
    TYPE: ClassVar[int] = 121


@dataclass(frozen=True, slots=True)
class TransactionSubscriptionsAdded(DeclaredRecord):
    """The client announced that it acks on these subscriptions in the transaction: topic and name at one index."""

    most: int
    least: int
    topics: tuple[str, ...]
    subscriptions: tuple[str, ...]
    TYPE: ClassVar[int] = 122


@dataclass(frozen=True, slots=True)
class TransactionEntries(DeclaredRecord):
    """Entries `first … end - 1` of a ledger, appended just before, are the transaction's."""

    most: int
    least: int
    ledger_id: int
    first: int
    end: int
    TYPE: ClassVar[int] = 123


@dataclass(slots=True, eq=False)
class TransactionAcked(Record):
    """Entries were acked in the transaction, as ranges, and parts of batches, as sized bit sets. Body: the id, then
    that of CursorAcked."""

    most: int
    least: int
    cursor_id: int
    ranges: Sequence[EntryRange]
    batch_sets: Sequence[BatchSet] = ()
    TYPE: ClassVar[int] = 124

    def encode(self) -> bytes:
        return _ID.pack(self.most, self.least) + CursorAcked(self.cursor_id, self.ranges, self.batch_sets).encode()

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> TransactionAcked:
        try:
            most, least = _ID.unpack_from(body, at)
        except StructError as error:
            raise RecordDamaged("acks of a transaction: head is cut") from error
        acked = CursorAcked.decode(body, at + _ID.size, end)
        return cls(most, least, acked.cursor_id, acked.ranges, acked.batch_sets)


@dataclass(frozen=True, slots=True)
class TransactionAckedThrough(DeclaredRecord):
    """Everything at or before the position was acked in the transaction."""

    most: int
    least: int
    cursor_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 125


@dataclass(frozen=True, slots=True)
class TransactionEnded(DeclaredRecord):
    """The transaction was committed (1) or aborted (0). Its markers, appended just before, are the entries at one index
    of the two columns."""

    most: int
    least: int
    is_committed: int
    marker_ledger_ids: tuple[int, ...]
    marker_entry_ids: tuple[int, ...]
    TYPE: ClassVar[int] = 126


def _opened(state: DurableState, record: TransactionOpened) -> None:
    txn_id = TransactionId(record.most, record.least)
    state.use_transaction_id(txn_id)
    state.transactions[txn_id] = Transaction(txn_id, record.opened_ms, record.timeout_ms, record.owner)
    state.dirty["transactions"].add(tuple(txn_id))


def _open_one(state: DurableState, record: Any) -> Transaction:
    """Finds the open transaction that a record names, and notes that its row changes."""
    txn_id = TransactionId(record.most, record.least)
    transaction = state.transactions.get(txn_id)
    if transaction is None:
        raise InvalidRecord(f"transaction {txn_id} is not open")
    state.dirty["transactions"].add(tuple(txn_id))
    return transaction


def _partitions_added(state: DurableState, record: TransactionPartitionsAdded) -> None:
    _open_one(state, record).partitions.update(dict.fromkeys(record.partitions))


def _subscriptions_added(state: DurableState, record: TransactionSubscriptionsAdded) -> None:
    transaction = _open_one(state, record)
    for topic, subscription in zip(record.topics, record.subscriptions, strict=True):
        transaction.subscriptions.setdefault(topic, {})[subscription] = None


def _entries(state: DurableState, record: TransactionEntries) -> None:
    transaction = _open_one(state, record)
    info = state.ledgers.get(record.ledger_id)
    if info is None or not 0 <= record.first < record.end <= info.entries:
        raise InvalidRecord(f"{record} names entries that do not exist")
    topic = state.topics[info.topic_id]
    entries = transaction.entries.get(topic.topic_id)
    if entries is None:
        entries = transaction.entries[topic.topic_id] = topic.open_transactions[transaction.txn_id] = RangeSet()
    entries.add(record.ledger_id, record.first, record.end)
    state.dirty["transaction_entries"].add((*transaction.txn_id, record.ledger_id))


def _pending_of(state: DurableState, record: Any) -> PendingAcks:
    """Finds the pending acks of the cursor that a record names, or makes them."""
    transaction = _open_one(state, record)
    cursor = state.cursors.get(record.cursor_id)
    if cursor is None:
        raise InvalidRecord(f"cursor {record.cursor_id} does not exist")
    pending = cursor.pending
    if pending is None:
        pending = cursor.pending = PendingAcks()
    transaction.acks[record.cursor_id] = pending.of.setdefault(transaction.txn_id, TransactionAcks())
    state.dirty["transaction_acks"].add((*transaction.txn_id, record.cursor_id))
    return pending


def _acked(state: DurableState, record: TransactionAcked) -> None:
    txn_id = TransactionId(record.most, record.least)
    _pending_of(state, record).add(txn_id, record.ranges, record.batch_sets)


def _acked_through(state: DurableState, record: TransactionAckedThrough) -> None:
    position = Position(record.ledger_id, record.entry_id)
    _pending_of(state, record).add_through(TransactionId(record.most, record.least), position)


def _ended(state: DurableState, record: TransactionEnded) -> None:
    transaction = _open_one(state, record)
    markers = list(zip(record.marker_ledger_ids, record.marker_entry_ids, strict=True))
    for ledger_id, entry_id in markers:
        info = state.ledgers.get(ledger_id)
        if info is None or not 0 <= entry_id < info.entries:
            raise InvalidRecord(f"the marker {ledger_id}:{entry_id} of {transaction.txn_id} does not exist")
    for cursor_id in list(transaction.acks):
        del transaction.acks[cursor_id]
        acks = state.cursors[cursor_id].release_acks(transaction.txn_id)
        state.dirty["transaction_acks"].add((*transaction.txn_id, cursor_id))
        if record.is_committed:
            _acknowledge(state.cursors[cursor_id], acks)
            state.dirty["cursors"].add(cursor_id)
    for topic_id in list(transaction.entries):
        entries = _remove_entries(state, transaction, topic_id)
        if not record.is_committed:
            withhold(state, state.topics[topic_id], list(entries))
    for ledger_id, entry_id in markers:
        topic = state.topics[state.ledgers[ledger_id].topic_id]
        withhold(state, topic, [(ledger_id, entry_id, entry_id + 1)])
    del state.transactions[transaction.txn_id]


def _acknowledge(cursor: Cursor, acks: TransactionAcks) -> None:
    if acks.through > EARLIEST:
        cursor.advance_mark_delete(acks.through)
    cursor.acknowledge(acks.ranges)
    for ledger_id, entry_id, bits in acks.sets():
        cursor.acknowledge_batch(ledger_id, entry_id, unsized(bits))


def withhold(state: DurableState, topic: TopicState, ranges: list[tuple[int, int, int]]) -> None:
    """Withholds entries of a topic from all consumers: each cursor, also one that is made later, passes over them."""
    for entry_range in ranges:
        topic.ledger.withheld.add(*entry_range)
        state.dirty["withheld"].add(entry_range[0])
    for cursor in topic.cursors.values():
        cursor.acknowledge(ranges)
        state.dirty["cursors"].add(cursor.cursor_id)


def _remove_entries(state: DurableState, transaction: Transaction, topic_id: int) -> RangeSet:
    entries = transaction.entries.pop(topic_id)
    del state.topics[topic_id].open_transactions[transaction.txn_id]
    state.dirty["transaction_entries"].update((*transaction.txn_id, ledger_id) for ledger_id in entries.ledgers())
    return entries


def remove_ledgers(state: DurableState, topic: TopicState, ledger_ids: Iterable[int]) -> None:
    """Removes the entries of transactions, open and ended, in ledgers that are gone (TX-26)."""
    for ledger_id in ledger_ids:
        if topic.ledger.withheld.discard_ledger(ledger_id):
            state.dirty["withheld"].add(ledger_id)
        for txn_id, entries in list(topic.open_transactions.items()):
            if entries.discard_ledger(ledger_id):
                state.dirty["transaction_entries"].add((*txn_id, ledger_id))
            if not entries:
                _remove_entries(state, state.transactions[txn_id], topic.topic_id)


TRANSITIONS: Final[dict[type[Record], Callable[[DurableState, Any], None]]] = {
    TransactionOpened: _opened,
    TransactionPartitionsAdded: _partitions_added,
    TransactionSubscriptionsAdded: _subscriptions_added,
    TransactionEntries: _entries,
    TransactionAcked: _acked,
    TransactionAckedThrough: _acked_through,
    TransactionEnded: _ended,
}
"""Effects of the records, by type."""

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
    transaction = state.transactions.get(TransactionId(*key))
    if transaction is None:
        return None
    pairs = [(topic, name) for topic, names in transaction.subscriptions.items() for name in names]
    return (
        transaction.opened_ms,
        transaction.timeout_ms,
        transaction.owner,
        json.dumps([list(transaction.partitions), pairs]),
    )


def entry_values(state: DurableState, key: tuple[int, int, int]) -> tuple[bytes] | None:
    """The row of a transaction's entries in a ledger after its key; None when there are none any more."""
    most, least, ledger_id = key
    info, transaction = state.ledgers.get(ledger_id), state.transactions.get(TransactionId(most, least))
    entries = None if info is None or transaction is None else transaction.entries.get(info.topic_id)
    return None if entries is None else _ranges(entries, ledger_id)


def ack_values(state: DurableState, key: tuple[int, int, int]) -> tuple[Any, ...] | None:
    """The row of a transaction's pending acks on a cursor after its key; None when there are none any more."""
    most, least, cursor_id = key
    transaction = state.transactions.get(TransactionId(most, least))
    acks = None if transaction is None else transaction.acks.get(cursor_id)
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


def load(state: DurableState, tables: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Gives topics and cursors, which are loaded, what the rows say of transactions. RecordDamaged, or ValueError, when
    a row does not fit."""
    for ledger_id, ranges in tables.get("withheld", ()):
        _load_ranges(state.topics[state.ledgers[ledger_id].topic_id].ledger.withheld, ledger_id, ranges)
    for most, least, opened_ms, timeout_ms, owner, names in sorted(tables.get("transactions", ()), key=_by_age):
        txn_id = TransactionId(most, least)
        transaction = state.transactions[txn_id] = Transaction(txn_id, opened_ms, timeout_ms, owner)
        partitions, pairs = json.loads(names)
        transaction.partitions = dict.fromkeys(partitions)
        for topic, name in pairs:
            transaction.subscriptions.setdefault(topic, {})[name] = None
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
    openings: list[tuple[tuple[int, int], TransactionId, int, RangeSet]] = []
    for most, least, ledger_id, ranges in sorted(rows):
        transaction = state.transactions[TransactionId(most, least)]
        topic_id = state.ledgers[ledger_id].topic_id
        entries = transaction.entries.setdefault(topic_id, RangeSet())
        is_new = not entries
        _load_ranges(entries, ledger_id, ranges)
        if is_new:
            openings.append((entries.first() or EARLIEST, transaction.txn_id, topic_id, entries))
    for _, txn_id, topic_id, entries in sorted(openings, key=lambda opening: opening[0]):
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
        sets.append((ledger_id, entry_id, int.from_bytes(reader.read(size), "little")))
    return sets


TABLES: Final = (
    Table("transactions", 2, TRANSACTION_COLUMNS, transaction_values),
    Table("transaction_entries", 3, ENTRY_COLUMNS, entry_values),
    Table("transaction_acks", 3, ACK_COLUMNS, ack_values),
    Table("withheld", 1, WITHHELD_COLUMNS, withheld_values),
)
