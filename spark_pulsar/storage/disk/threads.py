"""Threads and time, as the storage takes them from the machine. A simulation gives it others, worked by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

JOURNAL_THREAD: Final = "journal"
"""Name of the thread that receipts wait for."""


class Running(Protocol):
    """A thread that was started."""

    def join(self) -> None:
        """Waits for its end."""


class Ending(Protocol):
    """A flag that requests a thread to end."""

    def set(self) -> None:
        """Requests the thread to end."""

    def is_set(self) -> bool:
        """Returns whether the thread is to end."""

    def wait(self, timeout: float) -> object:
        """Waits until the thread is to end, at most `timeout` seconds."""


class Threads:
    """The machine's threads and clock."""

    def start(self, run: Callable[[], None], name: str) -> Running:
        """Runs in a thread of its own that does not keep the process alive."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def ending(self) -> Ending:
        """Makes a flag that is not set."""
        return threading.Event()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls once, after a while, if the process still lives."""
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        timer.start()

    def pause(self, seconds: float) -> None:
        """Does nothing for a moment, so that other threads may go on."""
        time.sleep(seconds)

    def now_s(self) -> float:
        """A clock that never goes back."""
        return time.monotonic()


class Background:
    """Runs jobs one after the other. A job handles its own errors; one that it does not expect ends up in `error`."""

    def __init__(self, name: str, threads: Threads) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.error: Exception | None = None
        """The last unexpected error of a job. Nothing that is durable depends on a job being done."""
        self._thread = threads.start(self._run, name)

    def put(self, job: Callable[[], None]) -> None:
        """Queues a job."""
        self._queue.put(job)

    def close(self) -> None:
        """Does the queued jobs and ends the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 - a failed job must not end the thread; the error is kept
                self.error = error
