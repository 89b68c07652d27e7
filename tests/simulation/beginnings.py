"""Initial positions of subscriptions, as the requests for them wanted (CUR-9)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Collection

    from .account import Place


class Beginnings:
    """Requests for subscriptions that did not exist. In one turn one may be made, go, and be made again: all requests
    of the last request's turn are known, in their order. Some of them may have been refused."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], tuple[int, deque[bool]]] = {}
        """Turn of the requests, and whether each wanted the latest entry, by topic and subscription."""

    def ask(self, topic: str, subscription: str, turn: int, *, latest: bool) -> None:
        """Notes a request for a subscription."""
        key = (topic, subscription)
        if key not in self._asked or self._asked[key][0] != turn:
            self._asked[key] = (turn, deque())
        self._asked[key][1].append(latest)

    def check(self, topic: str, subscription: str, mark: Place, log: Collection[Place]) -> None:
        """Checks a new subscription that begins after `mark`. Violation when no request wanted that, or its requests
        were served before."""
        wrong: list[Place] | None = None
        _, asked = self._asked.get((topic, subscription), (0, deque[bool]()))
        while asked:
            latest = asked.popleft()
            wrong = [place for place in log if (place <= mark) != latest]
            if not wrong:
                return
        if wrong is None:
            raise Violation(f"no request for the subscription {subscription} of {topic}")
        raise Violation(f"{subscription} of {topic} begins at {mark}: wrong for {wrong} (CUR-9)")
