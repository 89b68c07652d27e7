"""A cursor: what one subscription has consumed of one topic (CUR-1).

State is the mark-delete position (everything at or before it is acked), the entries acked beyond it as ranges, bit sets
of partly acked batches, and redelivery counts. Durable cursors are changed by `apply` alone, through the records of
`records`, parts of batches too (CUR-6); the cursor of a reader (CUR-8) is the same class, changed directly and never
recorded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from spark_pulsar.ledger.entries import EntryRange
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.model.positions.ranges import RangeSet
from spark_pulsar.model.positions.singles import Singles

from .pending_acks import PendingAcks, TransactionAcks

BLOCK_SHIFT: Final = 12
"""Acked ranges, bit sets and counts are stored in blocks of 4,096 entries; a range belongs to the one it begins in."""

IN_USE: Final = -1
"""Stands in place of a time: a consumer is connected."""

_BEYOND: Final = 1 << 62
"""Past every entry id."""


class Cursor:
    """The state of one subscription (ACK-7). Positions given to it may lie in ledgers that are gone.

    | attribute | meaning |
    | --- | --- |
    | `cursor_id` | unique in the broker; -1 for a reader's |
    | `mark_delete` | the last entry of the acked prefix, not the next to read |
    | `acked` | entries acked after `mark_delete` |
    | `batch_sets` | ledger id → entry id → int: bit i = 1 means index i of that batch is still unacked |
    | `redelivered` | ledger id → entry id → redelivery count of unacked entries |
    | `pending` | acks of open transactions, which count for nothing but `unacked` until these end |
    | `changed_blocks` | `(ledger id, entry id >> BLOCK_SHIFT)` of what changed since the last checkpoint |

    Memory: 16 bytes for each acked range (17 MB for a million holes; where entries are acked here and there, a byte for
    each of the last 65,536 entries of a ledger instead), about 100 bytes for each partly acked batch of up
    to 30 messages (more by an eighth of a byte for each further message), about 100 bytes for each redelivered entry.
    All of them lie between mark-delete and the last entry, so the backlog bounds them; nothing is discarded above some
    number of them, as Apache Pulsar loses ranges beyond 10,000 in a crash (CUR-5).
    """

    __slots__ = (
        "ack_properties",
        "acked",
        "batch_sets",
        "changed_blocks",
        "created_ms",
        "cursor_id",
        "idle_since_ms",
        "ledger",
        "mark_delete",
        "name",
        "pending",
        "properties",
        "redelivered",
    )

    def __init__(
        self,
        ledger: ManagedLedger,
        name: str,
        mark_delete: Position,
        *,
        cursor_id: int = -1,
        created_ms: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.ledger = ledger
        self.name = name
        self.cursor_id = cursor_id
        self.created_ms = created_ms
        self.idle_since_ms = created_ms
        """Since when no consumer is connected; `IN_USE` while one is (CUR-17)."""
        self.properties: dict[str, str] = dict(properties or {})
        self.ack_properties: dict[str, str] | None = None
        """Numbers, in decimal, that came with the last cumulative ack; None when none did (ACK-5)."""
        self.mark_delete = mark_delete
        self.acked = RangeSet()
        self.batch_sets: dict[int, dict[int, int]] = {}
        self.redelivered: dict[int, dict[int, int]] = {}
        self.changed_blocks: set[tuple[int, int]] = set()
        self.pending: PendingAcks | None = None
        """Acks of open transactions; None without any (TX-12)."""
        self._pass_over()

    # Questions

    @property
    def is_durable(self) -> bool:
        """Returns whether the cursor holds data and survives a restart (CUR-8, RET-5)."""
        return self.cursor_id >= 0

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        """Returns whether the whole entry is acked."""
        return (ledger_id, entry_id) <= self.mark_delete or self.acked.contains(ledger_id, entry_id)

    def batch_set(self, ledger_id: int, entry_id: int) -> int | None:
        """The entry's bit set (1 = unacked), None when no part of it was acked."""
        sets = self.batch_sets.get(ledger_id)
        return None if sets is None else sets.get(entry_id)

    @property
    def next_to_read(self) -> Position:
        """The first readable entry that is not acked as a prefix; where a new reader of the subscription begins."""
        return self.ledger.next_position(self.mark_delete)

    def backlog(self, through: Position | None = None) -> int:
        """Readable entries that are not acked (entries, not messages), up to and including a position if given (BAT-3,
        ST-1)."""
        acked = self.acked.count()
        if through is None:
            return self.ledger.count_after(self.mark_delete) - acked
        if acked:
            last = self.acked.last()
            if last is not None and last > through:  # rare: acks of entries that are not on disk yet
                acked -= self.acked.count_after(*through)
        return self.ledger.count_between(self.mark_delete, through) - acked

    def unacked(
        self, start: Position, through: Position, max_entries: int, *, with_pending: bool = False
    ) -> list[EntryRange]:
        """The next unacked entries at or after `start`, up to and including `through`, at most that many, as ranges;
        without those whose ack is pending in a transaction, unless they are wanted.

        Cost grows with the ranges returned and skipped, not with the entries.
        """
        ranges: list[EntryRange] = []
        ledger, acked, pending = self.ledger, self.acked, self.pending
        if start <= self.mark_delete:
            start = Position(self.mark_delete.ledger_id, self.mark_delete.entry_id + 1)
        waiting = None if with_pending or pending is None or not pending.ranges else pending.ranges
        position = ledger.at_or_after(start)
        while max_entries > 0 and position <= through:
            ledger_id, entry_id = position
            info = ledger.ledgers.get(ledger_id)
            end = 0 if info is None else info.entries
            if ledger_id == through.ledger_id:
                end = min(end, through.entry_id + 1)
            while max_entries > 0:
                if waiting is None:
                    entry_id = acked.next_gap(ledger_id, entry_id)
                else:
                    entry_id = _gap_of_both(acked, waiting, ledger_id, entry_id)
                if entry_id >= end:
                    break
                following = acked.next_range(ledger_id, entry_id)
                if waiting is not None:
                    other = waiting.next_range(ledger_id, entry_id)
                    following = other if following is None else min(following, other or following)
                stop = min(end if following is None else min(end, following[0]), entry_id + max_entries)
                ranges.append((ledger_id, entry_id, stop))
                max_entries -= stop - entry_id
                entry_id = stop
            if info is None or entry_id < info.entries:
                break
            following_position = ledger.at_or_after(Position(ledger_id, entry_id))
            if following_position <= position or following_position == ledger.end_position:
                break
            position = following_position
        return ranges

    # Changes: by apply for durable cursors, directly for readers' cursors. All are idempotent but `redeliver`.

    def acknowledge(self, ranges: Iterable[EntryRange]) -> None:
        """Acknowledges entries one by one. Mark-delete moves over ranges that touch it (CUR-1, ACK-1)."""
        if isinstance(ranges, Singles):
            self._acknowledge_each(ranges.ledger_id, ranges.entry_ids)
            return
        mark_ledger, mark_entry = self.mark_delete
        later: list[EntryRange] = []
        for ledger_id, first, end in ranges:
            if ledger_id <= mark_ledger:
                if ledger_id < mark_ledger or end <= mark_entry + 1:
                    continue
                if first <= mark_entry + 1:
                    # The usual case: the next entries in order.
                    if later:
                        self._acknowledge_later(later)
                        later = []
                    self._move(Position(ledger_id, end - 1))
                    mark_entry = end - 1
                    continue
            if first < end:
                later.append((ledger_id, first, end))
        if later:
            self._acknowledge_later(later)
        if self.acked:
            self.absorb()

    def _acknowledge_each(self, ledger_id: int, entry_ids: list[int]) -> None:
        """Acknowledges entries, which rise, all at once."""
        mark_ledger, mark_entry = self.mark_delete
        if ledger_id == mark_ledger and entry_ids[0] <= mark_entry:
            entry_ids = entry_ids[bisect_right(entry_ids, mark_entry) :]
        if ledger_id < mark_ledger or not entry_ids:
            return
        self.acked.join_each(ledger_id, entry_ids, BLOCK_SHIFT, self.changed_blocks)
        for table in (self.batch_sets, self.redelivered):
            if table:
                for entry_id in entry_ids:
                    self._remove(table, ledger_id, entry_id, entry_id + 1)
        self.absorb()

    def acknowledge_batch(self, ledger_id: int, entry_id: int, bits: int) -> None:
        """ANDs a bit set (1 = unacked) into the entry's; when nothing is left unacked the entry is acked (CUR-3, ACK-9,
        BAT-5, A8)."""
        if self.is_acked(ledger_id, entry_id):
            return
        sets = self.batch_sets.get(ledger_id)
        known = None if sets is None else sets.get(entry_id)
        left = bits if known is None else known & bits
        if left == 0:
            self.acknowledge(((ledger_id, entry_id, entry_id + 1),))
        else:
            self.batch_sets.setdefault(ledger_id, {})[entry_id] = left
            self.changed_blocks.add((ledger_id, entry_id >> BLOCK_SHIFT))

    def advance_mark_delete(self, position: Position) -> None:
        """Acknowledges everything at or before the position. A position at or behind mark-delete changes nothing
        (ACK-3)."""
        if position <= self.mark_delete:
            return
        self._move(position)
        self.absorb()

    def reset(self, position: Position) -> None:
        """Makes the position mark-delete, also backwards, and removes acks, bit sets and redelivery counts (CUR-11)."""
        self.changed_blocks |= self.blocks()
        self.acked.clear()
        self.batch_sets.clear()
        self.redelivered.clear()
        self.ack_properties = None
        self.mark_delete = position
        self._pass_over()

    def redeliver(self, ranges: Iterable[EntryRange]) -> None:
        """Raises the redelivery count of the unacked entries in the ranges by one (RC-1, RC-3)."""
        for ledger_id, first, end in ranges:
            counts = self.redelivered.setdefault(ledger_id, {})
            for entry_id in range(first, end):
                if not self.is_acked(ledger_id, entry_id):
                    counts[entry_id] = counts.get(entry_id, 0) + 1
                    self.changed_blocks.add((ledger_id, entry_id >> BLOCK_SHIFT))
            if not counts:
                del self.redelivered[ledger_id]

    def release_acks(self, txn_id: TransactionId) -> TransactionAcks:
        """Removes the pending acks of a transaction that ends, and returns them."""
        assert self.pending is not None, "the acks are pending here"
        acks = self.pending.remove(txn_id)
        if not self.pending.of:
            self.pending = None
        return acks

    def sets_to_send(self, ledger_id: int, entry_ids: Sequence[int]) -> dict[int, int] | None:
        """The bit sets (1 = unacked, and not pending) of those of a ledger's entries that are acked, or pending, in
        part, and perhaps of others; None without any (NACK-6)."""
        sets = self.batch_sets.get(ledger_id)
        in_part = None if self.pending is None else self.pending.batch_sets.get(ledger_id)
        if not in_part:
            return sets
        known = sets or {}
        to_send = {}
        for entry_id in entry_ids:
            if entry_id in in_part:
                bits = in_part[entry_id]
                to_send[entry_id] = bits & known.get(entry_id, bits)
            elif entry_id in known:
                to_send[entry_id] = known[entry_id]
        return to_send

    def _pass_over(self) -> None:
        """Acknowledges, behind mark-delete, entries that no consumer gets: lost ones, and withheld ones."""
        ledger = self.ledger
        if ledger.withheld:
            self.acked = ledger.withheld.copy()
            self.acked.remove_through(*self.mark_delete)
            self.changed_blocks |= self.blocks()
            self.absorb()
        if ledger.lost:
            self.acknowledge(ledger.lost)

    def absorb(self) -> None:
        """Moves mark-delete over acked ranges that touch it, across ends of ledgers too (CUR-1)."""
        while self.acked.count():
            ledger_id, entry_id = self.mark_delete
            end = self.acked.next_gap(ledger_id, entry_id + 1)
            if end > entry_id + 1:
                self._move(Position(ledger_id, end - 1))
                continue
            following = self.ledger.next_position(self.mark_delete)
            if not self.acked.contains(*following):
                return
            end = self.acked.next_gap(*following)
            if self._reads_what_is_gone() and end <= self.ledger.withheld.next_gap(*following):
                return
            self._move(Position(following.ledger_id, end - 1))

    def _reads_what_is_gone(self) -> bool:
        """Returns whether mark-delete lies before all ledgers on purpose: entries that are gone may be left in the
        compacted view, and are not consumed because withheld ones follow (CMP-C4)."""
        mark_delete = self.mark_delete
        return mark_delete == EARLIEST or (not self.is_durable and mark_delete.ledger_id not in self.ledger.ledgers)

    def _move(self, position: Position) -> None:
        old_ledger, old_entry = self.mark_delete
        ledger_id, entry_id = position
        self.mark_delete = position
        acked = self.acked
        if acked and (acked.first() or position) <= position:
            for older in acked.ledgers_through(ledger_id):
                end = entry_id + 1 if older == ledger_id else _BEYOND
                self.changed_blocks.update((older, block) for block in acked.blocks(older, 0, end, BLOCK_SHIFT))
            acked.remove_through(ledger_id, entry_id)
            cut = acked.next_range(ledger_id, entry_id)
            if cut is not None and cut[0] == entry_id + 1:
                self.changed_blocks.add((ledger_id, cut[0] >> BLOCK_SHIFT))
        if not (self.batch_sets or self.redelivered):
            return
        # Per-entry tables hold nothing at or before the old mark-delete position.
        passed_from = old_entry + 1 if old_ledger == ledger_id else 0
        for table in (self.batch_sets, self.redelivered):
            if table:
                for older in [known for known in table if known < ledger_id]:
                    self._remove(table, older, 0, _BEYOND)
                self._remove(table, ledger_id, passed_from, entry_id + 1)

    def _acknowledge_later(self, ranges: list[EntryRange]) -> None:
        """Acknowledges ranges behind mark-delete that do not touch it."""
        self.acked.join(ranges, BLOCK_SHIFT, self.changed_blocks)
        for table in (self.batch_sets, self.redelivered):
            if table:
                for ledger_id, first, end in ranges:
                    self._remove(table, ledger_id, first, end)

    def _remove(self, table: dict[int, dict[int, int]], ledger_id: int, first: int, end: int) -> None:
        """Removes the entries of a range from a per-entry table, by the smaller of the two."""
        entries = table.get(ledger_id)
        if entries is None:
            return
        changed = self.changed_blocks
        if end - first < len(entries):
            gone = [known for known in range(first, end) if known in entries]
        else:
            gone = [known for known in entries if first <= known < end]
        for entry_id in gone:
            del entries[entry_id]
            changed.add((ledger_id, entry_id >> BLOCK_SHIFT))
        if not entries:
            del table[ledger_id]

    def blocks(self) -> set[tuple[int, int]]:
        """Every block in which something is kept, in the form of `changed_blocks`."""
        acked = self.acked
        blocks = {
            (ledger_id, block)
            for ledger_id in acked.ledgers()
            for block in acked.blocks(ledger_id, 0, _BEYOND, BLOCK_SHIFT)
        }
        for table in (self.batch_sets, self.redelivered):
            blocks.update(
                (ledger_id, entry_id >> BLOCK_SHIFT) for ledger_id, entries in table.items() for entry_id in entries
            )
        return blocks


def _gap_of_both(one: RangeSet, other: RangeSet, ledger_id: int, entry_id: int) -> int:
    """The first entry id at or after `entry_id` that neither set holds."""
    while True:
        gap = other.next_gap(ledger_id, one.next_gap(ledger_id, entry_id))
        if gap == entry_id:
            return gap
        entry_id = gap
