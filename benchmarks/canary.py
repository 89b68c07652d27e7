#!/usr/bin/env python3
"""A canary beside costly requests: how long one request of one client keeps all others waiting.

    python benchmarks/canary.py [--only NAME …] [--topics 50000] [--seconds 3] [--holds] [--data DIR]

A canary, a process of its own, publishes and consumes a hundred messages a second on a broker with 50,000 topics, first
alone, then while another process makes requests of one kind again and again for `--seconds`, at least once. Reported
for each kind: how often the requests were made, how long they took each time, and the canary's p50, p99 and longest
time, in milliseconds. A message counts from the moment it was due, so that one that had to wait for its turn counts
too.

`--holds` also reports the longest step of the broker's loop (processor time), and which it was: asyncio's own loop in
place of uvloop. It says more on a machine that does other things as well. `--list` names the requests.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from load import attacks, loop_holds
from load.attacks import ATTACKS, Stage
from load.machine import description
from load.results import Results, add_option
from load.singing import Canary

from spark_pulsar.testing.process import BrokerProcess

ALONE = "alone"
_AFTER_S = 0.5
"""Time after an attack that still counts: its last slices."""
_QUIET_S = 1.0


class Window:
    """A time in which one kind of request was made."""

    def __init__(self, name: str, begin_s: float, took_s: list[float], failure: str) -> None:
        self.name = name
        self.begin_s = begin_s
        self.end_s = time.monotonic() + (0 if name == ALONE else _AFTER_S)
        self.took_s = took_s
        self.failure = failure

    def times_ms(self, heard: list[tuple[float, float]]) -> tuple[float, float, float]:
        """Returns the canary's p50, p99 and longest time."""
        times = sorted(taken for due, taken in heard if self.begin_s <= due <= self.end_s) or [float("nan")]
        return times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)], times[-1]

    def line(self, heard: list[tuple[float, float]]) -> str:
        """Returns the figures."""
        p50, p99, longest = self.times_ms(heard)
        took = f"{sum(self.took_s) / len(self.took_s):9.2f}" if self.took_s else f"{'–':>9}"
        figures = f"{len(self.took_s):6} {took} {p50:9.2f} {p99:9.2f} {longest:9.2f}"
        return f"{self.name:22} {figures}  {self.failure}"


def attack(stage: Stage, name: str, seconds: float) -> Window:
    """Makes the requests of a kind again and again, in a process of its own."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()

    def work() -> None:
        took: list[float] = []
        failure = ""
        end = time.monotonic() + seconds
        try:
            while not took or time.monotonic() < end:
                begin = time.monotonic()
                ATTACKS[name][1](stage)
                took.append(time.monotonic() - begin)
        except Exception as error:  # noqa: BLE001 - reported with the figures
            failure = repr(error)
        there.send((took, failure))

    begin = time.monotonic()
    process = fork.Process(target=work, daemon=True)
    process.start()
    took, failure = here.recv()
    process.join()
    time.sleep(_AFTER_S)
    return Window(name, begin, took, failure)


def measure(
    broker: BrokerProcess, names: list[str], topics: int, seconds: float, holds: Path | None, results: Results
) -> None:
    """Sets the stage, notes and prints a line for each kind of request."""
    stage = Stage(broker.service_url, broker.admin_url, topics)
    begin = time.monotonic()
    attacks.set_up(stage)
    print(f"{topics:,} topics made in {time.monotonic() - begin:.1f} s", flush=True)
    time.sleep(5 * _QUIET_S)
    canary = Canary(broker.service_url)
    time.sleep(_QUIET_S)
    begin = time.monotonic()
    time.sleep(seconds)
    windows = [Window(ALONE, begin, [], "")]
    for name in names:
        windows.append(attack(stage, name, seconds))
        time.sleep(_QUIET_S)
    heard = canary.end()
    print(f"{'':22} {'times':>6} {'each, s':>9} {'p50, ms':>9} {'p99, ms':>9} {'max, ms':>9}")
    for window in windows:
        results.note_all(dict(zip(("p50, ms", "p99, ms", "max, ms"), window.times_ms(heard), strict=True)), window.name)
    if names:
        results.note("highest p99, ms", max(window.times_ms(heard)[1] for window in windows[1:]))
        results.note("longest, ms", max(window.times_ms(heard)[2] for window in windows[1:]))
    for window in windows:
        print(window.line(heard), flush=True)
        if holds is not None:
            for milliseconds, step in loop_holds.holds(holds, window.begin_s, window.end_s)[:3]:
                print(f"{'':22} {milliseconds:9.1f} ms {step}")


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), default=list(ATTACKS), metavar="NAME")
    parser.add_argument("--topics", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--holds", action="store_true", help="report the longest steps of the broker's loop")
    parser.add_argument("--list", action="store_true", help="name the requests, and do nothing")
    parser.add_argument("--data", type=Path, default=None, help="directory for the broker's data")
    add_option(parser)
    options = parser.parse_args()
    results = Results()
    if options.list:
        print("\n".join(f"{name:22} {meaning}" for name, (meaning, _) in ATTACKS.items()))
        return 0
    with tempfile.TemporaryDirectory(dir=options.data) as scratch:
        print(description(Path(scratch)))
        file = Path(scratch) / "holds" if options.holds else None
        if file is not None:
            file.touch()
            os.environ[loop_holds.LOOP_HOLDS] = str(file)
            here = Path(__file__).resolve().parent
            os.environ["PYTHONPATH"] = os.pathsep.join([str(here), str(here.parent)])
        made = loop_holds.ProbedBroker if options.holds else BrokerProcess
        with made(Path(scratch) / "broker") as broker:
            measure(broker, options.only, options.topics, options.seconds, file, results)
    results.store(options.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
