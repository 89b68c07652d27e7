"""Group commit, through an open storage on a disk that can be held; segments, and how long spare ones stay."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.disk.threads import Threads
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal.groups import SEGMENT_HEADER_BYTES
from spark_pulsar.storage.journal.journal import GROUP_TARGET_BYTES
from spark_pulsar.storage.journal.segment_upkeep import KEEP_SPARES_S, SegmentUpkeep, Space
from spark_pulsar.storage.journal.segments import MAX_SPARES, MIN_SPARES, Segment, SegmentFiles
from tests.contract.storages import FileWorld
from tests.eventually import eventually
from tests.unit.storage.conftest import append


class HeldDisk(Disk):
    """Durable writes wait until let through."""

    def __init__(self) -> None:
        self.let_through = threading.Event()
        self.waiting = threading.Event()
        self.written: list[int] = []

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self.waiting.set()
        assert self.let_through.wait(60)
        self.written.append(sum(map(len, buffers)))
        return super().write_durably(fd, buffers, offset)


def held(tmp_path: Path) -> tuple[FileStorage, HeldDisk, Callable[[], None]]:
    """A storage whose journal waits in the write of a group."""
    disk = HeldDisk()
    disk.let_through.set()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=1 << 20)
    begun: list[int] = []
    storage.submit([], begun.append)
    eventually(lambda: begun)
    disk.let_through.clear()
    disk.waiting.clear()
    disk.written.clear()
    record = CounterSet("first", 1)
    apply(state, record)
    storage.submit([record])
    assert disk.waiting.wait(60)

    def finish() -> None:
        disk.let_through.set()
        storage.close(state)

    return storage, disk, finish


def test_what_is_submitted_during_a_write_becomes_one_group(tmp_path: Path) -> None:
    # covers DUR-2
    storage, disk, finish = held(tmp_path)
    groups: list[int] = []
    for number in range(1000):
        storage.submit([CounterSet("n", number)], groups.append)
    assert groups == [], "nothing is confirmed before it is durable"
    assert storage.unwritten_bytes > 1000
    disk.let_through.set()
    eventually(lambda: len(groups) == 1000)
    assert len(set(groups)) == 1
    assert len(disk.written) == 2
    finish()


def test_a_group_stops_growing_at_its_target(tmp_path: Path) -> None:
    storage, disk, finish = held(tmp_path)
    groups: list[int] = []
    large = GROUP_TARGET_BYTES // 4
    for number in range(6):
        storage.submit([TopicCreated(number + 1, "x" * large, 1, {})], groups.append)
    disk.let_through.set()
    eventually(lambda: len(groups) == 6)
    assert [groups.count(group) for group in sorted(set(groups))] == [4, 2]
    finish()


def test_a_submit_larger_than_a_segment_gets_one_of_its_own(world: FileWorld) -> None:
    large = bytes(range(256)) * 2000
    append(world, [large], [b"small"])
    sizes = [path.stat().st_size for path in sorted((world.data_dir / "journal").glob("0*"))]
    assert max(sizes) > len(large)
    world.kill()
    world.open()
    assert world.read_all(1) == {0: large, 1: b"small"}
    world.checkpoint()
    eventually(lambda: max(path.stat().st_size for path in (world.data_dir / "journal").iterdir()) < len(large))
    assert world.read_all(1) == {0: large, 1: b"small"}


def test_too_much_at_once_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.storage.journal.journal.MAX_SUBMIT_BYTES", 1000)
    storage, _ = FileStorage.open(tmp_path, segment_bytes=1 << 20)
    with pytest.raises(ValueError, match="the limit is 1000"):
        storage.submit([TopicCreated(1, "x" * 1000, 1, {})])
    storage.submit([TopicCreated(1, "x" * 500, 1, {})])
    storage.close()


def test_spare_segments_are_few(world: FileWorld) -> None:
    append(world, *[[b"x" * 9000]] * 60)
    assert len(list((world.data_dir / "journal").iterdir())) > 8
    world.checkpoint()
    eventually(lambda: len(list((world.data_dir / "journal").iterdir())) <= MIN_SPARES + 2)
    assert len(world.read_all(1)) == 60


@pytest.mark.parametrize("fill", [True, False])
def test_a_new_spare_has_zeros_or_is_left_bare(segments: SegmentFiles, fill: bool) -> None:
    files = segments
    assert files.prepare_spare(fill=fill)
    assert not files.prepare_spare(fill=fill)
    segment = files.begin(1, 100)
    assert segment.size == segment.path.stat().st_size == 65_536
    assert segment.path.stat().st_blocks * 512 >= 65_536  # a write inside cannot fail for lack of space
    assert (segment.filled_to == segment.size) is fill
    segment.fill_ahead(files.disk)
    assert segment.filled_to == segment.size
    assert segment.path.read_bytes()[SEGMENT_HEADER_BYTES:] == bytes(65_536 - SEGMENT_HEADER_BYTES)
    files.recycle(segment)
    assert files.begin(2, 100).filled_to == 65_536


def test_a_segment_that_is_recycled_while_it_is_filled_gets_no_zeros_any_more(tmp_path: Path, layout: Layout) -> None:
    class Slow(Disk):
        """Between opening a file to fill it and filling it, the segment is settled, recycled and written anew."""

        after: Segment | None = None

        def open(self, path: Path, flags: int) -> int:
            fd = super().open(path, flags)
            if path == segment.path and self.after is None:
                self.after = segment  # what is opened meanwhile is opened as ever
                files.recycle(segment)
                self.after = files.begin(2, 40_000)
                os.pwrite(self.after.fd, b"receipted", 40_000)
            return fd

    disk = Slow()
    segment = Segment(tmp_path / "none", -1, 0, 0, b"", 0)
    files = SegmentFiles(disk, layout, 65_536, synced=True)
    segment = files.begin(1, 100)
    segment.fill_ahead(disk)
    assert disk.after is not None
    assert os.pread(disk.after.fd, 9, 40_000) == b"receipted"
    files.close()


def test_spare_segments_of_a_burst_are_given_back(segments: SegmentFiles, layout: Layout) -> None:
    files = segments
    files.wanted_spares = MAX_SPARES
    for segment in [files.begin(number, 100) for number in range(MAX_SPARES + 5)]:
        files.recycle(segment)
    assert len(files._spares) == MAX_SPARES
    files.wanted_spares = MIN_SPARES
    files.release()
    assert len(files._spares) == MIN_SPARES
    assert len(list(layout.journal.iterdir())) == MIN_SPARES


class _Clocked(Threads):
    """The machine's, with a clock of the test, which also makes the calls that are due."""

    def __init__(self) -> None:
        self.now = 5.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def now_s(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, call))

    def advance(self, seconds: float) -> None:
        """Let that time pass."""
        self.now += seconds
        due, self.due = self.due, []
        for at_s, call in due:
            if at_s <= self.now:
                call()
            else:
                self.due.append((at_s, call))


def test_spares_outlast_pauses_between_bursts_and_are_given_back_afterwards(segments: SegmentFiles) -> None:
    files, threads = segments, _Clocked()
    upkeep = SegmentUpkeep(files, Space(None), lambda: False, threads)
    upkeep.note_load(is_burst=False)
    assert files.wanted_spares == MIN_SPARES, "nothing was written yet"
    upkeep.note_load(is_burst=True)
    for segment in [files.begin(number, 100) for number in range(8)]:
        files.recycle(segment)
    for _ in range(5):
        threads.advance(KEEP_SPARES_S / 2)
        upkeep.note_load(is_burst=False)
        assert (files.wanted_spares, len(files._spares)) == (MAX_SPARES, 8)
        upkeep.note_load(is_burst=True)
        assert len(threads.due) == 1
    threads.advance(KEEP_SPARES_S / 2)  # the load of a broker at rest is not noted
    assert files.wanted_spares == MAX_SPARES
    threads.advance(KEEP_SPARES_S / 2)
    assert (files.wanted_spares, threads.due) == (MIN_SPARES, [])
    upkeep.background.close()
    assert len(files._spares) == MIN_SPARES


def test_spares_make_room_when_the_disk_is_needed_for_something_else(segments: SegmentFiles) -> None:
    files, threads = segments, _Clocked()
    upkeep = SegmentUpkeep(files, Space(None), lambda: False, threads)
    upkeep.note_load(is_burst=True)
    for segment in [files.begin(number, 100) for number in range(8)]:
        files.recycle(segment)
    upkeep.give_back()
    upkeep.note_load(is_burst=False)
    threads.advance(KEEP_SPARES_S)
    upkeep.background.close()
    assert (len(files._spares), threads.due) == (MIN_SPARES, [])
