"""Idle subscriptions: since when they are unused, and which of them must go therefore (CUR-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .comparing import Violation

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .judge import Judge

Key = tuple[str, str]
"""(topic, subscription)."""

_MOMENT_MS: Final = 1_000
_MOMENT_TURNS: Final = 8
_MOST_MS: Final = 250
"""Milliseconds between two turns that count: a turn may do what became due before in the turn after it."""


class Idleness:
    """Notes the use of every durable subscription beside the broker's own records of it: with them it is on disk."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.limit_ms = 0
        """Milliseconds that a subscription may be idle; 0: for ever."""
        self._used: set[Key] = set()
        """Subscriptions with a consumer after this turn."""
        self._late: dict[Key, tuple[int, int]] = {}
        """Subscriptions that should have gone: time and turns after which that was seen first."""
        self._turns = self._counted_ms = self._last_ms = 0

    def begin_life(self, now_ms: int) -> None:
        """A broker starts: what was in use until its end is idle from now on."""
        used = self._judge.current.idle_since_ms
        self._late.clear()
        self._last_ms = now_ms
        used.update((key, now_ms) for key, since_ms in used.items() if since_ms is None)

    def note(self, core: Core) -> None:
        """Something happened, and its records are not judged yet. A use may begin and end within one turn."""
        if not self.limit_ms:
            return
        known = self._judge.current.idle_since_ms
        self._used.clear()
        for topic in core.topics.values():
            for name, subscription in topic.subscriptions.items():
                key = (topic.full_name, name)
                if subscription.is_durable and subscription.consumers:
                    self._used.add(key)
                    if known.get(key, 0) is not None:
                        self._judge.post("used", key, None)
                elif key in known and known[key] is None:
                    self._judge.post("used", key, core.now_ms)

    def created(self, key: Key) -> None:
        """A subscription was made in this turn."""
        self._judge.post("used", key, None if key in self._used else self._judge.now_ms)

    def may_go(self, key: Key) -> bool:
        """Tells whether the broker may delete a subscription by itself."""
        since_ms = self._judge.current.idle_since_ms.get(key)
        return self.limit_ms > 0 and since_ms is not None and self._judge.now_ms - since_ms >= self.limit_ms

    def check(self) -> None:
        """Violation when one is there that should have gone. A broker that has just started, or was not asked for long,
        looks for a moment."""
        if not self.limit_ms:
            return
        current, now_ms = self._judge.current, self._judge.now_ms
        keys = [(topic_name, name) for topic_name, topic in current.topics.items() for name in topic.subscriptions]
        self._turns += 1
        self._counted_ms += min(_MOST_MS, now_ms - self._last_ms)
        self._last_ms = now_ms
        seen = (self._counted_ms, self._turns)
        self._late = {key: self._late.get(key, seen) for key in keys if self.may_go(key)}
        for (topic_name, name), (seen_ms, turn) in self._late.items():
            if self._counted_ms - seen_ms >= _MOMENT_MS and self._turns - turn >= _MOMENT_TURNS:
                since_ms = current.idle_since_ms[topic_name, name]
                raise Violation(f"{name} of {topic_name} is idle since {since_ms} and is still there (CUR-17)")
