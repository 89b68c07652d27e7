"""Beginning and end of the log of a broker process: handler, form of a line, writer."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from spark_pulsar.model.printable import one_line, printable

from .hosts import LinesOfHosts
from .writer import LogWriter


class _Lines(logging.Formatter):
    """Form of a record: one line in which nothing obeys a stranger, and below it the stack of an error (SEC-87)."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return printable(super().formatException(ei))  # type: ignore[arg-type]


class _ToWriter(logging.Handler):
    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put(self.format(record))
        except Exception:  # noqa: BLE001 - a record that has no form is logging's to report
            self.handleError(record)


@contextlib.contextmanager
def logging_to_standard_error(level: str, lines_of_host: int) -> Iterator[None]:
    """Has the process's log written to standard error, and at the end what still waits. `lines_of_host`: lines that a
    host may cause a minute, 0: no limit."""
    if sys.stderr is None:  # closed by the process's parent
        yield
        return
    limit = LinesOfHosts(lines_of_host)
    writer = None
    try:
        writer = LogWriter(sys.stderr.fileno(), limit.report)
    except OSError:  # a stream in memory, of a program that runs the command line within itself
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        handler = _ToWriter(writer)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    handler.addFilter(limit)
    logging.basicConfig(level=level, handlers=[handler])
    try:
        yield
    finally:
        if writer is not None:
            writer.close()
