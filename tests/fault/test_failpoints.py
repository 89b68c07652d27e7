"""A process that dies at every named step of the storage: nothing confirmed is lost, `check` finds no error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from tests.fault.failpoint_writer import KEPT, QUEUE, SEGMENT_BYTES, SUBSCRIPTION, entry_of
from tests.fault.failpoints import NAMES, STEPS

ROOT = Path(__file__).parents[2]
KILLED = -9


def run(data_dir: Path, start: int, failpoint: str, occurrence: int = 1) -> tuple[int, int, list[str]]:
    """Let the writer run; its exit status, the last number it confirmed, and the other lines it wrote."""
    command = [sys.executable, "-m", "tests.fault.failpoint_writer", str(data_dir), str(start), failpoint]
    done = subprocess.run(
        [*command, str(occurrence)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    lines = done.stdout.splitlines(keepends=True)
    numbers = [int(line) for line in lines if line[:1].isdigit() and line.endswith("\n")]
    assert numbers == list(range(start, start + len(numbers))), "confirmed out of order"
    others = [line.strip() for line in lines if not line[:1].isdigit()]
    assert done.returncode in (0, KILLED), done.stderr
    return done.returncode, start + len(numbers) - 1, others


def balance(data_dir: Path, confirmed: int) -> int:
    """Verify the directory and every entry and ack in it; the number of the last submit that is there."""
    findings = [str(finding) for finding in check(data_dir) if finding.severity is Severity.ERROR]
    if findings == ["error: VERSION at 0: missing: this is no data directory, or was never used"]:
        assert confirmed < 0, "something was confirmed before the directory was complete"
        return -1
    assert findings == []
    storage, state = FileStorage.open(data_dir, segment_bytes=SEGMENT_BYTES)
    last = -1
    if KEPT in state.topics_by_name:
        topic = state.topics_by_name[KEPT]
        cursor = topic.cursors[SUBSCRIPTION]
        numbers: list[int] = []
        for info in topic.ledger.ledgers.values():
            entry_id = info.first_entry_id
            while entry_id < info.entries:
                runs = storage.read(info.ledger_id, entry_id, 500, 1 << 20)
                assert runs, f"{info.ledger_id}:{entry_id} is unreadable"
                for run in runs:
                    assert run.first_entry_id == entry_id
                    for entry_id in range(run.first_entry_id, run.end_entry_id):
                        number = int(run.entry(entry_id).split(b"/")[0])
                        assert run.entry(entry_id) == entry_of(number)
                        assert cursor.is_acked(info.ledger_id, entry_id) == bool(number % 3)
                        numbers.append(number)
                    entry_id = run.end_entry_id
        if numbers:
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert numbers[0] <= 3
            last = numbers[-1]
    if QUEUE in state.topics_by_name and last >= 0:
        queue = state.topics_by_name[QUEUE].ledger
        assert queue.total_entries == last + 1
    known = {f"{ledger_id:012d}.ledger" for ledger_id in state.ledgers}
    storage.close(state)
    left = {path.name for path in (data_dir / "ledgers").iterdir()} - known
    assert not left, "files of ledgers that are gone stay behind"
    assert not (data_dir / "damaged").exists(), "what a crash leaves is known"
    assert last >= confirmed, f"{confirmed} was confirmed, {last} is the last one there"
    return last


def test_the_load_comes_by_every_step(tmp_path: Path) -> None:
    first, last, lines = run(tmp_path / "data", 0, "")
    assert first == 0
    _, last, more = run(tmp_path / "data", last + 1, "")
    seen = {step for line in [*lines, *more] for step in line.split()[1:]}
    assert seen <= set(NAMES), "steps that have no name in STEPS"
    # Its crashes make this one happen, see below.
    assert {name.partition("_")[2] for name in set(NAMES) - seen} <= {"truncate_ledger"}
    assert balance(tmp_path / "data", last) == last


FEW = (("before", 1), ("after", 4))
MORE = (("after", 1), ("before", 4))
"""Deaths of a process: before or after a step, and how often it had come by it."""


@pytest.mark.parametrize("deaths", [FEW, pytest.param(MORE, marks=pytest.mark.long)], ids=["few", "more"])
@pytest.mark.parametrize("step", STEPS)
def test_dying_at_a_step(tmp_path: Path, step: str, deaths: tuple[tuple[str, int], ...]) -> None:
    # covers DUR-1, DUR-3, DUR-4, DUR-7, DUR-9, CUR-4
    data_dir = tmp_path / "data"
    last = -1
    died = 0
    for when, occurrence in deaths:
        if step in ("make_copy", "remove_copy"):  # a copy that is there and not behind stays as it is
            for path in data_dir.glob("checkpoint.copy*"):
                path.unlink()
        status, confirmed, _ = run(data_dir, last + 1, f"{when}_{step}", occurrence)
        died += status == KILLED
        last = balance(data_dir, max(confirmed, last))
    if step == "truncate_ledger":
        return
    assert died, "the load never came by this step"


def test_an_unfinished_settling_is_cut_off_by_the_next(tmp_path: Path) -> None:
    """Blocks behind the extent that no checkpoint names: the only way to `truncate_ledger`."""
    data_dir = tmp_path / "data"
    last, died = -1, 0
    for crash in range(6):
        failpoint = "before_commit_checkpoint" if crash % 2 == 0 else "before_truncate_ledger"
        status, confirmed, _ = run(data_dir, last + 1, failpoint, 3 if crash % 2 == 0 else 1)
        died += status == KILLED and crash % 2
        last = balance(data_dir, max(confirmed, last))
    assert died, "the load never cut anything off"
