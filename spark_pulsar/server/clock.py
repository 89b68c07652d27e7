"""The one place where the broker's process reads clocks."""

from __future__ import annotations

import time
from collections.abc import Callable

_MS: int = 1_000_000


def steady_wall_clock() -> Callable[[], int]:
    """A clock of wall-clock milliseconds that never go back: the wall clock as it is now, carried on by the monotonic
    one. What is compared with clients' times may be off by what the system's clock was corrected since."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns
    return lambda: (monotonic_ns() + offset_ns) // _MS
