"""Producers faster than settling: full segments are bounded, receipts only come later."""

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageFailed
from spark_pulsar.storage.disk.disk import Buffer, Disk
from spark_pulsar.storage.disk.layout import LEDGER_SUFFIX
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal.back_pressure import MOST_SEGMENTS
from tests.contract.storages import SMALL_SEGMENT_BYTES
from tests.entry_runs import run_of
from tests.eventually import eventually

ENTRY_BYTES = 40_000
"""One fits into a segment, two do not."""


class SlowLedgers(Disk):
    """Writes to ledger files wait until let through, or fail."""

    def __init__(self) -> None:
        self.let_through = threading.Event()
        self.reached = threading.Event()
        self.full = False
        self._ledgers: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        (self._ledgers.add if path.suffix == LEDGER_SUFFIX else self._ledgers.discard)(fd)
        return fd

    def write(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if fd in self._ledgers:
            self.reached.set()
            assert self.let_through.wait(120)
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, buffers, offset)


class Storage:
    """An open storage of small segments."""

    def __init__(self, root: Path) -> None:
        self.disk = SlowLedgers()
        self.failures: list[StorageFailed] = []
        self.root = root
        self.files, self.state = self._open(self.disk)
        self.submitted = 0
        self.durable: list[int] = []
        self.submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
        self.submit(*self.state.records_to_open_ledger(1, 2))

    def _open(self, disk: Disk) -> tuple[FileStorage, DurableState]:
        return FileStorage.open(self.root, disk=disk, segment_bytes=SMALL_SEGMENT_BYTES, on_failed=self.failures.append)

    def submit(self, *records: Record) -> None:
        for record in records:
            apply(self.state, record)
        self.submitted += 1
        self.files.submit(records, self.durable.append)

    def publish(self, entries: int) -> None:
        """Each in a segment of its own, as each is waited for."""
        for _ in range(entries):
            self.publish_one()
            eventually(self.all_durable)

    def publish_one(self) -> None:
        """Without waiting."""
        entry_id = self.state.ledgers[1].entries
        self.submit(EntriesAppended(run_of(1, entry_id, [b"%d/" % entry_id + bytes(ENTRY_BYTES)])))

    def all_durable(self) -> bool:
        return len(self.durable) == self.submitted

    @property
    def in_use(self) -> int:
        return len(self.files._segments.in_use)

    def begin_copying(self) -> None:
        """Full segments, and a checkpoint that is stuck in the first ledger file."""
        self.publish(5)
        self.files.checkpoint(self.state)
        assert self.disk.reached.wait(60)

    def hold_up(self) -> None:
        """Fills as many segments as there may be, with more to write."""
        self.begin_copying()
        self.publish(MOST_SEGMENTS - self.in_use)
        for _ in range(3):
            self.publish_one()
        eventually(self.is_held_up)

    def is_held_up(self) -> bool:
        return self.files._back_pressure.is_waiting

    def assert_nothing_is_lost(self) -> None:
        self.files.close(self.state)
        self.files, self.state = self._open(Disk())
        wanted = self.state.ledgers[1].entries
        for entry_id in range(wanted):
            [run] = self.files.read(1, entry_id, 1, 1)
            assert run.entry(entry_id).startswith(b"%d/" % entry_id)
        assert self.failures == []


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    made = Storage(tmp_path)
    yield made
    made.disk.let_through.set()
    made.files.close()


def test_the_journal_waits_for_settling_when_it_would_begin_one_segment_too_many(storage: Storage) -> None:
    storage.begin_copying()
    storage.publish(MOST_SEGMENTS - storage.in_use)
    assert storage.in_use == MOST_SEGMENTS
    assert not storage.is_held_up()
    storage.publish_one()
    eventually(storage.is_held_up)
    assert storage.in_use == MOST_SEGMENTS
    assert storage.submitted - len(storage.durable) == 1
    storage.disk.let_through.set()
    eventually(storage.all_durable)
    assert storage.in_use < MOST_SEGMENTS
    storage.assert_nothing_is_lost()


def test_acks_and_the_next_checkpoint_wait_and_go_on(storage: Storage) -> None:
    storage.hold_up()
    storage.files.checkpoint(storage.state)  # one is being made already: not another one
    storage.disk.let_through.set()
    # The next one submits records behind what waits, and stands behind it: the journal does not wait for that one.
    eventually(lambda: not storage.files.checkpointing)
    storage.files.checkpoint(storage.state)
    storage.publish(2)
    eventually(lambda: not storage.files.checkpointing)
    assert storage.files.settle_error is None
    storage.assert_nothing_is_lost()


def test_settling_that_fails_holds_up_nobody(storage: Storage) -> None:
    storage.hold_up()
    storage.disk.full = True
    storage.disk.let_through.set()
    eventually(storage.all_durable)
    assert storage.in_use > MOST_SEGMENTS
    eventually(lambda: isinstance(storage.files.settle_error, OSError))
    storage.disk.full = False
    storage.files.checkpoint(storage.state)
    eventually(lambda: not storage.files.checkpointing)
    assert storage.in_use < MOST_SEGMENTS
    storage.assert_nothing_is_lost()


def test_closing_writes_what_was_held_up(storage: Storage) -> None:
    storage.hold_up()
    closing = threading.Thread(target=storage.files.close, daemon=True)
    closing.start()
    eventually(storage.all_durable)
    storage.disk.let_through.set()
    closing.join(60)
    assert not closing.is_alive()
    storage.files, storage.state = storage._open(Disk())
    storage.assert_nothing_is_lost()
