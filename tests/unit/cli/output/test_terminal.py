"""Tables and progress on a terminal, a real one: a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

SHOWING = """
from spark_pulsar.cli.output.formats import show
show([{"topic": "orders", "backlog": 12}, {"topic": "x" * 100, "backlog": 3}])
"""
WORKING = """
import threading
from spark_pulsar.cli.output.progress import Progress
with Progress("Verifying", 4) as bar:
    bar.update(done=1)
    threading.Event().wait(1.05)
    for done in range(2, 5):
        bar.update(done=done)
print("done")
"""


def on_a_terminal(program: str) -> str:
    """Runs a program with standard output and standard error on a terminal of 80 columns."""
    mine, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
        )
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(mine, 65536)
            except OSError:  # Linux, once the other side is closed
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(30) == 0
        return b"".join(parts).decode()
    finally:
        os.close(mine)


def test_a_table_on_a_terminal() -> None:
    shown = on_a_terminal(SHOWING)
    lines = [line for line in shown.splitlines() if line.strip()]
    assert "topic" in lines[0]
    assert "backlog" in lines[0]
    assert any("orders" in line and "12" in line for line in lines)
    assert shown.count("x") == 100, "nothing is cut"


def test_progress_after_a_second_on_a_terminal_alone() -> None:
    assert "Verifying" in on_a_terminal(WORKING)
    piped = subprocess.run([sys.executable, "-c", WORKING], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("done\n", "")
