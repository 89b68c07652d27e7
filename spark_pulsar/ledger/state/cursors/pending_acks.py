"""Acks of open transactions on a cursor, which wait for the ends of these, whatever moves meanwhile (TX-12 ... TX-16).

A part of a batch is a sized bit set here: bit i = 1 means that index i is not acked by it, and one more bit above the
last index is always set, so that the set holds the size of the batch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import BatchSet, EntryRange


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


class PendingParts:
    """The parts of one batch that are pending, in all transactions together, which never name the same message."""

    __slots__ = ("acked", "sizes")

    def __init__(self) -> None:
        self.acked = 0
        """Messages that are pending, as bits."""
        self.sizes: list[int] = []
        """Sizes of the batch as each of its transactions has it, ascending."""

    @property
    def left(self) -> int:
        """Messages that are not pending, as bits."""
        return ((1 << self.sizes[-1]) - 1) & ~self.acked


class PendingAcks:
    """The pending acks of all open transactions on one cursor. Entries that are pending as a whole are sent to no
    consumer; those pending in part are sent with the part. An ack costs by the entries it names, however many
    transactions and acks there are beside it."""

    __slots__ = ("_parts", "_with_through", "batch_sets", "of", "ranges")

    def __init__(self) -> None:
        self.of: dict[TransactionId, TransactionAcks] = {}
        self.ranges = RangeSet()
        """Entries pending as a whole, in whichever transaction."""
        self.batch_sets: dict[int, dict[int, int]] = {}
        """Ledger id → entry id → bit set (1 = not pending) of entries pending in part, without a size."""
        self._parts: dict[tuple[int, int], PendingParts] = {}
        self._with_through: TransactionId | None = None
        """The one transaction that has a cumulative ack pending."""

    # Questions

    def first_conflict(self, ranges: Iterable[EntryRange], batch_sets: Iterable[BatchSet]) -> Position | None:
        """Finds the first entry that is pending already, as a whole or in the same part; None without one."""
        for ledger_id, first, end in ranges:
            pieces = self.ranges.pieces_in(ledger_id, first, end)
            if pieces:
                return Position(ledger_id, pieces[0][0])
            in_part = self.batch_sets.get(ledger_id)
            conflict_id = None if in_part is None else first_among(in_part, first, end)
            if conflict_id is not None:
                return Position(ledger_id, conflict_id)
        for ledger_id, entry_id, bits in batch_sets:
            if self.ranges.contains(ledger_id, entry_id) or self.parts(ledger_id, entry_id) & acked(bits):
                return Position(ledger_id, entry_id)
        return None

    def parts(self, ledger_id: int, entry_id: int) -> int:
        """Returns the messages of a batch that are pending, in whichever transaction, as bits."""
        part = self._parts.get((ledger_id, entry_id))
        return 0 if part is None else part.acked

    def cumulative(self) -> tuple[TransactionId, Position] | None:
        """Finds the transaction that has a cumulative ack pending, and its position."""
        txn_id = self._with_through
        return None if txn_id is None else (txn_id, self.of[txn_id].through)

    # Changes

    def add(self, txn_id: TransactionId, ranges: Iterable[EntryRange], batch_sets: Sequence[BatchSet]) -> None:
        """Makes acks pending that conflict with none."""
        acks = self.of.setdefault(txn_id, TransactionAcks())
        for entry_range in ranges:
            acks.ranges.add(*entry_range)
            self.ranges.add(*entry_range)
        for ledger_id, entry_id, bits in batch_sets:
            key = (ledger_id, entry_id)
            before = acks.batch_sets.get(key)
            after = acks.batch_sets[key] = bits if before is None else joined(before, bits)
            self._replace(key, before, after)

    def add_through(self, txn_id: TransactionId, position: Position) -> None:
        """Makes a cumulative ack pending, which one transaction at a time may have. It hides no entries."""
        acks = self.of.setdefault(txn_id, TransactionAcks())
        acks.through = max(acks.through, position)
        if acks.through > EARLIEST:
            self._with_through = txn_id

    def remove(self, txn_id: TransactionId) -> TransactionAcks:
        """Removes the acks of a transaction that ends, and returns them."""
        acks = self.of.pop(txn_id)
        if self._with_through == txn_id:
            self._with_through = None
        for ledger_id, first, end in acks.ranges:
            self.ranges.remove(ledger_id, first, end)
        for key, bits in acks.batch_sets.items():
            self._replace(key, bits, None)
        return acks

    def _replace(self, key: tuple[int, int], before: int | None, after: int | None) -> None:
        """Puts the part of a batch that is pending in one transaction in place of another; nothing else of the batch
        being left, it is pending as a whole."""
        ledger_id, entry_id = key
        parts = self._parts.setdefault(key, PendingParts())
        was_whole = bool(parts.sizes) and not parts.left
        if before is not None:
            parts.acked &= ~acked(before)
            del parts.sizes[bisect_left(parts.sizes, size_of(before))]
        if after is not None:
            parts.acked |= acked(after)
            insort(parts.sizes, size_of(after))
        if was_whole:
            self.ranges.remove(ledger_id, entry_id, entry_id + 1)
        in_part = self.batch_sets.setdefault(ledger_id, {})
        if parts.sizes:
            left = in_part[entry_id] = parts.left
            if not left:
                self.ranges.add(ledger_id, entry_id, entry_id + 1)
            return
        del self._parts[key]
        in_part.pop(entry_id, None)
        if not in_part:
            del self.batch_sets[ledger_id]


def first_among(entries: Collection[int], first: int, end: int) -> int | None:
    """Returns the least of some entry ids in `first … end - 1`, by whichever of the two is smaller; None without
    one."""
    if end - first < len(entries):
        return next((entry_id for entry_id in range(first, end) if entry_id in entries), None)
    return min((entry_id for entry_id in entries if first <= entry_id < end), default=None)


def sized(bits: int, size: int) -> int:
    """Returns the sized bit set of a batch of that size, or of as many messages as the bits name if these are more."""
    return bits | 1 << max(size, bits.bit_length())


def size_of(bits: int) -> int:
    """Returns the size of the batch of a sized bit set."""
    return bits.bit_length() - 1


def joined(one: int, other: int) -> int:
    """Returns the sized bit set of what either of two acks of a batch, which may have different sizes."""
    size = max(size_of(one), size_of(other))
    return 1 << size | ((1 << size) - 1) & ~(acked(one) | acked(other))


def unsized(bits: int) -> int:
    """Returns a sized bit set without its size: as cursors and clients have it."""
    return bits ^ 1 << (bits.bit_length() - 1)


def acked(bits: int) -> int:
    """Returns the messages that a sized bit set acks, as bits."""
    return ~bits & ((1 << (bits.bit_length() - 1)) - 1)
