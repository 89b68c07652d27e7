"""The operations on files that durability rests on, in one place, so that tests can put a failing disk underneath."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from spark_pulsar.storage.disk import system_calls

_MAX_BUFFERS: Final = 512
_FILL_BYTES: Final = 1 << 20
_ZEROS: Final = bytes(_FILL_BYTES)

TAKES_NO_MORE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE)
"""Errors that an operator may put right while the broker runs."""

Buffer = bytes | memoryview


class Disk:
    """The real disk. Every method raises OSError as the system reports it; none retries a failed write or sync."""

    _held: Mapping[Path, int] = {}

    def hold(self, directories: Mapping[Path, int]) -> None:
        """Finds these directories, and the files in them, by their descriptors from now on (DUR-14): wherever they are
        moved, and whatever stands at their paths meanwhile. Without any, by paths again."""
        self._held = directories

    def refuse_replaced(self, directory: Path) -> None:
        """Raises FileNotFoundError when a directory that is held has left its path, for what needs the path."""
        held = self._held.get(directory)
        if held is not None and not os.path.samestat(os.fstat(held), os.stat(directory)):
            raise FileNotFoundError(errno.ENOENT, "another directory stands there now", str(directory))

    @contextmanager
    def _parent(self, path: Path) -> Iterator[int | None]:
        """Yields a descriptor of the directory that a path is in; None when it is not held."""
        parent = path.parent
        if parent in self._held:
            yield self._held[parent]
        elif parent.parent in self._held:  # made after the directory was opened
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(parent.name, flags, dir_fd=self._held[parent.parent])
            try:
                yield fd
            finally:
                os.close(fd)
        else:
            yield None

    def open(self, path: Path, flags: int) -> int:
        """A file descriptor, closed on exec. OSError (ELOOP) for a link, FileExistsError for anything that is no file
        (DUR-13: `directory_lock` refuses them before)."""
        held = self._held.get(path.parent)
        # Without waiting, or a pipe would hold up its opening for ever; on files the flag has no effect.
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        if held is not None:
            fd = os.open(path.name, flags, 0o600, dir_fd=held)
        else:
            with self._parent(path) as parent:
                fd = os.open(path if parent is None else path.name, flags, 0o600, dir_fd=parent)
        if not flags & os.O_DIRECTORY and not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileExistsError(errno.EEXIST, "it is no file", str(path))
        return fd

    @contextmanager
    def opened(self, path: Path, flags: int) -> Iterator[int]:
        """Opens a file for a block of code, closes it at the block's end."""
        fd = self.open(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer at the end of the file."""
        data = os.pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(fd, size - got, offset + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_from_memory(self, fd: int, size: int, offset: int) -> bytes | None:
        """`size` bytes at `offset` if the system has the first and the last of them in memory, else None, also when
        they cannot be read. Pages written one after the other leave memory like that too, so this hardly ever waits."""
        if not system_calls.IN_MEMORY:
            return None
        byte = bytearray(1)
        try:
            if any(os.preadv(fd, [byte], at, system_calls.IN_MEMORY) != 1 for at in (offset, offset + size - 1)):
                return None
            data = os.pread(fd, size, offset)
        except OSError:
            return None
        return data if len(data) == size else None

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Writes all buffers one after the other at `offset`, not yet durable; returns the offset after them."""
        return self._write(fd, buffers, offset, 0)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Like `write`, and on return the bytes survive power loss (DUR-1; `write` alone is what
        `journalSyncData=false` leaves, DUR-5).

        Write and fdatasync are one system call (RWF_DSYNC): that is one hand-over of the interpreter lock less, on
        the path that every receipt waits for. They are two where the system has no such call.
        """
        end = self._write(fd, buffers, offset, system_calls.SYNCED_WRITE)
        if not system_calls.SYNCED_WRITE:
            self.sync(fd)
        return end

    def _write(self, fd: int, buffers: Sequence[Buffer], offset: int, flags: int) -> int:
        at = 0
        while at < len(buffers):
            some = buffers[at : at + _MAX_BUFFERS]
            wanted = sum(map(len, some))
            written = system_calls.write_buffers(fd, some, offset, flags)
            if written < wanted:
                rest = memoryview(some[0] if len(some) == 1 else b"".join(some))[written:]
                while rest:
                    offset += written
                    written = system_calls.write_buffers(fd, [rest], offset, flags)
                    rest = rest[written:]
            offset += written
            at += _MAX_BUFFERS
        return offset

    def sync(self, fd: int) -> None:
        """Makes the data of a file, and the metadata needed to read it, durable."""
        system_calls.sync_data(fd)

    def sync_directory(self, path: Path) -> None:
        """Makes names created, renamed or removed in a directory durable (DUR-9)."""
        held = self._held.get(path)
        if held is not None:
            system_calls.sync_names(held)
            return
        with self._parent(path) as parent:
            name = path if parent is None else path.name
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            system_calls.sync_names(fd)
        finally:
            os.close(fd)

    def preallocate(self, fd: int, size: int) -> None:
        """Reserves the space of a file of `size` bytes, so that later writes inside cannot fail for lack of it."""
        system_calls.allocate(fd, size)

    def fill_zeros(self, fd: int, start: int, end: int) -> None:
        """Writes zeros over a range, so that later writes there change no metadata."""
        while start < end:
            start += os.pwrite(fd, _ZEROS[: end - start], start)

    def truncate(self, fd: int, size: int) -> None:
        """Cuts or extend a file."""
        os.ftruncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        """Renames a file, replacing one of the new name."""
        with self._parent(old) as source, self._parent(new) as target:
            if source is None or target is None:
                os.rename(old, new)
            else:
                os.rename(old.name, new.name, src_dir_fd=source, dst_dir_fd=target)

    def remove(self, path: Path) -> None:
        """Removes a file; not an error when it is gone."""
        with suppress(FileNotFoundError), self._parent(path) as parent:
            os.unlink(path if parent is None else path.name, dir_fd=parent)

    def commit(self, database: sqlite3.Connection) -> None:
        """Ends the database's transaction, durable on return. Raises sqlite3.Error."""
        database.execute("COMMIT")

    def copy_database(self, source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        """Makes one database the same as another, all or nothing, durable on return. Raises sqlite3.Error."""
        source.backup(target)
