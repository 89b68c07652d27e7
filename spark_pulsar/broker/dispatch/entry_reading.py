"""Entries for one reader: from the cache near the tail, else from storage, a window ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.topic_log import damage
from spark_pulsar.model.positions.ids import Position

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRun

_FIRST_RETRY_MS: Final = 10
_LAST_RETRY_MS: Final = 1_000
"""Pauses after a read that failed, doubled each time it fails again."""

_MIN_READ_BYTES: Final = 64 * 1024
_ALL_WINDOWS_BYTES: Final = 128 * 1024 * 1024
"""Memory of all readers together, divided among those that read from storage at the moment."""


class EntryReader:
    """Finds runs for one subscription: from the cache, else from storage, a window ahead, with one read under way at
    most."""

    __slots__ = ("_core", "_few", "_order_id", "_pause_ms", "_retry_at_ms", "_subscription", "_topic", "_windows")

    def __init__(self, core: Core, subscription: Subscription) -> None:
        """Begins without a window; the subscription is woken when something new can be found. Its dispatcher is not
        kept here: the two would be garbage that only the collector finds."""
        self._core = core
        self._subscription = subscription
        self._topic = subscription.topic
        self._windows: list[EntryRun] = []
        self._few = 1
        """Count of runs below which the next are read, so that the disk works while these are sent."""
        self._order_id: object | None = None
        self._retry_at_ms = 0
        self._pause_ms = _FIRST_RETRY_MS

    def find(self, ledger_id: int, entry_id: int) -> EntryRun | None:
        """Finds the run that holds an entry; None when it must be read first: the subscription is woken when it is
        here. The dispatcher requests none that is not on disk (`Dispatcher.visible_through`, ML-5)."""
        run = self._core.cache.lookup(ledger_id, entry_id)
        if run is not None:
            return run
        windows = self._windows
        for index, run in enumerate(windows):
            if run.ledger_id == ledger_id and run.first_entry_id <= entry_id < run.end_entry_id:
                if index:
                    del windows[:index]
                if self._order_id is None and len(windows) <= self._few:
                    self._read_ahead(windows[-1])
                return run
        self._order(Position(ledger_id, entry_id), keep=False)
        return None

    def reset(self) -> None:
        """Drops the window and the read under way: the reader moves elsewhere."""
        if self._windows:
            self._core.readers_with_windows -= 1
        self._windows = []
        self._order_id = None
        self._retry_at_ms = 0

    def _wake(self) -> None:
        self._core.wake(self._subscription)

    def _stop(self) -> None:
        """Has the consumers closed soon: the next entry is lost."""
        dispatcher = self._subscription.dispatcher
        if not dispatcher.stopping:
            dispatcher.stopping = True
            damage.stop_soon(self._core, self._subscription)

    def _read_ahead(self, run: EntryRun) -> None:
        following = self._topic.ledger.at_or_after(Position(run.ledger_id, run.end_entry_id))
        if following <= self._topic.last_add_confirmed and self._core.cache.lookup(*following) is None:
            self._order(following, keep=True)

    def _order(self, position: Position, *, keep: bool) -> None:
        """Orders a read of up to `dispatcherMaxReadSizeBytes` (SUB-8)."""
        core = self._core
        if self._order_id is not None or core.now_ms < self._retry_at_ms:
            return
        if self._topic.state.damages and damage.at(self._topic, position) is not None:
            if not keep:
                self._stop()
            return
        if not keep and self._windows:
            self._windows = []
            core.readers_with_windows -= 1
        order_id = self._order_id = object()
        share = _ALL_WINDOWS_BYTES // (2 * max(1, core.readers_with_windows))
        max_bytes = min(core.config.max_read_bytes, max(_MIN_READ_BYTES, share))

        def done(runs: list[EntryRun] | None) -> None:
            if self._order_id is not order_id:
                return  # the reader moved meanwhile
            self._order_id = None
            if not runs:
                self._retry_at_ms = core.now_ms + self._pause_ms
                self._pause_ms = min(2 * self._pause_ms, _LAST_RETRY_MS)
                core.at(self._retry_at_ms, self._wake)
                return
            self._pause_ms = _FIRST_RETRY_MS
            if not self._windows:
                core.readers_with_windows += 1
            self._windows.extend(runs)
            self._few = max(1, len(runs) // 2)
            self._wake()

        core.read(*position, core.config.max_read_entries, max_bytes, done)
