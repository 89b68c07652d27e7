"""Programs as a user runs them, which leave nothing behind when their time is over."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

TIMEOUT_S = 270


def run(
    command: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, whatever that is, or until its time is over: then all that it started is killed, too.

    `subprocess.run` would kill a shell alone, and the job that it runs would go on to write.
    """
    with subprocess.Popen(
        command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        try:
            printed, said = program.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(program)
            printed, said = program.communicate()
            raise AssertionError(f"not over after {timeout_s} s: {command}\n{printed}\n{said}") from None
        except BaseException:
            kill_all(program)
            raise
    return subprocess.CompletedProcess(command, program.returncode, printed, said)


def succeed(
    command: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Runs a program to its end and returns what it printed; fails with that when the program did."""
    done = run(command, env, cwd, timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kill_all(program: subprocess.Popen[str]) -> None:
    """Kills a program with all that it started, and waits for its end."""
    _kill(program)
    program.wait()
    for stream in (program.stdin, program.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()


def _kill(program: subprocess.Popen[str]) -> None:
    """Kills a program that leads a session, and its descendants in sessions of their own."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(program.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
