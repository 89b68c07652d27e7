"""Operations of the disk that have not returned yet: who waits for a disk that hangs cannot report it (DUR-15)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .disk import Buffer, Disk
from .threads import JOURNAL_THREAD


class Operation(NamedTuple):
    """An operation that has not returned: its name, its seconds so far, and whether receipts wait for it."""

    name: str
    seconds: float
    holds_receipts: bool


class Underway:
    """Operations of all threads. Any thread may read them, also while all others wait for the disk."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: dict[int, tuple[str, float, bool]] = {}

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Counts a block of code as an operation of this thread."""
        ident = threading.get_ident()
        self._begun[ident] = name, self._now_s(), threading.current_thread().name == JOURNAL_THREAD
        try:
            yield
        finally:
            del self._begun[ident]

    def oldest(self) -> Operation | None:
        """Returns the operation that receipts wait for, else the one that was begun first; None without any."""
        now_s = self._now_s()
        begun = sorted(self._begun.copy().values(), key=lambda operation: (not operation[2], operation[1]))
        return Operation(begun[0][0], now_s - begun[0][1], begun[0][2]) if begun else None


class WatchedDisk(Disk):
    """A disk whose operations are counted in `underway`; those that only read memory are not."""

    def __init__(self, disk: Disk, underway: Underway) -> None:
        self._disk = disk
        self._operation = underway.operation

    def hold(self, directories: Mapping[Path, int]) -> None:
        self._disk.hold(directories)

    def refuse_replaced(self, directory: Path) -> None:
        with self._operation(f"listing {directory.name}"):
            self._disk.refuse_replaced(directory)

    def open(self, path: Path, flags: int) -> int:
        with self._operation(f"opening {path.name}"):
            return self._disk.open(path, flags)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        with self._operation("a read"):
            return self._disk.read(fd, size, offset)

    def read_from_memory(self, fd: int, size: int, offset: int) -> bytes | None:
        return self._disk.read_from_memory(fd, size, offset)

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        with self._operation("a write"):
            return self._disk.write(fd, buffers, offset)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        with self._operation("a synced write"):
            return self._disk.write_durably(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        with self._operation("a sync"):
            self._disk.sync(fd)

    def sync_directory(self, path: Path) -> None:
        with self._operation(f"the sync of the directory {path.name}"):
            self._disk.sync_directory(path)

    def preallocate(self, fd: int, size: int) -> None:
        with self._operation("the allocation of a file"):
            self._disk.preallocate(fd, size)

    def fill_zeros(self, fd: int, start: int, end: int) -> None:
        with self._operation("filling a file with zeros"):
            self._disk.fill_zeros(fd, start, end)

    def truncate(self, fd: int, size: int) -> None:
        with self._operation("cutting a file"):
            self._disk.truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        with self._operation(f"renaming {old.name}"):
            self._disk.rename(old, new)

    def remove(self, path: Path) -> None:
        with self._operation(f"removing {path.name}"):
            self._disk.remove(path)

    def commit(self, database: sqlite3.Connection) -> None:
        with self._operation("the commit of a checkpoint"):
            self._disk.commit(database)

    def copy_database(self, source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        with self._operation("the copy of a checkpoint"):
            self._disk.copy_database(source, target)
