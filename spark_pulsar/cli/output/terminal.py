"""The way of all text out of the command line: streams and consoles that let printable text through only (SEC-86).

`sys.stdout` and `sys.stderr` are a `PrintableStream` each while a command runs, so that no command needs to care.
Styles and movements of the cursor come from rich alone, which writes to the streams below: its text passes `console()`.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO

from spark_pulsar.model.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


class PrintableStream(io.TextIOBase):
    """A text stream that escapes control characters. Bytes go to `buffer`, unchanged: keys, and payloads in a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file: Final = stream
        """The stream below; rich writes to an attribute of this name."""
        if codecs.lookup(stream.encoding or "ascii").name == "ascii" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream

    @property
    def buffer(self) -> Any:
        """The stream of bytes below."""
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding: never ASCII, for which typer would write to `buffer` by a stream of its own."""
        name = self._stream.encoding or "utf-8"
        return "utf-8" if codecs.lookup(name).name == "ascii" else name

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Name of the way in which characters are written that the encoding lacks."""
        return self._stream.errors

    def write(self, text: str, /) -> int:
        """Writes text, its control characters escaped."""
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream below."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Returns whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Returns the descriptor."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Returns True."""
        return True

    def close(self) -> None:
        """Leaves the stream below open: it is the process's."""


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Has standard output and standard error escape control characters. An exception leaves it so, for its traceback is
    yet to be printed."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    except SystemExit:
        sys.stdout, sys.stderr = before
        raise
    sys.stdout, sys.stderr = before


def escape_streams() -> None:
    """Has the present standard output and standard error escape control characters, those of a live bar, too."""
    sys.stdout, sys.stderr = (each and PrintableStream(each) for each in (sys.stdout, sys.stderr))  # None: closed


def console(*, stderr: bool = False) -> Console:
    """Makes a console of rich, on standard output unless said otherwise. What it shows is escaped; its own styles and
    movements are not."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PrintableConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(printable(part.text), part.style)

    stream = sys.stderr if stderr else sys.stdout
    while isinstance(stream, PrintableStream):
        stream = stream.rich_proxied_file
    return PrintableConsole(file=stream, highlight=False)
