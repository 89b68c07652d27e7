"""Costly requests of sessions: done in slices, so that none delays all other sessions.

A request is an iterator of steps; each does a little and yields its cost, in microseconds as estimated. A turn does
steps up to `TURN_COST`, of the requests of all sessions together. Sessions take turns request by request, and one whose
peer does not read its answers waits. A request that a turn has room for is answered in the turn that it came in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.slices import PAUSE_MS
from spark_pulsar.model.errors import TooManyRequests

if TYPE_CHECKING:
    from .core import Core

TURN_COST: Final = 2_000
"""Cost of the steps of one turn."""
REQUEST_COST: Final = 20
"""Cost of any request, however small."""
MAX_WAITING: Final = 5_000
"""Requests of one session that may wait: as many lookups as Java clients have under way."""
MAX_ALL_WAITING: Final = 50_000
"""Requests of all sessions, the default of Apache Pulsar's `maxConcurrentLookupRequest`."""
NO_SESSION: Final = -1
"""Stand-in for a session: work of the broker's own, in the order in which it came."""

Steps = Iterator[int]


class SlicedRequests:
    """Requests under way and waiting, by session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: dict[int, deque[Callable[[], Steps]]] = {}
        """Requests of each session that may go on, in rotation."""
        self._stalled: dict[int, deque[Callable[[], Steps]]] = {}
        """Requests of sessions whose peers do not read."""
        self._running: tuple[int, Steps] | None = None
        self._is_due = False
        self._count = 0

    def add(self, session_id: int, begin: Callable[[], Steps]) -> None:
        """Does a request now, or when those before it are done. `begin` is called at its first step. TooManyRequests
        when too many wait."""
        waiting = self._stalled.get(session_id) or self._waiting.get(session_id)
        before = 0 if waiting is None else len(waiting)
        if session_id != NO_SESSION and (before >= MAX_WAITING or self._count >= MAX_ALL_WAITING):
            raise TooManyRequests("Failed due to too many pending lookup requests")
        if waiting is None:
            waiting = self._waiting[session_id] = deque()
        waiting.append(begin)
        self._count += 1
        if not self._is_due:
            self._run()

    def is_waiting(self, session_id: int) -> bool:
        """Returns whether a request of a session waits or is under way."""
        is_running = self._running is not None and self._running[0] == session_id
        return is_running or session_id in self._waiting or session_id in self._stalled

    def resume(self, session_id: int) -> None:
        """Goes on with the requests of a session whose peer reads again."""
        stalled = self._stalled.pop(session_id, None)
        if stalled is not None:
            self._waiting[session_id] = stalled
            self._go_on_soon()

    def remove_session(self, session_id: int) -> None:
        """Drops the requests of a session that is gone."""
        if self._running is not None and self._running[0] == session_id:
            self._running = None
        for requests in (self._waiting, self._stalled):
            self._count -= len(requests.pop(session_id, ()))

    def _run(self) -> None:
        core = self._core
        while core.sliced_cost < TURN_COST:
            if self._running is None and not self._begin_next():
                return
            assert self._running is not None, "a request was begun"
            cost = next(self._running[1], None)
            if cost is None:
                self._running = None
            else:
                core.sliced_cost += cost
        if self._running is not None or self._waiting:
            self._go_on_soon()

    def _begin_next(self) -> bool:
        """Begins the first request of the next session that can be answered."""
        core, waiting = self._core, self._waiting
        while waiting:
            session_id = next(iter(waiting))
            requests = waiting.pop(session_id)
            session = core.sessions.get(session_id)
            if session is not None and not session.writable:
                self._stalled[session_id] = requests
                continue
            self._running = session_id, requests.popleft()()
            self._count -= 1
            core.sliced_cost += REQUEST_COST
            if requests:
                waiting[session_id] = requests
            return True
        return False

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._core.at(self._core.now_ms + PAUSE_MS, self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        self._run()
