"""Reads the databases of a data directory without changing anything in it.

SQLite writes even where it only reads: it makes the index of its log, folds the log into the database when the last
user leaves, and rolls a transaction back that was cut short. So a database that has a log or such a transaction is read
in a copy, in the system's directory for temporary files; any other is opened as one that cannot change.

Where there is no room for that copy, nothing can be said of the database: that is `CannotRead`, which is no damage.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.disk.layout import Layout, database_files

from .checkpoint import Checkpoint, connected

_CHUNK_BYTES: Final = 1 << 20
_BESIDE_BYTES: Final = 1 << 20
"""Room for the file that SQLite makes beside a copy: the index of its log."""


class CannotRead(StorageError):
    """Error of a database that could not be read, so that nothing is known of it. The text says what to do."""


@contextmanager
def unchanged(layout: Layout, path: Path) -> Iterator[Checkpoint]:
    """A checkpoint, or its copy, to be read. StorageError when it is damaged or a disk fails to read it; CannotRead
    when there is no room to read it in."""
    logs = [file for file in database_files(path)[1:] if not file.name.endswith("-shm") and _has_content(file)]
    for file in (path, *logs):
        _refuse_unreadable(file)
    if not logs:
        with closing(Checkpoint(layout, path=path, connect=_connected_for_ever)) as checkpoint:
            yield checkpoint
        return
    with _directory(layout) as directory:
        for file in (path, *logs):
            _copy(layout, file, directory)
        try:
            with closing(
                Checkpoint(layout, path=path, connect=lambda _: connected(directory / path.name))
            ) as checkpoint:
                yield checkpoint
        except StorageDamaged:
            raise
        except StorageError as error:  # a disk's trouble, and the disk is that of the temporary files
            raise _no_room(layout, error) from error


@contextmanager
def _directory(layout: Layout) -> Iterator[Path]:
    try:
        directory = tempfile.TemporaryDirectory(prefix="spark-pulsar-check-", ignore_cleanup_errors=True)
    except OSError as error:
        raise _no_room(layout, error) from error
    with directory as name:
        yield Path(name)


def _copy(layout: Layout, file: Path, directory: Path) -> None:
    chunks = _chunks(layout, file)
    try:
        with (directory / file.name).open("xb") as target:
            for chunk in chunks:
                target.write(chunk)
    except OSError as error:
        raise _no_room(layout, error) from error


def _chunks(layout: Layout, file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise StorageError(f"{layout.relative(file)} cannot be read: {error}") from error


def _refuse_unreadable(file: Path) -> None:
    try:
        file.open("rb").close()
    except PermissionError as error:
        raise CannotRead(f"{file} cannot be read: {error.strerror}. Nothing was changed") from error
    except OSError:
        return  # reading it reports the error


def _no_room(layout: Layout, error: Exception) -> CannotRead:
    needed = max(_room(layout.checkpoint), _room(layout.checkpoint_copy))
    return CannotRead(
        f"{layout.root} was not checked, and nothing was changed: the checkpoint has a log, so that it must be read "
        f"in a copy, and there is no room for one in the directory for temporary files ({error}). "
        f"Set TMPDIR to a directory with {needed} bytes free"
    )


def _room(database: Path) -> int:
    """Returns the bytes that a copy takes, whose log may be folded into it."""
    sizes = []
    for file in database_files(database):
        with suppress(OSError):
            sizes.append(file.stat().st_size)
    return 2 * sum(sizes) + _BESIDE_BYTES


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _connected_for_ever(path: Path) -> sqlite3.Connection:
    """Opens a database that cannot change."""
    database = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True, isolation_level=None
    )
    try:
        database.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database
