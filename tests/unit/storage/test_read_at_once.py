"""Reads of files without waiting: little at once, and nothing stays held."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.storage import entry_reading
from tests.contract.storages import FileWorld
from tests.in_memory import can_be_asked_for_memory
from tests.unit.storage.conftest import append, world_with_a_ledger


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FileWorld]:
    """A topic with ledger 1, in segments that take some megabytes."""
    if not can_be_asked_for_memory(tmp_path):
        pytest.skip("this file system does not tell what is in memory")
    world = world_with_a_ledger(tmp_path, 8 << 20)
    yield world
    world.dispose()


def at_once(world: FileWorld, entry_id: int) -> list[int]:
    found = world.storage.read_at_once(1, entry_id, 1_000, 2 << 20)
    assert all(segment.readers == 0 for segment in world.files._reading.segments.values())
    return [at for run in found for at in range(run.first_entry_id, run.end_entry_id)]


def test_no_more_than_some_runs(world: FileWorld) -> None:
    append(world, *[[b"x"]] * (entry_reading._MOST_RUNS + 8))
    assert at_once(world, 0) == [*range(entry_reading._MOST_RUNS)]
    assert at_once(world, entry_reading._MOST_RUNS) == [*range(entry_reading._MOST_RUNS, entry_reading._MOST_RUNS + 8)]


def test_a_run_of_very_many_entries_is_left_to_who_waits(world: FileWorld) -> None:
    append(world, [b"x"] * entry_reading._MOST_ENTRIES, [b"y"] * (entry_reading._MOST_ENTRIES + 1))
    assert at_once(world, 0) == [*range(1_000)]
    assert at_once(world, 2_000) == [*range(2_000, entry_reading._MOST_ENTRIES)]
    assert at_once(world, entry_reading._MOST_ENTRIES) == []
    assert world.storage.read(1, entry_reading._MOST_ENTRIES, 10, 1_000)


def test_nothing_while_the_index_changes(world: FileWorld) -> None:
    append(world, [b"x"])
    assert at_once(world, 0) == [0]
    with world.files._reading._lock:
        assert at_once(world, 0) == []


def test_what_is_settled_is_left_to_who_waits(world: FileWorld) -> None:
    append(world, *[[b"x" * 1_000_000]] * 12)
    world.checkpoint()
    settled = world.files._files.extents[1].end
    assert 0 < settled < 12
    assert at_once(world, settled - 1) == []
    assert at_once(world, settled) == [*range(settled, min(12, settled + 2))]
