"""Failpoints: every step by which the storage changes the disk, by name, and a disk that stops at them.

A step's name is what is done and to what: `write_segment` writes a group, `rename_spare` makes a spare file a live
segment in use. `FailpointDisk` announces each as `before_…` and `after_…`; tests crash there, or raise, or copy the
directory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import COPY_SUFFIX, JOURNAL_SUFFIX, LEDGER_SUFFIX, SPARE_PREFIX

STEPS: Final = {
    "write_version": "the mark of a new data directory",
    "rename_version": "its name",
    "sync_journal_directory": "names of segments",
    "sync_ledgers_directory": "names of ledger files",
    "sync_directory": "names in the data directory",
    "preallocate_spare": "a new segment file",
    "fill_spare": "zeros over a whole new segment file",
    "sync_spare": "those zeros",
    "write_spare": "the header that makes a spare file segment N",
    "rename_spare": "a spare file becomes segment N",
    "write_segment": "a group: what receipts wait for",
    "fill_segment": "zeros ahead of the writer",
    "sync_segment": "those zeros",
    "rename_segment": "a segment that is no longer needed becomes a spare file",
    "remove_segment": "one segment more than is kept",
    "write_ledger": "blocks of settled entries, or a footer",
    "sync_ledger": "those",
    "truncate_ledger": "what an unfinished settling left behind the settled entries",
    "remove_ledger": "the file of a trimmed ledger",
    "commit_checkpoint": "the checkpoint's transaction",
    "commit_copy": "the same transaction in its copy",
    "make_copy": "the whole checkpoint, to a new copy",
    "remove_copy": "a file of a copy that is made anew",
}
"""Every step by name, and what it is about."""

NAMES: Final = tuple(f"{when}_{step}" for step in STEPS for when in ("before", "after"))
"""All failpoints."""


class FailpointDisk(Disk):
    """The real disk, which calls `at(name)` before and after each step. What `at` raises is the step's error."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self._at = at
        self._paths: dict[int, Path] = {}

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        with self._step("write", self._paths[fd]):
            return super().write(fd, buffers, offset)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        with self._step("write", self._paths[fd]):
            return super().write_durably(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        with self._step("sync", self._paths[fd]):
            super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        what = f"{path.name}_directory" if path.name in ("journal", "ledgers") else "directory"
        with self._named(f"sync_{what}"):
            super().sync_directory(path)

    def preallocate(self, fd: int, size: int) -> None:
        with self._step("preallocate", self._paths[fd]):
            super().preallocate(fd, size)

    def fill_zeros(self, fd: int, start: int, end: int) -> None:
        with self._step("fill", self._paths[fd]):
            super().fill_zeros(fd, start, end)

    def truncate(self, fd: int, size: int) -> None:
        with self._step("truncate", self._paths[fd]):
            super().truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        with self._step("rename", old):
            super().rename(old, new)
        for fd, path in list(self._paths.items()):
            if path == old:
                self._paths[fd] = new

    def remove(self, path: Path) -> None:
        with self._step("remove", path):
            super().remove(path)

    def commit(self, database: sqlite3.Connection) -> None:
        [(_, _, name)] = database.execute("PRAGMA database_list")
        with self._step("commit", Path(name)):
            super().commit(database)

    def copy_database(self, source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        with self._named("make_copy"):
            super().copy_database(source, target)

    def _step(self, operation: str, path: Path) -> AbstractContextManager[None]:
        return self._named(f"{operation}_{_kind(path)}")

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        self._at(f"before_{name}")
        yield
        self._at(f"after_{name}")


def _kind(path: Path) -> str:
    if path.suffix == JOURNAL_SUFFIX:
        return "spare" if path.name.startswith(SPARE_PREFIX) else "segment"
    if path.suffix == LEDGER_SUFFIX:
        return "ledger"
    if path.suffix.startswith(COPY_SUFFIX):  # and what SQLite has beside it
        return "copy"
    return path.stem.lower()
