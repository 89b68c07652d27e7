"""Spreads work over many topics across turns, so that no turn is held up by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .turn import Turn

PAUSE_MS: Final = 1
"""Time between two slices."""


def run_in_slices(
    turn: Turn, steps: Iterator[object], steps_a_turn: int, done: Callable[[], None] = lambda: None
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
