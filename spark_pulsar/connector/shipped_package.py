"""Pickles of a data source whose package Spark was only given for the job (`--py-files`), not installed.

Spark puts such archives on the path of its workers, but in 4.x not on that of the process that plans a streaming read:
there a pickle that names our classes cannot be loaded. A shipped pickle brings a function by value, which first puts
the archive on the path; that process runs where the archive lies, on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import spark_pulsar


def shipped_archive() -> str | None:
    """Returns the archive (.zip or .egg) that this package was imported from; None where it is a directory."""
    root = Path(spark_pulsar.__file__).parents[1]
    return str(root) if root.is_file() else None


def loader() -> Callable[[str, bytes], Any]:
    """Returns the function `(archive, pickle of class and state)` that makes the object.

    Cloudpickle takes functions by value that cannot be imported by name, as this one: it is made anew in each call, and
    must use nothing of this module.
    """

    def load(archive: str, pickled: bytes) -> Any:
        import pickle
        import sys

        if archive not in sys.path:
            sys.path.insert(1, archive)
        kind, state = pickle.loads(pickled)
        made = kind.__new__(kind)
        made.__dict__.update(state)
        return made

    return load
