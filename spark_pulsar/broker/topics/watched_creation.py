"""Creation of a topic that clients watch for: its producers hear success when the watchers have subscribed (MT-4).

A consumer of a pattern learns of a new topic by WATCH_TOPIC_UPDATE and subscribes then, by default at its end. A
producer that heard success at the same moment would publish first, and the pattern would miss that message. So success
waits until each notified session has joined the topic, for a bounded time: a client may watch and not subscribe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session

LONGEST_WAIT_MS: Final = 200
"""Time for which success of a producer waits for subscriptions: three round trips of a client and its start."""


@dataclass(slots=True)
class _Creation:
    """A topic that was just created. `sessions`: notified ones that have not joined; None until they are notified."""

    sessions: set[int] | None = None
    waiting: list[Callable[[], None]] = field(default_factory=list)


class WatchedCreations:
    """Topics that were created and that watchers have not all joined, by full name."""

    def __init__(self) -> None:
        self._creations: dict[str, _Creation] = {}

    def begin(self, full_name: str) -> None:
        """Notes that a topic was created of which a namespace's watchers may need notice."""
        self._creations[full_name] = _Creation()

    def notified(self, core: Core, sessions: Mapping[str, set[int]], names: Iterable[str]) -> None:
        """Notes the sessions that each name was sent to; success of the producers of others is sent."""
        awaited: list[str] = []
        for name in names:
            creation = self._creations.get(name)
            if creation is None:
                continue
            creation.sessions = sessions.get(name)
            if creation.sessions:
                awaited.append(name)
            else:
                self._end(name)
        if awaited:
            core.at(core.now_ms + LONGEST_WAIT_MS, lambda: self._end_all(awaited))

    def when_joined(self, full_name: str, call: Callable[[], None]) -> None:
        """Calls when the watchers of a new topic have joined it or had their time; at once for any other topic."""
        creation = self._creations.get(full_name)
        if creation is None:
            call()
        else:
            creation.waiting.append(call)

    def joined(self, full_name: str, session: Session) -> None:
        """Notes that a session's consumer has joined a topic."""
        creation = self._creations.get(full_name)
        if creation is not None and creation.sessions is not None:
            creation.sessions.discard(session.session_id)
            if not creation.sessions:
                self._end(full_name)

    def _end_all(self, full_names: Iterable[str]) -> None:
        for name in full_names:
            self._end(name)

    def _end(self, full_name: str) -> None:
        creation = self._creations.pop(full_name, None)
        if creation is not None:
            for call in creation.waiting:
                call()
