"""Counts a subscription's unacknowledged entries and their messages by visiting them (`analyzeBacklog`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.topic_log.entry_walk import EntryWalk
from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRange, EntryRun

MOST_ENTRIES: Final = 10_000
"""Bound of entries, as Apache Pulsar's `subscriptionBacklogScanMaxEntries`; those behind it are not visited."""

LONGEST_MS: Final = 30_000
"""Bound of time, as Apache Pulsar's `subscriptionBacklogScanMaxTimeMs`; HTTP clients wait for longer."""

_RANGES_OF_ENTRIES: Final = 1000


class BacklogScan(EntryWalk):
    """Entries that a subscription has not acknowledged, from a position on, up to the last one on disk when it began.

    | attribute | meaning |
    | --- | --- |
    | `entries`, `messages` | number of them; a partly acknowledged batch counts whole |
    | `first`, `last` | the first and the last of them, None when there is none |
    | `aborted` | there are more than MOST_ENTRIES, some of them cannot be read, or reading took LONGEST_MS |
    """

    __slots__ = ("_deadline", "_done", "_subscription", "_through", "aborted", "entries", "first", "last", "messages")

    def __init__(self, core: Core, subscription: Subscription, start: Position, done: Callable[[], None]) -> None:
        """`done` is called in this turn or a later one."""
        self._through = subscription.topic.last_add_confirmed
        super().__init__(core, subscription.topic, start, self._through.next_in_ledger, self._count, self.step)
        self._subscription = subscription
        self._done = done
        self.entries = self.messages = 0
        self.first: Position | None = None
        self.last: Position | None = None
        self.aborted = False
        self._deadline: Timer | None = None

    def step(self) -> None:
        """Goes on until all is counted, or entries must be read first."""
        if self.aborted:
            return
        self.walk(MOST_ENTRIES - self.entries)
        if self.is_reading:
            if self._deadline is None:
                self._deadline = self._core.at(self._core.now_ms + LONGEST_MS, self._abort)
        elif self.has_failed or (not self.is_over and self.next_ranges()):
            self._abort()
        else:
            self._end()

    def next_ranges(self) -> Sequence[EntryRange]:
        """Returns the next entries that are not acknowledged."""
        cursor = self._subscription.cursor
        return cursor.unacked(self.position, self._through, _RANGES_OF_ENTRIES)

    def is_gone(self, position: Position) -> bool:
        """Returns whether the entry was consumed meanwhile."""
        return self._subscription.cursor.is_acked(*position)

    def _abort(self) -> None:
        self.aborted = True
        self._end()

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._done()

    def _count(self, run: EntryRun, first: int, end: int) -> int:
        self.entries += end - first
        counts, base = run.message_counts, run.first_entry_id
        self.messages += end - first if counts is None else sum(counts[first - base : end - base])
        if self.first is None:
            self.first = Position(run.ledger_id, first)
        self.last = Position(run.ledger_id, end - 1)
        return end
