"""Random damage anywhere in a data directory: a typed error or a sound state, never anything else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from tests.contract.histories import History, picture
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld

SOME = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Made:
    """A data directory with everything in it, the pictures of its states, and its entries."""

    def __init__(self, root: Path) -> None:
        world = FileWorld(root)
        self.history = History(world.state, 11)
        self.pictures = []
        for turn in range(60):
            world.submit(self.history.submit(5))
            self.pictures.append(picture(world.state))
            if turn in (30, 45):
                world.checkpoint()
                self.pictures.append(picture(world.state))
        world.kill()
        world.dispose()
        self.data_dir = world.data_dir
        names = [path for path in sorted(self.data_dir.rglob("*")) if path.is_file() and path.stat().st_size]
        self.files = [path.relative_to(self.data_dir) for path in names if not path.name.startswith(("LOCK", "spare"))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


@SOME
@given(data=st.data())
def test_damage_is_reported_or_harmless(made: Made, tmp_path: Path, data: st.DataObject) -> None:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made.data_dir, copy)
    path = copy / data.draw(st.sampled_from(made.files))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["flip", "overwrite", "cut", "zero"]))
    if how == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "overwrite":
        garbage = data.draw(st.binary(min_size=1, max_size=40))
        content[at : at + len(garbage)] = garbage
    elif how == "cut":
        del content[at:]
    else:
        content[at : at + 600] = bytes(len(content[at : at + 600]))
    path.write_bytes(content)
    findings = check(copy)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    try:
        storage, state = FileStorage.open(copy, segment_bytes=SMALL_SEGMENT_BYTES)
    except StorageError:
        assert errors, "what cannot be opened is explained"
        return
    try:
        verify(storage, state, made, is_in_order=not errors)
    finally:
        storage.close()


def verify(storage: FileStorage, state: DurableState, made: Made, *, is_in_order: bool) -> None:
    """The state is one that was there, or the topics that may not be as they were are marked; what can be read is what
    was written."""
    if is_in_order:
        # A cut last group leaves an earlier state.
        assert picture(state) in made.pictures
    for topic in state.topics.values():
        if not topic.damages:
            now = picture(state)["topics"][topic.name]
            assert any(now == past["topics"].get(topic.name) for past in made.pictures), (
                f"{topic.name} changed unnoticed"
            )
        for info in topic.ledger.ledgers.values():
            first = needed = state.first_needed_entry(info.ledger_id) or 0
            while first < info.entries:
                try:
                    runs = storage.read(info.ledger_id, first, 50, 1 << 20)
                except StorageDamaged as error:
                    assert not is_in_order, "what cannot be read is explained"
                    [(_, low, high)] = error.lost
                    assert low <= first < high
                    first = high
                    continue
                assert runs, f"{info}: {first} is nowhere, needed from {needed}"
                for run in runs:
                    for entry_id in range(run.first_entry_id, run.end_entry_id):
                        assert run.entry(entry_id) == made.history.entries[info.ledger_id][entry_id]
                    first = run.end_entry_id
