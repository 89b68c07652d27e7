"""Spreads work over many topics across turns, so that no turn is held up by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from .turn import Timer, Turn

_Thing = TypeVar("_Thing")

PAUSE_MS: Final = 1
"""Time between two slices."""


def run_in_slices(
    turn: Turn, steps: Iterator[object], steps_a_turn: int, done: Callable[[], object] = lambda: None
) -> None:
    """Takes the next `steps_a_turn` steps of a generator now and in each later turn, and calls `done` after the last
    one. What each step does is done while the generator runs up to its next `yield`."""

    def go_on() -> None:
        for _ in range(steps_a_turn):
            if next(steps, steps) is steps:
                done()
                return
        turn.at(turn.now_ms + PAUSE_MS, go_on)

    go_on()


class Rounds(Generic[_Thing]):
    """Rounds over things: a step for each of those that there are then, some of them in a turn, at every interval."""

    def __init__(
        self,
        turn: Turn,
        interval_ms: Callable[[], int],
        things: Callable[[], Iterable[_Thing]],
        step: Callable[[_Thing], object],
        steps_a_turn: int,
    ) -> None:
        """`interval_ms` is called whenever a round begins; 0: no rounds."""
        self._turn = turn
        self._read_interval_ms = interval_ms
        self._interval_ms = 0
        """Interval that the timer was set for."""
        self._things = things
        self._step = step
        self._steps_a_turn = steps_a_turn
        self._timer: Timer | None = None
        self._is_under_way = False

    def set_interval(self) -> None:
        """Begins the rounds, the first one an interval from now; or takes up another interval, if it changed."""
        interval_ms = self._read_interval_ms()
        if interval_ms == self._interval_ms:
            return
        self._interval_ms = interval_ms
        if not self._is_under_way:
            self._set_timer(self._turn.now_ms + interval_ms)

    def _set_timer(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._turn.at(when_ms, self._begin) if self._interval_ms > 0 else None

    def _begin(self) -> None:
        self._timer, self._is_under_way = None, True
        begun_ms = self._turn.now_ms
        run_in_slices(
            self._turn, map(self._step, list(self._things())), self._steps_a_turn, lambda: self._end(begun_ms)
        )

    def _end(self, begun_ms: int) -> None:
        self._is_under_way = False
        self._set_timer(max(self._turn.now_ms + PAUSE_MS, begun_ms + self._interval_ms))


def every(
    turn: Turn,
    interval_ms: Callable[[], int],
    things: Callable[[], Iterable[_Thing]],
    step: Callable[[_Thing], object],
    steps_a_turn: int,
) -> None:
    """Takes a step for each of the things that there are then, `steps_a_turn` of them in a turn, at every interval from
    the next one on; a round that takes longer puts off the one after it. The interval may change (ADM-1)."""
    rounds = Rounds(turn, interval_ms, things, step, steps_a_turn)
    turn.rounds.append(rounds)
    rounds.set_interval()
