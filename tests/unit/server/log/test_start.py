"""Lines of the log: one each, whatever strangers sent, with the stack of an error below."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = r"""
import logging
from spark_pulsar.server.log.start import logging_to_standard_error
with logging_to_standard_error("INFO", 2):
    log = logging.getLogger("spark_pulsar.server")
    log.info("session of %s", "\x1b]0;x\x07\nforged\u202e\x9b")
    for number in range(5):
        log.warning("guess %d", number, extra={"host": "/10.0.0.1"})
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        log.exception("failed")
"""


def test_lines() -> None:
    # covers SEC-87
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0].endswith(r"INFO    spark_pulsar.server: session of \u001b]0;x\u0007\u000aforged\u202e\u009b")
    assert [line[-7:] for line in lines[1:3]] == ["guess 0", "guess 1"]
    assert lines[3].endswith("ERROR   spark_pulsar.server: failed")
    assert lines[-2] == r"ValueError: \u001b[31m"
    assert lines[-1].endswith("WARNING spark_pulsar.server: 3 more lines about /10.0.0.1 within a minute were left out")
