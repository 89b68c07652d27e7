"""Expiring on demand: consume from the front what is older than a time (TTL-8). By itself: see `ttl_monitor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.topic_log.entry_timestamps import time_in
from spark_pulsar.model.ids import Position

from .ttl import CLOCK_TOLERANCE_MS, ack_expired

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.records.cursors import EntryRange

_ENTRIES_A_TURN: Final = 2_000
_READ_BYTES: Final = 1024 * 1024


def older_than(core: Core, subscription: Subscription, time_ms: int, done: Callable[[], None]) -> None:
    """Ack every entry published before the time, up to the first one that was not; `done` in this or a later turn.

    Entries of a clock that is ahead of ours are stepped over and stay. An entry that is not older is never consumed,
    whatever lies behind it (better than TTL-4); one that cannot be read ends it.
    """
    _Walk(core, subscription, time_ms, done).step()


class _Walk:
    """A few thousand entries in each turn, so that a long backlog holds nobody up."""

    def __init__(self, core: Core, subscription: Subscription, time_ms: int, done: Callable[[], None]) -> None:
        self._core = core
        self._subscription = subscription
        self._time_ms = time_ms
        self._done = done
        self._through = subscription.topic.last_add_confirmed
        self._position = subscription.cursor.mark_delete.next_in_ledger
        self._asked = self._position
        self._runs: list[EntryRun] = []

    def step(self) -> None:
        """Go on until the place is found, or something must be read first, or others shall have their turn."""
        core, topic = self._core, self._subscription.topic
        if topic.subscriptions.get(self._subscription.name) is not self._subscription:
            self._done()
            return
        budget = _ENTRIES_A_TURN
        while budget > 0:
            position = topic.ledger.at_or_after(self._position)
            if position > self._through:
                self._done()
                return
            run = core.cache.lookup(*position) or self._read_run(position)
            if run is None:
                self._asked = position
                core.read(*position, _ENTRIES_A_TURN, _READ_BYTES, self._take)
                return
            seen, is_over = self._look_into(run, position.entry_id)
            if is_over:
                self._done()
                return
            budget -= seen
        core.at(core.now_ms + 1, self.step)

    def _read_run(self, position: Position) -> EntryRun | None:
        for run in self._runs:
            if run.ledger_id == position.ledger_id and run.first_entry_id <= position.entry_id < run.end_entry_id:
                return run
        return None

    def _take(self, runs: list[EntryRun] | None) -> None:
        if not runs:
            if self._subscription.topic.ledger.contains(self._asked):
                self._done()
            else:
                self.step()  # it was trimmed meanwhile
            return
        self._runs = runs
        first = runs[0]
        self._position = max(self._position, Position(first.ledger_id, first.first_entry_id))
        self.step()

    def _look_into(self, run: EntryRun, entry_id: int) -> tuple[int, bool]:
        """Ack what is old of a run from an entry on; how many were looked at, and whether one was not old."""
        expired: list[EntryRange] = []
        ahead_ms = self._core.now_ms + CLOCK_TOLERANCE_MS
        begin, end, is_over = entry_id, min(run.end_entry_id, entry_id + _ENTRIES_A_TURN), False
        if run.ledger_id == self._through.ledger_id:
            end = min(end, self._through.entry_id + 1)
        while entry_id < end:
            time_ms = time_in(run, entry_id - run.first_entry_id)
            if self._time_ms <= time_ms <= ahead_ms:
                is_over = True
                break
            if time_ms < self._time_ms:
                if expired and expired[-1][2] == entry_id:
                    expired[-1] = (run.ledger_id, expired[-1][1], entry_id + 1)
                else:
                    expired.append((run.ledger_id, entry_id, entry_id + 1))
            entry_id += 1
        if expired:
            ack_expired(self._core, self._subscription, expired)
        self._position = Position(run.ledger_id, entry_id)
        return entry_id - begin + 1, is_over
