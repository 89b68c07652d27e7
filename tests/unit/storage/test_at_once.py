"""Submits that may wait for a quick disk: done on return, when nothing is under way and the disk does not hang."""

import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.ledger.storage import StorageFailed
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.threads import Threads
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal import journal
from spark_pulsar.storage.journal.journal import AT_ONCE_BYTES, QUICK_S, QUICK_WRITES
from tests.eventually import eventually
from tests.unit.storage.conftest import reopened


class Clock(Threads):
    """Every look at it takes so long."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self._now_s = 0.0

    def now_s(self) -> float:
        self._now_s += self.step_s
        return self._now_s


class WatchedDisk(Disk):
    """Knows who writes durably; can be held and can fail."""

    def __init__(self) -> None:
        self.writers: list[str] = []
        self.let_through = threading.Event()
        self.let_through.set()
        self.error: OSError | None = None

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.error is not None:
            raise self.error
        assert self.let_through.wait(60)
        self.writers.append(threading.current_thread().name)
        return super().write_durably(fd, buffers, offset)


class Opened:
    """A storage on a watched disk that counts up a counter."""

    def __init__(self, data_dir: Path, step_s: float = 0.0) -> None:
        self.disk = WatchedDisk()
        self.failures: list[StorageFailed] = []
        self.clock = Clock(step_s)
        self.storage, self.state = FileStorage.open(
            data_dir, disk=self.disk, threads=self.clock, on_failed=self.failures.append
        )
        self.disk.writers.clear()  # opening wrote too
        self.count = 0
        self.groups: list[int] = []
        """Told by callbacks."""

    def submit(self, *, at_once: bool, name: str = "n") -> bool:
        self.count += 1
        record = CounterSet(name, self.count)
        apply(self.state, record)
        return self.storage.submit([record], self.groups.append, at_once=at_once)

    def calm(self, writes: int = QUICK_WRITES) -> None:
        """Lets the thread write so many times, each awaited, and come to rest."""
        for _ in range(writes):
            told = len(self.groups)
            self.submit(at_once=False)
            eventually(lambda told=told: len(self.groups) > told)  # type: ignore[misc]

    def quick(self) -> None:
        """Until a submit was written at once."""
        self.calm()
        eventually(lambda: self.submit(at_once=True))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of tests is busy: who waits for a quick disk has time."""
    monkeypatch.setattr(journal, "PATIENCE_S", 60.0)


def test_a_quick_disk_is_waited_for(tmp_path: Path) -> None:
    # covers DUR-1, DUR-2
    opened = Opened(tmp_path)
    opened.quick()
    told = len(opened.groups)
    del opened.disk.writers[:]
    assert all(opened.submit(at_once=True) for _ in range(50))
    assert len(opened.disk.writers) == 50
    assert len(opened.groups) == told, "no call back for what is done"
    assert opened.storage.unwritten_bytes == 0
    assert not opened.submit(at_once=False)
    eventually(lambda: len(opened.groups) == told + 1)
    opened.storage._opened.close()  # as if the process had died
    assert reopened(tmp_path).counters["n"] == opened.count


def test_a_slow_disk_is_left_to_the_thread(tmp_path: Path) -> None:
    opened = Opened(tmp_path, step_s=QUICK_S)
    opened.calm()
    assert not any(opened.submit(at_once=True) for _ in range(50))
    opened.storage.close(opened.state)


def test_a_quick_disk_that_hangs_is_waited_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers DUR-15
    monkeypatch.setattr(journal, "PATIENCE_S", 0.05)
    opened = Opened(tmp_path)
    opened.quick()
    eventually(lambda: opened.storage.unwritten_bytes == 0)
    told = list(opened.groups)
    opened.disk.let_through.clear()
    assert not opened.submit(at_once=True)
    assert opened.groups == told
    opened.disk.let_through.set()
    eventually(lambda: len(opened.groups) == len(told) + 1)
    opened.storage.close(opened.state)
    assert reopened(tmp_path).counters["n"] == opened.count


def test_one_slow_write_ends_it_for_some_time(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.quick()
    opened.clock.step_s = QUICK_S
    assert opened.submit(at_once=True)
    opened.clock.step_s = 0.0
    assert not opened.submit(at_once=True)
    eventually(lambda: opened.storage.unwritten_bytes == 0)
    opened.calm(QUICK_WRITES - 2)
    assert not opened.submit(at_once=True)
    eventually(lambda: opened.submit(at_once=True))
    opened.storage.close(opened.state)


def test_what_is_large_is_handed_over(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.quick()
    assert not opened.submit(at_once=True, name="x" * AT_ONCE_BYTES)
    opened.storage.close(opened.state)


def test_nothing_overtakes_what_is_under_way(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.quick()
    opened.disk.let_through.clear()
    assert not opened.submit(at_once=False)
    assert not opened.submit(at_once=True)
    told = list(opened.groups)
    opened.disk.let_through.set()
    eventually(lambda: len(opened.groups) == len(told) + 2)
    assert opened.groups == sorted(opened.groups)
    opened.storage.close(opened.state)
    assert reopened(tmp_path).counters["n"] == opened.count


def test_a_failed_write_is_told_and_nothing_is_written_after_it(tmp_path: Path) -> None:
    # covers DUR-10
    opened = Opened(tmp_path)
    opened.quick()
    durable = opened.count
    opened.disk.error = OSError(errno.EIO, "broken")
    assert not opened.submit(at_once=True)
    assert [type(failure) for failure in opened.failures] == [StorageFailed]
    opened.disk.error = None
    with pytest.raises(StorageFailed):
        opened.submit(at_once=True)
    opened.storage.close()
    assert reopened(tmp_path).counters["n"] == durable
