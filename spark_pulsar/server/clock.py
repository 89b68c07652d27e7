"""The clock of the broker: the one place that reads the machine's (CLK-1, CLK-4).

A turn of the core has both times (`broker.turn.turn`): it checks what waits for a wall-clock time after a correction
(CLK-2), and counts the age of a time that lies in the future from then on (CLK-3)."""

from __future__ import annotations

import time
from typing import Final

CORRECTED_MS: Final = 50
"""Difference from which on the wall clock counts as corrected: a clock that is slewed is followed in such steps."""
CHECK_S: Final = 1.0
"""Time between two checks of a broker that has nothing else to do."""
_QUICK_NS: Final = 5_000_000
"""Time within which both clocks must be read; a thread that was interrupted in between would see a correction."""


class Clock:
    """Two times: one that neither goes back nor leaps, for intervals, and how far the wall clock is ahead of it.

    Both begin as wall-clock milliseconds. The machine's clock is corrected by NTP after boot, by hand, or after a
    suspend, which the first time does not count.
    """

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Reads the time for intervals, in milliseconds."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def ahead_ms(self) -> int:
        """Reads how far the wall clock is ahead of `now_ms`; the same number until it differs by `CORRECTED_MS`."""
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        ahead_ms = (wall_ns - after_ns - self._offset_ns) // 1_000_000
        if abs(ahead_ms - self._ahead_ms) >= CORRECTED_MS and after_ns - before_ns < _QUICK_NS:
            self._ahead_ms = ahead_ms
        return self._ahead_ms

    def wall_ms(self) -> int:
        """Reads the wall clock, in milliseconds."""
        return self.now_ms() + self.ahead_ms()
