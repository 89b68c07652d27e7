"""kill -9 of a process that writes, again and again over one data directory: nothing confirmed is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from tests.fault.storage_writer import TOPIC

ROOT = Path(__file__).parents[2]
KILLS = 6


def run_and_kill(data_dir: Path, start: int, confirmations: int) -> int:
    """Let the writer run until it confirmed that many submits, kill it, and return the last number confirmed."""
    command = [sys.executable, "-m", "tests.fault.storage_writer", str(data_dir), str(start)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            lines = [child.stdout.readline() for _ in range(confirmations)]
        finally:
            child.kill()
        # What it said before it died counts too.
        lines += child.stdout.readlines()
    whole = [int(line) for line in lines if line.endswith(b"\n")]
    assert whole == list(range(start, start + len(whole))), "confirmed out of order"
    assert len(whole) >= confirmations, "the writer ended by itself"
    return whole[-1]


def test_nothing_confirmed_is_lost(tmp_path: Path) -> None:
    # covers DUR-1, DUR-3, DUR-4, CUR-4, ML-1
    random = Random(7)
    data_dir = tmp_path / "data"
    start = 0
    stored: dict[int, tuple[int, int]] = {}
    for _ in range(KILLS):
        confirmed = run_and_kill(data_dir, start, random.randrange(50, 1500))
        errors = [finding for finding in check(data_dir) if finding.severity is Severity.ERROR]
        assert errors == []
        storage, state = FileStorage.open(data_dir)
        topic = state.topics_by_name[TOPIC]
        cursor = topic.cursors["sub"]
        seen: list[int] = []
        for info in topic.ledger.ledgers.values():
            entry_id = info.first_entry_id
            while entry_id < info.entries:
                runs = storage.read(info.ledger_id, entry_id, 500, 1 << 20)
                assert runs, f"entry {info.ledger_id}:{entry_id} is unreadable"
                for run in runs:
                    assert run.first_entry_id == entry_id
                    for entry_id in range(run.first_entry_id, run.end_entry_id):
                        number = int(run.entry(entry_id).split(b"/")[0])
                        seen.append(number)
                        place = (info.ledger_id, entry_id)
                        assert stored.setdefault(number, place) == place, "a confirmed entry moved"
                        assert cursor.is_acked(*place) == bool(number % 3)
                    entry_id = run.end_entry_id
        # Entries before the first unacked one may be dropped; from there on there is no gap.
        assert seen == list(range(seen[0], seen[-1] + 1))
        assert seen[0] <= 3
        assert seen[-1] >= confirmed
        stored = {number: place for number, place in stored.items() if number <= seen[-1]}
        start = seen[-1] + 1
        storage.close()
