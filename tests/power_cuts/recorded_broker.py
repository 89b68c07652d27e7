"""The broker of `spark-pulsar broker`, which records what it does: `python -m … broker …`.

Segments are small, and checkpoints are due after a few hundred records, so that a recording of seconds has dozens of
each.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable
from typing import Any

from spark_pulsar.cli.main import app
from spark_pulsar.server import web
from spark_pulsar.server.connections import connection
from spark_pulsar.storage import files
from spark_pulsar.storage.files import FileStorage
from tests.fault.forgetful_broker import break_transactions

from .recorded_process import record_this_process
from .recorder import Recorder

SEGMENT_BYTES = 192 * 1024
RECORDS = 400


class _Transport:
    """A transport that records what it is to write."""

    def __init__(self, transport: Any, recorder: Recorder, number: int) -> None:
        self._transport = transport
        self._recorder = recorder
        self._number = number

    def write(self, data: Any) -> None:
        """Writes, as a transport does."""
        self._recorder.note("out", self._number, bytes(data))
        self._transport.write(data)

    def writelines(self, pieces: Iterable[Any]) -> None:
        """Writes, as a transport does."""
        self.write(b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _record_connections(recorder: Recorder, protocol: Any, kind: str, numbers: Iterable[int]) -> None:
    """Wraps what a class of connections is told."""
    made, received = protocol.connection_made, protocol.data_received
    known: dict[int, int] = {}
    counted = iter(numbers)

    def connection_made(self: Any, transport: asyncio.Transport) -> None:
        known[id(self)] = number = next(counted)
        recorder.note("made", number, kind)
        made(self, _Transport(transport, recorder, number))

    def data_received(self: Any, data: bytes) -> None:
        recorder.note("in", known[id(self)], bytes(data))
        received(self, data)

    protocol.connection_made, protocol.data_received = connection_made, data_received


def _with_small_segments(opens: Any) -> Any:
    def opened(cls: type[FileStorage], /, data_dir: Any, **settings: Any) -> Any:
        return opens(cls, data_dir, **(settings | {"segment_bytes": SEGMENT_BYTES}))

    return classmethod(opened)


def main() -> None:
    """Runs the broker."""
    recorder, _layer = record_this_process()
    numbers = itertools.count()
    _record_connections(recorder, connection.Connection, "binary", numbers)
    _record_connections(recorder, web._Connection, "http", numbers)
    FileStorage.open = _with_small_segments(FileStorage.open.__func__)  # type: ignore[method-assign, attr-defined]
    files.REPLAY_RECORDS = RECORDS  # type: ignore[misc]
    if "BROKEN" in os.environ:
        break_transactions(os.environ["BROKEN"])
    app()


if __name__ == "__main__":
    main()
