"""The way of all text out of the command line: streams and consoles that let printable text through only (SEC-86).

`sys.stdout` and `sys.stderr` are a `PrintableStream` each while a command runs, so that no command needs to care.
Styles and movements of the cursor come from rich alone, which writes to the streams below: its text passes `console()`.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO

from spark_pulsar.model.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


class LostOutput(OSError):
    """Standard output takes no more: it is closed, its disk is full, or, without a reason, its reader has gone."""


@contextlib.contextmanager
def _losing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # Without its number: click would end the process itself, and leave bytes for the flush at its end.
        raise LostOutput from error
    except OSError as error:
        raise LostOutput(error.errno, error.strerror) from error


class _Bytes:
    """The bytes of a standard stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Writes bytes. Raises LostOutput."""
        with _losing():
            return self._stream.write(data)

    def flush(self) -> None:
        """Flushes the stream. Raises LostOutput."""
        with _losing():
            self._stream.flush()


class _LosingStream:
    """A text stream of rich's."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text. Raises LostOutput."""
        with _losing():
            written: int = self._stream.write(text)
        return written

    def flush(self) -> None:
        """Flushes the stream. Raises LostOutput."""
        with _losing():
            self._stream.flush()


class PrintableStream(io.TextIOBase):
    """A text stream that escapes control characters. Bytes go to `buffer`, unchanged: keys, and payloads in a pipe."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file: Final = stream
        """The stream below; rich writes to an attribute of this name."""
        if codecs.lookup(stream.encoding or "ascii").name == "ascii" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream

    @property
    def buffer(self) -> _Bytes:
        """The stream of bytes below."""
        return _Bytes(self._stream.buffer)

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
        with _losing():
            self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream below. Raises LostOutput."""
        with _losing():
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


class _ClosedStream(io.TextIOBase):
    """Stands for a standard stream that the process was started without."""

    encoding = "utf-8"
    errors = None

    @property
    def buffer(self) -> _ClosedStream:
        """Bytes go nowhere either."""
        return self

    def write(self, text: Any, /) -> int:
        """Raises LostOutput."""
        raise LostOutput(errno.EBADF, "it is closed")


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
    output: Any = sys.stdout or _ClosedStream()
    errors: Any = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    sys.stdout, sys.stderr = PrintableStream(output), PrintableStream(errors)


def console(*, stderr: bool = False) -> Console:
    """Makes a console of rich, on standard output unless said otherwise. Texts on it are escaped; its own styles and
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
    lossy: Any = _LosingStream(stream)
    return PrintableConsole(file=lossy, highlight=False)
