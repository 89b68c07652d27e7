"""Pace of a producer: a number of messages a second, in small portions."""

from __future__ import annotations

import time
from typing import Final

_STEP_S: Final = 0.001
_MOST_BEHIND_S: Final = 1.0
_PORTION: Final = 1000


class Pace:
    """Portions of messages that are due; a rate of 0 is as fast as it goes. One that fell behind by more than a second,
    since the broker was slower, does not make up for all of it."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._since_s = time.monotonic()
        self._given = 0

    def next_portion(self) -> int:
        """Waits until messages are due, at most a little while, and returns their number."""
        if not self._rate:
            return _PORTION
        elapsed_s = time.monotonic() - self._since_s
        due = int(elapsed_s * self._rate) - self._given
        if due > self._rate * _MOST_BEHIND_S + 1:
            self._given += due - 1
            due = 1
        if due <= 0:
            time.sleep(min(max(_STEP_S, (self._given + 1) / self._rate - elapsed_s), 0.1))
            return 0
        due = min(due, _PORTION)
        self._given += due
        return due
