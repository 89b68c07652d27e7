"""Names of files: what is promised survives power loss, wherever the process before was killed."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.storage.disk.disk import Disk
from tests.simulation.disk import PowerLost
from tests.simulation.store import FileStore


@pytest.fixture
def store() -> Iterator[FileStore]:
    made = FileStore(Random(1), "lose", 8_192, lambda: 0.0)
    yield made
    made.dispose()


def _promise(store: FileStore, value: int) -> bool:
    """Open the storage and write a record; whether it was reported on disk."""
    done: list[int] = []
    store.open(lambda _failed: None, sync_data=True)
    store.storage.submit([CounterSet("promised", value)], done.append)
    for _ in range(5):
        store.write(Random(0))
    return bool(done)


def _end_with_a_failed_sync(store: FileStore) -> None:
    """One record is on disk, the sync of a second one failed, and the process was killed."""
    assert _promise(store, 1)
    store.fail_next_write()
    store.storage.submit([CounterSet("promised", 2)])
    store.write(Random(0))
    store.crash(Random(0), only_process=True)


@pytest.mark.parametrize("died_at", range(1, 20))
def test_a_kill_while_files_are_made_and_then_a_power_loss(store: FileStore, died_at: int) -> None:
    # covers DUR-1, DUR-9
    store.disk.dies_at = died_at
    with suppress(PowerLost):
        _promise(store, 1)
    store.crash(Random(0), only_process=True)
    assert _promise(store, 2)
    store._abandon()
    store.disk.lose_power()
    state = store.open(lambda _failed: None, sync_data=True)
    assert state.counters["promised"] == 2


def test_the_last_group_of_a_failed_sync_is_on_disk_before_it_is_served_by_a_full_disk(store: FileStore) -> None:
    # covers DUR-1, DUR-3
    _end_with_a_failed_sync(store)
    store.fill_up()
    seen = store.open(lambda _failed: None, sync_data=True).counters["promised"]
    store._abandon()
    store.disk.lose_power()
    store.heal()
    assert store.open(lambda _failed: None, sync_data=True).counters["promised"] == seen


def test_the_last_group_of_a_failed_sync_is_no_hole_under_a_life_that_syncs_nothing(store: FileStore) -> None:
    # covers DUR-3, DUR-5
    _end_with_a_failed_sync(store)
    seen = store.open(lambda _failed: None, sync_data=False).counters["promised"]
    store.storage.submit([CounterSet("not synced", 3)])
    for _ in range(5):
        store.write(Random(0))
    store._abandon()
    store.disk.lose_power()
    assert store.open(lambda _failed: None, sync_data=True).counters["promised"] == seen


def test_a_segment_that_could_not_be_begun_does_not_come_back(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers DUR-1, DUR-10: at opening, its name was given and could not be made durable; the old segment goes on
    kind = type(store.disk)
    named: list[Path] = []
    failed: list[Path] = []

    def rename(disk: Disk, old: Path, new: Path) -> None:
        real_rename(disk, old, new)
        named.append(new)

    def sync_directory(disk: Disk, path: Path) -> None:
        if named and not failed:
            failed.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_sync(disk, path)

    real_rename, real_sync = kind.rename, kind.sync_directory
    assert _promise(store, 1)
    store.crash(Random(0), only_process=True)
    with monkeypatch.context() as patched:
        patched.setattr(kind, "rename", rename)
        patched.setattr(kind, "sync_directory", sync_directory)
        assert store.open(lambda _failed: None, sync_data=True).counters["promised"] == 1
    assert failed
    done: list[int] = []
    for value in (2, 3):
        store.storage.submit([CounterSet("promised", value)], done.append)
        for _ in range(5):
            store.write(Random(0))
    assert len(done) == 2
    store._abandon()
    changes = store.disk._name_changes
    renames = [index for index, change in enumerate(changes) if change[1] == "rename"]
    for change in changes[: renames[-1] + 1] if renames else []:  # all but what removed it again
        store.disk._make_name_durable(change)
    changes.clear()
    store.disk.lose_power()
    assert store.open(lambda _failed: None, sync_data=True).counters["promised"] == 3
