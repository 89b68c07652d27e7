"""A sync or a commit that failed is tried again nowhere: with a journal that is not synced, and while closing."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageError, StorageFailed
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.files import FileStorage
from tests.contract.histories import picture
from tests.contract.storages import SMALL_SEGMENT_BYTES
from tests.entry_runs import run_of
from tests.eventually import eventually

TOPIC = "persistent://public/default/t"


class OnceNotSyncing(Disk):
    """The next sync of a segment fails, and may never be tried again on the same pages: a second one would succeed."""

    def __init__(self) -> None:
        self.failing = False
        self.distrusted: set[int] = set()
        """Inodes."""

    def sync(self, fd: int) -> None:
        if threading.current_thread().name == "segments":
            super().sync(fd)  # zeros ahead of the writer, through a descriptor of their own: they may come at any time
            return
        inode = os.fstat(fd).st_ino
        assert inode not in self.distrusted, "synced again after it failed"
        if self.failing:
            self.distrusted.add(inode)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)


def test_an_unsynced_segment_whose_sync_failed_is_written_to_another_file(tmp_path: Path) -> None:
    # covers DUR-10
    failures: list[StorageFailed] = []
    disk = OnceNotSyncing()
    storage, state = FileStorage.open(
        tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, on_failed=failures.append, sync_data=False
    )
    records: list[Record] = [TopicCreated(1, TOPIC, 1, {}), EntriesAppended(run_of(1, 0, [b"entry"]))]
    apply(state, records[0])
    records[1:1] = state.records_to_open_ledger(1, 2)
    for record in records[1:]:
        apply(state, record)
    storage.submit(records)
    [path] = eventually(lambda: list(tmp_path.glob("journal/0*.journal")))
    disk.failing = True
    storage.checkpoint(state)
    eventually(lambda: failures)
    storage.close(state)
    disk.failing = False
    assert disk.distrusted == {path.stat().st_ino}
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, sync_data=False)
    assert path.stat().st_ino not in disk.distrusted
    assert storage.read(1, 0, 1, 1)[0].entry(0) == b"entry"
    storage.close(state)


class FullToo(OnceNotSyncing):
    """A disk that may be full, too: written blocks can be overwritten then, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.written: dict[int, int] = {}
        """Bytes of files that were written durably from their beginning on, by inode."""

    def preallocate(self, fd: int, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().preallocate(fd, size)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        end = super().write_durably(fd, buffers, offset)
        inode = os.fstat(fd).st_ino
        if self.written.get(inode, 0) == offset:
            self.written[inode] = end
        return end


def test_an_unsynced_segment_is_overwritten_where_it_stands_when_the_disk_is_full(tmp_path: Path) -> None:
    # covers DUR-9, DUR-10: groups that are synced from now on rest on it
    disk = FullToo()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, sync_data=False)
    record = TopicCreated(1, TOPIC, 1, {})
    apply(state, record)
    written: list[int] = []
    storage.submit([record], written.append)
    eventually(lambda: written)
    [path] = tmp_path.glob("journal/0*.journal")
    disk.failing = True
    with pytest.raises(StorageError):
        storage.close(state)
    disk.failing, disk.is_full = False, True
    disk.written.clear()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES)
    assert TOPIC in state.topics_by_name
    assert disk.written[path.stat().st_ino] > path.read_bytes().index(TOPIC.encode())
    disk.is_full = False
    storage.close()


class UncertainCommit(Disk):
    """The next commits are done, and then fail: the broker cannot know that."""

    failing = False
    failed = 0

    def commit(self, database: sqlite3.Connection) -> None:
        super().commit(database)
        if self.failing:
            self.failed += 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_closing_builds_nothing_on_a_checkpoint_that_may_have_failed(tmp_path: Path) -> None:
    disk = UncertainCommit()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES)
    record = TopicCreated(1, TOPIC, 1, {})
    apply(state, record)
    storage.submit([record])
    disk.failing = True
    storage.checkpoint(state)
    storage.close(state)
    assert disk.failed == 1
    storage, again = FileStorage.open(tmp_path, segment_bytes=SMALL_SEGMENT_BYTES)
    assert picture(again) == picture(state)
    storage.close(again)
