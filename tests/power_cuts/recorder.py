"""Records, in one order, what a process does to the files of a directory and what it says to its clients.

Each record is a pickled tuple that begins with its kind:

    ("open", fd, path, flags)   a file was opened; O_CREAT makes it if it was not there
    ("close", fd)
    ("write", id, file, offset, data, is_durable)   is about to be written; zeros are given as their number
    ("truncate", id, file, size)   is about to be cut or extended
    ("extend", id, file, size)   its space is about to be reserved
    ("sync", id, file)          a file or directory is about to be synced
    ("rename", id, old, new)    …
    ("remove", id, path)
    ("mkdir", id, path)
    ("done", id)                what has that id has succeeded; a durable write or a sync counts from here
    ("failed", id)
    ("made", connection, "binary" or "http")
    ("in", connection, bytes)   were received
    ("out", connection, bytes)  are handed to the system

A file is a descriptor, or the address of one of SQLite's (`sqlite_files`); paths are relative to the directory.
"""

from __future__ import annotations

import itertools
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_os_write, _os_open, _os_close = os.write, os.open, os.close


class Recorder:
    """Appends records to a file, at once, so that a killed process leaves them."""

    def __init__(self, root: Path, target: Path) -> None:
        self.root = os.path.realpath(root)
        self._fd = _os_open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._files: set[int] = set()

    def note(self, *record: Any) -> None:
        """Appends a record."""
        data = pickle.dumps(record, 5)
        with self._lock:
            while data:
                data = data[_os_write(self._fd, data) :]

    def begin(self, kind: str, *what: Any) -> int:
        """Appends a record of what is about to be done; returns its id."""
        number = next(self._ids)
        self.note(kind, number, *what)
        return number

    def doing(self, call: Callable[[], Any], kind: str, *what: Any) -> Any:
        """Does something with a record before and one after."""
        number = self.begin(kind, *what)
        try:
            result = call()
        except BaseException:
            self.note("failed", number)
            raise
        self.note("done", number)
        return result

    def inside(self, path: Any, dir_fd: int | None = None) -> str | None:
        """The path relative to the directory, None when it is not in there. `dir_fd`: of the directory that a path
        starts from."""
        start = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        text = os.path.abspath(os.path.join(start, os.fspath(path)))
        if text == self.root:
            return "."
        return text[len(self.root) + 1 :] if text.startswith(self.root + "/") else None

    def opened(self, fd: int, path: str, flags: int) -> None:
        """Notes a file that was opened."""
        self._files.add(fd)
        self.note("open", fd, path, flags)

    def knows(self, fd: int) -> bool:
        """Tells whether a descriptor is that of a file in the directory."""
        return fd in self._files

    def closing(self, fd: int) -> None:
        """Notes a descriptor that is about to be closed."""
        if fd in self._files:
            self._files.discard(fd)
            self.note("close", fd)


def contents(data: bytes) -> bytes | int:
    """Bytes as a record has them."""
    return len(data) if data.count(0) == len(data) else data


def record_files(recorder: Recorder) -> None:
    """Wraps the functions of `os` that change files."""
    _record_descriptors(recorder)
    _record_names(recorder)


def _record_descriptors(recorder: Recorder) -> None:
    pwritev, pwrite, ftruncate, fallocate = os.pwritev, os.pwrite, os.ftruncate, os.posix_fallocate

    def opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
        fd = _os_open(path, flags, *args, **more)
        inside = recorder.inside(path, more.get("dir_fd")) if isinstance(path, str | os.PathLike) else None
        if inside is not None:
            recorder.opened(fd, inside, flags)
        return fd

    def closed(fd: int) -> None:
        recorder.closing(fd)
        _os_close(fd)

    def write_buffers(fd: int, buffers: Sequence[Any], offset: int, flags: int = 0) -> int:
        if not recorder.knows(fd):
            return pwritev(fd, buffers, offset, flags)
        data = contents(b"".join(buffers))
        durable = bool(flags & (os.RWF_DSYNC | os.RWF_SYNC))
        written: int = recorder.doing(lambda: pwritev(fd, buffers, offset, flags), "write", fd, offset, data, durable)
        assert written == (data if isinstance(data, int) else len(data)), "a short write is not modelled"
        return written

    def write_one(fd: int, data: Any, offset: int) -> int:
        if not recorder.knows(fd):
            return pwrite(fd, data, offset)
        noted = contents(bytes(data))
        written: int = recorder.doing(lambda: pwrite(fd, data, offset), "write", fd, offset, noted, False)
        assert written == len(data), "a short write is not modelled"
        return written

    def of_descriptor(call: Callable[..., None], kind: str) -> Callable[..., None]:
        def wrapped(fd: int, *args: int) -> None:
            if recorder.knows(fd):
                recorder.doing(lambda: call(fd, *args), kind, fd, *([sum(args)] if args else []))
            else:
                call(fd, *args)

        return wrapped

    def refused(fd: int, data: Any) -> int:
        assert not recorder.knows(fd), "os.write is not modelled"
        return _os_write(fd, data)

    os.open, os.close, os.pwrite, os.write = opened, closed, write_one, refused
    os.pwritev = write_buffers  # type: ignore[assignment]
    os.ftruncate, os.posix_fallocate = of_descriptor(ftruncate, "truncate"), of_descriptor(fallocate, "extend")
    os.fsync, os.fdatasync = of_descriptor(os.fsync, "sync"), of_descriptor(os.fdatasync, "sync")


def _record_names(recorder: Recorder) -> None:
    def of_path(call: Callable[..., None], kind: str) -> Callable[..., None]:
        def wrapped(path: Any, *args: Any, **more: Any) -> None:
            inside = recorder.inside(path, more.get("dir_fd"))
            if inside is None:
                call(path, *args, **more)
            else:
                recorder.doing(lambda: call(path, *args, **more), kind, inside)

        return wrapped

    def of_names(call: Callable[..., None]) -> Callable[..., None]:
        def wrapped(old: Any, new: Any, **more: Any) -> None:
            before = recorder.inside(old, more.get("src_dir_fd"))
            after = recorder.inside(new, more.get("dst_dir_fd"))
            assert (before is None) == (after is None), "a file that leaves the directory is not modelled"
            if before is None:
                call(old, new, **more)
            else:
                recorder.doing(lambda: call(old, new, **more), "rename", before, after)

        return wrapped

    os.rename, os.replace = of_names(os.rename), of_names(os.replace)
    os.unlink = os.remove = of_path(os.unlink, "remove")
    os.mkdir = of_path(os.mkdir, "mkdir")
