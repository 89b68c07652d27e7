"""A disk with a page cache that can be lost: real files are what the process sees, beside them what is really durable.

A write that was not synced is in the cache; when the power fails, each of its sectors may or may not have reached the
disk, in any order. A name that was created, changed or removed is durable when its directory was synced; before that,
some first part of the changes is. A failed sync leaves its pages clean: they are seen, a later sync says nothing, and
they may never have been written; whoever has the file open is told once. The database's commits count as atomic and
durable.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from spark_pulsar.storage.disk.disk import Buffer, Disk

SECTOR_BYTES: Final = 512
_MEMORY: Final = Path("/dev/shm")

Piece = tuple[int, bytes]
"""Offset and bytes of a write."""


class PowerLost(BaseException):
    """The process dies at this very operation of the disk."""


class _File:
    """One file, whatever its name: what is durable, and the writes that are only in the cache."""

    __slots__ = ("clean", "durable", "failures", "pieces")

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pieces: list[Piece] = []
        self.clean: list[Piece] = []
        """Writes whose sync failed: no later sync brings them to the disk."""
        self.failures = 0
        """Count of failed syncs."""

    def put(self, offset: int, data: bytes) -> None:
        """Makes a write durable."""
        if len(self.durable) < offset:
            self.durable.extend(bytes(offset - len(self.durable)))
        self.durable[offset : offset + len(data)] = data

    def forget(self, first: int, end: int) -> None:
        """Cached writes of this range are replaced by a later one."""
        self.pieces = _outside(self.pieces, first, end)
        self.clean = _outside(self.clean, first, end)

    def sync(self) -> None:
        """Makes all writes durable that a sync can still bring to the disk."""
        for offset, data in self.pieces:
            self.put(offset, data)
        self.pieces.clear()

    def cut(self, size: int) -> None:
        """Nothing is left behind `size`."""
        del self.durable[size:]
        self.forget(size, 1 << 62)

    def lose_power(self, random: Random, mode: str) -> None:
        """Decide what reached the disk."""
        for offset, data in (*self.clean, *self.pieces):
            if mode == "keep":
                self.put(offset, data)
            elif mode == "random":
                for first, end in _sectors(offset, len(data)):
                    if random.random() < 0.5:
                        self.put(offset + first, data[first:end])
        self.pieces.clear()
        self.clean.clear()


def _sectors(offset: int, size: int) -> list[tuple[int, int]]:
    bounds = [0, *range(SECTOR_BYTES - offset % SECTOR_BYTES, size, SECTOR_BYTES), size]
    return list(pairwise(bounds))


def _outside(pieces: list[Piece], first: int, end: int) -> list[Piece]:
    """Cuts a range out of writes."""
    kept: list[Piece] = []
    for offset, data in pieces:
        if offset + len(data) <= first or end <= offset:
            kept.append((offset, data))
            continue
        if offset < first:
            kept.append((offset, data[: first - offset]))
        if end < offset + len(data):
            kept.append((end, data[end - offset :]))
    return kept


class PageCacheDisk(Disk):
    """One disk over all starts. `mode` says what becomes of unsynced writes when the power fails."""

    def __init__(self, random: Random, mode: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="simulation-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.data_dir = self.root / "data"
        self.mode = mode
        self.operations = 0
        self.dies_at: int | None = None
        """The number of the operation at which the power fails."""
        self.is_full = False
        self.fails_next = False
        """The next durable write, or sync, fails with EIO."""
        self._random = random
        self._fds: dict[int, _File] = {}
        self._heard: dict[int, int] = {}
        """Failures of its file that each descriptor was told of."""
        self._names: dict[Path, _File] = {}
        self._durable_names: dict[Path, _File] = {}
        self._name_changes: list[tuple[Path, str, Path, _File | Path | None]] = []
        """(directory, what, name, file or new name) since the directory was synced."""

    # What the storage does

    def read_from_memory(self, fd: int, size: int, offset: int) -> bytes | None:
        data = self.read(fd, size, offset)  # the file system of these files does not tell what is in memory
        return data if len(data) == size else None

    def open(self, path: Path, flags: int) -> int:
        known = self._names.get(path)
        if known is None and flags & os.O_CREAT:
            self._may_die()
        fd = super().open(path, flags)
        if known is None:
            known = self._names[path] = _File()
            self._name_changes.append((path.parent, "create", path, known))
        elif flags & os.O_TRUNC:
            known.cut(0)
        self._fds[fd] = known
        self._heard[fd] = known.failures
        return fd

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(buffers)
        self._die_within(fd, data, offset)
        self._check_space(fd, offset + len(data))
        self._cache(fd, offset, data)
        return offset + len(data)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        data = b"".join(buffers)
        self._die_within(fd, data, offset)
        self._check_space(fd, offset + len(data))
        self._cache(fd, offset, data)
        file = self._fds[fd]
        if self.fails_next:
            self.fails_next = False
            file.forget(offset, offset + len(data))
            file.clean.append((offset, data))
            file.failures += 1
        else:
            file.forget(offset, offset + len(data))
            file.put(offset, data)
            self._keep_size(fd)
        self._tell_failures(fd)
        return offset + len(data)

    def sync(self, fd: int) -> None:
        self._may_die()
        file = self._fds[fd]
        if self.fails_next:
            self.fails_next = False
            file.clean += file.pieces
            file.pieces = []
            file.failures += 1
        else:
            file.sync()
            self._keep_size(fd)
        self._tell_failures(fd)

    def sync_directory(self, path: Path) -> None:
        self._may_die()
        mine = [change for change in self._name_changes if change[0] == path]
        self._name_changes = [change for change in self._name_changes if change[0] != path]
        for change in mine:
            self._make_name_durable(change)

    def preallocate(self, fd: int, size: int) -> None:
        self._may_die()
        self._check_space(fd, size)
        super().preallocate(fd, size)

    def fill_zeros(self, fd: int, start: int, end: int) -> None:
        self._may_die()
        self._check_space(fd, end)
        self._cache(fd, start, bytes(end - start))

    def truncate(self, fd: int, size: int) -> None:
        self._may_die()
        super().truncate(fd, size)
        self._fds[fd].cut(size)

    def rename(self, old: Path, new: Path) -> None:
        self._may_die()
        super().rename(old, new)
        self._names[new] = self._names.pop(old)
        self._name_changes.append((old.parent, "rename", old, new))

    def remove(self, path: Path) -> None:
        self._may_die()
        super().remove(path)
        if self._names.pop(path, None) is not None:
            self._name_changes.append((path.parent, "remove", path, None))

    def commit(self, database: sqlite3.Connection) -> None:
        self._may_die()
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        super().commit(database)
        self._may_die()

    # Faults

    def lose_power(self) -> None:
        """Leaves what the next start finds: durable bytes under durable names, and writes that reached the disk by
        chance."""
        random = self._random
        kept = random.randint(0, len(self._name_changes)) if self.mode == "random" else 0
        changes = self._name_changes if self.mode == "keep" else self._name_changes[:kept]
        for change in changes:
            self._make_name_durable(change)
        self._name_changes.clear()
        for path in self._names:
            os.unlink(path)
        for file in {id(file): file for file in self._durable_names.values()}.values():
            file.lose_power(random, self.mode)
        for path, file in self._durable_names.items():
            path.write_bytes(file.durable)
        self._names = dict(self._durable_names)
        self.forget_process()

    def forget_process(self) -> None:
        """Closes what a dead process had open."""
        prefix = f"{self.root}/"
        for fd in self._fds:
            try:
                if os.readlink(f"/proc/self/fd/{fd}").startswith(prefix):
                    os.close(fd)
            except OSError:
                continue
        self._fds.clear()
        self._heard.clear()
        self.dies_at = None

    def forget_cached(self) -> None:
        """A sync of everything fails, and its caller dies before it is told."""
        for file in self._names.values():
            file.clean += file.pieces
            file.pieces = []

    @property
    def owes_failures(self) -> bool:
        """True when a descriptor was not told yet that a sync failed."""
        return any(heard < self._fds[fd].failures for fd, heard in self._heard.items())

    def heal(self) -> None:
        """All is well from now on."""
        self.is_full = self.fails_next = False
        self.dies_at = None

    def dispose(self) -> None:
        """Removes everything."""
        self.forget_process()
        shutil.rmtree(self.root, ignore_errors=True)

    # Parts

    def _cache(self, fd: int, offset: int, data: bytes) -> None:
        if data:
            os.pwrite(fd, data, offset)
            self._fds[fd].forget(offset, offset + len(data))
            self._fds[fd].pieces.append((offset, data))

    def _keep_size(self, fd: int) -> None:
        """The size of a synced file is durable."""
        durable = self._fds[fd].durable
        size = os.fstat(fd).st_size
        if len(durable) < size:
            durable.extend(bytes(size - len(durable)))

    def _tell_failures(self, fd: int) -> None:
        """Each descriptor hears once that a sync of its file failed, also if another one's did."""
        failures = self._fds[fd].failures
        if self._heard[fd] < failures:
            self._heard[fd] = failures
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _make_name_durable(self, change: tuple[Path, str, Path, _File | Path | None]) -> None:
        _, what, name, other = change
        names = self._durable_names
        if what == "create":
            assert isinstance(other, _File)
            names[name] = other
        elif what == "remove":
            names.pop(name, None)
        else:
            assert isinstance(other, Path)
            if name in names:
                names[other] = names.pop(name)

    def _check_space(self, fd: int, end: int) -> None:
        if self.is_full and end > os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _dies_now(self) -> bool:
        self.operations += 1
        return self.dies_at is not None and self.operations >= self.dies_at

    def _die_within(self, fd: int, data: bytes, offset: int) -> None:
        """Perhaps the process dies while it writes: the system has a first part of it."""
        if self._dies_now():
            self._cache(fd, offset, data[: self._random.randrange(len(data) + 1)])
            raise PowerLost

    def _may_die(self) -> None:
        if self._dies_now():
            raise PowerLost
