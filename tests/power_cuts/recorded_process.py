"""Records the process that calls: `RECORDING` in the environment names the file, `RECORDED` the data directory."""

from __future__ import annotations

import os
from pathlib import Path

from .recorder import Recorder, record_files
from .sqlite_files import SqliteFiles, library


def record_this_process() -> tuple[Recorder, SqliteFiles]:
    """Begins to record; the process must keep both."""
    recorder = Recorder(Path(os.environ["RECORDED"]), Path(os.environ["RECORDING"]))
    path = library()
    assert path is not None, "SQLite is built into this Python"
    layer = SqliteFiles(recorder, path)
    record_files(recorder)
    return recorder, layer
