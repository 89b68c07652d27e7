"""A broker that notes how long each step of its loop held the interpreter.

`python -m load.loop_holds broker …` is `spark-pulsar broker …` on asyncio's own loop, with a clock around every step:
processor time of the loop's thread, so that a loaded machine disturbs little. Steps of `LEAST_MS` and more go as lines
`<monotonic seconds of the end> <milliseconds> <step>` to the file that `LOOP_HOLDS` names.
"""

import asyncio
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_pulsar.cli.main import app
from spark_pulsar.server import runner
from spark_pulsar.testing.process import BrokerProcess

LOOP_HOLDS = "LOOP_HOLDS"
LEAST_MS = 2.0


class ProbedBroker(BrokerProcess):
    """A broker with the clock."""

    _module = "load.loop_holds"


def holds(file: Path, begin_s: float, end_s: float) -> list[tuple[float, str]]:
    """Reads the steps that ended between two times, the longest first."""
    found = []
    for line in file.read_text().splitlines():
        ended, milliseconds, step = line.split(" ", 2)
        if begin_s <= float(ended) <= end_s:
            found.append((float(milliseconds), step))
    return sorted(found, reverse=True)


def _name(handle: Any) -> str:
    call = handle._callback
    owner = getattr(call, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine: Any = owner.get_coro()
        return str(getattr(coroutine, "__qualname__", coroutine))
    return str(getattr(call, "__qualname__", call))


def _clocked(run: Callable[[Any], None], file: Any) -> Callable[[Any], None]:
    def clocked(handle: Any) -> None:
        name = _name(handle)
        began = time.thread_time()
        run(handle)
        took_ms = (time.thread_time() - began) * 1000
        if took_ms >= LEAST_MS:
            file.write(f"{time.monotonic():.6f} {took_ms:.1f} {name}\n")

    return clocked


def _collections(file: Any) -> Callable[[str, dict[str, int]], None]:
    began = 0.0

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        elif (took_ms := (time.thread_time() - began) * 1000) >= LEAST_MS:
            file.write(f"{time.monotonic():.6f} {took_ms:.1f} garbage collection {info['generation']}\n")

    return collected


def main() -> None:
    """Runs the command line with the clock."""
    file = open(os.environ[LOOP_HOLDS], "a", buffering=1)  # noqa: SIM115 - until the process ends
    steps: Any = asyncio.Handle
    steps._run = _clocked(steps._run, file)
    runner._new_loop = asyncio.new_event_loop  # uvloop's steps cannot be clocked
    gc.callbacks.append(_collections(file))
    app(prog_name="spark-pulsar")


if __name__ == "__main__":
    main()
