"""The storages under the contract, each with the same few handles for tests."""

import errno
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import Storage, StorageFailed
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.files import FileStorage
from tests.contract.memory_storage import MemoryDisk, MemoryStorage
from tests.eventually import eventually
from tests.in_memory import can_be_asked_for_memory

SMALL_SEGMENT_BYTES = 64 * 1024


class FailingDisk(Disk):
    """A disk whose writes fail once `failing` is set; counts the durable writes."""

    def __init__(self) -> None:
        self.failing = False
        self.durable_writes = 0

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(fd, buffers, offset)

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self.durable_writes += 1
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write_durably(fd, buffers, offset)


class World:
    """A storage that can be opened, closed and killed again and again over the same bytes."""

    storage: Storage
    state: DurableState
    can_be_asked_for_memory = True

    def __init__(self) -> None:
        self.failures: list[StorageFailed] = []
        self.groups: list[int] = []
        self.counts: dict[tuple[int, int], int] = {}
        """Message counts of what `read_all` gave."""

    def open(self) -> DurableState:
        """Open (again) and remember storage and state."""
        raise NotImplementedError

    def kill(self) -> None:
        """End without a word, as kill -9 does after what was submitted is durable."""
        raise NotImplementedError

    def fail_writes(self) -> None:
        """Let the next write of the journal fail."""
        raise NotImplementedError

    def submit(self, records: Sequence[Record]) -> None:
        """Submit, and wait until it is durable."""
        done = threading.Event()

        def on_durable(group: int) -> None:
            self.groups.append(group)
            done.set()

        self.storage.submit(records, on_durable)
        assert done.wait(60), "a submit became not durable within a minute"

    def apply_and_submit(self, *records: Record) -> None:
        """Applies and submits records, as a broker does."""
        for record in records:
            apply(self.state, record)
        self.submit(records)

    def checkpoint(self) -> None:
        """Make a checkpoint and wait until it is done."""
        raise NotImplementedError

    def close(self) -> None:
        """Clean close."""
        self.storage.close(self.state)

    def read_all(self, ledger_id: int, first: int = 0) -> dict[int, bytes]:
        """Every stored entry of a ledger from an entry on, by id."""
        found: dict[int, bytes] = {}
        while runs := self.storage.read(ledger_id, first, 100, 1 << 20):
            for run in runs:
                assert run.ledger_id == ledger_id
                for entry_id in range(run.first_entry_id, run.end_entry_id):
                    found[entry_id] = run.entry(entry_id)
                    index = entry_id - run.first_entry_id
                    self.counts[ledger_id, entry_id] = 1 if run.message_counts is None else run.message_counts[index]
                first = run.end_entry_id
        return found


class FileWorld(World):
    """Files. `kill` leaves the old storage alone and goes on with a copy of the bytes as they are."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__()
        self._root = root
        self._generation = 0
        self._options = {"segment_bytes": SMALL_SEGMENT_BYTES, **options}
        self._left: list[FileStorage] = []
        self.disk = FailingDisk()
        self.open()
        self.can_be_asked_for_memory = can_be_asked_for_memory(self.data_dir)

    @property
    def data_dir(self) -> Path:
        """The present data directory."""
        return self._root / f"data-{self._generation}"

    def open(self) -> DurableState:
        self.disk = FailingDisk()
        storage, self.state = FileStorage.open(
            self.data_dir, on_failed=self.failures.append, disk=self.disk, **self._options
        )
        self.storage = self.files = storage
        return self.state

    def kill(self) -> None:
        if not self.files._closing.is_set():
            self._left.append(self.files)
        old = self.data_dir
        self._generation += 1
        shutil.copytree(old, self.data_dir, ignore=shutil.ignore_patterns("*-shm"))

    def fail_writes(self) -> None:
        self.disk.failing = True

    def checkpoint(self) -> None:
        eventually(lambda: not self.files.checkpointing)
        self.files.checkpoint(self.state)
        eventually(lambda: not self.files.checkpointing)
        if self.files.settle_error is not None:
            raise self.files.settle_error

    def dispose_killed(self) -> None:
        """Let go of threads and files of what was killed."""
        while self._left:
            self._left.pop().close()

    def dispose(self) -> None:
        """Let go of threads and files of everything that was killed or is open."""
        self.dispose_killed()
        if not self.files._closing.is_set():
            self.files.close()


class MemoryWorld(World):
    """Memory."""

    def __init__(self) -> None:
        super().__init__()
        self.memory_disk = MemoryDisk()
        self.open()

    def open(self) -> DurableState:
        storage, self.state = MemoryStorage.open(self.memory_disk, on_failed=self.failures.append)
        self.storage = self.memory = storage
        return self.state

    def kill(self) -> None:
        self.memory.crash()

    def fail_writes(self) -> None:
        self.memory.fail_next_sync(OSError(errno.EIO, os.strerror(errno.EIO)))

    def checkpoint(self) -> None:
        self.memory.checkpoint(self.state)
