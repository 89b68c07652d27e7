"""Spare segments outlast a burst for a while, unless the disk is needed for something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spark_pulsar.storage.disk.directory_lock import lock_for_writing
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.disk.threads import Threads
from spark_pulsar.storage.journal.segment_upkeep import KEEP_SPARES_S, SegmentUpkeep, Space
from spark_pulsar.storage.journal.segments import MAX_SPARES, MIN_SPARES, SegmentFiles


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


def test_spares_outlast_pauses_between_bursts_and_are_given_back_afterwards(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    lock_for_writing(layout).close()
    files = SegmentFiles(Disk(), layout, 65_536, synced=True)
    threads = _Clocked()
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
    files.close()


def test_spares_make_room_when_the_disk_is_needed_for_something_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    lock_for_writing(layout).close()
    files = SegmentFiles(Disk(), layout, 65_536, synced=True)
    threads = _Clocked()
    upkeep = SegmentUpkeep(files, Space(None), lambda: False, threads)
    upkeep.note_load(is_burst=True)
    for segment in [files.begin(number, 100) for number in range(8)]:
        files.recycle(segment)
    upkeep.give_back()
    upkeep.note_load(is_burst=False)
    threads.advance(KEEP_SPARES_S)
    upkeep.background.close()
    assert (len(files._spares), threads.due) == (MIN_SPARES, [])
    files.close()
