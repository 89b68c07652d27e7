"""Writer of the log: a bounded queue of lines and a thread that writes them, so that logging never waits (SEC-87).

Standard error may be a pipe without a reader, a terminal that was stopped, or a file on a disk that hangs. What the
queue has no room for is counted, and reported once the writer goes on.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_QUEUED_BYTES: Final = 1024 * 1024
"""Bytes of lines that wait for the writer; further lines are dropped."""
FLUSH_S: Final = 2.0
"""Time that the end of a process may take for the lines that wait."""
_TICK_S: Final = 5.0
_WRITE_BYTES: Final = 64 * 1024


class LogWriter:
    """Writes lines to a descriptor in a thread of its own."""

    def __init__(self, descriptor: int, on_tick: Callable[[bool], None] = lambda _is_last: None) -> None:
        """`on_tick` is called by the thread every few seconds, and with True at the end; it may put lines."""
        self._descriptor = descriptor
        self._on_tick = on_tick
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self.dropped = 0
        """Lines that were dropped and are not reported yet."""
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queues a line, which has no line break, or drops it. Never waits for the descriptor."""
        data = f"{line}\n".encode(errors="backslashreplace")
        with self._changed:
            if self._queued_bytes + len(data) > MAX_QUEUED_BYTES:
                self.dropped += 1
                return
            self._lines.append(data)
            self._queued_bytes += len(data)
            self._changed.notify()

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Writes what waits, as far as the descriptor takes it within this time, and ends the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        next_tick_s = time.monotonic() + _TICK_S
        while True:
            with self._changed:
                if not self._lines and not self._is_closing:
                    self._changed.wait(max(0.0, next_tick_s - time.monotonic()))
                is_last = self._is_closing
                data, dropped = self._next()
            if data:
                self._write(data)
            if dropped:
                self._write(f"{dropped} lines of the log were dropped: what it is written to took no more\n".encode())
            if is_last and not data:
                self._on_tick(True)
                with self._changed:
                    data, _ = self._next()
                self._write(data)
                return
            if time.monotonic() >= next_tick_s:
                self._on_tick(False)
                next_tick_s = time.monotonic() + _TICK_S

    def _next(self) -> tuple[bytes, int]:
        """Removes lines for one write; with the last of them, the number of those that were dropped behind them."""
        parts: list[bytes] = []
        size = 0
        while self._lines and size < _WRITE_BYTES:
            parts.append(self._lines.popleft())
            size += len(parts[-1])
        self._queued_bytes -= size
        dropped = 0
        if not self._lines:
            dropped, self.dropped = self.dropped, 0
        return b"".join(parts), dropped

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # a process that shares the file made it so
                with contextlib.suppress(OSError):
                    select.select([], [self._descriptor], [])
            except OSError:  # its reader has ended, or its disk is full: the lines are lost
                return
