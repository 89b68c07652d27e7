"""Settling and checkpoints of an open storage."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.cursors.records import CursorCreated, CursorMarkDeleted
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.offline.check import Severity, check
from tests.contract.histories import picture
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.unit.storage.conftest import append as append_entries


def entry(entry_id: int) -> bytes:
    return b"%d/" % entry_id + b"." * 3000


def append(world: FileWorld, count: int) -> None:
    """Appends so many entries to the open ledger."""
    ledger = world.state.topics[1].ledger.open_ledger
    assert ledger is not None
    append_entries(world, *([entry(ledger.entries + number)] for number in range(count)), ledger_id=ledger.ledger_id)


def ledger_files(world: FileWorld) -> list[str]:
    return sorted(path.name for path in (world.data_dir / "ledgers").iterdir())


def test_a_ledger_that_all_subscriptions_have_left_is_not_written_again(world: FileWorld) -> None:
    # covers TRIM-2
    world.apply_and_submit(CursorCreated(1, 1, "sub", -1, -1, 9, {}))
    append(world, 50)
    assert world.files.needs_checkpoint()
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
    append(world, 1)
    world.apply_and_submit(CursorMarkDeleted(1, 2, 0))
    world.checkpoint()
    assert ledger_files(world) == []
    assert not world.files.needs_checkpoint()
    assert world.read_all(2) == {0: entry(0)}


def test_needed_entries_move_to_the_ledgers_file(world: FileWorld) -> None:
    append(world, 50)
    world.checkpoint()
    assert ledger_files(world) == ["000000000001.ledger"]
    live = [path for path in (world.data_dir / "journal").iterdir() if not path.name.startswith("spare")]
    assert len(live) == 1
    assert world.read_all(1) == {entry_id: entry(entry_id) for entry_id in range(50)}
    append(world, 50)
    world.checkpoint()
    world.kill()
    assert check(world.data_dir) == []
    world.open()
    assert world.read_all(1) == {entry_id: entry(entry_id) for entry_id in range(100)}


def test_a_sealed_ledger_ends_in_its_table(world: FileWorld) -> None:
    append(world, 10)
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
    append(world, 40)
    world.checkpoint()
    assert world.files._files.extents[1].sealed
    assert not world.files._files.extents[2].sealed
    assert (world.data_dir / "ledgers" / "000000000001.ledger").read_bytes().endswith(b"SPLF")
    world.kill()
    assert check(world.data_dir) == []
    world.open()
    assert len(world.read_all(1)) == 10
    assert len(world.read_all(2)) == 40


def test_reading_goes_on_while_settling(world: FileWorld) -> None:
    append(world, 30)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set() and not wrong:
            try:
                if world.read_all(1, 3).keys() < set(range(3, 30)):
                    wrong.append("an entry is missing")
            except Exception as error:  # noqa: BLE001 - told to the test
                wrong.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(6):
            append(world, 25)
            world.checkpoint()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert wrong == []


class Gap:
    """A lock after whose first release something else happens."""

    def __init__(self, lock: threading.Lock, happens: Callable[[], None]) -> None:
        self._lock = lock
        self._happens: Callable[[], None] | None = happens

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()


def test_what_is_settled_in_the_middle_of_a_read_is_not_skipped(world: FileWorld) -> None:
    append(world, 30)
    world.checkpoint()
    for offset in (-1, 0, 3, 20):
        append(world, 60)
        entry_id = world.files._index.ledgers[1].first + offset
        lock = world.files._lock
        world.files._reading._lock = Gap(lock, world.checkpoint)  # type: ignore[assignment]
        [run] = world.storage.read(1, entry_id, 1, 1)
        world.files._reading._lock = lock
        assert (run.first_entry_id, run.entry(entry_id)) == (entry_id, entry(entry_id))
        assert world.files._index.ledgers[1].first > entry_id, "it was settled meanwhile"
    assert len(world.read_all(1)) == 30 + 4 * 60


def test_damage_is_not_copied_into_a_ledger_file(world: FileWorld) -> None:
    append(world, 50)
    segment = min(world.files._segments.in_use.values(), key=lambda live: live.number)
    with segment.path.open("r+b") as file:
        file.seek(30_000)
        file.write(b"!")
    with pytest.raises(StorageDamaged, match=segment.path.name) as raised:
        world.checkpoint()
    assert world.files._files.extents == {}
    assert segment.path.exists()
    [(ledger_id, first, end)] = raised.value.lost
    assert (ledger_id, end - first) == (1, 1)
    # Once that is noted, the next one passes over it.
    place = f"{raised.value.file}:{raised.value.offset}"
    world.apply_and_submit(TopicDamaged(1, 1, first, end, place, raised.value.text))
    world.checkpoint()
    extent = world.files._files.extents[1]
    assert extent.end > end
    for entry_id in range(50):
        if entry_id == first:
            with pytest.raises(StorageDamaged):
                world.storage.read(1, entry_id, 1, 1)
        else:
            assert world.storage.read(1, entry_id, 1, 1)[0].entry(entry_id) == entry(entry_id)
    world.kill()
    assert [finding.severity for finding in check(world.data_dir)] == [Severity.ERROR]


def test_a_failed_checkpoint_is_made_up_for_by_the_next(world: FileWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    append(world, 50)
    world.disk.failing = True
    with pytest.raises(OSError, match="Input/output"):
        world.checkpoint()
    world.disk.failing = False
    assert not world.files.needs_checkpoint(), "it is not tried again at once"
    append(world, 1)
    world.checkpoint()
    before = picture(world.state)
    world.close()
    assert check(world.data_dir) == []
    world.open()
    assert picture(world.state) == before
    assert len(world.read_all(1)) == 51


def test_closing_does_not_wait_for_settling(world: FileWorld) -> None:
    append(world, 60)
    world.files.checkpoint(world.state)
    before = picture(world.state)
    world.close()
    assert [finding for finding in check(world.data_dir) if finding.severity is not Severity.INFO] == []
    world.open()
    assert world.files.report.groups == 0, "a clean close leaves nothing to replay"
    assert picture(world.state) == before
    assert len(world.read_all(1)) == 60


def test_many_ledgers_in_shared_records_are_settled(tmp_path: Path) -> None:
    world = FileWorld(tmp_path)
    topics = 40
    for topic_id in range(1, topics + 1):
        world.apply_and_submit(TopicCreated(topic_id, f"persistent://public/default/t{topic_id}", 1, {}))
        world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 2))
    ledger_ids = [*range(1, topics + 1)] * 2
    rounds = 2 * SMALL_SEGMENT_BYTES // (len(ledger_ids) * 120)
    for _ in range(rounds):
        entry_ids = world.state.next_entry_ids(ledger_ids)
        entries = [b"%d:%d/" % place + b"." * 100 for place in zip(ledger_ids, entry_ids, strict=True)]
        starts = [sum(map(len, entries[:index])) for index in range(len(entries))]
        ends = [start + len(each) for start, each in zip(starts, entries, strict=True)]
        world.apply_and_submit(EntriesAppended(EntryColumns(b"".join(entries), ledger_ids, entry_ids, starts, ends)))
    for _ in range(2):
        for ledger_id in range(1, topics + 1):
            stored = world.read_all(ledger_id)
            assert stored == {n: b"%d:%d/" % (ledger_id, n) + b"." * 100 for n in range(2 * rounds)}
        world.checkpoint()
    assert len(ledger_files(world)) == topics
    world.kill()
    assert check(world.data_dir) == []
    world.dispose()
