"""Reading the databases of a data directory without changing anything in it.

SQLite writes even where it only reads: it makes the index of its log, folds the log into the database when the last
user leaves, and rolls a transaction back that was cut short. So a database that has a log or such a transaction is read
in a copy; any other is opened as one that cannot change.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from spark_pulsar.ledger.storage import StorageError

from .checkpoint import Checkpoint, connected
from .checkpoint_copy import database_files
from .layout import Layout


@contextmanager
def unchanged(layout: Layout, path: Path) -> Iterator[Checkpoint]:
    """A checkpoint, or its copy, to be read. StorageError when it cannot be opened or copied."""
    with ExitStack() as stack:
        unfinished = [
            file for file in database_files(path)[1:] if not file.name.endswith("-shm") and _has_content(file)
        ]
        if unfinished:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-pulsar-check-")))
            try:
                for file in (path, *unfinished):
                    shutil.copyfile(file, directory / file.name)
            except OSError as error:
                text = f"{layout.relative(path)}: it cannot be copied to {directory}, to be read there: {error}"
                raise StorageError(text) from error
            yield stack.enter_context(
                closing(Checkpoint(layout, path=path, connect=lambda _: connected(directory / path.name)))
            )
        else:
            yield stack.enter_context(closing(Checkpoint(layout, path=path, connect=_connected_for_ever)))


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _connected_for_ever(path: Path) -> sqlite3.Connection:
    """A database that nobody changes, nor could."""
    database = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True, isolation_level=None
    )
    try:
        database.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error:
        database.close()
        raise
    return database
