"""Writing large amounts past the page cache.

What settling writes is rarely read soon, and a page of the cache costs more than the bytes in it: the cache would have
to find new memory for everything that passes through the broker. Whole pages go to the disk from one buffer that is
used again and again; what lies before the first and behind the last page boundary goes the usual way.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .disk import Buffer, Disk

PAGE_BYTES: Final = 4096
DIRECT_BYTES: Final = 256 * 1024
"""Less than this is written through the cache: a request to the disk costs more than copying then."""

_BUFFER_BYTES: Final = 1024 * 1024
_NOT_THERE: Final = (errno.EINVAL, errno.EOPNOTSUPP)
"""Error codes of file systems without such writes."""


class DirectWriter:
    """One thread's. Nothing is durable before the file is synced, as with any write."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._buffer: mmap.mmap | None = None

    def write(self, path: Path, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Writes all buffers one after the other at `offset` of the file, open as `fd`; returns the offset after
        them."""
        size = sum(map(len, buffers))
        if size < DIRECT_BYTES or not hasattr(os, "O_DIRECT"):
            return self._disk.write(fd, buffers, offset)
        try:
            direct = self._disk.open(path, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            return self._disk.write(fd, buffers, offset)
        try:
            return self._write(fd, direct, buffers, offset)
        finally:
            os.close(direct)

    def _write(self, fd: int, direct: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self._buffer is None:
            self._buffer = mmap.mmap(-1, _BUFFER_BYTES)  # begins at a page, as such writes must
        with memoryview(self._buffer) as page:
            # The first bytes stand where they would in the page of the file.
            low = high = offset % PAGE_BYTES
            offset -= low
            for buffer in buffers:
                with memoryview(buffer) as view:
                    at = 0
                    while at < len(view):
                        taken = min(len(view) - at, _BUFFER_BYTES - high)
                        page[high : high + taken] = view[at : at + taken]
                        at += taken
                        high += taken
                        if high == _BUFFER_BYTES:
                            self._flush(fd, direct, page, low, high, offset)
                            offset += high
                            low = high = 0
            self._flush(fd, direct, page, low, high, offset)
            return offset + high

    def _flush(self, fd: int, direct: int, page: memoryview, low: int, high: int, offset: int) -> None:
        """Writes `page[low:high]`, which stands at `offset + low` of the file."""
        start = -(-low // PAGE_BYTES) * PAGE_BYTES
        end = high // PAGE_BYTES * PAGE_BYTES
        if start >= end:
            if low < high:
                self._disk.write(fd, [page[low:high]], offset + low)
            return
        if low < start:
            self._disk.write(fd, [page[low:start]], offset + low)
        try:
            self._disk.write(direct, [page[start:end]], offset + start)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            # The file system wants more than whole pages, or wrote a part and the rest does not begin where it should:
            # the same bytes go to the same place the usual way.
            self._disk.write(fd, [page[start:end]], offset + start)
        if end < high:
            self._disk.write(fd, [page[end:high]], offset + end)
