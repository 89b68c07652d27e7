"""Log of the official client, line by line: it has no stream of Python's to write to, and writes into a pipe instead.

A logger of Python's would be called by the client's threads when Python ends, which aborts the process; the path of
standard error would take what strangers sent to the terminal as it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

from spark_pulsar.cli.values import LogLevel

_LEVELS: Final = {
    LogLevel.DEBUG: "Debug",
    LogLevel.INFO: "Info",
    LogLevel.WARNING: "Warn",
    LogLevel.ERROR: "Error",
}
_MARK: Final = "\0\n"
_DRAIN_S: Final = 1.0


class ClientLog:
    """The log, from a level on: `logger` is for `pulsar.Client(logger=…)`, and `on_line` is called with each line by a
    thread of its own."""

    def __init__(self, level: LogLevel, on_line: Callable[[str], None]) -> None:
        import pulsar

        self._reading, self._writing = os.pipe()
        self.logger: Final = pulsar.FileLogger(getattr(pulsar.LoggerLevel, _LEVELS[level]), f"/dev/fd/{self._writing}")
        self._on_line = on_line
        self._drained = threading.Event()
        # Both ends stay open as long as the process: the client's threads may outlive the client.
        threading.Thread(target=self._read, name="client-log", daemon=True).start()

    def close(self) -> None:
        """Waits, a second at most, until all lines so far were handed over."""
        os.write(self._writing, _MARK.encode())
        self._drained.wait(_DRAIN_S)

    def _read(self) -> None:
        with os.fdopen(self._reading, errors="replace", closefd=False) as lines:
            for line in lines:
                if line.endswith(_MARK):
                    self._drained.set()
                else:
                    self._on_line(line.rstrip("\n"))
