"""Runs jobs one after the other in one process, as spark-submit runs them but for the start of a JVM.

A line of JSON on standard input names a job and its arguments; a line with its status and what it printed answers.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from demo import JOBS

from tests.jobs.submitting import kill_all

ROOT = JOBS.parent


class OneSpark:
    """A process that runs jobs; another one takes its place once it has ended or was killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: str, *arguments: object) -> tuple[int, str]:
        """Runs a job to its end and returns its status and what it printed."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps([job, *map(str, arguments)]), file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BaseException:  # the time of the test is over, most of all
            self.close()
            raise
        if not line:
            self.close()
            raise AssertionError(f"{job} ended its process:\n{self._log.read_text()[-4000:]}")
        status, printed = json.loads(line)
        return status, printed

    def submit(self, job: str, *arguments: object) -> str:
        """Runs a job to its end and returns what it printed; fails with that when the job did."""
        status, printed = self.run(job, *arguments)
        assert status == 0, f"{printed}\n{self._log.read_text()[-4000:]}"
        return printed

    def close(self) -> None:
        """Ends the process with all that it started."""
        if self._process is not None:
            kill_all(self._process)
            self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "stderr.txt"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
            env |= {
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell",
                "PYTHONPATH": os.pathsep.join([str(JOBS), str(ROOT)]),
                "PYTHONWARNINGS": "ignore::FutureWarning",  # PySpark's on pandas 3, in every process
                "SPARK_CONF_DIR": str(ROOT / "conf"),
                "SPARK_LOCAL_IP": "127.0.0.1",
            }
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    cwd=self._folder,
                    env=env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
        return self._process


def main() -> None:
    """Answers lines until there are no more."""
    # What the JVM and Spark's workers write to standard output is no answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job, *arguments = json.loads(line)
        printed = io.StringIO()
        with redirect_stdout(printed):
            status = _run(job, arguments)
        print(json.dumps([status, printed.getvalue()]), file=answers, flush=True)


def _run(job: str, arguments: list[str]) -> Any:
    """Runs a job's program and returns its status."""
    sys.argv = [str(JOBS / job), *arguments]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
            return 1
        return end.code or 0
    except Exception:  # noqa: BLE001 - as the interpreter does at the end of a program
        traceback.print_exc()
        traceback.print_exc(file=sys.stdout)
        return 1
    return 0


if __name__ == "__main__":
    main()
