"""Disks that fail, and processes that die between any two steps of settling, rotating and recycling."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.cursors.records import CursorCreated, CursorMarkDeleted
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageFailed
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from tests.contract.histories import picture
from tests.contract.storages import SMALL_SEGMENT_BYTES, FailingDisk, FileWorld
from tests.entry_runs import run_of
from tests.eventually import eventually

TOPIC = "persistent://public/default/t"


def entry(ledger_id: int, entry_id: int) -> bytes:
    return b"%d:%d/" % (ledger_id, entry_id) + b"." * 3000


def append(world: FileWorld, count: int) -> None:
    ledger = world.state.topics[1].ledger
    assert ledger.open_ledger is not None
    for _ in range(count):
        ledger_id, entry_id = ledger.open_ledger.ledger_id, ledger.open_ledger.entries
        world.apply_and_submit(EntriesAppended(run_of(ledger_id, entry_id, [entry(ledger_id, entry_id)])))


def make_topic(world: FileWorld) -> None:
    world.apply_and_submit(TopicCreated(1, TOPIC, 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))


class FullDisk(Disk):
    """Has no space for new files once `full` is set."""

    full = False

    def preallocate(self, fd: int, size: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().preallocate(fd, size)


def test_on_a_full_disk_what_was_submitted_waits_for_space(tmp_path: Path) -> None:
    # covers DUR-10
    failures: list[StorageFailed] = []
    space: list[tuple[str, bool]] = []
    disk = FullDisk()
    storage, state = FileStorage.open(
        tmp_path,
        disk=disk,
        segment_bytes=SMALL_SEGMENT_BYTES,
        on_failed=failures.append,
        on_disk_full=lambda reason, is_stalled: space.append((reason, is_stalled)),
    )
    confirmed: list[int] = []

    def submit(number: int, *records: Record) -> None:
        for record in records:
            apply(state, record)
        storage.submit(records, lambda _: confirmed.append(number))

    def append(first: int, count: int) -> None:
        for number in range(first, first + count):
            submit(number, EntriesAppended(run_of(1, number, [entry(1, number)])))

    submit(-2, TopicCreated(1, TOPIC, 1, {}))
    submit(-1, *state.records_to_open_ledger(1, 2))
    eventually(lambda: len(confirmed) == 2)
    disk.full = True
    append(0, 15)
    # There is room in the segment yet when the shortage is noticed, for whatever frees space.
    eventually(lambda: space)
    assert "No space left" in space[0][0]
    assert not space[0][1]
    eventually(lambda: confirmed[-1] == 14)
    append(15, 100)
    eventually(lambda: space[-1][1])
    before = len(confirmed)
    assert before < 117
    assert storage.read(1, 0, 1000, 1 << 20)[0].entry(0) == entry(1, 0)
    disk.full = False
    eventually(lambda: len(confirmed) == 117)
    assert confirmed == sorted(confirmed)
    eventually(lambda: space[-1] == ("", False))
    assert failures == []
    storage.close(state)
    assert [finding for finding in check(tmp_path) if finding.severity is Severity.ERROR] == []
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES)
    assert state.ledgers[1].entries == 115
    assert [path.name for path in (tmp_path / "journal").iterdir() if path.stat().st_size < SMALL_SEGMENT_BYTES] == []
    storage.close(state)


def test_closing_on_a_full_disk_does_not_wait_for_space(tmp_path: Path) -> None:
    failures: list[StorageFailed] = []
    disk = FullDisk()
    world = FileWorld(tmp_path)
    make_topic(world)
    world.close()
    storage, state = FileStorage.open(
        world.data_dir, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, on_failed=failures.append
    )
    for record in state.records_to_open_ledger(1, 3):
        apply(state, record)
        storage.submit([record])
    disk.full = True
    for number in range(100):
        record = EntriesAppended(run_of(2, number, [entry(2, number)]))
        apply(state, record)
        storage.submit([record])
    storage.close(state)
    assert len(failures) <= 1
    assert [finding for finding in check(world.data_dir) if finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("step", ["write_durably", "rename", "sync_directory"])
def test_a_segment_that_could_not_be_begun_leaves_nothing_behind(tmp_path: Path, step: str) -> None:
    """No permission for a while, at any step of it."""
    disk = Forbidding()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES)
    confirmed: list[int] = []
    disk.forbidden, disk.left = step, 3
    record = TopicCreated(1, TOPIC, 1, {})
    apply(state, record)
    storage.submit([record], confirmed.append)
    eventually(lambda: confirmed)
    assert disk.left == 0
    assert len(list((tmp_path / "journal").glob("0*"))) == 1
    storage.close(state)
    assert check(tmp_path) == []


class Forbidding(Disk):
    """Refuses one operation as often as `left` says."""

    forbidden = ""
    left = 0

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "forbidden") and self.left > 0:
            self.left -= 1
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return super().__getattribute__(name)


def test_after_a_failed_sync_nothing_is_written_any_more(tmp_path: Path) -> None:
    # covers DUR-10: the kernel may have dropped the pages, so that a second sync would succeed without them
    world = FileWorld(tmp_path)
    make_topic(world)
    append(world, 3)
    world.fail_writes()
    world.storage.submit(world.state.records_to_open_ledger(1, 3))
    eventually(lambda: world.failures)
    before = world.disk.durable_writes
    world.disk.failing = False
    with pytest.raises(StorageFailed):
        world.storage.submit(world.state.records_to_open_ledger(1, 3))
    world.close()
    assert world.disk.durable_writes == before
    assert len(world.failures) == 1


class LyingDisk(FailingDisk):
    """A durable write fails after the system took the bytes: they can be read, and are gone after power loss."""

    def write_durably(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        end = Disk.write_durably(self, fd, buffers, offset)
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return end


def test_a_group_whose_sync_failed_is_written_again_elsewhere(tmp_path: Path) -> None:
    # covers DUR-10: syncing the same pages once more would succeed, and prove nothing
    failures: list[StorageFailed] = []
    disk = LyingDisk()
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, on_failed=failures.append)

    def submit(*records: Record) -> None:
        done: list[int] = []
        for record in records:
            apply(state, record)
        storage.submit(records, done.append)
        eventually(lambda: done or failures)

    submit(TopicCreated(1, TOPIC, 1, {}))
    submit(*state.records_to_open_ledger(1, 2))
    for number in range(3):
        submit(EntriesAppended(run_of(1, number, [entry(1, number)])))
    disk.failing = True
    submit(EntriesAppended(run_of(1, 3, [entry(1, 3)])))
    assert failures
    [old] = storage._segments.in_use.values()
    path, end = old.path, old.write_at
    storage.close()
    disk.failing = False
    storage, state = FileStorage.open(tmp_path, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES)
    assert state.ledgers[1].entries == 4
    assert storage.read(1, 3, 1, 1)[0].entry(3) == entry(1, 3)
    record = state.records_to_open_ledger(1, 3)
    for each in record:
        apply(state, each)
    done: list[int] = []
    storage.submit(record, done.append)
    eventually(lambda: done)
    # Now the power goes: what was never synced is gone.
    copy = tmp_path.with_name("after-power-loss")
    shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("*-shm"))
    with (copy / "journal" / path.name).open("r+b") as file:
        file.seek(end)
        file.write(bytes(SMALL_SEGMENT_BYTES - end))
    storage.close()
    assert [finding for finding in check(copy) if finding.severity is Severity.ERROR] == []
    storage, state = FileStorage.open(copy, segment_bytes=SMALL_SEGMENT_BYTES)
    assert [storage.read(1, number, 1, 1)[0].entry(number) for number in range(4)] == [entry(1, n) for n in range(4)]
    assert len(state.ledgers) == 2
    storage.close()


class FailingCommit(Disk):
    """The next commit is done, and then fails: the broker cannot know that."""

    failing = False

    def commit(self, database: sqlite3.Connection) -> None:
        super().commit(database)
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_after_a_commit_that_may_have_happened_nothing_is_built_on_it(tmp_path: Path) -> None:
    failures: list[StorageFailed] = []
    world = FileWorld(tmp_path)
    make_topic(world)
    append(world, 60)
    world.kill()
    world.dispose()
    disk = FailingCommit()
    storage, state = FileStorage.open(
        world.data_dir, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, on_failed=failures.append
    )
    disk.failing = True
    storage.checkpoint(state)
    eventually(lambda: failures)
    with pytest.raises(StorageFailed):
        storage.submit(state.records_to_open_ledger(1, 3))
    storage.close()
    disk.failing = False
    expect(world.data_dir, [picture(state)], {1: range(60)})


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev

    def short(fd: int, buffers: Sequence[Buffer], offset: int, flags: int = 0) -> int:
        return whole(fd, [b"".join(buffers)[:7]], offset, flags)

    monkeypatch.setattr(os, "pwritev", short)
    parts = [b"%04d" % number for number in range(1500)]
    fd = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    try:
        assert Disk().write(fd, parts, 3) == 6003
        assert os.pread(fd, 10_000, 3) == b"".join(parts)
        assert Disk().read(fd, 6000, 3) == b"".join(parts)
    finally:
        os.close(fd)


class CopyingDisk(Disk):
    """Before each step that changes the disk, hands the moment to `before`; no other thread takes a step meanwhile."""

    def __init__(self, before: Callable[[], None]) -> None:
        self.before = before
        self.stepping = threading.RLock()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in (
            "write",
            "write_durably",
            "sync",
            "sync_directory",
            "preallocate",
            "truncate",
            "rename",
            "remove",
        ):
            return found

        def step(*args: Any, **kwargs: Any) -> Any:
            with self.stepping:
                self.before()
                return found(*args, **kwargs)

        return step


def expect(data_dir: Path, allowed: list[dict[str, Any]], needed: dict[int, range]) -> None:
    """The directory is in order, its state is one of those, and the needed entries are readable."""
    assert [finding for finding in check(data_dir) if finding.severity is Severity.ERROR] == []
    storage, state = FileStorage.open(data_dir, segment_bytes=SMALL_SEGMENT_BYTES)
    assert picture(state) in allowed
    for ledger_id, entries in needed.items():
        if ledger_id not in state.ledgers:
            continue
        at = entries.start
        while at < entries.stop:
            runs = storage.read(ledger_id, at, 100, 1 << 20)
            assert runs, f"{ledger_id}:{at} is unreadable"
            assert runs[0].first_entry_id == at
            for run in runs:
                for at in range(run.first_entry_id, run.end_entry_id):
                    assert run.entry(at) == entry(ledger_id, at)
                at = run.end_entry_id
    storage.close(state)


def test_dying_between_any_two_steps_of_a_checkpoint(tmp_path: Path) -> None:
    """Settling of an open and a sealed ledger, footer, trim of a third, commit, removal, recycling."""
    world = FileWorld(tmp_path / "world")
    make_topic(world)
    append(world, 20)
    for _ in range(2):
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
        append(world, 20)
    world.checkpoint()
    append(world, 20)
    world.apply_and_submit(CursorCreated(1, 1, "sub", 2, 9, 1, {}), LedgersTrimmed(1, (1,)))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    append(world, 30)
    world.apply_and_submit(CursorMarkDeleted(1, 3, 25))
    allowed = [picture(world.state)]
    copies: list[Path] = []

    def copy() -> None:
        to = tmp_path / f"copy-{len(copies)}"
        shutil.copytree(world.data_dir, to, ignore=shutil.ignore_patterns("*-shm"))
        copies.append(to)

    world.files._disk = world.files._segments.disk = world.files._journal._disk = CopyingDisk(copy)
    world.checkpoint()
    allowed.append(picture(world.state))
    copy()
    world.dispose()
    assert len(copies) > 10
    needed = {3: range(26, 40), 4: range(30)}
    for data_dir in copies:
        expect(data_dir, allowed, needed)


def test_dying_between_any_two_steps_of_writing(tmp_path: Path) -> None:
    """Groups, the beginning of new segments, new and recycled."""
    world = FileWorld(tmp_path / "world")
    make_topic(world)
    append(world, 45)
    world.checkpoint()
    pictures = [picture(world.state)]
    copies: list[tuple[Path, int, int]] = []

    def copy() -> None:
        to = tmp_path / f"copy-{len(copies)}"
        before = len(pictures)  # more is confirmed meanwhile when another thread than this one copies
        shutil.copytree(world.data_dir, to, ignore=shutil.ignore_patterns("*-shm"))
        copies.append((to, before, len(pictures)))

    disk = world.files._disk = world.files._segments.disk = world.files._journal._disk = CopyingDisk(copy)
    world.files._journal._write = disk.write_durably
    for _ in range(50):
        append(world, 1)
        pictures.append(picture(world.state))
        if len(pictures) % 10 == 0:
            with disk.stepping:
                copy()
    world.dispose()
    assert len(copies) > 8
    for data_dir, before, after in copies:
        # What was confirmed by then, and perhaps the one that was under way.
        expect(data_dir, pictures[before - 1 : after + 1], {1: range(44 + before)})
