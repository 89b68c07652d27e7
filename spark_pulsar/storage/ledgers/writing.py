"""Writes ledger files: merged entries of a ledger become blocks behind those that its file has."""

from __future__ import annotations

import os
import resource
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from spark_pulsar.storage.disk.direct_writes import DirectWriter
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import Layout

from .files import (
    BLOCK_DATA_BYTES,
    BLOCK_MAX_ENTRIES,
    LARGE_ENTRY_BYTES,
    Extent,
    block_parts,
    footer_bytes,
    usable_table,
)

_MOST_OPEN: Final = 4096
_SHARE_OF_DESCRIPTORS: Final = 4
"""The others are for connections."""


def cut_out(buffer: bytes, starts: Sequence[int], ends: Sequence[int]) -> list[Buffer]:
    """The entries that a buffer holds. Small ones are copied: a view takes more memory than they do, and keeps the
    whole buffer."""
    large = sum(ends) - sum(starts) >= LARGE_ENTRY_BYTES * len(starts)
    source: Buffer = memoryview(buffer) if large else buffer
    return [source[start:end] for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class MergedEntries:
    """Consecutive entries of one ledger on their way to its file, from entry `first` on. `counts`: messages in each,
    None when each holds one."""

    ledger_id: int
    first: int
    entries: Sequence[Buffer]
    counts: Sequence[int] | None = None

    @property
    def end(self) -> int:
        """One past the last entry."""
        return self.first + len(self.entries)

    def blocks(self) -> Iterator[list[Buffer]]:
        """The entries as blocks, each in buffers that follow one another."""
        entries, counts = self.entries, self.counts
        bounds = list(accumulate(map(len, entries)))
        low = size = 0
        while low < len(entries):
            full = bisect_left(bounds, size + BLOCK_DATA_BYTES, low) + 1
            high = min(full, low + BLOCK_MAX_ENTRIES, len(entries))
            some = None if counts is None else counts[low:high]
            yield block_parts(self.ledger_id, self.first + low, entries[low:high], some)
            low, size = high, bounds[high - 1]


class LedgerWriter:
    """Writes the files of one checkpoint, each opened once unless there are very many. One thread's; `close` it."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self._direct = DirectWriter(disk)
        self._open: dict[int, tuple[int, Path]] = {}
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_open = _MOST_OPEN if soft < 0 else min(_MOST_OPEN, soft // _SHARE_OF_DESCRIPTORS)

    def append(self, extent: Extent | None, entries: MergedEntries) -> Extent:
        """Writes entries behind the extent, over whatever stands there. Not durable before `finish`, and nothing counts
        before the checkpoint names the extent that is returned."""
        ledger_id = entries.ledger_id
        at = 0 if extent is None else extent.size
        parts = [part for block in entries.blocks() for part in block]
        known = self._open.get(ledger_id)
        if known is not None:
            at = self._direct.write(known[1], known[0], parts, at)
        else:
            path = self._layout.ledger(ledger_id)
            fd = self._disk.open(path, os.O_CREAT | os.O_RDWR)
            keep = False
            try:
                self._cut(fd, at)
                at = self._direct.write(path, fd, parts, at)
                keep = len(self._open) < self._most_open
            finally:
                if not keep:
                    os.close(fd)
            if keep:
                self._open[ledger_id] = (fd, path)
        return Extent(entries.first if extent is None else extent.first, entries.end, at, False)

    def finish(self, ledger_id: int, extent: Extent, seal: bool) -> Extent:
        """Makes a ledger's file durable, with its footer if it is to be sealed."""
        footer = footer_bytes(usable_table(self._disk, self._layout, ledger_id, extent)) if seal else b""
        known = self._open.pop(ledger_id, None)
        fd = self._disk.open(self._layout.ledger(ledger_id), os.O_RDWR) if known is None else known[0]
        try:
            if footer:
                self._cut(fd, extent.size)  # the footer is read from the end of the file
                self._disk.write(fd, [footer], extent.size)
            self._disk.sync(fd)
        finally:
            os.close(fd)
        return extent._replace(sealed=seal)

    def _cut(self, fd: int, size: int) -> None:
        """Removes leftovers of an unfinished settling."""
        if os.fstat(fd).st_size > size:
            self._disk.truncate(fd, size)

    def close(self) -> None:
        """Closes the files of a checkpoint that was not finished."""
        while self._open:
            _, (fd, _) = self._open.popitem()
            os.close(fd)
