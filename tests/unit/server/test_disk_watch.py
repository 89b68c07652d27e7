"""Watch over the disk: one line and one call when it hangs, and when it goes on."""

import threading

import pytest

from spark_pulsar.server.disk_watch import HANGS_AFTER_S, SLOW_AFTER_S, DiskWatch
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.pending_operations import Underway, WatchedDisk
from spark_pulsar.storage.disk.threads import JOURNAL_THREAD


class World:
    """A watch, its clock, and what it reported."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.changes: list[str] = []
        self.underway = Underway(lambda: self.now_s)
        self.watch = DiskWatch(self.underway, self.changes.append, period_s=1e6)

    def begin(self, name: str) -> threading.Event:
        """Begins an operation in a thread of this name; it ends with the event."""
        begun, end = threading.Event(), threading.Event()

        def run() -> None:
            with self.underway.operation("a write"):
                begun.set()
                end.wait(30)

        self.thread = threading.Thread(target=run, name=name)
        self.thread.start()
        assert begun.wait(10)
        return end

    def end(self, event: threading.Event) -> None:
        event.set()
        self.thread.join(10)


def test_receipts_that_wait_make_it_a_hang(caplog: pytest.LogCaptureFixture) -> None:
    # covers DUR-15
    world = World()
    world.watch.check()
    end = world.begin(JOURNAL_THREAD)
    world.now_s += HANGS_AFTER_S - 0.1
    world.watch.check()
    assert world.changes == []
    world.now_s += 0.1
    for _ in range(3):
        world.watch.check()
        world.now_s += 1
    assert world.changes == ["the disk hangs, a write takes more than 5 s"]
    world.end(end)
    world.watch.check()
    world.watch.check()
    assert world.changes[1:] == [""]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    world.watch.close()


def test_what_no_receipt_waits_for_is_slow(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    end = world.begin("settler")
    world.now_s += SLOW_AFTER_S - 0.1
    world.watch.check()
    assert caplog.messages == []
    world.now_s += 0.1
    world.watch.check()
    world.watch.check()
    assert caplog.messages == ["the disk is slow, a write takes more than 60 s; receipts do not wait for it"]
    world.end(end)
    world.watch.check()
    assert (world.changes, len(caplog.messages)) == ([], 2)
    world.watch.close()


def test_no_operation_of_the_disk_is_left_out() -> None:
    operations = {name for name in vars(Disk) if not name.startswith("_")} - {"opened"}  # which opens
    assert operations <= vars(WatchedDisk).keys()
