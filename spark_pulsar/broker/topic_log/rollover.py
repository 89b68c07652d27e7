"""Rollover by time: a ledger without appends is closed at its greatest age all the same (ML-2, ML-3).

Where retention has a limit of time that is shorter, that is the greatest age: entries that are kept longer than they
should be are kept for another such time, not for hours (ML-2).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.turn.slices import every
from spark_pulsar.model.names import TopicName

from . import retention

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
    from spark_pulsar.ledger.state.topics import TopicState

_ROLLS_A_TURN: Final = 100
_VOID_ITEMS: Final = 100
"""Items of the queue that may be void, beside as many as are not."""


class RollQueue:
    """Queue of the ledgers that take entries, by the time of their greatest age; one timer serves them all."""

    def __init__(self, core: Core) -> None:
        self._core = core
        config = core.config
        self._least_age_ms = config.ledger_min_age_ms + 1
        self._age_ms = max(config.ledger_max_age_ms, self._least_age_ms)
        self._queue: list[tuple[int, int]] = []
        """Heap of (time, ledger id); an item with another time than `_due_ms` is void."""
        self._due_ms: dict[int, int] = {}
        self._timer: Timer | None = None
        self._entries_seen: dict[int, int] = {}
        """Number of entries of each open ledger at the present check for idle ones."""
        self._entries_seen_before: dict[int, int] = {}
        """Numbers at the check before it."""

    def start(self) -> None:
        """Takes over the ledgers that were open when the broker ended: their age goes on."""
        for topic in self._core.state.topics.values():
            info = topic.ledger.current
            if info is not None:
                self._put(info, self._age_ms)
        core = self._core
        every(core, lambda: core.config.ledger_inactive_ms, self._topics, self._roll_if_idle, _ROLLS_A_TURN)

    def opened(self, info: LedgerInfo, name: TopicName) -> None:
        """Queues a ledger that takes entries, or whose topic has other policies."""
        self._put(info, self._greatest_age_ms(name))

    def remove(self, ledger_ids: Iterable[int]) -> None:
        """Takes out ledgers that take no more entries."""
        for ledger_id in ledger_ids:
            self._due_ms.pop(ledger_id, None)
        if len(self._queue) > 2 * len(self._due_ms) + _VOID_ITEMS:
            self._queue = [(due_ms, ledger_id) for ledger_id, due_ms in self._due_ms.items()]
            heapq.heapify(self._queue)

    def _greatest_age_ms(self, name: TopicName) -> int:
        retained_ms = self._core.policies_of(name).retention.time_ms
        return min(self._age_ms, max(retained_ms, self._least_age_ms)) if retained_ms > 0 else self._age_ms

    def _put(self, info: LedgerInfo, age_ms: int) -> None:
        self._put_at(info.ledger_id, self._core.now_ms - self._core.age_ms(info.opened_ms) + age_ms)

    def _put_at(self, ledger_id: int, due_ms: int) -> None:
        if self._due_ms.get(ledger_id) == due_ms:
            return
        self._due_ms[ledger_id] = due_ms
        heapq.heappush(self._queue, (due_ms, ledger_id))
        self._set_timer()

    def _set_timer(self) -> None:
        timer = self._timer
        if not self._queue or (timer is not None and timer.when_ms <= self._queue[0][0]):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._core.at(self._queue[0][0], self._roll_old)

    def _roll_old(self) -> None:
        self._timer = None
        core, queue = self._core, self._queue
        for _ in range(_ROLLS_A_TURN):
            if not queue or queue[0][0] > core.now_ms:
                break
            due_ms, ledger_id = heapq.heappop(queue)
            if self._due_ms.get(ledger_id) != due_ms:
                continue
            del self._due_ms[ledger_id]
            info = core.state.ledgers.get(ledger_id)
            if info is None or info.sealed_ms is not None:
                continue
            if info.entries:
                _roll(core, info)
            else:
                self._put_at(ledger_id, core.now_ms + self._age_ms)
        self._set_timer()

    def _topics(self) -> Iterable[TopicState]:
        self._entries_seen_before, self._entries_seen = self._entries_seen, {}
        return self._core.state.topics.values()

    def _roll_if_idle(self, topic: TopicState) -> None:
        """Closes a ledger that took nothing since the last check (managedLedgerInactiveLedgerRolloverTimeSeconds)."""
        info = topic.ledger.current
        if info is None or not info.entries or topic.topic_id not in self._core.state.topics:
            return
        if self._entries_seen_before.get(info.ledger_id) == info.entries:
            _roll(self._core, info)
        else:
            self._entries_seen[info.ledger_id] = info.entries


def _roll(core: Core, info: LedgerInfo) -> None:
    if core.state.topics[info.topic_id].is_terminated:
        return  # no other comes after it
    topic = registry.find(core, TopicName.parse(core.state.topics[info.topic_id].name))
    assert topic is not None, "its ledger exists"
    open_ledger(core, topic)


def open_ledger(core: Core, topic: Topic) -> LedgerInfo:
    """Seals the current ledger, if any, and opens the next one; consumed ledgers are trimmed (TRIM-1)."""
    if topic.ledger.current is not None:
        core.monitors.rolls.remove((topic.ledger.current.ledger_id,))
    for record in core.state.records_to_open_ledger(topic.state.topic_id, core.wall_ms):
        core.append(record)
    retention.trim(core, topic)
    info = topic.ledger.current
    assert info is not None, "just opened"
    core.monitors.rolls.opened(info, topic.name)
    return info
