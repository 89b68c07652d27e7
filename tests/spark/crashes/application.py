"""The application of `copying` as a process: what can be asked of it, and what of it can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

START_TIMEOUT_S = 180
COPY_TIMEOUT_S = 300


class Application:
    """A Spark application, started when it is needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def start(self) -> None:
        """Starts it unless it runs; returns when its session is there."""
        if self._process is not None:
            return
        self._answers = queue.Queue()
        with (self._directory / "application.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.crashes.copying"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[3],
                env=os.environ | {"SPARK_LOCAL_DIRS": str(self._directory)},
            )
        self._listener = threading.Thread(target=self._listen, args=(self._process, self._answers), daemon=True)
        self._listener.start()
        assert self._answers.get(timeout=START_TIMEOUT_S) == "@ready"

    @staticmethod
    def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("@"):
                answers.put(line.strip())
        answers.put("@gone")

    def begin(self, order: dict[str, Any]) -> None:
        """Has it copy; `answer` comes later."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self, timeout_s: float = COPY_TIMEOUT_S) -> str | None:
        """The answer to the last order; None when the time is up."""
        try:
            return self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None

    @property
    def has_answered(self) -> bool:
        """Whether the copy is over, or the application gone."""
        return not self._answers.empty()

    def workers(self) -> list[psutil.Process]:
        """The Python workers of its tasks, those that read and those that write."""
        assert self._process is not None
        found = []
        for process in self._descendants():
            try:
                words, parent = process.cmdline(), process.parent()
                is_forked = parent is not None and parent.cmdline() == words
            except psutil.Error:
                continue
            if is_forked and "pyspark.daemon" in words and words[-1] in ("pyspark.worker", "pyspark.daemon"):
                found.append(process)
        return sorted(found, key=lambda process: process.pid)

    def _descendants(self) -> list[psutil.Process]:
        assert self._process is not None
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def kill(self) -> None:
        """SIGKILL for driver and JVM. The workers are left alone: they go on until they notice."""
        assert self._process is not None
        java = [process for process in self._descendants() if _is_java(process)]
        self._process.kill()
        for process in java:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(java, timeout=30)
        assert self._listener is not None
        self._listener.join(30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process = None

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self.kill()


def _is_java(process: psutil.Process) -> bool:
    """Whether a process is the JVM; one that has just ended is none."""
    try:
        return bool(process.name() == "java")
    except psutil.Error:
        return False
