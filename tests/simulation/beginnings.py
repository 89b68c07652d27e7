"""Where subscriptions may begin: as those who asked for them wanted (CUR-9)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Collection

    from .account import Place


class Beginnings:
    """Who asked for subscriptions that were not there. In one turn one may be made, go, and be made again: all who
    asked in the turn of the last request are known, in their order. Some of them may have been refused."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], tuple[int, deque[bool]]] = {}
        """In which turn, and who wanted it from the latest entry on, by topic and subscription."""

    def ask(self, topic: str, subscription: str, turn: int, *, latest: bool) -> None:
        """Somebody asks for it."""
        key = (topic, subscription)
        if key not in self._asked or self._asked[key][0] != turn:
            self._asked[key] = (turn, deque())
        self._asked[key][1].append(latest)

    def check(self, topic: str, subscription: str, mark: Place, log: Collection[Place]) -> None:
        """It is made, and begins after `mark`. Violation when nobody wanted that, or those who did have theirs."""
        wrong: list[Place] | None = None
        _, asked = self._asked.get((topic, subscription), (0, deque[bool]()))
        while asked:
            latest = asked.popleft()
            wrong = [place for place in log if (place <= mark) != latest]
            if not wrong:
                return
        if wrong is None:
            raise Violation(f"nobody asked for the subscription {subscription} of {topic}")
        raise Violation(f"{subscription} of {topic} begins at {mark}: wrong for {wrong} (CUR-9)")
