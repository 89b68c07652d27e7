"""`spark-pulsar top` on a terminal: a live table, its keys, and its end."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.brokers import Broker
from tests.eventually import eventually

CONTROL = re.compile(rb"\x1b(\[[0-9;?]*[ -/]*[@-~]|[()].)")


def unignored() -> None:
    """A job in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A terminal of 20 lines in which a program runs."""

    def __init__(self, *command: str, columns: int) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))
        os.set_blocking(self._ours, False)
        self.settings = termios.tcgetattr(theirs)
        self._theirs = theirs
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        self.process = subprocess.Popen(
            command, env=environment | {"TERM": "xterm"}, start_new_session=True, preexec_fn=unignored, **streams
        )
        self._seen = b""

    def type(self, keys: str) -> None:
        """Types keys, and forgets what was shown so far."""
        self.shown()
        self._seen = b""
        os.write(self._ours, keys.encode())

    def shown(self) -> str:
        """What was shown since keys were typed."""
        while True:
            try:
                self._seen += os.read(self._ours, 1 << 16)
            except BlockingIOError:
                return CONTROL.sub(b"", self._seen).decode(errors="replace")

    def shows(self, text: str) -> bool:
        """Tells whether a text was shown."""
        assert self.process.poll() is None, self.shown()
        return text in self.shown()

    def status(self) -> int:
        """Waits for the end of the program, and returns its status. What it writes is read on: it waits for that."""

        def has_ended() -> bool:
            self.shown()
            return self.process.poll() is not None

        eventually(has_ended, timeout_s=20)
        return self.process.returncode

    def is_restored(self) -> bool:
        """Tells whether the terminal has the settings that it had."""
        return termios.tcgetattr(self._theirs) == self.settings

    def close(self) -> None:
        """Ends the program."""
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def top(broker: Broker, *words: str, columns: int = 120) -> Iterator[Terminal]:
    command = (sys.executable, "-m", "spark_pulsar", "top", "--admin-url", broker.admin_url, *words)
    terminal = Terminal(*command, columns=columns)
    try:
        yield terminal
    finally:
        terminal.close()


def test_a_live_table_is_sorted_by_keys_and_ends_at_q(broker: Broker) -> None:
    topic = broker.topic("shown-live")
    broker.client().create_producer(topic).send(b"x")
    with top(broker, "public/default", "--interval", "0.2") as terminal:
        eventually(lambda: terminal.shows("BACKLOG"))
        eventually(lambda: terminal.shows("by in"))
        for key, name in (("b", "backlog"), ("t", "topic"), ("s", "storage")):
            terminal.type(key)
            eventually(lambda name=name: terminal.shows(f"by {name}"))  # type: ignore[misc]
        terminal.type("q")
        assert terminal.status() == 0
        assert terminal.is_restored()


def test_ctrl_c_ends_it_too(broker: Broker) -> None:
    with top(broker, "--interval", "60") as terminal:
        eventually(lambda: terminal.shows("quit"))
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.status() == 0
        assert terminal.is_restored()


def test_a_narrow_terminal_shows_the_ends_of_names(broker: Broker) -> None:
    topic = broker.topic("0-a-name-that-is-far-too-long-for-a-terminal-of-sixty-columns-ends-here")
    broker.client().create_producer(topic).send(b"x")
    with top(broker, "public/default", "--interval", "0.2", "--sort", "unacked", columns=60) as terminal:
        eventually(lambda: terminal.shows(topic[-15:]))
        eventually(lambda: terminal.shows("UNACKED"))
        assert topic not in terminal.shown()


@pytest.mark.parametrize("scope", ["nosuch", "public/nosuch"])
def test_a_scope_that_is_not_there_is_an_error(broker: Broker, scope: str) -> None:
    with top(broker, scope) as terminal:
        assert terminal.status() == 1
        reason = "Namespace does not exist" if "/" in scope else "Tenant not found"
        shown = f"spark-pulsar: {scope}: {reason}; spark-pulsar topics tree shows those that are there\r\n"
        assert terminal.shown() == shown


def test_it_ends_after_so_many_looks(broker: Broker) -> None:
    with top(broker, "--interval", "0.1", "-n", "3") as terminal:
        assert terminal.status() == 0


def test_a_broker_that_goes_away_is_told_and_comes_back(own_broker: Broker) -> None:
    with top(own_broker, "--interval", "0.2") as terminal:
        eventually(lambda: terminal.shows("quit"))
        own_broker.kill()
        eventually(lambda: terminal.shows("trying again"))
        own_broker.restart()
        terminal.type("b")
        eventually(lambda: terminal.shows("by backlog"))


def test_a_broker_that_is_not_there_is_one_line() -> None:
    nowhere = Broker("ours", "", "http://127.0.0.1:1")
    with top(nowhere) as terminal:
        assert terminal.status() == 1
        assert terminal.shown().startswith("spark-pulsar: no answer from http://127.0.0.1:1")
