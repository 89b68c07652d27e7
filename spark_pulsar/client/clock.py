"""The one place where the client reads clocks."""

import time


def monotonic_ms() -> int:
    """Milliseconds of the monotonic clock; only differences mean something."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970-01-01 UTC, the unit of publish times."""
    return time.time_ns() // 1_000_000
