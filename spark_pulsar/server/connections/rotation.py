"""Connections with more than one turn takes: each is given a small part of every turn, in rotation (SEC-29).

A connection that was read a little lately goes ahead of those that have had their part, one of each kind in turn: a
client that publishes now and then does not wait for all that two hundred others have requested.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.events import Event

PART_US: Final = 500
"""Microseconds of a turn that one connection is given before it is the next one's turn."""
LIGHT_BYTES: Final = 4 * 1024
"""Bytes of a read that go ahead, at most."""
_VISIT_US: Final = 2
"""Cost of a visit, so that connections without anything to hand over end a turn too."""


class Rotated(Protocol):
    """A connection in the rotation."""

    @property
    def is_waiting(self) -> bool:
        """Returns whether it has more to hand over."""

    @property
    def spent_us(self) -> int:
        """Time that the events last handed over take, as estimated."""

    def hand_over(self, room_us: int) -> list[Event]:
        """Returns its next events, which take up to about this time."""


class Rotation:
    """Connections that wait for their part of a turn."""

    def __init__(self) -> None:
        self._light: deque[Rotated] = deque()
        self._others: deque[Rotated] = deque()
        self._is_turn_of_light = True

    def __len__(self) -> int:
        return len(self._light) + len(self._others)

    def enter(self, connection: Rotated, *, is_light: bool) -> None:
        """Adds a connection, which is not in the rotation."""
        (self._light if is_light else self._others).append(connection)

    def next_events(self, room_us: int) -> list[Event]:
        """Takes the next events, until they take about this time or there are no more."""
        happened: list[Event] = []
        while room_us > 0 and (self._light or self._others):
            connection = self._next()
            happened += connection.hand_over(PART_US)
            room_us -= _VISIT_US + connection.spent_us
            if connection.is_waiting:
                self._others.append(connection)
        return happened

    def clear(self) -> None:
        """Removes all connections."""
        self._light.clear()
        self._others.clear()

    def _next(self) -> Rotated:
        is_light = bool(self._light) and (self._is_turn_of_light or not self._others)
        self._is_turn_of_light = not is_light
        return (self._light if is_light else self._others).popleft()
