"""`make demo`, on the first weeks of the year; test_jobs.py has its alerts without spark-submit."""

import sys
from pathlib import Path

import pytest

from tests.jobs.submitting import succeed

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 10_000


@pytest.mark.long
def test_the_demo_checks_itself() -> None:
    command = [sys.executable, str(ROOT / "jobs" / "demo.py"), "--limit", str(FLIGHTS)]
    printed = succeed(command)
    assert f"{FLIGHTS:,} flights read, 0 came too late" in printed
    assert "every alert as computed without Spark" in printed
    assert "delay-alerts as the official client read it" in printed
