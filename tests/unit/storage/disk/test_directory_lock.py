"""The lock on a data directory, and links and the like in it."""

import errno
import fcntl
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from spark_pulsar.ledger.storage import StorageError, StorageLocked, StorageUnsafe
from spark_pulsar.storage.disk.directory_lock import lock_for_reading, lock_for_writing
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from tests.unit.storage.conftest import reopened

SECRET = b"of somebody else"
FILES = ("LOCK", "VERSION", "VERSION.new", "checkpoint.sqlite", "checkpoint.sqlite-wal", "checkpoint.sqlite-shm")
COPIES = ("checkpoint.sqlite-journal", "checkpoint.copy", "checkpoint.copy-wal", "checkpoint.copy-shm")
INSIDE = ("journal/000000000001.journal", "journal/spare-000000000009.journal", "ledgers/000000000007.ledger")
ASIDE = ("damaged/000000000007.ledger.2",)
DIRECTORIES = ("journal", "ledgers", "damaged")


def used(path: Path) -> Path:
    """A data directory that a broker has left."""
    storage, state = FileStorage.open(path, segment_bytes=64 * 1024)
    storage.close(state)
    (path / "damaged").mkdir(exist_ok=True)
    return path


def a_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def a_hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def a_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def a_directory(path: Path, _: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [a_link, a_hard_link, a_pipe, a_socket, a_directory])
def test_what_stands_in_the_place_of_a_file_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path, Path], None]
) -> None:
    # covers DUR-13
    data = used(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "target"
    target.write_bytes(SECRET)
    target.chmod(0o644)
    for name in FILES + COPIES + INSIDE + ASIDE:
        path, kept = data / name, tmp_path / "kept"
        if path.exists():
            path.rename(kept)
        put(path, target)
        for opening in (FileStorage.open, repair):
            with pytest.raises(StorageUnsafe, match=str(path)):
                opening(data)
        found = check(data)
        assert (found[0].severity, found[0].file) == (Severity.ERROR, name)
        (path.rmdir if put is a_directory else path.unlink)()
        if kept.exists():
            kept.rename(path)
    assert target.read_bytes() == SECRET
    assert target.stat().st_mode & 0o777 == 0o644
    used(data)


def test_a_link_prepared_in_an_empty_directory_is_refused(tmp_path: Path) -> None:
    # covers DUR-13
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "there").write_bytes(SECRET)
    for name in FILES + COPIES:
        for target in ("there", "nowhere"):
            (data / name).symlink_to(tmp_path / target)
            with pytest.raises(StorageUnsafe, match=f"{name} is a link to {tmp_path / target}"):
                FileStorage.open(data)
            (data / name).unlink()
    assert (tmp_path / "there").read_bytes() == SECRET
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_elsewhere_is_mounted_not_linked(tmp_path: Path, name: str) -> None:
    # covers DUR-13
    data = used(tmp_path / "data")
    (data / name).rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o755)
    (data / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageUnsafe, match=f"mount what it leads to at {data / name}"):
        FileStorage.open(data)
    assert [(finding.severity, finding.file) for finding in check(data)] == [(Severity.ERROR, name)]
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755


def test_the_data_directory_itself_may_be_named_by_a_link(tmp_path: Path) -> None:
    # covers DUR-13
    used(tmp_path / "data")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    storage, state = FileStorage.open(tmp_path / "link")
    with pytest.raises(StorageLocked):
        FileStorage.open(tmp_path / "data")
    storage.close(state)
    assert not [finding for finding in check(tmp_path / "link") if finding.severity is not Severity.INFO]


def test_files_of_others_beside_the_brokers_are_left_alone(tmp_path: Path) -> None:
    # covers DUR-13
    data = used(tmp_path / "data")
    (tmp_path / "target").write_bytes(SECRET)
    for place in (data, data / "journal", data / "damaged"):
        (place / "README").symlink_to(tmp_path / "target")
    reopened(data)
    assert (tmp_path / "target").read_bytes() == SECRET


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_the_lock_outlives_the_file_that_people_see(tmp_path: Path, change: str) -> None:
    # covers DUR-14
    storage, state = FileStorage.open(tmp_path / "data")
    (tmp_path / "data" / "LOCK").unlink()
    if change == "replaced":
        (tmp_path / "data" / "LOCK").write_text("1\n")
    with pytest.raises(StorageLocked, match=r"another broker \(process (unknown|1)\)"):
        FileStorage.open(tmp_path / "data")
    with pytest.raises(StorageLocked):
        repair(tmp_path / "data")
    [finding] = check(tmp_path / "data")
    assert (finding.severity, finding.file) == (Severity.ERROR, "LOCK")
    storage.close(state)
    used(tmp_path / "data")


def test_a_broker_of_an_earlier_version_is_kept_out_and_keeps_out(tmp_path: Path) -> None:
    """It locks the file alone."""
    # covers DUR-14
    data = used(tmp_path / "data")
    with (data / "LOCK").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StorageLocked):
            FileStorage.open(data)
    storage, state = FileStorage.open(data)
    with (data / "LOCK").open("r+") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    storage.close(state)


def test_where_directories_cannot_be_locked_the_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers DUR-14
    flock = fcntl.flock

    def refusing(fd: int, operation: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", refusing)
    storage, state = FileStorage.open(tmp_path)
    with pytest.raises(StorageLocked, match=f"process {os.getpid()}"):
        FileStorage.open(tmp_path)
    storage.close(state)


def test_readers_share_the_lock(tmp_path: Path) -> None:
    layout = Layout(used(tmp_path / "data"))
    (layout.lock).unlink()
    with (
        closing(lock_for_reading(layout)),
        closing(lock_for_reading(layout)),
        pytest.raises(StorageLocked, match="`check`"),
    ):
        lock_for_writing(layout)
    assert not layout.lock.exists()
    lock_for_writing(layout).close()


def test_a_directory_that_moves_keeps_its_broker_and_another_one_keeps_its_files(tmp_path: Path) -> None:
    # covers DUR-14
    data = tmp_path / "data"
    storage, state = FileStorage.open(data, segment_bytes=64 * 1024)
    data.rename(tmp_path / "moved")
    other, other_state = FileStorage.open(data, segment_bytes=64 * 1024)
    before = sorted(path.relative_to(data) for path in data.rglob("*"))
    first = storage._segments.begin(1, 100)
    storage._disk.remove(storage._layout.checkpoint_copy)
    storage._disk.rename(first.path, storage._layout.spare(99))
    storage._disk.sync_directory(storage._layout.journal)
    with pytest.raises(OSError, match="another directory stands there now"):
        storage._copy._make()
    assert sorted(path.relative_to(data) for path in data.rglob("*")) == before
    assert (tmp_path / "moved" / "journal" / "spare-000000000099.journal").exists()
    assert not (tmp_path / "moved" / "checkpoint.copy").exists()
    storage.close(state)
    other.close(other_state)


def test_the_directory_of_before_is_not_replaced_by_another_one(tmp_path: Path) -> None:
    # covers DUR-14
    data = tmp_path / "data"
    storage, state = FileStorage.open(data)
    storage.close(state)
    storage, state = FileStorage.open(data, expected=storage.identity)
    storage.close(state)
    data.rename(tmp_path / "moved")
    with pytest.raises(StorageError, match="the data directory is gone"):
        FileStorage.open(data, expected=storage.identity)
    assert not data.exists()
    data.mkdir()
    with pytest.raises(StorageError, match="restart the broker to use it"):
        FileStorage.open(data, expected=storage.identity)
    assert not list(data.iterdir())


def test_a_link_or_pipe_that_appears_while_the_directory_is_open_is_not_followed(tmp_path: Path) -> None:
    # covers DUR-13
    layout = Layout(tmp_path / "data")
    (tmp_path / "target").write_bytes(SECRET)
    disk = Disk()
    with closing(lock_for_writing(layout)) as held:
        disk.hold(held.directories)
        layout.ledger(1).symlink_to(tmp_path / "target")
        os.mkfifo(layout.ledger(2))
        (layout.root / "damaged").symlink_to(tmp_path)
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_CREAT | os.O_RDWR, os.O_CREAT | os.O_TRUNC | os.O_RDWR):
            with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
                disk.open(layout.ledger(1), flags)
            with pytest.raises(FileExistsError, match="it is no file"):
                disk.open(layout.ledger(2), flags)
            with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
                disk.open(layout.damaged / "file", flags)
    assert (tmp_path / "target").read_bytes() == SECRET
