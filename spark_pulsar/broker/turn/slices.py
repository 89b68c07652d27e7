"""Spreads work over many topics across turns, so that no turn is held up by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from .turn import Turn

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


def every(
    turn: Turn,
    interval_ms: int,
    things: Callable[[], Iterable[_Thing]],
    step: Callable[[_Thing], object],
    steps_a_turn: int,
) -> None:
    """Takes a step for each of the things that there are then, `steps_a_turn` of them in a turn, at every interval from
    the next one on; a round that takes longer puts off the one after it."""

    def begin() -> None:
        next_ms = turn.now_ms + interval_ms
        steps = map(step, list(things()))
        run_in_slices(turn, steps, steps_a_turn, lambda: turn.at(max(turn.now_ms + PAUSE_MS, next_ms), begin))

    turn.at(turn.now_ms + interval_ms, begin)
