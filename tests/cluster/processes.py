"""Servers of a test as child processes: a log file each, ended by their process id."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 20.0
LOG_LINES_SHOWN = 40


class CannotStart(Exception):
    """A server ended before it served, or took too long; the message has the end of its log."""


class ServerProcess:
    """One server: its command, its log, and the process while it runs.

    Attributes:
        name: For messages and the log file's name.
        log_path: What it prints, all starts one after another.
    """

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_path = directory / f"{name}.log"
        self._command = list(command)
        self._directory = directory
        self._environment = None if environment is None else dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Tells whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the process and returns at once."""
        assert not self.running, f"{self.name} is running"
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env=self._environment,
                start_new_session=True,
            )

    def wait_until(self, serves: Callable[[], bool], timeout_s: float) -> None:
        """Returns when `serves` says so.

        Raises:
            CannotStart: the process ended, or took too long; it is ended then.
        """
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while self.running and time.monotonic() < deadline:
            if serves():
                return
            pause.wait(0.1)
        self.kill()
        tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
        raise CannotStart(f"{self.name} did not get ready; the end of {self.log_path}:\n{tail}")

    def stop(self) -> None:
        """Ends the process in order (SIGTERM), by force when that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Ends the process at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
