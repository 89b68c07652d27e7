"""The data directory: names, version, and the lock that keeps a second broker out.

VERSION                  one line, written last when the directory is made
LOCK                     locked (flock) while a broker runs; holds its process id for people
checkpoint.sqlite        the checkpoint (with SQLite's own -wal and -shm beside it)
checkpoint.copy          its copy, another database (likewise)
journal/N.journal        segments in use, by rising number
journal/spare-N.journal  segments whose content is of no use any more, to be recycled
ledgers/N.ledger         settled entries of ledger N
damaged/…                files set aside because something in them was damaged or nothing named them; no broker reads or
                         removes them
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from spark_pulsar.ledger.storage import StorageDamaged, StorageError, StorageLocked, StorageVersionUnknown

from .disk import Disk

VERSION_TEXT: Final = "spark-pulsar data directory, layout 3\n"
JOURNAL_SUFFIX: Final = ".journal"
LEDGER_SUFFIX: Final = ".ledger"
COPY_SUFFIX: Final = ".copy"
SPARE_PREFIX: Final = "spare-"
_OWNER_ONLY_DIRECTORY: Final = 0o700


class Layout:
    """Paths inside one data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = root / "VERSION"
        self.lock = root / "LOCK"
        self.checkpoint = root / "checkpoint.sqlite"
        self.checkpoint_copy = root / f"checkpoint{COPY_SUFFIX}"
        self.journal = root / "journal"
        self.ledgers = root / "ledgers"
        self.damaged = root / "damaged"

    def segment(self, number: int) -> Path:
        """The file of a segment in use."""
        return self.journal / f"{number:012d}{JOURNAL_SUFFIX}"

    def spare(self, number: int) -> Path:
        """The file of a spare segment; the number only keeps names apart."""
        return self.journal / f"{SPARE_PREFIX}{number:012d}{JOURNAL_SUFFIX}"

    def ledger(self, ledger_id: int) -> Path:
        """The file of a ledger's settled entries."""
        return self.ledgers / f"{ledger_id:012d}{LEDGER_SUFFIX}"

    def aside(self, path: Path) -> Path:
        """Returns a path in `damaged/` for a damaged file; no file has it yet."""
        self.damaged.mkdir(mode=_OWNER_ONLY_DIRECTORY, exist_ok=True)
        names = (self.damaged / (path.name if number == 1 else f"{path.name}.{number}") for number in count(1))
        return next(name for name in names if not name.exists())

    def segments(self) -> dict[int, Path]:
        """Live segment files by number, rising."""
        return _numbered(self.journal, "", JOURNAL_SUFFIX)

    def spares(self) -> dict[int, Path]:
        """Spare segment files by number, rising."""
        return _numbered(self.journal, SPARE_PREFIX, JOURNAL_SUFFIX)

    def ledger_files(self) -> dict[int, Path]:
        """Ledger files by ledger id, rising."""
        return _numbered(self.ledgers, "", LEDGER_SUFFIX)

    def relative(self, path: Path) -> str:
        """The path as messages show it."""
        return str(path.relative_to(self.root))

    def read_version(self) -> bool:
        """Tells whether this is a data directory; False when it is new (missing, empty, or its making was interrupted).
        StorageVersionUnknown or StorageDamaged when it is something else."""
        try:
            text = self.version.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            if self.journal.is_dir() and self.segments():
                raise StorageDamaged("VERSION", 0, "the file is missing, but there is a journal") from None
            return False
        if text != VERSION_TEXT:
            raise StorageVersionUnknown(f"{self.version}: {text[:80]!r} is no layout that this program knows")
        return True

    def create(self) -> None:
        """Makes the directories, for their owner alone, and closes to others what an older program left open. A
        directory that was there, and may be shared on purpose, stays as it is: all in it is closed."""
        for path in (self.root, self.journal, self.ledgers):
            path.mkdir(mode=_OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
        for path in (self.journal, self.ledgers, self.root / "damaged"):
            _close_to_others(path)
        for database in (self.checkpoint, self.checkpoint_copy):
            for suffix in ("", "-wal", "-shm"):
                _close_to_others(database.with_name(database.name + suffix))
        _close_to_others(self.version)

    def write_version(self, disk: Disk) -> None:
        """Marks the directory as complete and durable."""
        temporary = self.version.with_suffix(".new")
        with disk.opened(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC) as fd:
            disk.write_durably(fd, [VERSION_TEXT.encode()], 0)
        disk.rename(temporary, self.version)
        self.make_names_durable(disk)

    def make_names_durable(self, disk: Disk) -> None:
        """Makes the names of all files survive power loss (DUR-9). Needed at every opening: a process may have been
        killed between naming a file and syncing its directory, and writes to that file are promised from now on."""
        for path in (self.journal, self.ledgers, self.root):
            disk.sync_directory(path)
        with suppress(PermissionError):  # they need not be ours
            for path in self.root.absolute().parents:  # which `create` may have made too
                disk.sync_directory(path)


def _close_to_others(path: Path) -> None:
    """Takes all rights on a file or directory from everybody but its owner, if it is there and ours."""
    with suppress(FileNotFoundError, PermissionError):
        mode = path.stat().st_mode
        if mode & 0o077:
            path.chmod(mode & 0o700)


def take_lock(layout: Layout) -> int:
    """Locks the data directory for this process; returns the descriptor that holds the lock. StorageLocked when another
    has it, StorageError when the directory cannot be written."""
    try:
        fd = os.open(layout.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(f"{layout.root}: the data directory cannot be used: {error.strerror}") from error
    _lock(layout, fd, fcntl.LOCK_EX, "another broker (process {}) or `check`")
    with suppress(OSError):  # it is for people; the lock itself needs no space
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def lock_to_look(layout: Layout) -> int | None:
    """Locks the data directory for reading, which keeps brokers out; returns the descriptor that holds the lock, None
    when there is no file to lock and so no broker. Nothing is written. StorageLocked when a broker has it, StorageError
    when it cannot be read."""
    try:
        fd = os.open(layout.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{layout.lock} cannot be read: {error.strerror}") from error
    _lock(layout, fd, fcntl.LOCK_SH, "a broker (process {}) or `check --repair`")
    return fd


def _lock(layout: Layout, fd: int, kind: int, others: str) -> None:
    """Locks the open file, or closes it: StorageLocked names the `others` that may have it, the process filled in."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise StorageLocked(f"{layout.root}: {others.format(owner)} uses this data directory") from error


def _numbered(directory: Path, prefix: str, suffix: str) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for entry in os.scandir(directory):
        name = entry.name
        digits = name[len(prefix) : -len(suffix)]
        if name.startswith(prefix) and name.endswith(suffix) and digits.isascii() and digits.isdigit():
            found[int(digits)] = directory / name
    return dict(sorted(found.items()))
