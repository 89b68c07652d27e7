"""A background thread of the storage: one queue of jobs, done in order, away from the journal and the shell."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

from .threads import Threads


class Background:
    """Runs jobs one after the other. A job handles its own errors; one that it does not expect ends up in `error`."""

    def __init__(self, name: str, threads: Threads) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.error: Exception | None = None
        """The last unexpected error of a job. Nothing that is durable depends on a job being done."""
        self._thread = threads.start(self._run, name)

    def put(self, job: Callable[[], None]) -> None:
        """Queue a job."""
        self._queue.put(job)

    def close(self) -> None:
        """Do what is queued and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 - a failed job must not end the thread; the error is kept
                self.error = error
