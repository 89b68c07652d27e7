"""The cache of recent runs, from which tailing consumers are served without reading a file."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

from .entries import EntryRun

RUN_OVERHEAD_BYTES: Final = 400
"""What a cached run costs beside its buffer: the objects around it."""

_COMPACT_AT: Final = 64


class _LedgerRuns:
    """The cached runs of one ledger, rising; those before `head` have left."""

    __slots__ = ("firsts", "head", "runs")

    def __init__(self) -> None:
        self.runs: list[EntryRun | None] = []
        self.firsts: list[int] = []
        self.head = 0

    def drop_first(self) -> None:
        self.runs[self.head] = None
        self.head += 1
        if self.head >= _COMPACT_AT and self.head * 2 >= len(self.runs):
            del self.runs[: self.head], self.firsts[: self.head]
            self.head = 0


class EntryCache:
    """Runs of entries by ledger, bounded in bytes; the oldest inserted leave first.

    Runs of a ledger are inserted in rising order (what is appended); anything else is not cached. A small run inside a
    big buffer is copied out, so that the bound holds for what is really kept alive.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self._ledgers: dict[int, _LedgerRuns] = {}
        self._order: deque[EntryRun] = deque()

    def insert(self, run: EntryRun) -> None:
        """Keep a run just appended, at the cost of the oldest ones."""
        run = run.compact()
        known = self._ledgers.get(run.ledger_id)
        if known is None:
            known = self._ledgers[run.ledger_id] = _LedgerRuns()
        elif known.runs:
            last = known.runs[-1]
            if last is not None and last.end_entry_id > run.first_entry_id:
                return
        known.runs.append(run)
        known.firsts.append(run.first_entry_id)
        self._order.append(run)
        self.size_bytes += len(run.buffer) + RUN_OVERHEAD_BYTES
        while self.size_bytes > self.max_bytes and self._order:
            self._evict()

    def lookup(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        """The run that holds the entry, None when it is not here."""
        known = self._ledgers.get(ledger_id)
        if known is None:
            return None
        index = bisect_right(known.firsts, entry_id, known.head) - 1
        if index < known.head:
            return None
        run = known.runs[index]
        return run if run is not None and entry_id < run.end_entry_id else None

    def drop_ledger(self, ledger_id: int) -> None:
        """Forget a ledger that is gone."""
        known = self._ledgers.pop(ledger_id, None)
        if known is not None:
            for run in known.runs[known.head :]:
                assert run is not None, "only runs before the head have left"
                self.size_bytes -= len(run.buffer) + RUN_OVERHEAD_BYTES

    def _evict(self) -> None:
        run = self._order.popleft()
        known = self._ledgers.get(run.ledger_id)
        # Insertion order is the ledger's order, so the oldest of all is the first of its ledger, unless the ledger
        # was dropped: then its bytes are counted out already.
        if known is None or known.head == len(known.runs) or known.runs[known.head] is not run:
            return
        known.drop_first()
        self.size_bytes -= len(run.buffer) + RUN_OVERHEAD_BYTES
        if known.head == len(known.runs):
            del self._ledgers[run.ledger_id]
