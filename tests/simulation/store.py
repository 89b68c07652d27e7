"""Storage of a world, in memory or in files, behind the same few handles. Storage works when the world says so: `write`
lets the journal put some waiting groups on disk, `settle` lets one background job run. A crash leaves what the disk
leaves.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from queue import Empty
from random import Random
from typing import Any

from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import Storage, StorageDamaged, StorageError, StorageFailed
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.disk.threads import Threads
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal.journal import Barrier, Submission
from tests.contract.memory_storage import MemoryDisk, MemoryStorage

from .disk import PageCacheDisk, PowerLost
from .profile import Profile

_LOST_ROWS = 0.1
"""Share of the starts before which the checkpoint lacks a row."""


class Store:
    """A storage that a world works by hand. One in memory has no disk that fills up or fails in between, and no
    background."""

    storage: Storage
    power_lost = False
    """True when the power failed since this was set to False."""

    @property
    def is_busy(self) -> bool:
        """True when the journal or the background has something to do."""
        raise NotImplementedError

    def open(self, on_failed: Callable[[StorageFailed], None], *, sync_data: bool) -> DurableState:
        """Recover what the disk holds and go on with it. StorageError or OSError while the disk refuses."""
        raise NotImplementedError

    def write(self, random: Random) -> None:
        """Lets the journal work once."""
        raise NotImplementedError

    def settle(self, random: Random) -> None:
        """Lets the background work once."""

    def checkpoint_soon(self) -> None:
        """Has the storage ask for a checkpoint, if it can be had."""

    def fail_next_write(self) -> None:
        """The next write of the journal fails, as a failing fsync does."""

    def fill_up(self) -> None:
        """The disk is full until it is healed."""

    def die_soon(self, random: Random) -> None:
        """The process dies at one of the next operations of the disk."""

    def heal(self) -> bool:
        """The disk is well again; whether the storage will not hear of a failure any more."""
        return True

    def crash(self, random: Random, *, only_process: bool = False) -> None:
        """The process dies, or the power fails too."""

    def give_up(self, random: Random) -> None:
        """A write failed: the process lives on and opens the storage again."""
        self.crash(random)

    def close(self, state: DurableState) -> None:
        """Clean end."""
        self.storage.close(state)

    def kept_ledgers(self) -> set[int]:
        """After a clean end: the ledgers that still take space."""
        return set()

    def dispose(self) -> None:
        """Lets go of everything."""


class MemoryStore(Store):
    """The storage in memory: groups of any size, and whatever was not written is lost."""

    storage: MemoryStorage

    def __init__(self) -> None:
        self._disk = MemoryDisk()

    @property
    def is_busy(self) -> bool:
        return bool(self.storage._pending)

    def open(self, on_failed: Callable[[StorageFailed], None], *, sync_data: bool) -> DurableState:
        self.storage, state = MemoryStorage.open(self._disk, on_failed=on_failed, auto=False)
        return state

    def write(self, random: Random) -> None:
        self.storage.sync(random.choice((1, 2, None)))

    def checkpoint_soon(self) -> None:
        self.storage.checkpoint_wanted = True

    def fail_next_write(self) -> None:
        self.storage.fail_next_sync(OSError(errno.EIO, os.strerror(errno.EIO)))

    def crash(self, random: Random, *, only_process: bool = False) -> None:
        self.storage.crash()


class _HandWorked:
    """A thread of the storage: its work is done by the store, the rest of it when it is joined."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self.is_dead = False

    def join(self) -> None:
        """Does what is left."""
        if not self.is_dead:
            self.is_dead = True
            self._run()


class _Stalled(BaseException):
    """The journal would wait for the disk to take more."""


class _Ending:
    """Event that ends the storage's threads: one that waits for it goes on another time."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """The end."""
        self._is_set = True

    def is_set(self) -> bool:
        """Tells whether the threads shall end."""
        return self._is_set

    def wait(self, timeout: float) -> None:
        """Waits for it: another time."""
        raise _Stalled


class HandWorkedThreads(Threads):
    """Threads that do nothing by themselves, and the world's clock. What is to happen later is tried again anyway."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self.journal: _HandWorked

    def start(self, run: Callable[[], None], name: str) -> _HandWorked:
        thread = _HandWorked(run)
        if name == "journal":
            self.journal = thread
        return thread

    def ending(self) -> _Ending:
        return _Ending()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Nothing begins."""

    def pause(self, seconds: float) -> None:
        """Does nothing: no other thread would go on meanwhile."""

    def now_s(self) -> float:
        return self._clock_s()


class FileStore(Store):
    """The storage in files, on a disk that loses what was not synced. Its threads are worked by hand."""

    storage: FileStorage

    def __init__(self, random: Random, mode: str, segment_bytes: int, clock: Callable[[], float]) -> None:
        self.disk = PageCacheDisk(random, mode)
        self._segment_bytes = segment_bytes
        self.power_lost = False
        self._is_open = False
        self._stalled: list[Submission] = []
        """The group that the journal waits to write."""
        self._after: Barrier | None = None
        """Barrier behind the submissions."""
        self._threads = HandWorkedThreads(clock)
        self._was_synced = True
        """False when the storage was last opened with syncing off."""
        self._aside = 0
        """Files in `damaged/`."""
        self._damage = Random(mode)
        """Draws what is damaged before a start; apart, so that a history is the same without it."""

    @property
    def is_busy(self) -> bool:
        storage = self.storage
        queues = (storage._journal._queue, storage._background._queue, storage._upkeep.background._queue)
        return bool(self._stalled) or not all(queue.empty() for queue in queues)

    def open(self, on_failed: Callable[[StorageFailed], None], *, sync_data: bool) -> DurableState:
        self._is_open = False
        self._stalled, self._after = [], None
        if self._damage.random() < _LOST_ROWS:
            self._must_refuse_a_lost_row()
        self.storage, state = FileStorage.open(
            self.disk.data_dir,
            on_failed=on_failed,
            sync_data=sync_data,
            segment_bytes=self._segment_bytes,
            disk=self.disk,
            threads=self._threads,
        )
        self._is_open = True
        # What was not synced on purpose may be gone of the journal, and a file be left that was synced.
        damaged = Layout(self.disk.data_dir).damaged
        aside = len(list(damaged.iterdir())) if damaged.exists() else 0
        assert aside == self._aside or not (sync_data and self._was_synced), self.storage.report.set_aside
        self._aside, self._was_synced = aside, sync_data
        return state

    def _must_refuse_a_lost_row(self) -> None:
        """Takes one row out of the checkpoint, which must then be refused, and puts it back."""
        layout = Layout(self.disk.data_dir)
        if not layout.version.exists():
            return
        with closing(sqlite3.connect(layout.checkpoint)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = self._damage.choice(sorted(tables))
            rows = sorted(database.execute(f"SELECT * FROM {table}"), key=repr)
            if not rows:
                return
            row = self._damage.choice(rows)
            columns = [column[1] for column in database.execute(f"PRAGMA table_info({table})")]
            database.execute(f"DELETE FROM {table} WHERE {' AND '.join(f'{name} IS ?' for name in columns)}", row)
            database.commit()
            try:
                FileStorage.open(self.disk.data_dir, segment_bytes=self._segment_bytes, threads=self._threads)
            except StorageDamaged as error:
                if error.file != "checkpoint.sqlite":
                    raise AssertionError("another file was blamed") from error
            else:
                raise AssertionError(f"a checkpoint without a row of table {table} was believed: {row!r:.200}")
            finally:
                database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                database.commit()

    def write(self, random: Random) -> None:
        worker = self.storage._journal
        if self._threads.journal.is_dead:
            return
        if worker._first is not None:
            try:
                worker._current = worker._insist(worker._first)
            except _Stalled:
                return
            except Exception as error:  # noqa: BLE001 - as the thread does
                self._threads.journal.is_dead = True
                worker._fail(error)
                return
            worker._first = None
        group, item = self._stalled, self._after
        if not group:
            group, item = self._gathered(random)
        self._stalled, self._after = [], None
        if group:
            try:
                worker._commit(group)
            except _Stalled:
                self._stalled, self._after = group, item
                return
            except Exception as error:  # noqa: BLE001 - as the thread does
                self._threads.journal.is_dead = True
                worker._fail(error)
                return
        if item is not None:
            item.reached(worker._last_group)

    def _gathered(self, random: Random) -> tuple[list[Submission], Barrier | None]:
        """Takes what the journal's thread would take from its queue now, or the first of it, as if the rest came
        later."""
        worker = self.storage._journal
        left = random.choice((0, 1, 1 << 30))

        def get_nowait() -> Any:
            nonlocal left
            if left <= 0:
                raise Empty
            left -= 1
            return worker._queue.get_nowait()

        try:
            item = worker._queue.get_nowait()
        except Empty:
            return [], None
        group: list[Submission] = []
        if isinstance(item, Submission):
            group, item = worker._gather(item, get_nowait)
        return group, item if isinstance(item, Barrier) else None

    def settle(self, random: Random) -> None:
        worker = random.choice((self.storage._background, self.storage._upkeep.background))
        try:
            job = worker._queue.get_nowait()
        except Empty:
            return
        if job is not None:
            try:
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

    def heal(self) -> bool:
        self.disk.heal()
        return not self.disk.owes_failures

    def crash(self, random: Random, *, only_process: bool = False) -> None:
        self._abandon()
        if only_process or random.random() < 0.3:
            self.disk.forget_process()
        else:
            self.power_lost = True
            self.disk.lose_power()

    def give_up(self, random: Random) -> None:
        """Gives up as the runner does: closes, then opens again; the page cache is as it was."""
        try:
            self._end()
            self.storage.close()
        except PowerLost:
            self.crash(random)
        except (StorageError, OSError):
            self._abandon()
        self._is_open = False

    def close(self, state: DurableState) -> None:
        self._end()
        self.storage.close(state)
        self._is_open = False

    def kept_ledgers(self) -> set[int]:
        return set(Layout(self.disk.data_dir).ledger_files())

    def dispose(self) -> None:
        self._abandon()
        self.disk.dispose()

    def _end(self) -> None:
        """The journal that waits for space is told to end: it tries once more."""
        self.storage._journal._ending.set()
        if self._stalled:
            self.write(Random(0))

    def _abandon(self) -> None:
        """Lets go of what a dead process holds, without writing anything."""
        self.disk.dies_at = None
        if self._is_open:
            self._is_open = False
            self.storage._opened.close()  # nothing is written, as if the process had died


def make_store(profile: Profile, random: Random, clock_s: Callable[[], float]) -> Store:
    """The storage that a profile names."""
    if profile.storage == "memory":
        return MemoryStore()
    return FileStore(random, profile.power, profile.segment_bytes, clock_s)
