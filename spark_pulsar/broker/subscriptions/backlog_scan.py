"""Counting what a subscription has not acknowledged, by looking at the entries themselves (`analyzeBacklog`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun

MOST_ENTRIES: Final = 10_000
"""As `subscriptionBacklogScanMaxEntries` of Apache Pulsar has it; what is behind them is not looked at."""

LONGEST_MS: Final = 30_000
"""What `subscriptionBacklogScanMaxTimeMs` is to Apache Pulsar; shorter than the patience of those who ask over HTTP."""

_ENTRIES_A_READ: Final = 1000
_READ_BYTES: Final = 1 << 20


class BacklogScan:
    """Entries that a subscription has not acknowledged, from a position on, up to what was on disk when it began.

    | attribute | meaning |
    | --- | --- |
    | `entries`, `messages` | how many; a partly acknowledged batch counts whole |
    | `first`, `last` | the first and the last of them, None when there is none |
    | `aborted` | there are more than MOST_ENTRIES, some of them cannot be read, or reading took LONGEST_MS |
    """

    def __init__(self, core: Core, subscription: Subscription, start: Position, done: Callable[[], None]) -> None:
        """`done` is called in this turn or a later one."""
        self._core = core
        self._subscription = subscription
        self._position = start
        self._through = subscription.topic.last_add_confirmed
        self._done = done
        self.entries = self.messages = 0
        self.first: Position | None = None
        self.last: Position | None = None
        self.aborted = False
        self._ended = False
        self._deadline: Timer | None = None

    def step(self) -> None:
        """Go on until all is counted, or something must be read first."""
        while wanted := self._subscription.cursor.unacked(self._position, self._through, _ENTRIES_A_READ):
            for ledger_id, first, end in wanted:
                while first < end:
                    if self.entries >= MOST_ENTRIES:
                        self._abort()
                        return
                    run = self._core.cache.lookup(ledger_id, first)
                    if run is None:
                        if self._deadline is None:
                            self._deadline = self._core.at(self._core.now_ms + LONGEST_MS, self._abort)
                        take = partial(self._take, ledger_id, first, end)
                        self._core.read(ledger_id, first, end - first, _READ_BYTES, take)
                        return
                    first = self._count(run, first, end)
        self._end()

    def _take(self, ledger_id: int, first: int, end: int, runs: list[EntryRun] | None) -> None:
        """What was read of entries that were all wanted then."""
        if self._ended:
            return  # too late
        if not runs:
            if runs is not None and self._subscription.cursor.is_acked(ledger_id, first):
                self.step()  # consumed meanwhile
            else:
                self._abort()
            return
        for run in runs:
            first = max(first, run.first_entry_id)
            if first < end:
                first = self._count(run, first, end)
        self._position = max(self._position, Position(ledger_id, min(first, end)))
        self.step()

    def _abort(self) -> None:
        self.aborted = True
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._deadline is not None:
            self._deadline.cancel()
        self._done()

    def _count(self, run: EntryRun, first: int, end: int) -> int:
        """Count what the run has of some entries, its own first one among them; the entry after those."""
        end = min(end, run.end_entry_id, first + MOST_ENTRIES - self.entries)
        if first < end:
            self.entries += end - first
            counts, base = run.message_counts, run.first_entry_id
            self.messages += end - first if counts is None else sum(counts[first - base : end - base])
            if self.first is None:
                self.first = Position(run.ledger_id, first)
            self.last = Position(run.ledger_id, end - 1)
            self._position = Position(run.ledger_id, end)
        return end
