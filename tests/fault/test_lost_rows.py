"""Rows that vanish from the checkpoint with all checksums of the others intact: refused and repaired without a loss.
Files of ledgers that nothing names any more: set aside, never removed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.documents import TENANTS, DocumentSet
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.snapshot import TABLES, Row
from spark_pulsar.ledger.state.topics import PartitionedTopicSet, TopicCreated, TopicEpochSet
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.checkpoint.checkpoint import Checkpoint, JournalMark
from spark_pulsar.storage.checkpoint.inventory import counted, row_crc
from spark_pulsar.storage.disk.directory_lock import lock_for_writing
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from tests.contract.histories import History, picture
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.entry_runs import run_of

TOPICS = 12
NAMES = [*(table.name for table in TABLES), "ledger_files", "journal", "inventory"]

Stored = tuple[str, tuple[Any, ...]]
"""Table and row."""


class Made:
    """Topics whose first ledgers are settled and acknowledged in part, one of each other row, and a journal behind the
    checkpoint; the process was killed."""

    def __init__(self, root: Path) -> None:
        world = FileWorld(root)
        history = History(world.state, 5)
        for _ in range(60):
            world.submit(history.submit(4))
        world.apply_and_submit(PartitionedTopicSet("parted", 3, {}), DocumentSet(TENANTS, "tenant", "{}"))
        first = max(world.state.topics) + 1
        for topic_id in range(first, first + TOPICS):
            world.apply_and_submit(TopicCreated(topic_id, f"persistent://public/default/{topic_id}", 1, {}))
            world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 2))
            cursor_id = max(world.state.cursors, default=0) + 1
            world.apply_and_submit(CursorCreated(cursor_id, topic_id, "sub", -1, -1, 1, {}))
            ledger_id = append(world, topic_id, 12)
            world.apply_and_submit(CursorAcked(cursor_id, [(ledger_id, 3, 5)]))
        world.apply_and_submit(TopicDamaged(first, -1, 0, 0, "journal/1:2", "text"), TopicEpochSet(first, 1))
        for topic_id in range(first, first + TOPICS):
            world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 3))
        world.checkpoint()
        append(world, first, 2)
        self.picture = picture(world.state)
        self.entries = all_entries(world.storage, world.state)
        world.kill()
        world.dispose()
        self.data_dir = world.data_dir


def append(world: FileWorld, topic_id: int, count: int) -> int:
    ledger = world.state.topics[topic_id].ledger.open_ledger
    assert ledger is not None
    for _ in range(count):
        at = ledger.entries
        world.apply_and_submit(EntriesAppended(run_of(ledger.ledger_id, at, [b"%d/" % at + b"." * 900])))
    return ledger.ledger_id


def all_entries(storage: Any, state: DurableState) -> dict[tuple[int, int], bytes]:
    """Every entry that a cursor needs."""
    found: dict[tuple[int, int], bytes] = {}
    for ledger_id, info in state.ledgers.items():
        at = max(info.first_entry_id, state.first_needed_entry(ledger_id) or 0)
        while runs := storage.read(ledger_id, at, 1000, 1 << 20):
            run: EntryRun
            for run in runs:
                for entry_id in range(run.first_entry_id, run.end_entry_id):
                    found[ledger_id, entry_id] = run.entry(entry_id)
                at = run.end_entry_id
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


@pytest.fixture
def layout(made: Made, tmp_path: Path) -> Layout:
    shutil.copytree(made.data_dir, tmp_path / "copy")
    return Layout(tmp_path / "copy")


def open_again(layout: Layout) -> tuple[FileStorage, DurableState]:
    return FileStorage.open(layout.root, segment_bytes=SMALL_SEGMENT_BYTES)


def assert_all_is_there(made: Made, layout: Layout) -> None:
    storage, state = open_again(layout)
    try:
        found = picture(state)
        assert {part for part in found if found[part] != made.picture[part]} <= {"counters", "topics"}
        # A repair accepts the damage that was there before.
        for topic in (*found["topics"].values(), *made.picture["topics"].values()):
            topic["damages"] = [damage[:3] for damage in topic["damages"]]
        assert found["topics"] == made.picture["topics"]
        entries = all_entries(storage, state)
        assert {key: entries.get(key) for key in made.entries} == made.entries
    finally:
        storage.close()


def rows_of(path: Path) -> Iterator[Stored]:
    with closing(sqlite3.connect(path)) as database:
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        for table in NAMES if "inventory" in there else NAMES[:-1]:
            for row in list(database.execute(f"SELECT * FROM {table}")):
                yield table, row


def remove(path: Path, *rows: Stored) -> None:
    with closing(sqlite3.connect(path)) as database:
        for table, row in rows:
            columns = [column[1] for column in database.execute(f"PRAGMA table_info({table})")]
            where = " AND ".join(f"{column} IS ?" for column in columns)
            assert database.execute(f"DELETE FROM {table} WHERE {where}", row).rowcount == 1
        database.commit()


def put_back(path: Path, table: str, row: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        database.commit()


def as_an_earlier_version(path: Path) -> None:
    """Takes away what tells of lost rows."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE inventory")
        database.execute("PRAGMA user_version = 0")
        database.commit()


def hide_a_row(path: Path, table: str) -> None:
    """One bit or two: the page of a table says that it holds one row less."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        [(size,)] = database.execute("PRAGMA page_size")
    content = bytearray(path.read_bytes())
    at = (page - 1) * size
    while content[at] in (2, 5):  # an inner page: down to its first child
        child = int.from_bytes(content[at + 12 : at + 14])
        at = (int.from_bytes(content[at + child : at + child + 4]) - 1) * size
    cells = int.from_bytes(content[at + 3 : at + 5])
    assert cells > 1
    content[at + 3 : at + 5] = (cells - 1).to_bytes(2)
    path.write_bytes(content)


@pytest.mark.parametrize("table", ["ledgers", "cursor_blocks", "ledger_files", "topics", "sqlite_master"])
def test_a_flipped_cell_count_is_refused_and_repaired_from_the_copy(made: Made, layout: Layout, table: str) -> None:
    if table == "sqlite_master":
        remove(layout.checkpoint, *[row for row in rows_of(layout.checkpoint) if row[0] == "inventory"])
    else:
        hide_a_row(layout.checkpoint, table)
    with pytest.raises(StorageDamaged, match=r"checkpoint\.sqlite.*(were stored|inventory)"):
        open_again(layout)
    assert {finding.file for finding in check(layout.root) if finding.severity is Severity.ERROR} >= {
        "checkpoint.sqlite"
    }
    repair(layout.root)
    assert_all_is_there(made, layout)


def test_every_row_that_is_removed_is_missed(made: Made, layout: Layout) -> None:
    # covers DUR-11
    rows = list(rows_of(layout.checkpoint))
    assert {table for table, _ in rows} == set(NAMES)
    for table, row in rows:
        remove(layout.checkpoint, (table, row))
        with pytest.raises(StorageDamaged, match=r"checkpoint\.sqlite"):
            open_again(layout)
        put_back(layout.checkpoint, table, row)
    assert_all_is_there(made, layout)


@pytest.mark.parametrize("table", NAMES)
def test_a_removed_row_comes_back_from_the_copy(made: Made, layout: Layout, table: str) -> None:
    row = next(row for row in rows_of(layout.checkpoint) if row[0] == table)
    remove(layout.checkpoint, row)
    _, done = repair(layout.root)
    assert any("its copy is in its place" in line for line in done)
    assert_all_is_there(made, layout)


@pytest.mark.parametrize("table", NAMES)
def test_a_row_that_the_copy_lost_is_made_anew(made: Made, layout: Layout, table: str) -> None:
    row = next(row for row in rows_of(layout.checkpoint_copy) if row[0] == table)
    remove(layout.checkpoint_copy, row)
    assert_all_is_there(made, layout)
    assert row in list(rows_of(layout.checkpoint_copy))


def test_a_row_that_both_lost_is_refused(layout: Layout) -> None:
    row = next(row for row in rows_of(layout.checkpoint) if row[0] == "ledgers")
    for path in (layout.checkpoint, layout.checkpoint_copy):
        remove(path, row)
    with pytest.raises(StorageDamaged, match="table ledgers has"):
        open_again(layout)
    with pytest.raises(StorageError, match="cannot be repaired"):
        repair(layout.root)


# Directories of an earlier version, without inventory


def test_an_earlier_directory_gets_its_inventory_at_the_first_start(made: Made, layout: Layout) -> None:
    for path in (layout.checkpoint, layout.checkpoint_copy):
        as_an_earlier_version(path)
    assert_all_is_there(made, layout)
    for path in (layout.checkpoint, layout.checkpoint_copy):
        remove(path, next(row for row in rows_of(path) if row[0] == "cursor_blocks"))
    with pytest.raises(StorageDamaged, match="table cursor_blocks has"):
        open_again(layout)


def test_an_earlier_version_that_wrote_since_is_believed(layout: Layout) -> None:
    """The inventory stands at an earlier group then: the rows are counted anew."""
    for path in (layout.checkpoint, layout.checkpoint_copy):
        rows = list(rows_of(path))
        [(_, old)] = [row for row in rows if row[0] == "inventory"]
        remove(path, ("inventory", old), next(row for row in rows if row[0] == "sequences"))
        behind = (old[1] - 1, *old[2:-1])
        put_back(path, "inventory", (1, *behind, row_crc(behind)))
    for _ in range(2):
        storage, state = open_again(layout)
        storage.close(state)


def test_an_inventory_ahead_of_the_rows_is_refused(layout: Layout) -> None:
    [(_, old)] = [row for row in rows_of(layout.checkpoint) if row[0] == "inventory"]
    remove(layout.checkpoint, ("inventory", old))
    ahead = (old[1] + 1, *old[2:-1])
    put_back(layout.checkpoint, "inventory", (1, *ahead, row_crc(ahead)))
    with pytest.raises(StorageDamaged, match="inventory"):
        open_again(layout)


def test_an_earlier_checkpoint_that_lost_a_row_is_told_by_its_copy(made: Made, layout: Layout) -> None:
    for path in (layout.checkpoint, layout.checkpoint_copy):
        as_an_earlier_version(path)
    rows = [row for row in rows_of(layout.checkpoint) if row[0] == "ledgers"]
    for table, row in rows:
        remove(layout.checkpoint, (table, row))
        with pytest.raises(StorageDamaged, match=r"checkpoint\.sqlite.*(rows, in its copy|does not fit)"):
            open_again(layout)
        put_back(layout.checkpoint, table, row)
    remove(layout.checkpoint, rows[-1])
    repair(layout.root)
    assert_all_is_there(made, layout)


def test_no_row_that_an_earlier_version_lost_twice_takes_a_file_with_it(
    made: Made, layout: Layout, tmp_path: Path
) -> None:
    """Without an inventory nothing tells that both databases lost the same row: the files of ledgers stay."""
    for path in (layout.checkpoint, layout.checkpoint_copy):
        as_an_earlier_version(path)
    files = {path.name: path.read_bytes() for path in layout.ledger_files().values()}
    opened = 0
    rows = list(rows_of(layout.checkpoint))
    some = {row[0]: row for row in rows if row[0] != "journal"}
    for row in [row for row in rows if row[0] in ("ledgers", "ledger_files") or row in some.values()]:
        again = tmp_path / "again"
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(layout.root, again)
        lost = Layout(again)
        for path in (lost.checkpoint, lost.checkpoint_copy):
            remove(path, row)
        try:
            storage, _ = open_again(lost)
        except StorageError:
            pass
        else:
            storage.close()
            opened += 1
        here = [lost.ledgers, *([lost.damaged] if lost.damaged.exists() else [])]
        kept = {path.name: path.read_bytes() for directory in here for path in directory.iterdir()}
        assert {name for name in files if not kept.get(name, b"").startswith(files[name][:1000])} == set(), row
    assert opened


# Files that nothing names


def lose_the_last_extent(layout: Layout) -> int:
    """Takes a ledger and its extent out of the checkpoint of an earlier version."""
    rows = list(rows_of(layout.checkpoint))
    ledger_id = max(row[0] for table, row in rows if table == "ledger_files")
    as_an_earlier_version(layout.checkpoint)
    gone = ("ledgers", "ledger_files", "cursor_blocks")
    at = {"ledgers": 0, "ledger_files": 0, "cursor_blocks": 1}
    remove(layout.checkpoint, *[each for each in rows if each[0] in gone and each[1][at[each[0]]] == ledger_id])
    return int(ledger_id)


def test_a_file_that_nothing_names_is_set_aside_and_comes_back(made: Made, layout: Layout, tmp_path: Path) -> None:
    # covers DUR-12
    with closing(sqlite3.connect(layout.checkpoint_copy)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(layout.checkpoint_copy, tmp_path / "kept")
    for path in layout.root.glob("checkpoint.copy*"):
        path.unlink()
    ledger_id = lose_the_last_extent(layout)
    content = layout.ledger(ledger_id).read_bytes()
    told = {finding.file: finding.text for finding in check(layout.root)}
    assert "will be moved to damaged/" in told[layout.relative(layout.ledger(ledger_id))]
    storage, _ = open_again(layout)
    storage.close()
    aside = layout.damaged / layout.ledger(ledger_id).name
    assert any("nothing names it; moved to damaged/" in note for note in storage.report.set_aside)
    assert aside.read_bytes() == content
    assert not layout.ledger(ledger_id).exists()
    told = {finding.file: finding.text for finding in check(layout.root)}
    assert f"of ledger {ledger_id}, which nothing names" in told[layout.relative(aside)]
    # A whole checkpoint from elsewhere names it again.
    for path in layout.root.glob("checkpoint.*"):
        path.unlink()
    shutil.copy(tmp_path / "kept", layout.checkpoint)
    told = {finding.file: finding.text for finding in check(layout.root)}
    assert "`check --repair` puts it back" in told[layout.relative(aside)]
    _, done = repair(layout.root)
    assert any("put back as" in line for line in done)
    assert layout.ledger(ledger_id).read_bytes()[: len(content)] == content
    assert_all_is_there(made, layout)


class DiesWhenItRemoves(Disk):
    """A disk whose process dies before it removes the first file of a ledger."""

    def remove(self, path: Path) -> None:
        if path.suffix == ".ledger":
            raise OSError(5, "it died")
        super().remove(path)


def test_a_trim_that_a_crash_cut_short_is_finished(tmp_path: Path) -> None:
    world = FileWorld(tmp_path)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    world.apply_and_submit(CursorCreated(1, 1, "sub", -1, -1, 1, {}))
    first = append(world, 1, 80)
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
    world.checkpoint()
    layout = Layout(world.data_dir)
    assert layout.ledger(first).exists()
    world.apply_and_submit(CursorAcked(1, [(first, 0, 80)]), LedgersTrimmed(1, (first,)))
    world.files._disk = DiesWhenItRemoves()
    with pytest.raises(OSError, match="it died"):
        world.checkpoint()
    assert layout.ledger(first).exists()
    world.kill()
    world.open()
    layout = Layout(world.data_dir)
    assert any("removed, its ledger was deleted" in note for note in world.files.report.notes)
    assert not layout.ledger(first).exists()
    assert not layout.damaged.exists()
    world.close()
    assert Checkpoint(layout).inventory().trimmed == frozenset()
    world.dispose()


# What a checkpoint costs


def test_the_inventory_is_what_counting_gives(tmp_path: Path) -> None:
    world = FileWorld(tmp_path)
    history = History(world.state, 8)
    for _ in range(25):
        world.submit(history.submit(8))
        world.checkpoint()
    world.close()
    layout = Layout(world.data_dir)
    for path in (layout.checkpoint, layout.checkpoint_copy):
        tables = [*(table.name for table in TABLES), "ledger_files"]
        with closing(sqlite3.connect(path)) as database:
            found = counted(database, tables)
        with closing(Checkpoint(layout, path=path)) as checkpoint:
            stored = checkpoint.inventory()
        assert sum(total.rows for total in found.totals.values()) > 20
        assert stored.difference(found.totals) == ""
    world.dispose()


def test_a_checkpoint_reads_no_rows_but_those_that_it_replaces(tmp_path: Path) -> None:
    """The work of SQLite for two rows does not grow with the rows that are there."""
    layout = Layout(tmp_path)
    lock_for_writing(layout).close()
    checkpoint = Checkpoint(layout)
    checkpoint.create()
    ticks: list[int] = []
    for number in (100, 20_000):
        checkpoint.commit(
            [Row("sequences", (1, f"p{each}"), (each,)) for each in range(number)], JournalMark(number, 1), {}
        )
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        checkpoint._db.set_progress_handler(step, 1)
        checkpoint.commit([Row("sequences", (1, f"p{each}"), (7,)) for each in (3, 50)], JournalMark(number + 1, 1), {})
        checkpoint._db.set_progress_handler(None, 1)
        ticks.append(steps)
    assert ticks[1] < ticks[0] + 50
    checkpoint.close()
