"""The hold of a process on a data directory: the lock, and descriptors by which its files are opened (DUR-13, DUR-14).

The lock is on the directory itself, which cannot be taken away from under it; LOCK, which people may remove, is locked
beside it for earlier versions of this program, and holds the process id. Where a file system locks no directories
(NFS), LOCK alone counts.

Files are opened relative to the descriptors, so that a directory that is renamed or replaced under a running broker
never has it write into another one. What stands in the place of a file or directory of the data directory and is
something else (a link, a file with a second name, a pipe, a device) is refused before anything is written: it would
have the broker write where another user wants it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from spark_pulsar.ledger.storage import StorageError, StorageLocked, StorageUnsafe

from .layout import OWNER_ONLY_DIRECTORY, Layout

Identity = tuple[int, int]
"""Device and inode of a directory."""

_OPENED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LOCKS: Final = (errno.EBADF, errno.EINVAL, errno.EISDIR, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems that lock no directories."""
_TAKEN: Final = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_KINDS: Final = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISREG, "a file"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class HeldDirectory:
    """A locked data directory; `close` it."""

    def __init__(self, layout: Layout, root_fd: int) -> None:
        self._layout = layout
        self._lock_fd = -1
        self.directories: dict[Path, int] = {layout.root: root_fd}
        """Descriptors of the directory and its sub-directories, by path."""

    @property
    def identity(self) -> Identity:
        """The directory's identity: another one at the same path differs."""
        status = os.fstat(self.directories[self._layout.root])
        return status.st_dev, status.st_ino

    def lock(self, kind: int, others: str) -> None:
        """Locks the directory: StorageLocked names the `others` that may have it, the process filled in."""
        root_fd = self.directories[self._layout.root]
        try:
            fcntl.flock(root_fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise self._taken(error, others) from error
        self._lock_fd = self._opened_lock(root_fd, kind)
        if self._lock_fd < 0:
            return
        try:
            fcntl.flock(self._lock_fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            raise self._taken(error, others) from error

    def _opened_lock(self, root_fd: int, kind: int) -> int:
        """Opens LOCK, making it where this process may write; -1 when there is none to read."""
        path = self._layout.lock
        flags = os.O_CREAT | os.O_RDWR if kind == fcntl.LOCK_EX else os.O_RDONLY
        refuse_unsafe(self._layout, [path])
        try:
            return os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=root_fd)
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise StorageError(f"{path} cannot be opened: {error.strerror}") from error

    def _taken(self, error: OSError, others: str) -> StorageError:
        root = self._layout.root
        if error.errno not in _TAKEN:
            return StorageError(f"{root}: the data directory cannot be locked: {error.strerror}")
        owner = ""
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._layout.lock.name, flags, dir_fd=self.directories[root])
            try:
                owner = os.read(fd, 32).decode("ascii", "replace").strip()
            finally:
                os.close(fd)
        return StorageLocked(f"{root}: {others.format(owner or 'unknown')} uses this data directory")

    def name_owner(self) -> None:
        """Writes this process's id into LOCK, for people; the lock itself needs no space."""
        with suppress(OSError):
            os.ftruncate(self._lock_fd, 0)
            os.pwrite(self._lock_fd, f"{os.getpid()}\n".encode(), 0)

    def hold_directories(self) -> None:
        """Makes the sub-directories, for their owner alone, opens them, and closes to others what an older program left
        open. A data directory that was there, and may be shared on purpose, keeps its own mode: all in it is closed."""
        layout = self._layout
        root_fd = self.directories[layout.root]
        for path in (layout.journal, layout.ledgers, layout.damaged):
            if path != layout.damaged:  # made when there is something to set aside
                with suppress(FileExistsError):
                    os.mkdir(path.name, OWNER_ONLY_DIRECTORY, dir_fd=root_fd)
            with suppress(FileNotFoundError):
                self.directories[path] = os.open(path.name, _OPENED | os.O_NOFOLLOW, dir_fd=root_fd)
        for path in layout.directories():
            if path in self.directories:
                _close_to_others(self.directories[path])
        for path in layout.files():
            with suppress(FileNotFoundError, PermissionError):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                fd = os.open(path.name, flags, dir_fd=root_fd)
                try:
                    _close_to_others(fd)
                finally:
                    os.close(fd)

    def close(self) -> None:
        """Gives the directory free."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
        while self.directories:
            os.close(self.directories.popitem()[1])


def _close_to_others(fd: int) -> None:
    """Removes all rights of others than its owner on a file or directory, if it is ours."""
    mode = os.fstat(fd).st_mode
    if mode & 0o077:
        with suppress(PermissionError):
            os.fchmod(fd, mode & 0o700)


def lock_for_writing(layout: Layout, expected: Identity | None = None) -> HeldDirectory:
    """Locks the data directory for this process, making it where there is none, and its sub-directories.

    `expected`: the identity of the directory that this process had open before; none is made then, and another one at
    the path is refused. StorageLocked when another process has it, StorageUnsafe when something in it is not its own,
    StorageError when it cannot be used.
    """
    try:
        if expected is None:
            layout.root.mkdir(mode=OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
        held = HeldDirectory(layout, os.open(layout.root, _OPENED))
    except OSError as error:
        what = "cannot be made or opened" if expected is None else "is gone"
        reason = error.strerror
        if isinstance(error, FileExistsError):
            reason = "a file, or a link to nothing, has this name"
        raise StorageError(f"{layout.root}: the data directory {what}: {reason}") from error
    try:
        if expected not in (None, held.identity):
            text = "is another one than this broker has opened; restart the broker to use it"
            raise StorageError(f"{layout.root}: the data directory {text}")
        held.lock(fcntl.LOCK_EX, "another broker (process {}) or `check`")
        refuse_unsafe(layout)
        held.name_owner()
        held.hold_directories()
    except OSError as error:
        held.close()
        raise StorageError(f"{layout.root}: the data directory cannot be used: {error.strerror}") from error
    except BaseException:
        held.close()
        raise
    return held


def lock_for_reading(layout: Layout) -> HeldDirectory:
    """Locks the data directory for reading, which keeps brokers out. Nothing is written. StorageLocked when a broker
    has it, StorageError when it cannot be read."""
    try:
        held = HeldDirectory(layout, os.open(layout.root, _OPENED))
    except OSError as error:
        raise StorageError(f"{layout.root} cannot be read: {error.strerror}") from error
    try:
        held.lock(fcntl.LOCK_SH, "a broker (process {}) or `check --repair`")
    except BaseException:
        held.close()
        raise
    return held


def refuse_unsafe(layout: Layout, paths: list[Path] | None = None) -> None:
    """StorageUnsafe when something in the data directory, or one of `paths` in it, is not its own."""
    for path, text in unsafe(layout, paths):
        raise StorageUnsafe(str(path), text)


def unsafe(layout: Layout, paths: list[Path] | None = None) -> Iterator[tuple[Path, str]]:
    """Yields each path of the data directory at which something else stands than a directory or file of its own, and
    what that is and what to do. Nothing is followed or opened."""
    directories = layout.directories() if paths is None else []
    for path in directories:
        text = _problem(path, is_directory=True)
        if text:
            yield path, text
    for path in layout.own_files() if paths is None else paths:
        text = _problem(path, is_directory=False)
        if text:
            yield path, text


def _problem(path: Path, *, is_directory: bool) -> str:
    """Returns the fault of the file at a path; empty when there is none, or no file."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    kind = next((name for fits, name in _KINDS if fits(status.st_mode)), "a device")
    wanted = "a directory" if is_directory else "a file"
    if kind == "a link":
        with suppress(OSError):
            kind += f" to {os.readlink(path)}"
        cure = f"mount what it leads to at {path}" if is_directory else "put the file itself here"
        return f"{kind}, which is not followed: {cure}, or remove it"
    if kind != wanted:
        return f"{kind}, where {wanted} of the broker's belongs: remove it"
    if not is_directory and status.st_nlink > 1:
        return (
            f"a file with {status.st_nlink} names (hard links): what is written here would change it under the other "
            "names, too. Remove the other names, or put a copy here"
        )
    return ""
