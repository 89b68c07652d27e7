"""Damage, then `check --repair`: exactly what is lost is said and passed over, everything else is as it was."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.cursors.records import CursorAcked, CursorCreated, CursorMarkDeleted
from spark_pulsar.ledger.state.documents import TOPIC_POLICIES, DocumentSet, NamespaceSet
from spark_pulsar.ledger.state.durable_state import CounterSet, DurableState
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged, StorageError
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.storage.offline.repair import repair
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.entry_runs import run_of

A, B = "persistent://public/default/a", "persistent://public/default/b"
PER_LEDGER = 30


def entry(ledger_id: int, entry_id: int) -> bytes:
    """An entry as a client sends it, with its checksum."""
    metadata = MessageMetadata(producer_name="p", sequence_id=entry_id, publish_time=1)
    return build_entry(metadata, b"%d:%d/" % (ledger_id, entry_id) + b"." * 2000)


class Made:
    """Topic a (ledger 1, sealed and settled; ledger 3) and topic b (ledger 2): runs of five entries and columns,
    cursors in the middle, part of it settled, the rest in the journal; the process was killed."""

    def __init__(self, root: Path) -> None:
        world = FileWorld(root)
        for topic_id, name in ((1, A), (2, B)):
            world.apply_and_submit(TopicCreated(topic_id, name, 1, {}))
            world.apply_and_submit(*world.state.records_to_open_ledger(topic_id, 2))
            world.apply_and_submit(CursorCreated(topic_id, topic_id, "sub", -1, -1, 1, {}))
        self._fill(world, 1, 2)
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 3))
        self._fill(world, 2, 0)
        self._fill(world, 2, 0)
        world.checkpoint()
        self._fill(world, 3, 2)
        world.apply_and_submit(CursorMarkDeleted(1, 1, 3), CursorAcked(2, [(2, 7, 9)]))
        self._fill(world, 2, 0)
        self.acks = {1: (Position(1, 3), []), 2: (Position(-1, -1), [(2, 7, 9)])}
        world.kill()
        world.dispose()
        self.root = world.data_dir
        self.layout = Layout(self.root)

    @staticmethod
    def _fill(world: FileWorld, ledger_id: int, other: int) -> None:
        first = world.state.ledgers[ledger_id].entries
        for at in range(first, first + PER_LEDGER, 5):
            world.apply_and_submit(
                EntriesAppended(run_of(ledger_id, at, [entry(ledger_id, entry_id) for entry_id in range(at, at + 5)]))
            )
            if other:
                next_id = world.state.ledgers[other].entries
                parts = [entry(other, next_id), entry(other, next_id + 1)]
                ends = [len(parts[0]), len(parts[0]) + len(parts[1])]
                columns = ([other, other], [next_id, next_id + 1], [0, ends[0]], ends)
                world.apply_and_submit(EntriesAppended(EntryColumns(b"".join(parts), *columns)))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def damage(path: Path, wanted: bytes, change: Callable[[bytearray, int], None]) -> None:
    """Change bytes around the first place where these stand."""
    content = bytearray(path.read_bytes())
    at = content.find(wanted)
    assert at >= 0
    change(content, at)
    path.write_bytes(content)


def flip(content: bytearray, at: int) -> None:
    content[at] ^= 4


def read_all(storage: FileStorage, state: DurableState) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Entries that are there, verified, and entries that are damaged."""
    there, lost = set(), set()
    for info in state.ledgers.values():
        for entry_id in range(info.first_entry_id, info.entries):
            try:
                runs = storage.read(info.ledger_id, entry_id, 1, 1)
            except StorageDamaged:
                lost.add((info.ledger_id, entry_id))
            else:
                assert runs[0].entry(entry_id) == entry(info.ledger_id, entry_id)
                there.add((info.ledger_id, entry_id))
    return there, lost


def holding(layout: Layout, wanted: bytes) -> Path:
    """The segment or ledger file that holds these bytes."""
    paths = [*layout.ledger_files().values(), *layout.segments().values()]
    return next(path for path in paths if wanted in path.read_bytes())


ENTRY_DAMAGES = {
    "an entry in the journal": [(3, 12)],
    "an entry of columns in the journal": [(2, 75)],
    "an entry in a ledger file": [(1, entry_id) for entry_id in range(PER_LEDGER)],
}


@pytest.mark.parametrize("what", ENTRY_DAMAGES)
def test_a_damaged_entry_is_all_that_is_lost(made: Made, what: str) -> None:
    expected = ENTRY_DAMAGES[what]
    ledger_id = expected[0][0]
    wanted = b"%d:%d/" % (expected[len(expected) // 2] if len(expected) > 1 else expected[0])
    damage(holding(made.layout, wanted), wanted, flip)
    topic_name, other_name = (B, A) if ledger_id == 2 else (A, B)
    before = check(made.root)
    [told] = [finding for finding in before if "is read-only" in finding.text]
    assert topic_name in told.text
    assert f"entries {ledger_id}:{expected[0][1]} to {ledger_id}:{expected[-1][1]} are lost" in told.text

    # A broker opens it, marks the topic, and leaves the other one alone.
    storage, state = FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES)
    there, lost = read_all(storage, state)
    assert lost == set(expected)
    storage.close(state)

    findings, done = repair(made.root)
    assert [finding for finding in findings if "is read-only" in finding.text]
    assert any(f"{ledger_id}:{expected[0][1]}" in line for line in done)
    assert [finding for finding in check(made.root) if finding.severity is Severity.ERROR] == []
    storage, state = FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES)
    again = read_all(storage, state)
    assert again == (there, lost)
    damaged, other = state.topics_by_name[topic_name], state.topics_by_name[other_name]
    assert damaged.damage is None
    assert other.damages == []
    for topic in (damaged, other):
        mark_delete, acked = made.acks[topic.topic_id]
        cursor = topic.cursors["sub"]
        wanted_entries = {place for place in there if state.ledgers[place[0]].topic_id == topic.topic_id}
        wanted_entries -= {place for place in wanted_entries if place <= tuple(mark_delete)}
        wanted_entries -= {(low, entry_id) for low, first, end in acked for entry_id in range(first, end)}
        ranges = cursor.unacked(Position(0, 0), Position(9, 0), 10_000)
        assert {(ledger, entry_id) for ledger, first, end in ranges for entry_id in range(first, end)} == wanted_entries
    storage.close(state)


def test_a_damaged_footer_costs_nothing_and_is_written_again(made: Made) -> None:
    path = made.layout.ledger(1)
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    [finding] = [finding for finding in check(made.root) if finding.severity is Severity.ERROR]
    assert "footer" in finding.text
    storage, state = FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES)
    _, lost = read_all(storage, state)
    assert not lost
    storage.close(state)
    _, done = repair(made.root)
    assert "ledgers/000000000001.ledger: its table of blocks is written again" in done
    assert check(made.root) == []


def test_without_its_file_a_ledger_is_lost_and_the_rest_is_not(made: Made) -> None:
    made.layout.ledger(1).unlink()
    _, done = repair(made.root)
    assert any("entries 1:4 to 1:29 are lost" in line or "entries 1:0 to 1:29 are lost" in line for line in done)
    assert [finding for finding in check(made.root) if finding.severity is Severity.ERROR] == []
    storage, state = FileStorage.open(made.root, segment_bytes=SMALL_SEGMENT_BYTES)
    there, _ = read_all(storage, state)
    assert {place for place in there if place[0] == 3} == {(3, entry_id) for entry_id in range(PER_LEDGER)}
    storage.close(state)


def test_damaged_files_are_kept_aside(made: Made) -> None:
    path = holding(made.layout, b"3:12/")
    damage(path, b"3:12/", flip)
    content = path.read_bytes()
    repair(made.root)
    assert content in [kept.read_bytes() for kept in (made.root / "damaged").iterdir()]


def test_what_is_in_order_is_not_touched(made: Made) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in made.root.rglob("*.*") if "checkpoint" not in path.name}

    before = contents()
    findings, done = repair(made.root)
    assert [finding for finding in findings if finding.severity is Severity.ERROR] == []
    assert done == []
    assert contents() == before


def test_a_lost_version_is_written_again(made: Made) -> None:
    made.layout.version.unlink()
    assert check(made.root)[0].severity is Severity.ERROR
    _, done = repair(made.root)
    assert done == ["VERSION: written again"]
    assert check(made.root) == []


def test_without_a_checkpoint_nothing_is_changed(made: Made) -> None:
    for path in made.root.glob("checkpoint*"):
        path.unlink()
    with pytest.raises(StorageError, match="cannot be repaired"):
        repair(made.root)
    assert not (made.root / "damaged").exists()


@pytest.mark.parametrize("is_new", [False, True], ids=["changed", "made"])
def test_a_damaged_policy_is_not_believed(tmp_path: Path, *, is_new: bool) -> None:
    """Its group fails its checksum: a retention or a TTL that was never set would let go of messages."""
    world = FileWorld(tmp_path)
    namespace, topic = "tenant/ns", "persistent://tenant/ns/t"
    if not is_new:
        world.apply_and_submit(NamespaceSet(namespace, '{"message_ttl_in_seconds": 70007}'))
    world.apply_and_submit(TopicCreated(1, topic, 1, {}), TopicCreated(2, A, 1, {}))
    world.apply_and_submit(NamespaceSet(namespace, '{"message_ttl_in_seconds": 88888}'))
    world.apply_and_submit(CounterSet("between", 1))  # two that are damaged in a row are read no further
    world.apply_and_submit(DocumentSet(TOPIC_POLICIES, A, '{"message_ttl_in_seconds": 99999}'))
    world.apply_and_submit(TopicCreated(3, f"{topic}-later", 1, {}), TopicCreated(4, B, 1, {}))
    world.kill()
    world.dispose()
    layout = Layout(world.data_dir)
    for wanted in (b"88888", b"99999"):
        damage(holding(layout, wanted), wanted, flip)

    told = "\n".join(str(finding) for finding in check(layout.root))
    assert f"{topic} is read-only" in told
    assert f"{topic}-later is read-only" in told, "its policies are those that were lost"
    assert f"{A} is read-only" in told
    assert f"{B} is read-only" not in told
    assert f"NamespaceSet of {namespace}: its group is damaged, it is not believed" in told
    assert f"DocumentSet of {TOPIC_POLICIES} {A}: its group is damaged, it is not believed" in told
    for _ in range(2):
        storage, state = FileStorage.open(layout.root, segment_bytes=SMALL_SEGMENT_BYTES)
        assert state.namespaces[namespace] == ("{}" if is_new else '{"message_ttl_in_seconds": 70007}')
        assert A not in state.documents[TOPIC_POLICIES]
        assert [each.name for each in state.topics.values() if each.damage is None] == [B]
        storage.close(state)
    repair(layout.root)
    storage, state = FileStorage.open(layout.root, segment_bytes=SMALL_SEGMENT_BYTES)
    assert all(each.damage is None for each in state.topics.values())
    storage.close(state)


class Watched(Disk):
    """A disk that notes what is made durable, in order, and fails at one of these steps."""

    def __init__(self, fails_at: int = -1) -> None:
        self.steps: list[str] = []
        self._paths: dict[int, Path] = {}
        self._fails_at = fails_at

    def _note(self, step: str) -> None:
        if len(self.steps) == self._fails_at:
            raise OSError(errno.EIO, "test")
        self.steps.append(step)

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def sync(self, fd: int) -> None:
        self._note(f"sync {self._paths[fd].parent.name}")
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        self._note(f"names {path.name}")
        super().sync_directory(path)

    def commit(self, database: sqlite3.Connection) -> None:
        self._note("commit")
        super().commit(database)


def test_what_is_set_aside_is_on_disk_before_it_is_left_behind(made: Made) -> None:
    # covers DUR-9
    damage(holding(made.layout, b"3:12/"), b"3:12/", flip)
    disk = Watched()
    repair(made.root, disk=disk)
    assert disk.steps.index("sync damaged") < disk.steps.index("names damaged") < disk.steps.index("commit")


@pytest.mark.parametrize("fails_at", range(4))
def test_a_repair_that_was_cut_short_is_run_again(made: Made, fails_at: int) -> None:
    # covers DUR-9
    damage(holding(made.layout, b"3:12/"), b"3:12/", flip)
    with pytest.raises((StorageError, OSError)):
        repair(made.root, disk=Watched(fails_at))
    _, done = repair(made.root)
    assert any("entries 3:12 to 3:12 are lost" in line for line in done)
    assert [finding for finding in check(made.root) if finding.severity is Severity.ERROR] == []
