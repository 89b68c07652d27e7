"""`check` names damage, and without `--repair` changes nothing, whatever SQLite would."""

import os
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageError, StorageLocked
from spark_pulsar.storage.checkpoint.read_only import CannotRead, unchanged
from spark_pulsar.storage.disk.directory_lock import lock_for_reading
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Finding, Severity, check
from spark_pulsar.storage.offline.repair import repair
from tests.contract.storages import FileWorld
from tests.unit.storage.conftest import append, world_with_a_ledger


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A killed data directory with settled and unsettled entries; ledger 1 is sealed, ledger 2 is not."""
    world = world_with_a_ledger(tmp_path)
    append(world, *[[b"x" * 4000]] * 30)
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    append(world, *[[b"x" * 4000]] * 30, ledger_id=2)
    world.checkpoint()
    append(world, [b"x" * 4000], ledger_id=2)
    world.kill()
    world.dispose()
    return Layout(world.data_dir)


def errors(layout: Layout) -> list[Finding]:
    return [finding for finding in check(layout.root) if finding.severity is Severity.ERROR]


def test_nothing_is_found_where_nothing_is_wrong(layout: Layout) -> None:
    before = {path: path.read_bytes() for path in layout.journal.iterdir()}
    assert check(layout.root) == []
    assert {path: path.read_bytes() for path in layout.journal.iterdir()} == before


def test_a_short_or_missing_ledger_file(layout: Layout) -> None:
    path = layout.ledger(2)
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert {(found.file, found.offset) for found in errors(layout)} == {(f"ledgers/{path.name}", len(data) - 1)}
    path.unlink()
    short, topic = errors(layout)
    assert "were durable, 0 are there" in short.text
    assert "entries 2:0 to 2:15 are lost" in topic.text


def test_damage_in_the_journal_is_surveyed(layout: Layout) -> None:
    path = layout.segment(max(layout.segments()))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    findings = check(layout.root)
    assert (findings[0].severity, findings[0].file) == (Severity.ERROR, f"journal/{path.name}")
    assert any("whole groups" in finding.text for finding in findings if finding.severity is Severity.INFO)


def test_leftovers_are_explained(layout: Layout) -> None:
    (layout.ledgers / "000000000099.ledger").write_bytes(b"x")
    (layout.journal / "notes.txt").write_text("x")
    with layout.ledger(2).open("ab") as file:
        file.write(b"tail")
    found = {finding.file: finding for finding in check(layout.root)}
    assert found["ledgers/000000000099.ledger"].severity is Severity.INFO
    assert found["journal/notes.txt"].severity is Severity.WARNING
    assert "never finished" in found["ledgers/000000000002.ledger"].text


def killed(root: Path) -> Layout:
    world = FileWorld(root)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.checkpoint()
    world.apply_and_submit(CounterSet("after the checkpoint", 1))
    world.kill()
    world.dispose()
    return Layout(world.data_dir)


def closed(root: Path) -> Layout:
    world = FileWorld(root)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.close()
    return Layout(world.data_dir)


def cut_short(root: Path) -> Layout:
    """The copy was being made: its transaction is begun, and what was there before stands in a journal of SQLite's."""
    layout = closed(root)
    database = sqlite3.connect(layout.checkpoint_copy, isolation_level=None)
    database.execute("PRAGMA journal_mode=DELETE")
    database.execute("PRAGMA cache_size=1")
    database.execute("BEGIN")
    database.execute("UPDATE journal SET last_group = 999")
    database.execute("CREATE TABLE filler AS SELECT zeroblob(100000)")
    files = {path: path.read_bytes() for path in layout.root.glob("checkpoint.copy*")}
    database.execute("ROLLBACK")
    database.close()
    for path, content in files.items():
        path.write_bytes(content)
    assert any(path.name.endswith("-journal") and content for path, content in files.items())
    return layout


def picture(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every file with its times and content, and every directory."""

    def all_paths() -> Iterator[Path]:
        yield root
        yield from root.rglob("*")

    found = {}
    for path in sorted(all_paths()):
        stat = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, stat.st_ctime_ns, content)
    return found


@pytest.mark.parametrize("make", [killed, closed, cut_short])
def test_nothing_is_changed(tmp_path: Path, make: object) -> None:
    assert callable(make)
    layout = make(tmp_path)
    before = picture(layout.root)
    assert check(layout.root) == []
    assert picture(layout.root) == before
    # Nor need there be a lock, or permission to write.
    layout.lock.unlink()
    for path in (layout.root, *layout.root.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = picture(layout.root)
    try:
        assert check(layout.root) == []
        assert picture(layout.root) == before
    finally:
        for path in (layout.root, layout.journal, layout.ledgers):
            path.chmod(0o700)


class Interfering(Disk):
    """A disk on which something else happens in the middle of a repair; texts of its refusals."""

    def __init__(self, happens: Callable[[], list[str]]) -> None:
        self.happens = happens
        self.refused: list[str] = []

    def rename(self, old: Path, new: Path) -> None:
        self.refused += self.happens()
        super().rename(old, new)


def refusal(opening: Callable[[Path], object], root: Path) -> list[str]:
    with pytest.raises(StorageLocked) as raised:
        opening(root)
    return [str(raised.value)]


@pytest.mark.parametrize("what", ["a broker", "check", "check --repair"])
def test_a_repair_is_alone(tmp_path: Path, what: str) -> None:
    layout = closed(tmp_path)
    with closing(lock_for_reading(layout)):
        refusal(repair, layout.root)
    storage, state = FileStorage.open(layout.root)
    refusal(repair, layout.root)
    storage.close(state)
    layout.checkpoint.write_bytes(b"no database" * 1000)
    disk = Interfering(
        {
            "a broker": lambda: refusal(FileStorage.open, layout.root),
            "check": lambda: [finding.text for finding in check(layout.root)],
            "check --repair": lambda: refusal(repair, layout.root),
        }[what]
    )
    repair(layout.root, disk=disk)
    assert disk.refused
    assert all(f"process {os.getpid()}" in text for text in disk.refused)
    assert errors(layout) == []


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    layout = killed(tmp_path)
    log = layout.checkpoint.with_name(layout.checkpoint.name + "-wal")
    log.unlink(missing_ok=True)
    log.symlink_to(tmp_path)  # a directory has a size, and no bytes to copy
    with pytest.raises(StorageError, match="cannot be read"), unchanged(layout, layout.checkpoint):
        raise AssertionError("the log was passed over")
    assert [finding.file for finding in errors(layout)] == [layout.relative(log)]
    os.unlink(log)


@contextmanager
def no_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nowhere for temporary files."""
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", "/nowhere/at/all")
        yield


@contextmanager
def no_space(_: pytest.MonkeyPatch) -> Iterator[None]:
    """No file grows over some bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("has_copy_a_log", [True, False], ids=["both have a log", "the checkpoint has a log"])
@pytest.mark.parametrize("lacking", [no_directory, no_space])
def test_what_cannot_be_looked_at_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: object, has_copy_a_log: bool
) -> None:
    assert callable(lacking)
    layout = killed(tmp_path)
    if not has_copy_a_log:
        with closing(sqlite3.connect(layout.checkpoint_copy)) as database:
            database.execute("SELECT * FROM journal").fetchall()
        assert not layout.checkpoint_copy.with_name("checkpoint.copy-wal").exists()
    layout.lock.write_bytes(b"%d\n" % os.getpid())
    before = {path: entry[3] for path, entry in picture(layout.root).items()}
    for look in (check, repair):
        with lacking(monkeypatch), pytest.raises(CannotRead, match=r"Set TMPDIR to a directory with \d{6,} bytes free"):
            look(layout.root)
        assert {path: entry[3] for path, entry in picture(layout.root).items()} == before
    assert check(layout.root) == []


def test_a_disk_that_fills_up_while_the_copy_is_read(tmp_path: Path) -> None:
    layout = killed(tmp_path)
    with pytest.raises(CannotRead), unchanged(layout, layout.checkpoint):
        raise StorageError("checkpoint.sqlite: SQLite says: database or disk is full")
    for path in layout.root.glob("checkpoint.sqlite-*"):
        path.unlink()
    with pytest.raises(StorageError) as raised, unchanged(layout, layout.checkpoint):
        raise StorageError("checkpoint.sqlite: SQLite says: disk I/O error")
    assert type(raised.value) is StorageError, "what is read in its place has that trouble itself"


def test_who_may_not_read_does_not_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def refusing(path: Path, mode: str = "r") -> object:
        if path == layout.checkpoint:
            raise PermissionError(13, "Permission denied")
        return opened(path, mode)

    layout = closed(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refusing)
        with pytest.raises(CannotRead, match="Permission denied"):
            repair(layout.root)
    assert not (layout.root / "damaged").exists()
