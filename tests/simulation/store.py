"""What the bytes live on: the same few handles for the storage in memory and the one in files.

Storage works when the world says so: `write` lets the journal put some of what waits on disk, `settle` lets one
background job run. A crash leaves what the disk leaves.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import Protocol

from spark_pulsar.ledger.state import DurableState
from spark_pulsar.ledger.storage import Storage, StorageFailed
from spark_pulsar.storage.memory import MemoryDisk, MemoryStorage


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
