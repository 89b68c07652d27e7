"""What tasks of one worker process share beside their client."""

from __future__ import annotations

import gc
import itertools
from typing import Final

_TASKS: Final = itertools.count(1)


def begin() -> None:
    """Call this at the beginning of every task, after its imports.

    Spark's workers collect all garbage after each task, which walks everything that numba and pyarrow made when they
    were imported: about 0.1 s of processor time a task, more than a small micro-batch needs. When the second task
    begins, Spark has just collected; what is left lives as long as the process, and later collections leave it out.
    """
    if next(_TASKS) == 2:
        gc.freeze()
