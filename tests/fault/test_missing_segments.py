"""Segment files that are gone: told, never passed over, and what is written afterwards stays."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.cursors.records import CursorCreated
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.checkpoint.checkpoint import Checkpoint
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from tests.contract.storages import FileWorld
from tests.entry_runs import run_of

TOPIC = "persistent://public/default/t"


class Made:
    """A topic, its entries in several segments, of which the checkpoint still needs all but the first ones."""

    def __init__(self, root: Path) -> None:
        self.world = world = FileWorld(root)
        world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
        world.apply_and_submit(CursorCreated(1, 1, "sub", -1, -1, 1, {}))
        self._append(40)
        world.checkpoint()
        self._append(60)
        world.close()  # a checkpoint of the state that copies nothing: entries before it are in the journal alone
        self.layout = Layout(world.data_dir)
        checkpoint = Checkpoint(self.layout)
        self.first_segment = checkpoint.mark().first_segment
        checkpoint.close()
        self.needed = [number for number in self.layout.segments() if number >= self.first_segment]
        assert len(self.needed) > 2

    def _append(self, count: int) -> None:
        ledger = self.world.state.topics[1].ledger
        for _ in range(count):
            entry_id = ledger.total_entries
            run = run_of(1, entry_id, [b"%d/" % entry_id + b"." * 3000])
            self.world.apply_and_submit(EntriesAppended(run))

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            self.layout.segment(number).unlink()

    def errors(self) -> list[str]:
        return [finding.text for finding in check(self.layout.root) if finding.severity is Severity.ERROR]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_missing_first_segment_is_found(made: Made) -> None:
    made.remove(made.first_segment)
    assert any(f"segment {made.first_segment} is missing" in text for text in made.errors())
    state = made.world.open()
    [damage] = state.topics[1].damages
    assert damage.ledger_id == 1
    assert damage.end > damage.first
    with pytest.raises(StorageDamaged, match="missing"):
        made.world.storage.read(1, damage.first, 10, 1 << 20)
    # What is there after it, and before it, is read as ever.
    assert made.world.read_all(1, damage.end)[99].startswith(b"99/")
    assert made.world.storage.read(1, 0, 1, 1)[0].entry(0).startswith(b"0/")
    made.world.close()
    _, done = repair(made.layout.root)
    assert any(TOPIC in line for line in done)
    assert made.errors() == []


@pytest.mark.parametrize("spares", [True, False])
def test_a_journal_without_segments_is_found_and_what_comes_then_stays(made: Made, spares: bool) -> None:
    made.remove(*made.layout.segments())
    if not spares:
        for path in made.layout.spares().values():
            path.unlink()
    assert any("it is not known what came after" in text for text in made.errors())
    state = made.world.open()
    assert [damage.end for damage in state.topics[1].damages] == [100]
    made.world.apply_and_submit(CounterSet("kept", 7))
    for _ in range(2):
        made.world.kill()
        made.world.dispose_killed()
        assert made.world.open().counters["kept"] == 7
    made.world.close()
    repair(made.world.data_dir)
    assert [finding for finding in check(made.world.data_dir) if finding.severity is Severity.ERROR] == []
    assert made.world.open().counters["kept"] == 7
    made.world.dispose()


def test_a_first_segment_with_another_number_is_in_order(tmp_path: Path) -> None:
    """The first attempt at a segment took a number, and found the disk full."""
    world = FileWorld(tmp_path)
    answers = iter([OSError(errno.ENOSPC, "full")])
    preallocate = world.disk.preallocate

    def first_fails(fd: int, size: int) -> None:
        for error in answers:
            raise error
        preallocate(fd, size)

    world.disk.preallocate = first_fails  # type: ignore[method-assign]
    world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
    world.close()
    assert 1 not in Layout(world.data_dir).segments()
    assert check(world.data_dir) == []
    assert world.open().topics[1].damages == []
    world.dispose()
