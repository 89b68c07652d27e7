"""Progress of a table that is read or sent: a bar in a notebook or an interactive Python, once it takes longer than a
second (TABLE-7). Any other program prints nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

DELAY_S: Final = 1.0
"""Time that a table takes before it has a bar."""


def with_progress(batches: Iterator[pa.RecordBatch], text: str, total: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yields batches, and shows the number of their rows, beside a bar where the `total` is known."""
    if not _is_watched():
        yield from batches
        return
    since_s, rows, bar, task = time.monotonic(), 0, None, None
    try:
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if bar is None and time.monotonic() - since_s >= DELAY_S:
                bar, task = _started(text, total)
            if bar is not None:
                bar.update(task, completed=rows, description=f"{text}: {rows:,} rows")
    finally:
        if bar is not None:
            bar.stop()


def _is_watched() -> bool:
    """Returns whether the user sees a bar: in a notebook, or at a prompt on a terminal."""
    if "ipykernel" in sys.modules:
        return True
    return hasattr(sys, "ps1") and sys.stderr is not None and sys.stderr.isatty()


def _started(text: str, total: int | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar, bar.add_task(text, total=total)
