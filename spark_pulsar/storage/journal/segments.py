"""Segment files of the journal: preallocated, filled with zeros ahead of the writer, recycled when settled.

Writing where something was written before changes no metadata, which makes small groups durable sooner. While much is
written groups are large, and zeros would only double what the disk has to take: new segments stay bare then.
"""

from __future__ import annotations

import contextlib
import os
import threading
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import Layout

from .groups import GROUP_HEADER_BYTES, SALT_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, segment_header_bytes

SEGMENT_BYTES: Final = 64 * 1024 * 1024
MIN_SPARES: Final = 2
MAX_SPARES: Final = 24
"""Spares kept while much is written and a minute longer (1.5 GiB): a file written before is written two to four times
as fast as a new one."""

PREPARE_AT: Final = 8
"""The next segment is prepared once an eighth of the present one is written."""

BYTES_AT_ONCE: Final = 256 * 1024 * 1024
"""Bytes of full segments settled by one checkpoint: under load the journal should have them back soon."""

FILL_AHEAD_BYTES: Final = 8 * 1024 * 1024
_FILL_STEP_BYTES: Final = 1024 * 1024


class Segment:
    """A segment file in use.

    | attribute | meaning |
    | --- | --- |
    | `number`, `salt` | its identity; both stand in every group header |
    | `write_at` | offset of the next group; everything before is written |
    | `group_offsets` | offset of each of its groups (for verifying before settling) |
    | `filled_to` | up to here the file was written once, so that writing again changes no metadata |
    | `spare_at` | when the writer passes it, the next segment should be prepared |
    | `set_aside` | it was in use when damage was found in the journal: kept for people when it is not needed any more |
    | `readers`, `retired` | reads in flight; whether it waits for them to be recycled |
    """

    def __init__(self, path: Path, fd: int, size: int, number: int, salt: bytes, filled_to: int) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.number = number
        self.salt = salt
        self.write_at = SEGMENT_HEADER_BYTES
        self.group_offsets = array("I")
        self.filled_to = filled_to
        self.fill_lock = threading.Lock()
        self.spare_at = size // PREPARE_AT
        self.readers = 0
        self.retired = False
        self.set_aside = False

    def claim(self, end: int) -> None:
        """Before writing up to `end`: make sure that zeros are never written over it."""
        if end > self.filled_to:
            with self.fill_lock:
                self.filled_to = max(self.filled_to, end)

    def wants_work(self) -> bool:
        """Returns whether zeros should be written further ahead, or the next segment prepared (reported once)."""
        if self.write_at > self.spare_at:
            self.spare_at = self.size
            return True
        return self.filled_to < min(self.size, self.write_at + FILL_AHEAD_BYTES // 2)

    def fill_ahead(self, disk: Disk) -> None:
        """Writes and syncs zeros up to FILL_AHEAD_BYTES after the writer.

        Through a descriptor of its own: the system reports to each open file once that a write failed, and the writer
        must not miss what concerns its groups because this sync heard it first.
        """
        with disk.opened(self.path, os.O_RDWR) as fd:
            while True:
                with self.fill_lock:
                    start = self.filled_to
                    end = min(start + _FILL_STEP_BYTES, self.size, self.write_at + FILL_AHEAD_BYTES)
                    if end <= start:
                        return
                    disk.fill_zeros(fd, start, end)
                    disk.sync(fd)
                    self.filled_to = end


class SegmentFiles:
    """The segment files of one journal: segments in use, spares, and the next number."""

    def __init__(self, disk: Disk, layout: Layout, segment_bytes: int, synced: bool) -> None:
        self.disk = disk
        self.layout = layout
        self.segment_bytes = segment_bytes
        self.synced = synced
        self.in_use: dict[int, Segment] = {}
        self.wanted_spares = MIN_SPARES
        """Recycled segments that are kept."""
        self._spares: list[Path] = []
        self._bare: set[Path] = set()
        """Spares that were never written."""
        self._next_number = 1
        self._lock = threading.Lock()

    def adopt(self, spares: dict[int, Path], used_numbers: list[int]) -> None:
        """Takes over the spare files that recovery found, and the numbers that were ever seen."""
        self._next_number = max([0, *used_numbers, *spares]) + 1
        for path in spares.values():
            if len(self._spares) < MIN_SPARES and path.stat().st_size == self.segment_bytes:
                self._spares.append(path)
            else:
                self.disk.remove(path)

    def begin(
        self, first_group: int, group_bytes: int, group: Callable[[Segment], Sequence[Buffer]] | None = None
    ) -> Segment:
        """Begins a segment that a group of that many bytes fits into. Header and name are durable, in this order, so
        that a segment in use without a valid header is always damage. With `group` its buffers are written before the
        name, so that the segment is never without it. OSError when it could not be made; then it is not there."""
        size = SEGMENT_HEADER_BYTES + group_bytes
        with self._lock:
            number = self._next_number
            self._next_number += 1
            spare = self._spares.pop() if self._spares and size <= self.segment_bytes else None
        path = self.layout.segment(number)
        filled_to = 0
        if spare is None:
            size = max(size, self.segment_bytes)
            spare = self._make(number, size)
        else:
            size = self.segment_bytes
            filled_to = 0 if spare in self._bare else size
        fd = -1
        try:
            fd = self.disk.open(spare, os.O_RDWR)
            segment = Segment(path, fd, size, number, os.urandom(SALT_BYTES), filled_to)
            segment.claim(SEGMENT_HEADER_BYTES)
            header = SegmentHeader(number, segment.salt, first_group, size, self.synced)
            buffers: list[Buffer] = [segment_header_bytes(header)]
            if group is not None:
                buffers += group(segment)
                segment.claim(sum(map(len, buffers)))
            self.disk.write_durably(fd, buffers, 0)
            self.disk.rename(spare, path)
            self.disk.sync_directory(path.parent)
        except OSError:
            # The content, and the name that holds it, is not known: neither file is used again.
            if fd >= 0:
                os.close(fd)
            for left in (spare, path):
                with contextlib.suppress(OSError):
                    self.disk.remove(left)
            raise
        with self._lock:
            self._bare.discard(spare)
            self.in_use[number] = segment
        return segment

    def prepare_spare(self, *, fill: bool) -> bool:
        """Makes a spare file, filled with zeros on request; whether there was none. OSError when there is no space for
        one."""
        with self._lock:
            if self._spares:
                return False
            number = self._next_number
            self._next_number += 1
        path = self._make(number, self.segment_bytes)
        if fill:
            try:
                self._fill(path, 0, self.segment_bytes)
            except OSError:
                with contextlib.suppress(OSError):
                    self.disk.remove(path)
                raise
        with self._lock:
            self._spares.append(path)
            if not fill:
                self._bare.add(path)
        return True

    def _fill(self, path: Path, start: int, end: int) -> None:
        """Writes zeros over a range of a file that no other thread writes to, durable on return."""
        with self.disk.opened(path, os.O_RDWR) as fd:
            for low in range(start, end, _FILL_STEP_BYTES):
                self.disk.fill_zeros(fd, low, min(low + _FILL_STEP_BYTES, end))
            self.disk.sync(fd)

    def recycle(self, segment: Segment) -> None:
        """Releases a segment whose content is no longer needed and that has no reader: keeps it as a spare, or
        removes it when there are enough or it has another size. OSError when the disk does not do that now: it is to be
        requested again."""
        spare: Path | None = None
        if segment.set_aside:
            self.disk.rename(segment.path, self.layout.aside(segment.path))
        elif len(self._spares) >= self.wanted_spares or segment.size != self.segment_bytes:
            self.disk.remove(segment.path)
        else:
            with segment.fill_lock:  # a thread that still fills it ahead stops: it will be another segment soon
                filled_to, segment.filled_to = segment.filled_to, segment.size
            if filled_to < segment.size:
                # A recycled segment counts as filled; the one case where it is not is a segment left early.
                self._fill(segment.path, filled_to, segment.size)
            spare = self.layout.spare(segment.number)
            self.disk.rename(segment.path, spare)
        os.close(segment.fd)
        with self._lock:
            del self.in_use[segment.number]
            if spare is not None:
                self._spares.append(spare)

    def settled_before(self, current: int, at_least: int) -> int:
        """The first segment that a checkpoint keeps when `current` is written to: not much is settled by one."""
        full = sorted(number for number in list(self.in_use) if number < current)
        at_once = max(1, BYTES_AT_ONCE // self.segment_bytes)
        return max(full[at_once] if len(full) > at_once else current, at_least)

    def release(self) -> None:
        """Removes the spares that are not wanted any more."""
        while True:
            with self._lock:
                if len(self._spares) <= self.wanted_spares:
                    return
                path = self._spares.pop()
                self._bare.discard(path)
            self.disk.remove(path)

    def close(self) -> None:
        """Closes all files."""
        with self._lock:
            for segment in self.in_use.values():
                os.close(segment.fd)
            self.in_use.clear()

    def _make(self, number: int, size: int) -> Path:
        path = self.layout.spare(number)
        with self.disk.opened(path, os.O_CREAT | os.O_EXCL | os.O_RDWR) as fd:
            try:
                self.disk.preallocate(fd, size)
            except OSError:
                self.disk.remove(path)
                raise
        return path


def fits(segment: Segment, payload_bytes: int) -> bool:
    """Returns whether a group with that payload can be written to the segment."""
    return segment.write_at + GROUP_HEADER_BYTES + payload_bytes <= segment.size
