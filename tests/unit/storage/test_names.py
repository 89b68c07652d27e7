"""Names of files: what is promised survives power loss, wherever the process before was killed."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from spark_pulsar.ledger.records import CounterSet
from tests.simulation.disk import PowerLost
from tests.simulation.store import FileStore


def _promise(store: FileStore, value: int) -> bool:
    """Open the storage and write a record; whether it was reported on disk."""
    done: list[int] = []
    store.open(lambda _failed: None, sync_data=True)
    store.storage.submit([CounterSet("promised", value)], done.append)
    for _ in range(5):
        store.write(Random(0))
    return bool(done)


@pytest.mark.parametrize("died_at", range(1, 20))
def test_a_kill_while_files_are_made_and_then_a_power_loss(died_at: int) -> None:
    # covers DUR-1, DUR-9
    store = FileStore(Random(1), "lose", 8_192, lambda: 0.0)
    try:
        store.disk.dies_at = died_at
        with suppress(PowerLost):
            _promise(store, 1)
        store.crash(Random(0), only_process=True)
        assert _promise(store, 2)
        store._abandon()
        store.disk.lose_power()
        state = store.open(lambda _failed: None, sync_data=True)
        assert state.counters["promised"] == 2
    finally:
        store.dispose()


def test_the_last_group_of_a_failed_sync_is_on_disk_before_it_is_served_by_a_full_disk() -> None:
    # covers DUR-1, DUR-3
    store = FileStore(Random(1), "lose", 8_192, lambda: 0.0)
    try:
        assert _promise(store, 1)
        store.fail_next_write()
        store.storage.submit([CounterSet("promised", 2)])
        store.write(Random(0))
        store.crash(Random(0), only_process=True)
        store.fill_up()
        seen = store.open(lambda _failed: None, sync_data=True).counters["promised"]
        store._abandon()
        store.disk.lose_power()
        store.heal()
        assert store.open(lambda _failed: None, sync_data=True).counters["promised"] == seen
    finally:
        store.dispose()
