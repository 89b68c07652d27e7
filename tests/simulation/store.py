"""What the bytes live on: the same few handles for the storage in memory and the one in files.

Storage works when the world says so: `write` lets the journal put some of what waits on disk, `settle` lets one
background job run. A crash leaves what the disk leaves.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol
from unittest import mock

from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import Storage, StorageError, StorageFailed
from spark_pulsar.storage import background, files, journal
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal import Barrier, Submission
from spark_pulsar.storage.memory import MemoryDisk, MemoryStorage

from .disk import PageCacheDisk, PowerLost

LAST_GROUP_IS_WRITTEN_AGAIN = False
"""Whether opening makes durable what it takes from the page cache. Until it does, the simulated system writes back its
cache when a process ends without loss of power."""


class Store(Protocol):
    """A storage that a world works by hand."""

    storage: Storage

    def open(self, on_failed: Callable[[StorageFailed], None]) -> DurableState:
        """Recover what the disk holds and go on with it. StorageError or OSError while the disk refuses."""

    def write(self, random: Random) -> None:
        """Let the journal work once."""

    def settle(self, random: Random) -> None:
        """Let the background work once."""

    def checkpoint_soon(self) -> None:
        """Have the storage ask for a checkpoint, if it can be had."""

    def fail_next_write(self) -> None:
        """The next write of the journal fails, as a failing fsync does."""

    def fill_up(self) -> None:
        """The disk is full until it is healed."""

    def die_soon(self, random: Random) -> None:
        """The process dies at one of the next operations of the disk."""

    def heal(self) -> None:
        """The disk is well again."""

    def crash(self, random: Random) -> None:
        """The process dies, or the power fails."""

    def give_up(self, random: Random) -> None:
        """A write failed: the process lives on and opens the storage again."""

    def close(self, state: DurableState) -> None:
        """Clean end."""

    def dispose(self) -> None:
        """Let go of everything."""


class MemoryStore:
    """The storage in memory: groups of any size, and whatever was not written is lost."""

    storage: MemoryStorage

    def __init__(self) -> None:
        self._disk = MemoryDisk()

    def open(self, on_failed: Callable[[StorageFailed], None]) -> DurableState:
        self.storage, state = MemoryStorage.open(self._disk, on_failed=on_failed, auto=False)
        return state

    def write(self, random: Random) -> None:
        self.storage.sync(random.choice((1, 2, None)))

    def settle(self, random: Random) -> None:
        """The memory has no background."""

    def checkpoint_soon(self) -> None:
        self.storage.checkpoint_wanted = True

    def fail_next_write(self) -> None:
        self.storage.fail_next_sync(OSError(errno.EIO, os.strerror(errno.EIO)))

    def fill_up(self) -> None:
        """Memory does not fill up."""

    def die_soon(self, random: Random) -> None:
        """Memory has no operations in between."""

    def heal(self) -> None:
        """A failed storage in memory is simply opened again."""

    def crash(self, random: Random) -> None:
        self.storage.crash()

    def give_up(self, random: Random) -> None:
        self.storage.crash()

    def close(self, state: DurableState) -> None:
        self.storage.close(state)

    def dispose(self) -> None:
        """Nothing is held."""


class _NoThread:
    """Stands in for a thread of the storage: its work is done by the store, the rest of it when it is joined."""

    def __init__(self, target: Callable[[], None], **_: Any) -> None:
        self._target = target
        self.is_dead = False

    def start(self) -> None:
        """Nothing begins."""

    def join(self) -> None:
        """Do what is left."""
        if not self.is_dead:
            self.is_dead = True
            self._target()


class FileStore:
    """The storage in files, on a disk that loses what was not synced. Its two threads are worked by hand."""

    storage: FileStorage

    def __init__(self, random: Random, mode: str, segment_bytes: int, clock: Callable[[], float]) -> None:
        self.disk = PageCacheDisk(random, mode)
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._is_open = False

    def open(self, on_failed: Callable[[StorageFailed], None]) -> DurableState:
        self._is_open = False
        if not LAST_GROUP_IS_WRITTEN_AGAIN:
            self.disk.write_back()
        threads = SimpleNamespace(Thread=_NoThread, Lock=journal.threading.Lock)
        with mock.patch.object(journal, "threading", threads), mock.patch.object(background, "threading", threads):
            self.storage, state = FileStorage.open(
                self.disk.data_dir, on_failed=on_failed, segment_bytes=self._segment_bytes, disk=self.disk
            )
        self._is_open = True
        return state

    def write(self, random: Random) -> None:
        worker = self.storage._journal
        if worker.failure is not None:
            return
        limit = random.choice((0, 1, 1 << 30))
        try:
            item = worker._queue.get_nowait()
        except Empty:
            return
        if isinstance(item, Submission):
            group, item = worker._gather(item, self._limited(worker._queue.get_nowait, limit))
            try:
                worker._commit(group)
            except Exception as error:  # noqa: BLE001 - as the thread does
                worker._thread.is_dead = True
                worker._fail(error)
                return
        if isinstance(item, Barrier):
            item.reached(worker._last_group)

    @staticmethod
    def _limited(get_nowait: Callable[[], Any], limit: int) -> Callable[[], Any]:
        left = [limit]

        def get() -> Any:
            if left[0] <= 0:
                raise Empty
            left[0] -= 1
            return get_nowait()

        return get

    def settle(self, random: Random) -> None:
        worker = self.storage._background
        try:
            job = worker._queue.get_nowait()
        except Empty:
            return
        if job is not None:
            try:
                with mock.patch.object(files, "time", SimpleNamespace(monotonic=self._clock)):
                    job()
            except Exception as error:  # noqa: BLE001 - as the thread does
                worker.error = error

    def checkpoint_soon(self) -> None:
        self.storage._trimmed = True

    def fail_next_write(self) -> None:
        self.disk.fails_next = True

    def fill_up(self) -> None:
        self.disk.is_full = True

    def die_soon(self, random: Random) -> None:
        self.disk.dies_at = self.disk.operations + random.choice((1, 2, 3, 5, 8, 13, 21))

    def heal(self) -> None:
        self.disk.heal()

    def _abandon(self) -> None:
        """Let go of what a dead process holds, without writing anything."""
        self.disk.dies_at = None
        if self._is_open:
            self._is_open = False
            self.storage._checkpoint.close()
            with suppress(OSError):  # the storage got as far as this itself
                os.close(self.storage._lock_fd)

    def crash(self, random: Random) -> None:
        self._abandon()
        if random.random() < 0.3:
            self.disk.forget_process()
        else:
            self.disk.lose_power()

    def give_up(self, random: Random) -> None:
        """As the runner does: close, then open again; the page cache is as it was."""
        try:
            self.storage.close()
        except PowerLost:
            self.crash(random)
        except (StorageError, OSError):
            self._abandon()
        self._is_open = False

    def close(self, state: DurableState) -> None:
        self.storage.close(state)
        self._is_open = False

    def dispose(self) -> None:
        self._abandon()
        self.disk.dispose()
