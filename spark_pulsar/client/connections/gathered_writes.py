"""Gathered writes: commands that one thread sends to many topics leave in one write for each connection.

A thousand requests in as many writes cost a system call each, and as many wake-ups of the broker.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from spark_pulsar.client.errors import ConnectionLost

Write = Callable[[list[bytes]], None]
"""Writes buffers to one connection. Raises ConnectionLost."""


class _Gathered(threading.local):
    writes: dict[Write, list[bytes]] | None = None
    """Commands of this thread that wait for their connections; None where nothing is gathered."""


_GATHERED: Final = _Gathered()


@contextlib.contextmanager
def gathering_writes() -> Iterator[None]:
    """Keeps the commands that this thread sends until it waits for a reply, or leaves the block."""
    if _GATHERED.writes is not None:
        yield
        return
    _GATHERED.writes = {}
    try:
        yield
    finally:
        write_gathered()
        _GATHERED.writes = None


def gather(write: Write, buffer: bytes) -> bool:
    """Returns whether this thread gathers writes, and `buffer` is among them now."""
    writes = _GATHERED.writes
    if writes is None:
        return False
    writes.setdefault(write, []).append(buffer)
    return True


def write_gathered() -> None:
    """Writes what this thread has gathered. A connection that is lost fails its requests and consumers, so nothing is
    raised here."""
    writes = _GATHERED.writes
    if not writes:
        return
    _GATHERED.writes = {}
    for write, buffers in writes.items():
        with contextlib.suppress(ConnectionLost):
            write([b"".join(buffers)])
