"""Threads and time, as the storage takes them from the machine. A simulation gives it others, worked by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Running(Protocol):
    """A thread that was started."""

    def join(self) -> None:
        """Wait for its end."""


class Ending(Protocol):
    """What a thread is told to end by."""

    def set(self) -> None:
        """It is to end."""

    def is_set(self) -> bool:
        """Whether it is."""

    def wait(self, timeout: float) -> object:
        """Wait for it, at most so many seconds."""


class Threads:
    """Those of the machine."""

    def start(self, run: Callable[[], None], name: str) -> Running:
        """Run in a thread of its own that does not keep the process alive."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def ending(self) -> Ending:
        """Not set yet."""
        return threading.Event()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, after a while, if the process still lives."""
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        timer.start()

    def pause(self, seconds: float) -> None:
        """Do nothing for a moment, so that other threads may go on."""
        time.sleep(seconds)

    def now_s(self) -> float:
        """A clock that never goes back."""
        return time.monotonic()
