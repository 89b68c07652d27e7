"""Silent producers: since when, and which sequence ids may be forgotten therefore (DED-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.policies import policy_table

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_pulsar.broker.entities.core import Core

    from .judge import Judge


class Silence:
    """Notes the producers that are not connected after each turn, beside the broker, which looks now and then."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._limit_ms = 0
        self._since_ms: dict[tuple[str, str], int] = {}
        """Topic and name of producers that ever stored something there → time since when they are silent."""

    def begin_life(self) -> None:
        """Begins with a start of the broker: no producer was connected, and time may have gone back."""
        self._since_ms.clear()

    def check(self, core: Core) -> None:
        """A turn is over and judged."""
        rules = self._judge.rules
        if not (rules.defaults[policy_table.DEDUPLICATION] or rules.is_any_set((policy_table.DEDUPLICATION,))):
            return
        self._limit_ms = core.config.deduplication_producer_timeout_ms
        before, self._since_ms = self._since_ms, {}
        for name, topic in self._judge.current.topics.items():
            used = core.topics.get(name)
            for producer in topic.heads:
                key = (name, producer)
                if used is None or producer not in used.producers:
                    self._since_ms[key] = before.get(key, self._judge.now_ms)
                elif key in before and core._records:  # it may have been forgotten before it came: that is not told yet
                    self._since_ms[key] = before[key]

    def check_away(self, topic: str, producers: Iterable[str]) -> None:
        """The broker forgets what these producers sent. Violation when one was connected too lately."""
        for producer in producers:
            since_ms = self._since_ms.get((topic, producer))
            if since_ms is None or self._judge.now_ms - since_ms < self._limit_ms:
                raise Violation(
                    f"what {producer} of {topic} sent is forgotten at {self._judge.now_ms}, "
                    f"and it was there until {since_ms} (DED-9)"
                )
