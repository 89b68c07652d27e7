"""The inbox of a fetch: the reader thread puts messages in, the fetch takes them out."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.wire.protocol.frames import Frame

_JOINED_BYTES: Final = 1024 * 1024


class Inbox:
    """Runs of frames of one consumer, bounded by pausing the connection. A sink of the connection.

    `arrived`, which several inboxes may share, is set whenever there is something new to read.
    """

    def __init__(
        self,
        max_bytes: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
        arrived: threading.Event | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._pause = pause
        self._resume = resume
        self._arrived = arrived
        self._changed = threading.Condition()
        self._queue: deque[list[Frame]] = deque()
        self._bytes = 0
        self._lost: PulsarError | None = None
        self._is_released = False

    def messages(self, frames: list[Frame]) -> None:
        """Called by the reader thread with frames in order of arrival."""
        runs = list(_runs(frames))
        size = sum(map(_size_of, runs))
        with self._changed:
            self._queue += runs
            self._bytes += size
            if self._bytes > self._max_bytes and not self._is_released:
                self._pause()
            self._notify()

    def detached(self, error: PulsarError) -> None:
        """Called by the reader thread when nothing more will come."""
        with self._changed:
            self._lost = error
            self._notify()

    def release(self) -> None:
        """Stops holding the connection back, even for messages on their way to this inbox: no caller receives them."""
        with self._changed:
            self._is_released = True
            self._resume()

    def _notify(self) -> None:
        self._changed.notify()
        if self._arrived is not None:
            self._arrived.set()

    @property
    def lost(self) -> PulsarError | None:
        """Why nothing more will come, or None."""
        return self._lost

    @property
    def empty(self) -> bool:
        """Returns whether everything that arrived was taken."""
        return not self._queue

    def receive(self, timeout_ms: int) -> list[list[Frame]]:
        """Returns the next runs of frames, waiting for some; none when time is up or the consumer is lost.

        The frames of a run lie in one buffer, one after the other. Short runs that have piled up are taken together, so
        that blocks are large when the taker is the slower side; a long one comes alone, as joining would copy it.
        """
        with self._changed:
            if not self._queue and self._lost is None and timeout_ms > 0:
                self._changed.wait_for(lambda: self._queue or self._lost is not None, timeout_ms / 1000)
            runs: list[list[Frame]] = []
            size = 0
            while self._queue and (not runs or size + _size_of(self._queue[0]) <= _JOINED_BYTES):
                runs.append(self._queue.popleft())
                size += _size_of(runs[-1])
            self._bytes -= size
            if self._bytes <= self._max_bytes // 2:
                self._resume()
        return runs


class SharedInbox(Inbox):
    """Inbox of one of several consumers of a connection, which it must not pause: bounded by giving the reader up.

    Frames that arrive when it is full are dropped, and it is lost; they are read again by the next reader.
    """

    def __init__(self, max_bytes: int, arrived: threading.Event | None = None) -> None:
        super().__init__(max_bytes, _nothing, _nothing, arrived)

    def messages(self, frames: list[Frame]) -> None:
        """See `Inbox`. Copies the frames, which lie among those of others."""
        with self._changed:
            if self._lost is not None:
                return
            if self._bytes > self._max_bytes:
                self._lost = ConnectionLost("a reader was sent more than it can hold")
                self._notify()
                return
        super().messages([frame for run in _runs(frames) for frame in _copied(run)])


def _nothing() -> None:
    """Does nothing."""


def _copied(run: list[Frame]) -> list[Frame]:
    begin = run[0].start
    buffer = run[0].buffer[begin : run[-1].end]
    return [Frame(buffer, frame.start - begin, frame.end - begin) for frame in run]


def _runs(frames: list[Frame]) -> Iterator[list[Frame]]:
    """Yields the frames cut where the buffer changes: the rest of the buffer before is joined with the next."""
    first = 0
    if frames[0].buffer is frames[-1].buffer:  # and so are all between
        yield frames
        return
    for index in range(1, len(frames)):
        if frames[index].buffer is not frames[index - 1].buffer:
            yield frames[first:index]
            first = index
    yield frames[first:]


def _size_of(run: list[Frame]) -> int:
    return run[-1].end - run[0].start
