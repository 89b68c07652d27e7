"""The cache of recent entries, from which tailing consumers are served without reading a file."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

from spark_pulsar.ledger.records.multi_ledger import EntriesScattered

from .entries import EntryRun

RUN_OVERHEAD_BYTES: Final = 400
"""What a cached run costs beside its buffer: the objects around it."""

SCATTERED_OVERHEAD_BYTES: Final = 200
"""The same for each entry of a scattered record."""

_COMPACT_AT: Final = 64

_Cached = EntryRun | EntriesScattered
_Piece = EntryRun | tuple[EntriesScattered, int] | None


class _LedgerRuns:
    """What is cached of one ledger, rising: runs, and entries as (record, index). Those before `head` have left."""

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

    Entries of a ledger are inserted in rising order (what is appended); anything else is not cached. What is small
    inside a big buffer is copied out, so that the bound holds for what is really kept alive.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._ledgers: dict[int, _LedgerRuns] = {}
        self._order: deque[_Cached] = deque()

    def insert(self, run: EntryRun) -> None:
        """Keep a run just appended, at the cost of the oldest ones."""
        run = run.compact()
        known = self._ledgers.get(run.ledger_id)
        if known is None:
            known = self._ledgers[run.ledger_id] = _LedgerRuns()
        elif known.end > run.first_entry_id:
            return
        known.pieces.append(run)
        known.firsts.append(run.first_entry_id)
        known.end = run.first_entry_id + len(run.starts)
        self._keep(run, len(run.buffer) + RUN_OVERHEAD_BYTES)

    def insert_scattered(self, record: EntriesScattered) -> None:
        """Keep entries of many ledgers just appended; a run is made of one only when it is looked up."""
        record = record.compact()
        ledgers = self._ledgers
        for index, (ledger_id, entry_id) in enumerate(zip(record.ledger_ids, record.entry_ids, strict=True)):
            known = ledgers.get(ledger_id)
            if known is None:
                known = ledgers[ledger_id] = _LedgerRuns()
            if known.end <= entry_id:
                known.pieces.append((record, index))
                known.firsts.append(entry_id)
                known.end = entry_id + 1
        self._keep(record, len(record.buffer) + SCATTERED_OVERHEAD_BYTES * len(record))

    def lookup(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        """The run that holds the entry, None when it is not here."""
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
        """Forget a ledger that is gone. Its share of scattered records counts until those leave."""
        known = self._ledgers.pop(ledger_id, None)
        if known is not None:
            for piece in known.pieces[known.head :]:
                if isinstance(piece, EntryRun):
                    self.size_bytes -= len(piece.buffer) + RUN_OVERHEAD_BYTES

    def _keep(self, cached: _Cached, size_bytes: int) -> None:
        self._order.append(cached)
        self.size_bytes += size_bytes
        while self.size_bytes > self.max_bytes and self._order:
            oldest = self._order.popleft()
            if type(oldest) is EntryRun:
                self._evict(oldest)
            else:
                assert isinstance(oldest, EntriesScattered), "there are two kinds"
                self._evict_scattered(oldest)

    def _evict(self, run: EntryRun) -> None:
        known = self._ledgers.get(run.ledger_id)
        # Insertion order is the ledger's order, so the oldest of all is the first of its ledger, unless the ledger
        # was dropped: then its bytes are counted out already.
        if known is None or known.head == len(known.pieces) or known.pieces[known.head] is not run:
            return
        self.size_bytes -= len(run.buffer) + RUN_OVERHEAD_BYTES
        known.drop_first()
        if known.head == len(known.pieces):
            del self._ledgers[run.ledger_id]

    def _evict_scattered(self, record: EntriesScattered) -> None:
        self.size_bytes -= len(record.buffer) + SCATTERED_OVERHEAD_BYTES * len(record)
        ledgers = self._ledgers
        for ledger_id in record.ledger_ids:
            known = ledgers.get(ledger_id)
            if known is None or known.head == len(known.pieces):
                continue
            piece = known.pieces[known.head]
            if type(piece) is tuple and piece[0] is record:
                known.drop_first()
                if known.head == len(known.pieces):
                    del ledgers[ledger_id]
