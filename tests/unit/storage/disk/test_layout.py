import subprocess
import sys
from pathlib import Path

import pytest

from spark_pulsar import broker_process
from spark_pulsar.ledger.storage import StorageDamaged, StorageError, StorageLocked, StorageVersionUnknown
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from tests.unit.storage.conftest import reopened


def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    storage, state = FileStorage.open(tmp_path / "data")
    with pytest.raises(StorageLocked, match="another broker"):
        FileStorage.open(tmp_path / "data")
    opening = "import sys; from spark_pulsar.storage.files import FileStorage; FileStorage.open(sys.argv[1])"
    other = subprocess.run([sys.executable, "-c", opening, str(tmp_path / "data")], capture_output=True, check=False)
    assert b"StorageLocked" in other.stderr
    [finding] = check(tmp_path / "data")
    assert (finding.severity, finding.file) == (Severity.ERROR, "LOCK")
    storage.close(state)
    reopened(tmp_path / "data")


def test_a_layout_of_another_program_is_refused(tmp_path: Path) -> None:
    reopened(tmp_path)
    (tmp_path / "VERSION").write_text("spark-pulsar data directory, layout 99\n")
    with pytest.raises(StorageVersionUnknown, match="layout 99 is of a later version of spark-pulsar"):
        FileStorage.open(tmp_path)
    assert [finding.file for finding in check(tmp_path)] == ["VERSION"]
    for text, said in (
        ("spark-pulsar data directory, layout 1\n", "layout 1 is of an earlier version"),
        ("4.0.8\n", r"VERSION: '4.0.8\\n' is no layout that this program knows: name another directory"),
        ("", "VERSION: '' is no layout"),
    ):
        (tmp_path / "VERSION").write_text(text)
        with pytest.raises(StorageVersionUnknown, match=said):
            FileStorage.open(tmp_path)


def test_files_of_others_in_a_new_directory_are_named(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".hidden", "lost+found"):
        (tmp_path / name).touch()
    for strangers in (["a.txt", "b.txt"], []):  # of a new one, and of one that the broker has
        storage, state = FileStorage.open(tmp_path)
        assert storage.report.strangers == strangers
        storage.close(state)


def test_a_lost_version_file_beside_a_journal_is_damage(tmp_path: Path) -> None:
    storage, state = FileStorage.open(tmp_path)
    storage.submit([])
    storage.close(state)
    (tmp_path / "VERSION").unlink()
    with pytest.raises(StorageDamaged, match="VERSION"):
        FileStorage.open(tmp_path)


def test_an_interrupted_creation_is_done_again(tmp_path: Path) -> None:
    reopened(tmp_path)
    (tmp_path / "VERSION").unlink()
    assert reopened(tmp_path).topics == {}


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="file/data"):
        FileStorage.open(tmp_path / "file" / "data")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(StorageError, match=f"{name}: the data directory cannot be made .*: a file, or a link"):
            FileStorage.open(tmp_path / name)


def test_checking_what_is_no_data_directory(tmp_path: Path) -> None:
    assert [finding.severity for finding in check(tmp_path / "nowhere")] == [Severity.ERROR]
    assert [finding.file for finding in check(tmp_path)] == ["VERSION"]


def modes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*")}


def test_what_a_broker_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    with broker_process(data):
        found = modes(data)
        assert data.stat().st_mode & 0o777 == 0o700
        assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077}
        assert {"checkpoint.sqlite", "checkpoint.sqlite-wal"} <= found.keys()


def test_what_an_older_program_left_open_is_closed_and_a_shared_directory_stays_shared(tmp_path: Path) -> None:
    reopened(tmp_path)
    for path in (tmp_path, tmp_path / "journal", tmp_path / "ledgers"):
        path.chmod(0o755)
    (tmp_path / "checkpoint.sqlite").chmod(0o644)
    (tmp_path / "README").write_text("of somebody else")
    (tmp_path / "README").chmod(0o644)
    reopened(tmp_path)
    found = modes(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (found["journal"], found["ledgers"], found["checkpoint.sqlite"]) == (0o700, 0o700, 0o600)
    assert found["README"] == 0o644
