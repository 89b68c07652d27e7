"""Damage of the checkpoint, and of its copy: refused, explained, repaired without a loss while one is whole."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated, CursorMarkDeleted
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout, database_files
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from tests.contract.histories import picture
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/t"


class Made:
    """A topic whose first ledger is settled, some of it consumed; two checkpoints, then entries in the journal; the
    process was killed. `lost_commit` is the checkpoint's database as it was before the second."""

    def __init__(self, root: Path) -> None:
        world = FileWorld(root)
        world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
        world.apply_and_submit(CursorCreated(1, 1, "sub", -1, -1, 1, {}))
        self._append(world, 30)
        world.checkpoint()
        self.before = root / "before"
        shutil.copytree(world.data_dir, self.before, ignore=shutil.ignore_patterns("*-shm"))
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
        self._append(world, 40)
        world.apply_and_submit(CursorMarkDeleted(1, 1, 12))
        world.checkpoint()
        self._append(world, 5)
        self.picture = picture(world.state)
        self.entries = {ledger: world.read_all(ledger, 13 if ledger == 1 else 0) for ledger in (1, 2)}
        world.kill()
        world.dispose()
        self.root = world.data_dir
        self.layout = Layout(self.root)

    @staticmethod
    def _append(world: FileWorld, count: int) -> None:
        ledger = world.state.topics[1].ledger
        assert ledger.open_ledger is not None
        for _ in range(count):
            ledger_id, entry_id = ledger.open_ledger.ledger_id, ledger.open_ledger.entries
            run = run_of(ledger_id, entry_id, [b"%d:%d/" % (ledger_id, entry_id) + b"." * 3000])
            world.apply_and_submit(EntriesAppended(run))

    def take_from_before(self, path: Path) -> None:
        """A database and its log as they were before the second checkpoint."""
        for file in database_files(path):
            file.unlink(missing_ok=True)
            earlier = self.before / file.name
            if earlier.exists():
                shutil.copyfile(earlier, file)

    def errors(self) -> list[str]:
        return [finding.text for finding in check(self.root) if finding.severity is Severity.ERROR]

    def assert_all_is_there(self) -> None:
        storage, state = FileStorage.open(self.root, segment_bytes=SMALL_SEGMENT_BYTES)
        try:
            found = picture(state)
            assert found.keys() == self.picture.keys()
            for part in found.keys() - {"counters"}:  # a repair counts itself
                assert found[part] == self.picture[part], part
            for ledger_id, entries in self.entries.items():
                for entry_id, content in entries.items():
                    [run] = storage.read(ledger_id, entry_id, 1, 1)
                    assert run.entry(entry_id) == content
        finally:
            storage.close(state)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def empty_log(path: Path) -> None:
    """Have everything in the database itself, none of it in SQLite's log."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def no_database(path: Path) -> None:
    empty_log(path)
    path.write_bytes(b"this is no database" * 1000)


def missing(path: Path) -> None:
    for file in database_files(path):
        file.unlink(missing_ok=True)


def cut_off(path: Path) -> None:
    empty_log(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_page_of_zeros(path: Path) -> None:
    empty_log(path)
    content = bytearray(path.read_bytes())
    at = content.index(TOPIC.encode()) // 4096 * 4096
    content[at : at + 4096] = bytes(4096)
    path.write_bytes(content)


def a_changed_row(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("UPDATE ledger_files SET size_bytes = size_bytes + 1")
    db.commit()
    db.close()


DAMAGES = [no_database, missing, cut_off, a_page_of_zeros, a_changed_row]


def assert_refused(made: Made) -> None:
    with pytest.raises(StorageDamaged, match=r"checkpoint\.sqlite.*spark-pulsar check"):
        FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_replaced_by_its_copy(made: Made, damage: Callable[[Path], None]) -> None:
    damage(made.layout.checkpoint)
    assert_refused(made)
    findings = check(made.root)
    assert {finding.file for finding in findings if finding.severity is Severity.ERROR} == {"checkpoint.sqlite"}
    assert any(finding.file == "checkpoint.copy" and "--repair" in finding.text for finding in findings)
    _, done = repair(made.root)
    assert any("its copy is in its place" in line for line in done)
    assert any(path.name.startswith("checkpoint.sqlite") for path in (made.root / "damaged").iterdir())
    assert made.errors() == []
    made.assert_all_is_there()


def test_a_checkpoint_that_lost_its_last_transaction_is_refused_and_replaced(made: Made) -> None:
    """SQLite passes over a damaged end of its log without a word."""
    made.take_from_before(made.layout.checkpoint)
    assert_refused(made)
    [error] = made.errors()
    assert "the newest state is lost" in error
    repair(made.root)
    assert made.errors() == []
    made.assert_all_is_there()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_made_anew(made: Made, damage: Callable[[Path], None]) -> None:
    damage(made.layout.checkpoint_copy)
    assert made.errors() == []
    made.assert_all_is_there()
    assert [finding for finding in check(made.root) if finding.file == "checkpoint.copy"] == []


@pytest.mark.parametrize("damage", [no_database, missing])
def test_when_both_are_damaged_nothing_is_changed(made: Made, damage: Callable[[Path], None]) -> None:
    for path in (made.layout.checkpoint, made.layout.checkpoint_copy):
        damage(path)
    assert_refused(made)
    with pytest.raises(StorageError, match="cannot be repaired"):
        repair(made.root)
    assert not (made.root / "damaged").exists()
    # What is left is told entry by entry, and nothing of it is called superfluous.
    told = {(finding.file, finding.text) for finding in check(made.root)}
    assert not [text for _, text in told if "will be" in text]
    of_unknown = "of a topic that only the checkpoint named"
    assert ("ledgers/000000000001.ledger", f"whole: entries 0 to 29 of ledger 1 {of_unknown}") in told
    [in_journal] = [text for file, text in told if file == "journal" and "of ledger 2 " in text]
    assert in_journal.startswith("whole: entries ")
    assert "to 44 of ledger 2" in in_journal


def test_what_the_journal_says_of_topics_is_told_when_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    world = FileWorld(tmp_path)
    world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    for entry_id in range(3):
        world.apply_and_submit(EntriesAppended(run_of(1, entry_id, [b"."])))
    columns = EntriesAppended(EntryColumns(b"ab", [1, 1], [3, 4], [0, 1], [1, 2]))
    world.apply_and_submit(columns)
    world.kill()
    world.dispose()
    layout = Layout(world.data_dir)
    for path in (layout.checkpoint, layout.checkpoint_copy):
        missing(path)
    assert f"whole: entries 0 to 4 of ledger 1 of {TOPIC}" in [finding.text for finding in check(world.data_dir)]


def test_a_crash_between_the_two_commits_leaves_the_copy_behind_and_whole(made: Made) -> None:
    """Before segments are recycled: the copy and the longer journal say the same."""
    disk = SecondCommitFails()
    storage, state = FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES, disk=disk)
    record = CounterSet("one more", 1)
    apply(state, record)
    storage.submit([record])
    before = picture(state)
    state_dir = made.root.parent / "between"
    disk.at = lambda: shutil.copytree(made.root, state_dir, ignore=shutil.ignore_patterns("*-shm"))
    storage.close(state)
    findings = {finding.file: finding for finding in check(state_dir)}
    assert findings["checkpoint.copy"].severity is Severity.INFO
    assert "is behind" in findings["checkpoint.copy"].text
    no_database(Layout(state_dir).checkpoint)
    repair(state_dir)
    storage, state = FileStorage.open(state_dir, segment_bytes=SMALL_SEGMENT_BYTES)
    assert picture(state)["topics"] == before["topics"]
    assert state.counters["one more"] == 1
    storage.close(state)


class SecondCommitFails(Disk):
    """A disk on which the second of two commits, the copy's, calls `at` and fails."""

    def __init__(self) -> None:
        self.commits = 0
        self.at: Callable[[], Any] = lambda: None

    def commit(self, database: sqlite3.Connection) -> None:
        self.commits += 1
        if self.commits % 2 == 0:
            self.at()
            raise sqlite3.OperationalError("database or disk is full")
        super().commit(database)


def test_a_copy_left_behind_long_ago_is_found_out(made: Made) -> None:
    """A copy that cannot be written is removed, so that none is left behind; the repair would say what is missing."""
    made.take_from_before(made.layout.checkpoint_copy)
    no_database(made.layout.checkpoint)
    errors = made.errors()
    assert any("is needed" in error for error in errors)
    assert any(f"{TOPIC} is read-only" in error for error in errors)
    _, done = repair(made.root)
    assert any(line.startswith(TOPIC) for line in done)
    assert made.errors() == []


def test_a_copy_whose_making_was_cut_short_is_not_called_damaged(made: Made) -> None:
    missing(made.layout.checkpoint_copy)
    sqlite3.connect(made.layout.checkpoint_copy).close()
    made.layout.checkpoint_copy.touch()
    texts = {finding.severity: finding.text for finding in check(made.root) if finding.file == "checkpoint.copy"}
    assert texts == {Severity.INFO: "the checkpoint's copy was never finished; the broker makes it anew"}
    made.assert_all_is_there()
    assert [finding.file for finding in check(made.root) if finding.file == "checkpoint.copy"] == []


def test_a_copy_that_cannot_be_written_holds_up_nothing(tmp_path: Path) -> None:
    troubles: list[Exception] = []
    disk = SecondCommitFails()
    world = FileWorld(tmp_path, on_trouble=troubles.append)
    world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
    world.files._copy._copy._disk = disk  # type: ignore[union-attr]
    disk.commits = 1
    world.checkpoint()
    assert [str(error) for error in troubles] == ["checkpoint.copy: SQLite says: database or disk is full"]
    assert not world.files._layout.checkpoint_copy.exists()
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    world.checkpoint()
    assert len(troubles) == 1
    world.kill()
    assert check(world.data_dir) == []
    world.dispose()
