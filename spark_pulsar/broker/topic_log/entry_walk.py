"""Walks over the stored entries of a topic: from the cache or from storage, in slices over turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.entries import EntryRange, EntryRun

_READ_ENTRIES: Final = 2_000
_READ_BYTES: Final = 1 << 20

Visit = Callable[["EntryRun", int, int], int]
"""Takes a run and the bounds of the entries `first … end - 1` of it; returns the entry id that it came to, less than
`end` when the walk is over there."""


class EntryWalk:
    """Walk over entries, from `position` to `end` (exclusive); `walk` goes on with it.

    | attribute | meaning |
    | --- | --- |
    | `position` | the next entry to visit, or where the walk ended |
    | `is_over` | the walk came to its end, or a visit ended it, or an entry cannot be read |
    | `has_failed` | the entry at `position` cannot be read |
    | `is_reading` | entries were ordered from storage; `resume` is called when they are here, or cannot be read |
    """

    __slots__ = (
        "_core",
        "_resume",
        "_runs",
        "_topic",
        "_visit",
        "end",
        "has_failed",
        "is_over",
        "is_reading",
        "position",
    )

    def __init__(
        self, core: Core, topic: Topic, position: Position, end: Position, visit: Visit, resume: Callable[[], None]
    ) -> None:
        self._core = core
        self._topic = topic
        self._visit = visit
        self._resume = resume
        self._runs: Sequence[EntryRun] = ()
        """Runs that were read from storage."""
        self.position = position
        self.end = end
        self.is_over = self.has_failed = self.is_reading = False

    def walk(self, budget: int) -> int:
        """Visits at most `budget` entries, fewer when some must be read first; returns the rest of the budget."""
        while budget > 0 and not self.is_over:
            ranges = self.next_ranges()
            if not ranges:
                self.is_over = True
            for ledger_id, first, end in ranges:
                while first < end:
                    run = self._core.cache.lookup(ledger_id, first) or self._read_run(ledger_id, first)
                    if run is None:
                        self._read(Position(ledger_id, first), end - first)
                        return budget
                    stop = min(end, run.end_entry_id, first + budget)
                    reached = self._visit(run, first, stop)
                    self.position = Position(ledger_id, reached)
                    self.is_over = reached < stop
                    budget -= reached - first + self.is_over  # the entry that ended it was visited, too
                    if self.is_over or budget <= 0:
                        return budget
                    first = reached
        return budget

    def next_ranges(self) -> Sequence[EntryRange]:
        """Returns the next entries to visit, from `position` on; none at the end."""
        ledger = self._topic.ledger
        position = ledger.at_or_after(self.position)
        if position >= self.end:
            return ()
        entries = ledger.ledgers[position.ledger_id].entries
        end = min(entries, self.end.entry_id) if position.ledger_id == self.end.ledger_id else entries
        return ((*position, end),)

    def is_gone(self, position: Position) -> bool:
        """Returns whether an entry that cannot be read need not be visited: it was trimmed meanwhile."""
        return not self._topic.ledger.contains(position)

    def _read_run(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        for run in self._runs:
            if run.ledger_id == ledger_id and run.first_entry_id <= entry_id < run.end_entry_id:
                return run
        return None

    def _read(self, wanted: Position, entries: int) -> None:
        def done(runs: list[EntryRun] | None) -> None:
            self.is_reading = False
            self._runs = runs or ()
            if runs:  # entries that were consumed and dropped meanwhile are passed over
                self.position = max(self.position, wanted, Position(runs[0].ledger_id, runs[0].first_entry_id))
            elif not self.is_gone(wanted):
                self.position, self.has_failed, self.is_over = wanted, True, True
            self._resume()

        self.is_reading = True
        self._core.read(*wanted, min(entries, _READ_ENTRIES), _READ_BYTES, done)
