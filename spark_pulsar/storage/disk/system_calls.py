"""System calls that not every system has, each with a twin that gives the same promise (macOS has none of them).

| Linux | Elsewhere |
| --- | --- |
| `fdatasync` | `F_FULLFSYNC`, which reaches the disk itself, else `fsync` |
| `posix_fallocate` | zeros behind the end of the file, written |
| a write that is synced (`RWF_DSYNC`) | the write, then the sync |
| a read of pages in memory (`RWF_NOWAIT`) | nothing is known to be there |
| `pwritev` | one write of all buffers |
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from typing import Final

Buffer = bytes | memoryview

SYNCED_WRITE: Final[int] = getattr(os, "RWF_DSYNC", 0)
"""Flag of a write that is durable on return; 0 where there is none."""
IN_MEMORY: Final[int] = getattr(os, "RWF_NOWAIT", 0) if hasattr(os, "preadv") else 0
"""Flag of a read that does not wait for the disk; 0 where there is none."""
_HAS_WRITE_OF_BUFFERS: Final = hasattr(os, "pwritev")
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)
_FILL_BYTES: Final = 1 << 20


def _sync_all(fd: int) -> None:
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
        except OSError:  # file systems of other machines do not know it, and report failures of fsync
            pass
        else:
            return
    os.fsync(fd)


def _fill(fd: int, end: int) -> None:
    """Writes zeros behind the end of the file, up to `end`; the content of the file stays."""
    at = os.fstat(fd).st_size
    zeros = bytes(_FILL_BYTES)
    while at < end:
        at += os.pwrite(fd, zeros[: end - at], at)


def _write_joined(fd: int, buffers: Sequence[Buffer], offset: int) -> int:
    return os.pwrite(fd, buffers[0] if len(buffers) == 1 else b"".join(buffers), offset)


def sync_data(fd: int) -> None:
    """Makes the data of a file durable, and the metadata needed to read it."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        _sync_all(fd)


def sync_names(fd: int) -> None:
    """Makes the names in a directory durable."""
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:
        _sync_all(fd)


def allocate(fd: int, size: int) -> None:
    """Reserves the space of a file of `size` bytes."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        _fill(fd, size)


def write_buffers(fd: int, buffers: Sequence[Buffer], offset: int, flags: int) -> int:
    """Writes buffers one after the other at an offset; returns the number of bytes that were written."""
    if _HAS_WRITE_OF_BUFFERS:
        return os.pwritev(fd, buffers, offset, flags)
    return _write_joined(fd, buffers, offset)
