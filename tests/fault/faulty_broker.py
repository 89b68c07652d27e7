"""The broker of `spark-pulsar broker`, on a disk that fails as a file says: `python -m … broker …`.

`FAULTS` in the environment names the file. Its words switch faults on: `full` (no space for new files), `forbidden` (no
permission to make or rename files), `sync` (the next durable write of a group is written and then fails, once),
`commit` (the next commit of a checkpoint is done and then fails, once), `hang` (no write of a group returns as long as
the word is there).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from spark_pulsar.cli.main import app
from spark_pulsar.storage import files
from spark_pulsar.storage.disk.disk import Buffer, Disk

FAULTS = Path(os.environ["FAULTS"])


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class FaultyDisk(Disk):
    """Asks the file before every step."""

    def preallocate(self, fd: int, size: int) -> None:
        if "full" in _faults():
            raise _error(errno.ENOSPC)
        super().preallocate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        if "forbidden" in _faults():
            raise _error(errno.EACCES)
        super().rename(old, new)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        while offset and "hang" in _faults():
            threading.Event().wait(0.05)
        end = super().write_durably(fd, buffers, offset)
        if offset and _once("sync"):
            raise _error(errno.EIO)
        return end

    def commit(self, database: sqlite3.Connection) -> None:
        super().commit(database)
        if _once("commit"):
            raise _error(errno.EIO)


def _faults() -> list[str]:
    return FAULTS.read_text().split() if FAULTS.exists() else []


def _once(fault: str) -> bool:
    faults = _faults()
    if fault not in faults:
        return False
    FAULTS.write_text(" ".join(left for left in faults if left != fault))
    return True


if __name__ == "__main__":
    files.Disk = FaultyDisk  # type: ignore[misc]
    app()
