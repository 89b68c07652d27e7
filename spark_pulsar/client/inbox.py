"""Where the reader thread puts a fetch's messages and the fetch takes them from."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from spark_pulsar.client.blocks import joined
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.wire.frames import Frame

_BLOCK_BYTES: Final = 4 * 1024 * 1024


class Inbox:
    """Runs of frames of one consumer, bounded by pausing the connection. A sink of the connection."""

    def __init__(self, max_bytes: int, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._pause = pause
        self._resume = resume
        self._changed = threading.Condition()
        self._runs: deque[list[Frame]] = deque()
        self._bytes = 0
        self._lost: PulsarError | None = None

    def messages(self, frames: list[Frame]) -> None:
        """Called by the reader thread with frames in order of arrival."""
        size = _size_of(frames)
        with self._changed:
            self._runs.append(frames)
            self._bytes += size
            if self._bytes > self._max_bytes:
                self._pause()
            self._changed.notify()

    def detached(self, error: PulsarError) -> None:
        """Called by the reader thread when nothing more will come."""
        with self._changed:
            self._lost = error
            self._changed.notify()

    @property
    def lost(self) -> PulsarError | None:
        """Why nothing more will come, or None."""
        return self._lost

    @property
    def empty(self) -> bool:
        """Whether everything that arrived was taken."""
        return not self._runs

    def take(self, timeout_ms: int) -> list[Frame]:
        """The next frames, all in one buffer, waiting for some; none when time is up or the consumer is lost.

        What has piled up is joined, so that blocks are large when the taker is the slower side.
        """
        with self._changed:
            if not self._runs and self._lost is None and timeout_ms > 0:
                self._changed.wait_for(lambda: self._runs or self._lost is not None, timeout_ms / 1000)
            runs: list[list[Frame]] = []
            size = 0
            while self._runs and (not runs or size < _BLOCK_BYTES):
                run = _one_buffer(self._runs)
                size += _size_of(run)
                runs.append(run)
            self._bytes -= size
            if self._bytes <= self._max_bytes // 2:
                self._resume()
        if not runs:
            return []
        return runs[0] if len(runs) == 1 else joined(runs)


def _one_buffer(runs: deque[list[Frame]]) -> list[Frame]:
    """Remove and return the first frames that lie in one buffer."""
    run = runs.popleft()
    buffer = run[0].buffer
    if run[-1].buffer is buffer:
        return run
    end = next(i for i, frame in enumerate(run) if frame.buffer is not buffer)
    runs.appendleft(run[end:])
    return run[:end]


def _size_of(frames: list[Frame]) -> int:
    return sum(frame.end - frame.start for frame in frames)
