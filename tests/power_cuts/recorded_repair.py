"""`spark-pulsar check --repair`, which records what it does: `python -m tests.power_cuts.recorded_repair`."""

from __future__ import annotations

import os

from spark_pulsar.storage.offline.repair import repair

from .recorded_process import record_this_process


def main() -> None:
    """Repairs the data directory."""
    _kept = record_this_process()
    repair(os.environ["RECORDED"])


if __name__ == "__main__":
    main()
