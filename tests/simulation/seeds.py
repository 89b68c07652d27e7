"""Many seeds on all cores."""

from __future__ import annotations

import gc
import os
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from .history import run

_CHUNK = 20
_GARBAGE = 100_000
"""Objects between two searches for cycles: a seventh of the time is spent on that else."""
COUNTED = (
    *("turns", "starts", "entries", "receipts", "deliveries", "acks"),
    *("commits", "aborts", "timed_out", "transaction_acks"),
)
"""Numbers of `Result` that are summed up."""


@dataclass(slots=True)
class Summary:
    """Summary of many histories."""

    histories: int
    seconds: float = 0.0
    totals: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    """Seeds that failed, with the error and the end of the story."""

    @property
    def text(self) -> str:
        """Renders the summary."""
        rate = self.histories / max(self.seconds, 0.001) * 60
        counted = ", ".join(f"{self.totals[name]} {name}" for name in COUNTED)
        text = f"{self.histories} histories in {self.seconds:.1f} s ({rate:.0f} a minute): {counted}"
        if self.failures:
            seeds = ",".join(str(seed) for seed, _ in self.failures)
            text += (
                f"\n{len(self.failures)} failed. Replay one: make simulate SEEDS={self.failures[0][0]}\nall: {seeds}"
            )
        return text


def numbers_of(text: str) -> list[int]:
    """Seeds from `7`, `1..2000`, `1..10,99`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("..")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def run_many(seeds: Sequence[int], *, storage: str | None = None, processes: int | None = None) -> Summary:
    """Runs histories in as many processes as there are cores."""
    summary = Summary(len(seeds))
    began = time.monotonic()
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for totals, failures in pool.map(partial(_run_chunk, storage=storage), chunks):
            summary.totals.update(totals)
            summary.failures += failures
    summary.seconds = time.monotonic() - began
    return summary


def _run_chunk(seeds: Sequence[int], storage: str | None) -> tuple[Counter[str], list[tuple[int, str]]]:
    gc.freeze()
    gc.set_threshold(_GARBAGE)
    totals: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    for seed in seeds:
        try:
            result = run(seed, storage=storage)
        except Exception:  # noqa: BLE001 - whatever it is, it is told with its seed
            failures.append((seed, traceback.format_exc()))
        else:
            totals.update({name: getattr(result, name) for name in COUNTED})
    return totals, failures
