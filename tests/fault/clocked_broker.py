"""The broker of `spark-pulsar broker`, whose machine's clock is corrected as a file says: `python -m … broker …`.

`CLOCK` in the environment names the file. It holds the seconds by which the wall clock is ahead of the machine's.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

from spark_pulsar.cli.main import app
from spark_pulsar.server import clock

CLOCK = Path(os.environ["CLOCK"])


def _time_ns() -> int:
    ahead_s = int(CLOCK.read_text() or 0) if CLOCK.exists() else 0
    return time.time_ns() + ahead_s * 1_000_000_000


if __name__ == "__main__":
    clock.time = SimpleNamespace(time_ns=_time_ns, monotonic_ns=time.monotonic_ns)  # type: ignore[assignment]
    app()
