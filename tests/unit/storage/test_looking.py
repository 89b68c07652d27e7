"""`check` without `--repair` changes nothing, whatever SQLite would."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.ledger.records import CounterSet, TopicCreated
from spark_pulsar.ledger.storage import StorageLocked
from spark_pulsar.storage.check import Severity, check
from spark_pulsar.storage.disk import Disk
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.layout import Layout
from spark_pulsar.storage.repair import repair
from tests.contract.storages import FileWorld


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


def test_no_broker_opens_what_is_repaired(tmp_path: Path) -> None:
    class Opening(Disk):
        """Somebody starts a broker in the middle of the repair."""

        refused: list[str]

        def rename(self, old: Path, new: Path) -> None:
            with pytest.raises(StorageLocked) as raised:
                FileStorage.open(layout.root)
            self.refused.append(str(raised.value))
            super().rename(old, new)

    layout = closed(tmp_path)
    storage, state = FileStorage.open(layout.root)
    with pytest.raises(StorageLocked):
        repair(layout.root)
    storage.close(state)
    layout.checkpoint.write_bytes(b"no database" * 1000)
    disk = Opening()
    disk.refused = []
    repair(layout.root, disk=disk)
    assert disk.refused
    assert [finding for finding in check(layout.root) if finding.severity is Severity.ERROR] == []


def test_a_log_that_cannot_be_copied_is_told(tmp_path: Path) -> None:
    layout = killed(tmp_path)
    log = layout.checkpoint.with_name(layout.checkpoint.name + "-wal")
    log.unlink(missing_ok=True)
    log.symlink_to(tmp_path)  # a directory has a size, and no bytes to copy
    found = [finding for finding in check(layout.root) if finding.severity is Severity.ERROR]
    assert any("cannot be copied" in finding.text for finding in found)
    os.unlink(log)
