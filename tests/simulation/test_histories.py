"""Histories of the whole broker: 120 of them, and 1,200 in the long form.

`SIMULATION_SEEDS=1..20000` (or `make simulate SEEDS=…`) runs others, or more.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .seeds import COUNTED, numbers_of, run_many

SEEDS = os.environ.get("SIMULATION_SEEDS", "1..120")
"""Chosen to take a few seconds on two cores."""
MORE_SEEDS = "121..1200"
ENOUGH_TO_COUNT = 120
"""So many histories have a bit of everything."""


def judge(seeds: str) -> None:
    """Runs histories; none may break a promise, and together they have to do a bit of everything."""
    summary = run_many(numbers_of(seeds))
    print(summary.text)
    stories = "\n\n".join(f"---- seed {seed}\n{story}" for seed, story in summary.failures[:3])
    assert not summary.failures, f"{summary.text}\n{stories}"
    if summary.histories >= ENOUGH_TO_COUNT:
        assert all(summary.totals[name] > summary.histories // 20 for name in COUNTED), summary.text


@pytest.mark.timeout(0)
def test_no_promise_is_broken() -> None:
    # covers DUR-1, DUR-3, ML-1, ML-5, PR-2, PR-9, PR-15, ACK-1 … ACK-4, ACK-9, SH-4, SH-10, EX-1, EX-2, EX-4, NACK-2
    # covers NACK-3, RC-1, CUR-1, CUR-3, CUR-6, CUR-9, CUR-11, CUR-12, CUR-16, CUR-17, 5.2
    # covers CMP-C3, CMP-C1, CMP-C4, FO-1, FO-2, FO-3, FO-4, FO-5, FO-6, KS-1, KS-7, KS-10, KS-13, KS-14, DEL-2, DEL-3
    # covers SC-1, SC-9, SC-10, SUB-3, DED-1, DED-2
    # covers PR-12, PR-14, SUB-6, SUB-7
    # covers DEL-4, DEL-7, DEL-11, TN-11, RET-6, PR-4, PR-5, PR-6, PR-7, PR-8, NP-1, NP-2, NP-3, NP-6, TN-13, DUR-9
    # covers TX-3, TX-4, TX-5, TX-6, TX-7, TX-8, TX-9, TX-10, TX-11, TX-12, TX-13, TX-14, TX-15, TX-16, TX-17, TX-18
    # covers TX-19, TX-20, TX-26
    judge(SEEDS)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_no_promise_is_broken_in_many_more() -> None:
    judge(MORE_SEEDS)


def test_the_same_seed_is_the_same_history() -> None:
    """Runs a seed in other processes, with other hash seeds: a failure replays exactly."""
    program = (
        "from tests.simulation.history import run\n"
        "print([run(seed, storage=storage).trace_hash for seed in range(40, 44) for storage in ('memory', None)])"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split(","))) > 4
