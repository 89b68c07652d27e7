"""Rolling over by time: a ledger that nobody appends to is closed at its greatest age all the same (ML-2, ML-3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.names import TopicName

from . import topics

if TYPE_CHECKING:
    from spark_pulsar.ledger.managed import LedgerInfo

    from .core import Core, Timer

_ROLLS_A_TURN: Final = 100


class RollQueue:
    """When each ledger that takes entries reaches its greatest age. All may reach the same age, so that they stand in
    the order in which they were opened and one timer serves them all."""

    def __init__(self, core: Core) -> None:
        self._core = core
        config = core.config
        self._age_ms = max(config.ledger_max_age_ms, config.ledger_min_age_ms + 1)
        self._queue: deque[tuple[int, int]] = deque()
        """(when, ledger id)."""
        self._timer: Timer | None = None
        self._entries_seen: dict[int, int] = {}
        """Entries of each open ledger at the last look for idle ones."""

    def start(self) -> None:
        """Take over the ledgers that were open when the broker ended: their age goes on."""
        current = [topic.ledger.current for topic in self._core.state.topics.values()]
        for info in sorted((info for info in current if info is not None), key=lambda info: info.opened_ms):
            self._queue.append((info.opened_ms + self._age_ms, info.ledger_id))
        self._set_timer()
        if self._core.config.ledger_inactive_ms:
            self._core.at(self._core.now_ms + self._core.config.ledger_inactive_ms, self._roll_idle)

    def opened(self, info: LedgerInfo) -> None:
        """A ledger takes entries from now on."""
        self._queue.append((info.opened_ms + self._age_ms, info.ledger_id))
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._queue:
            self._timer = self._core.at(self._queue[0][0], self._roll_old)

    def _roll_old(self) -> None:
        self._timer = None
        core, queue = self._core, self._queue
        for _ in range(_ROLLS_A_TURN):
            if not queue or queue[0][0] > core.now_ms:
                break
            info = core.state.ledgers.get(queue.popleft()[1])
            if info is None or info.sealed_ms is not None:
                continue
            if info.entries:
                _roll(core, info)
            else:
                queue.append((core.now_ms + self._age_ms, info.ledger_id))
        self._set_timer()

    def _roll_idle(self) -> None:
        """Close ledgers that took nothing since the last look (managedLedgerInactiveLedgerRolloverTimeSeconds)."""
        core = self._core
        before, self._entries_seen = self._entries_seen, {}
        for topic in list(core.state.topics.values()):
            info = topic.ledger.current
            if info is None or not info.entries:
                continue
            if before.get(info.ledger_id) == info.entries:
                _roll(core, info)
            else:
                self._entries_seen[info.ledger_id] = info.entries
        core.at(core.now_ms + core.config.ledger_inactive_ms, self._roll_idle)


def _roll(core: Core, info: LedgerInfo) -> None:
    topic = topics.find(core, TopicName.parse(core.state.topics[info.topic_id].name))
    assert topic is not None, "its ledger exists"
    topics.open_ledger(core, topic)
