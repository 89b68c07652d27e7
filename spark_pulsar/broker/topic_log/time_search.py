"""Binary search of a topic's entries by publish time (CUR-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.positions.ids import EARLIEST, Position
from spark_pulsar.wire.entries.entry_bytes import publish_time_of

from . import entry_lookup

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic


def first_at_or_after(core: Core, topic: Topic, time_ms: int, done: Callable[[Position], None]) -> None:
    """Finds the first entry published at or after the time, the end when there is none; `done` gets it in this turn
    when all entries that are compared are in memory."""
    _TimeSearch(core, topic, time_ms, done).step()


class _TimeSearch:
    """Binary search for the first entry with publish time >= t among the entries that were on disk at its start."""

    def __init__(self, core: Core, topic: Topic, time_ms: int, done: Callable[[Position], None]) -> None:
        self._core = core
        self._ledger = topic.ledger
        self._time_ms = time_ms
        self._done = done
        self._end = self._ledger.next_position(topic.last_add_confirmed)
        self._through = topic.last_add_confirmed
        self._begin()

    def _begin(self) -> None:
        self._count = self._count_now()
        self._low = 0
        self._high = self._count

    def _count_now(self) -> int:
        """Counts the entries to search; there are fewer when some were trimmed, and the search begins again then."""
        return self._ledger.count_between(EARLIEST, self._through)

    def step(self) -> None:
        """Halves the entries that are left until the place is found, or an entry must be read from storage first."""
        while self._low < self._high:
            position = self._ledger.position_at((self._low + self._high) // 2)
            entry = entry_lookup.cached(self._core, position)
            if entry is None:
                entry_lookup.read(self._core, position, self._go_on)
                return
            self._judge(entry)
        self._done(self._end if self._low == self._count else self._ledger.position_at(self._low))

    def _go_on(self, entry: bytes | None) -> None:
        if self._count_now() == self._count:
            self._judge(entry)
        else:
            self._begin()
        self.step()

    def _judge(self, entry: bytes | None) -> None:
        """Goes on before or behind the entry in the middle; one that cannot be read counts as old."""
        middle = (self._low + self._high) // 2
        try:
            is_old = entry is None or publish_time_of(entry, 0, len(entry)) < self._time_ms
        except CorruptMessage:
            is_old = True
        if is_old:
            self._low = middle + 1
        else:
            self._high = middle
