"""Open transactions: what each has stored, and the acks that wait for its end (section 15 of the rules).

An entry of a transaction is an ordinary entry of its ledger; the transaction knows which ones are its own. At its end
they become visible, or are withheld from all consumers (`ManagedLedger.withheld`). Acks in a transaction are pending on
their cursor until then. `ledger.apply` alone changes all of it.

A part of a batch is a sized bit set here: bit i = 1 means that index i is not acked by it, and one more bit above the
last index is always set, so that the set tells the size of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from spark_pulsar.model.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.ranges import RangeSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.records.cursors import BatchSet, EntryRange


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

    @property
    def ends_ms(self) -> int:
        """Wall-clock milliseconds at which it is aborted."""
        return self.opened_ms + self.timeout_ms


class TransactionAcks:
    """The pending acks of one transaction on one cursor: whole entries, parts of batches as sized bit sets, and
    everything at or before `through`."""

    __slots__ = ("batch_sets", "ranges", "through")

    def __init__(self) -> None:
        self.ranges = RangeSet()
        self.batch_sets: dict[tuple[int, int], int] = {}
        self.through = EARLIEST

    def sets(self) -> Iterator[BatchSet]:
        """Yields its parts of batches, with sized bit sets."""
        for (ledger_id, entry_id), bits in self.batch_sets.items():
            yield ledger_id, entry_id, bits


class PendingAcks:
    """The pending acks of all open transactions on one cursor. Entries that are pending as a whole are sent to no
    consumer; of those pending in part the client is told the part."""

    __slots__ = ("batch_sets", "of", "whole")

    def __init__(self) -> None:
        self.of: dict[TransactionId, TransactionAcks] = {}
        self.whole = RangeSet()
        """Entries pending as a whole, in whichever transaction."""
        self.batch_sets: dict[int, dict[int, int]] = {}
        """Ledger id → entry id → bit set (1 = not pending) of entries pending in part, without a size."""

    # Questions

    def first_conflict(self, ranges: Iterable[EntryRange], batch_sets: Iterable[BatchSet]) -> Position | None:
        """Finds the first entry that is pending already, as a whole or in the same part; None without one."""
        for ledger_id, first, end in ranges:
            pieces = self.whole.pieces_in(ledger_id, first, end)
            if pieces:
                return Position(ledger_id, pieces[0][0])
            in_part = self.batch_sets.get(ledger_id)
            if in_part:
                found = min((each for each in in_part if first <= each < end), default=None)
                if found is not None:
                    return Position(ledger_id, found)
        for ledger_id, entry_id, bits in batch_sets:
            if self.whole.contains(ledger_id, entry_id):
                return Position(ledger_id, entry_id)
            if any(acked(known) & acked(bits) for known in self._sets_of(ledger_id, entry_id)):
                return Position(ledger_id, entry_id)
        return None

    def cumulative(self) -> tuple[TransactionId, Position] | None:
        """Finds the transaction that has a cumulative ack pending, and its position."""
        found = ((txn_id, acks.through) for txn_id, acks in self.of.items() if acks.through > EARLIEST)
        return next(found, None)

    # Changes

    def add(self, txn_id: TransactionId, ranges: Iterable[EntryRange], batch_sets: Sequence[BatchSet]) -> None:
        """Makes acks pending that conflict with none."""
        acks = self.of.setdefault(txn_id, TransactionAcks())
        for each in ranges:
            acks.ranges.add(*each)
            self.whole.add(*each)
        for ledger_id, entry_id, bits in batch_sets:
            key = (ledger_id, entry_id)
            acks.batch_sets[key] = acks.batch_sets.get(key, bits) & bits
            self._count_parts(ledger_id, entry_id)

    def add_through(self, txn_id: TransactionId, position: Position) -> None:
        """Makes a cumulative ack pending, which one transaction at a time may have. It hides no entries."""
        acks = self.of.setdefault(txn_id, TransactionAcks())
        acks.through = max(acks.through, position)

    def take(self, txn_id: TransactionId) -> TransactionAcks:
        """Takes out the acks of a transaction that ends."""
        acks = self.of.pop(txn_id)
        for ledger_id, first, end in acks.ranges:
            self.whole.remove(ledger_id, first, end)
        for ledger_id, entry_id in acks.batch_sets:
            self._count_parts(ledger_id, entry_id)
        return acks

    def _count_parts(self, ledger_id: int, entry_id: int) -> None:
        """Notes the part of a batch that is pending in all transactions together; nothing else of it being left, it is
        pending as a whole."""
        found = self._sets_of(ledger_id, entry_id)
        in_part = self.batch_sets.setdefault(ledger_id, {})
        in_part.pop(entry_id, None)
        self.whole.remove(ledger_id, entry_id, entry_id + 1)
        if found:
            left = unsized(max(found) | (1 << (max(found).bit_length() - 1)) - 1)
            for bits in found:
                left &= ~acked(bits)
            in_part[entry_id] = left
            if left == 0:
                self.whole.add(ledger_id, entry_id, entry_id + 1)
        if not in_part:
            del self.batch_sets[ledger_id]

    def _sets_of(self, ledger_id: int, entry_id: int) -> list[int]:
        key = (ledger_id, entry_id)
        return [acks.batch_sets[key] for acks in self.of.values() if key in acks.batch_sets]


def sized(bits: int, size: int) -> int:
    """Returns the sized bit set of a batch of that size, or of as many messages as the bits name if these are more."""
    return bits | 1 << max(size, bits.bit_length())


def unsized(bits: int) -> int:
    """Returns a sized bit set without its size: as cursors and clients have it."""
    return bits ^ 1 << (bits.bit_length() - 1)


def acked(bits: int) -> int:
    """Returns the messages that a sized bit set acks, as bits."""
    return ~bits & ((1 << (bits.bit_length() - 1)) - 1)
