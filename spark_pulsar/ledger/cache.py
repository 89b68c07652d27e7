"""The cache of recent entries, from which tailing consumers are served without reading a file."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

from .entries import EntryColumns, EntryRun

RUN_OVERHEAD_BYTES: Final = 400
"""Bytes that a cached run costs beside its buffer: the objects around it."""

ENTRY_OVERHEAD_BYTES: Final = 200
"""Bytes that each cached entry of `EntryColumns` costs beside their buffer."""

_COMPACT_AT: Final = 64

_Piece = EntryRun | tuple[EntryColumns, int] | None


class _LedgerPieces:
    """The cached entries of one ledger, rising: runs, and single entries as (columns, index). Pieces before `head` have
    left."""

    __slots__ = ("end", "firsts", "head", "pieces")

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []
        self.firsts: list[int] = []
        self.head = 0
        self.end = 0

    def drop_first(self) -> None:
        self.pieces[self.head] = None
        self.head += 1
        if self.head >= _COMPACT_AT and self.head * 2 >= len(self.pieces):
            del self.pieces[: self.head], self.firsts[: self.head]
            self.head = 0


class EntryCache:
    """Entries by ledger, bounded in bytes; the oldest inserted leave first.

    Entries of a ledger are inserted in rising order (as they are appended); other entries are not cached. A small run
    inside a big buffer is copied out, so that the bound holds for the bytes that are really kept alive.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._ledgers: dict[int, _LedgerPieces] = {}
        self._order: deque[EntryRun | EntryColumns] = deque()

    def resize(self, max_bytes: int) -> None:
        """Changes the bound; the oldest entries leave at once."""
        self.max_bytes = max_bytes
        self._drop_old()

    def insert(self, run: EntryRun) -> None:
        """Keeps a run just appended, at the cost of the oldest entries."""
        run = run.compact()
        known = self._ledgers.get(run.ledger_id)
        if known is None:
            known = self._ledgers[run.ledger_id] = _LedgerPieces()
        elif known.end > run.first_entry_id:
            return
        known.pieces.append(run)
        known.firsts.append(run.first_entry_id)
        known.end = run.first_entry_id + len(run.starts)
        self._keep(run)

    def insert_columns(self, columns: EntryColumns) -> None:
        """Keeps entries of many ledgers just appended; makes a run of one only at its lookup."""
        columns = columns.compact()
        ledgers = self._ledgers
        for index, (ledger_id, entry_id) in enumerate(zip(columns.ledger_ids, columns.entry_ids, strict=True)):
            known = ledgers.get(ledger_id)
            if known is None:
                known = ledgers[ledger_id] = _LedgerPieces()
            if known.end <= entry_id:
                known.pieces.append((columns, index))
                known.firsts.append(entry_id)
                known.end = entry_id + 1
        self._keep(columns)

    def lookup(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        """The run that holds the entry, None when it is not cached."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            return None
        index = bisect_right(known.firsts, entry_id, known.head) - 1
        if index < known.head:
            return None
        piece = known.pieces[index]
        if type(piece) is tuple:
            return piece[0].run(piece[1]) if known.firsts[index] == entry_id else None
        assert isinstance(piece, EntryRun), "only pieces before the head have left"
        return piece if entry_id < piece.end_entry_id else None

    def drop_ledger(self, ledger_id: int) -> None:
        """Removes a ledger that is gone. Its share counts until it leaves with the entries inserted before it: the
        memory is held so long."""
        self._ledgers.pop(ledger_id, None)

    def _keep(self, entries: EntryRun | EntryColumns) -> None:
        self._order.append(entries)
        self.size_bytes += _cost(entries)
        self._drop_old()

    def _drop_old(self) -> None:
        while self.size_bytes > self.max_bytes and self._order:
            self._evict(self._order.popleft())

    def _evict(self, entries: EntryRun | EntryColumns) -> None:
        # Insertion order is the ledger's order, so that the oldest of all are the first of their ledgers, unless those
        # were dropped.
        self.size_bytes -= _cost(entries)
        ledgers = self._ledgers
        for ledger_id in entries.extents()[0]:
            known = ledgers.get(ledger_id)
            if known is None or known.head == len(known.pieces):
                continue
            piece = known.pieces[known.head]
            if piece is entries or (type(piece) is tuple and piece[0] is entries):
                known.drop_first()
                if known.head == len(known.pieces):
                    del ledgers[ledger_id]


def _cost(entries: EntryRun | EntryColumns) -> int:
    if type(entries) is EntryRun:
        return len(entries.buffer) + RUN_OVERHEAD_BYTES
    return len(entries.buffer) + ENTRY_OVERHEAD_BYTES * len(entries)
