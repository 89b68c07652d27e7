"""Wait for a condition, never for time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value], timeout_s: float = 30.0, every_s: float = 0.01) -> Value:
    """Return the first true value of `condition()`, asked again and again until `timeout_s` seconds are over.

    Raises:
        AssertionError: The condition was still false (the message names it and its last value), or raised
            AssertionError to the end (that error is raised then). Any other error of the condition is raised at once.
    """
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        failure: AssertionError | None = None
        value: Value | None = None
        try:
            value = condition()
        except AssertionError as error:
            failure = error
        if failure is None and value:
            return value
        if time.monotonic() >= deadline:
            name = getattr(condition, "__name__", repr(condition))
            raise failure or AssertionError(f"{name} was still {value!r} after {timeout_s} s")
        pause.wait(every_s)
