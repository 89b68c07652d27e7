"""Data directories of storages: locked, left by a broker, with a topic and its ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.disk.directory_lock import lock_for_writing
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal.segments import SegmentFiles
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.entry_runs import run_of


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A data directory that was locked once."""
    made = Layout(tmp_path)
    lock_for_writing(made).close()
    return made


@pytest.fixture
def segments(layout: Layout) -> Iterator[SegmentFiles]:
    """Segments of 64 KB."""
    files = SegmentFiles(Disk(), layout, 65_536, synced=True)
    yield files
    files.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FileWorld]:
    made = world_with_a_ledger(tmp_path)
    yield made
    made.dispose()


def world_with_a_ledger(root: Path, segment_bytes: int = SMALL_SEGMENT_BYTES) -> FileWorld:
    """A storage with topic 1 and its ledger 1."""
    world = FileWorld(root, segment_bytes=segment_bytes)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    return world


def append(world: FileWorld, *runs: list[bytes], ledger_id: int = 1) -> None:
    """Appends runs of entries to a ledger."""
    for entries in runs:
        first = world.state.ledgers[ledger_id].entries
        world.apply_and_submit(EntriesAppended(run_of(ledger_id, first, entries)))


def reopened(path: Path) -> DurableState:
    """Opens a data directory as a broker does, and closes it; the state that it had."""
    storage, state = FileStorage.open(path)
    storage.close(state)
    return state
