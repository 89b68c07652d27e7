"""`make demo`, on the first weeks of the year."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLIGHTS = 30_000


def test_the_demo_checks_itself() -> None:
    command = [sys.executable, str(ROOT / "jobs" / "demo.py"), "--limit", str(FLIGHTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{FLIGHTS:,} flights read, 0 came too late" in done.stdout
    assert "every alert as computed without Spark" in done.stdout
    assert "delay-alerts as the official client read it" in done.stdout
