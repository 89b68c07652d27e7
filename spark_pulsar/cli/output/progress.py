"""Progress of whatever takes longer than a second: a bar on standard error, on a terminal only."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

from spark_pulsar.cli.output.terminal import console, escape_streams

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

DELAY_S: Final = 1.0
"""Time that something takes before it has a bar."""


class Progress:
    """The bar of one piece of work, a context manager. Prints nothing within the first second, nor off a terminal."""

    def __init__(self, text: str, total: float | None = None) -> None:
        self._text = text
        self._total = total
        self._done = 0.0
        self._since_s = time.monotonic()
        self._shown: tuple[Bars, TaskID] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def update(self, *, done: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Sets the amount done so far, the total, and the words before the bar; each may be left out."""
        self._done = self._done if done is None else done
        self._total = self._total if total is None else total
        self._text = self._text if text is None else text
        if self._shown is not None:
            bars, task = self._shown
            bars.update(task, completed=self._done, total=self._total, description=self._text)
        elif time.monotonic() - self._since_s >= DELAY_S and sys.stderr.isatty():
            self._show()

    def advance(self, amount: float = 1) -> None:
        """Adds to the amount done."""
        self.update(done=self._done + amount)

    def _show(self) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        bars = Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True)
        bars.start()
        escape_streams()  # rich writes the lines beside the bar
        task = bars.add_task(self._text, total=self._total)
        bars.update(task, completed=self._done)
        self._shown = bars, task
