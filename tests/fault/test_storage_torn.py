"""Damage to the journal's bytes: a torn end is cut, anything else is found and named."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import CounterSet, DurableState
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.files import FileStorage
from spark_pulsar.storage.journal.groups import GROUP_MAGIC, SEGMENT_HEADER_BYTES, SegmentHeader, segment_header_bytes
from spark_pulsar.storage.journal.segments import Segment
from spark_pulsar.storage.offline.check import Severity, check
from tests.contract.storages import SMALL_SEGMENT_BYTES, FileWorld
from tests.entry_runs import run_of

FEW = settings(
    max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Recorded:
    """A killed data directory with a journal of single-submit groups, and where each group ends."""

    def __init__(self, root: Path, entries: int, size: int, segment_bytes: int = SMALL_SEGMENT_BYTES) -> None:
        world = FileWorld(root / "made", segment_bytes=segment_bytes)
        world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
        world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
        self.entries = [
            b"%d/" % entry_id + (bytes(range(1, 256)) * (size // 255 + 1))[:size] for entry_id in range(entries)
        ]
        for entry_id, entry in enumerate(self.entries):
            world.apply_and_submit(EntriesAppended(run_of(1, entry_id, [entry])))
        live = world.files._segments.in_use
        self.ends = {number: [*segment.group_offsets[1:], segment.write_at] for number, segment in live.items()}
        world.kill()
        world.dispose_killed()
        self.data_dir = world.data_dir
        self.layout = Layout(self.data_dir)

    def copy(self, to: Path) -> Layout:
        """A fresh copy of the directory."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.data_dir, to)
        return Layout(to)


def entry_count(state: DurableState) -> int:
    info = state.topics[1].ledger.ledgers.get(1)
    return 0 if info is None else info.entries


def opened(data_dir: Path) -> Iterator[tuple[FileStorage, DurableState]]:
    storage, state = FileStorage.open(data_dir, segment_bytes=SMALL_SEGMENT_BYTES)
    yield storage, state
    storage.close(state)


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("recorded"), entries=8, size=40)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
def test_the_last_group_torn_at_its_bytes(recorded: Recorded, tmp_path: Path, step: int) -> None:
    # covers DUR-4
    [path] = recorded.layout.segments().values()
    *_, start, end = recorded.ends[1]
    salt = start + 24
    for cut in sorted({*range(start, end, step), salt - 1, salt, end - 1}):
        layout = recorded.copy(tmp_path / "copy")
        with layout.segment(1).open("r+b") as file:
            file.seek(cut)
            file.write(bytes(end - cut))
        for storage, state in opened(layout.root):
            lost = entry_count(state) < len(recorded.entries)
            # Bytes of the group may be zero themselves: then nothing is torn.
            if not lost:
                assert path.read_bytes()[cut:end] == bytes(end - cut)
                continue
            assert entry_count(state) == len(recorded.entries) - 1
            assert storage.report.torn_at in ("", f"journal/{path.name}:{start}")
            # With less than the salt there is nothing to tell it from what a recycled segment holds anyway.
            assert storage.report.torn_bytes or cut < salt
            ledger_id = state.next_ledger_id
            for record in (*state.records_to_open_ledger(1, 3), EntriesAppended(run_of(ledger_id, 0, [b"new"]))):
                apply(state, record)
                storage.submit([record])
        for storage, state in opened(layout.root):
            if lost:
                assert storage.report.torn_bytes == 0
                assert storage.read(ledger_id, 0, 10, 100)[0].entry(0) == b"new"
                assert entry_count(state) == len(recorded.entries) - 1
        assert [finding for finding in check(layout.root) if finding.severity is Severity.ERROR] == []


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Groups of several sectors."""
    return Recorded(tmp_path_factory.mktemp("wide"), entries=4, size=3000)


@FEW
@given(data=st.data())
def test_a_group_written_only_in_parts_is_cut(wide: Recorded, tmp_path: Path, data: st.DataObject) -> None:
    # covers DUR-4: the disk may have written any 512-byte sectors of it
    *_, start, end = wide.ends[1]
    layout = wide.copy(tmp_path / "copy")
    lost = False
    with layout.segment(1).open("r+b") as file:
        for sector in range(start // 512, end // 512 + 1):
            if not data.draw(st.booleans()):
                low, high = max(start, sector * 512), min(end, sector * 512 + 512)
                file.seek(low)
                lost |= any(file.read(high - low))
                file.seek(low)
                file.write(bytes(high - low))
    for _, state in opened(layout.root):
        assert entry_count(state) == len(wide.entries) - lost


@FEW
@given(data=st.data())
def test_a_flipped_bit_in_the_journal_is_found(recorded: Recorded, tmp_path: Path, data: st.DataObject) -> None:
    layout = recorded.copy(tmp_path / "copy")
    ends = recorded.ends[1]
    bit = data.draw(st.integers(0, ends[-1] * 8 - 1))
    path = layout.segment(1)
    flip(path, bit)
    if bit // 8 >= ends[-2]:
        # In the last group: not to be told from a torn write.
        findings = check(layout.root)
        assert [finding.severity for finding in findings] == [Severity.WARNING]
        assert (findings[0].file, findings[0].offset) == (f"journal/{path.name}", ends[-2])
        for storage, state in opened(layout.root):
            assert storage.report.torn_at == f"journal/{path.name}:{ends[-2]}"
            assert entry_count(state) == len(recorded.entries) - 1
        return
    offsets = [0] if bit // 8 < SEGMENT_HEADER_BYTES else [SEGMENT_HEADER_BYTES, *ends]
    expected = max(offset for offset in offsets if offset <= bit // 8)
    lost = lost_entries(layout.root, recorded, (f"journal/{path.name}", expected))
    # Groups 1 and 2 make topic and ledger: without them nothing is known of the entries. Each one after that appends
    # an entry.
    group = offsets.index(expected) if expected else -1
    assert lost in (({group - 2}, set()) if group > 1 or group < 0 else (set(), set(range(len(recorded.entries)))))
    assert group >= 0 or not lost


def lost_entries(root: Path, recorded: Recorded, place: tuple[str, int]) -> set[int]:
    """Finds the entries that cannot be read. `check` names the place; the topic is read-only if anything of it may be
    missing; the other entries are as they were written."""
    errors = [finding for finding in check(root) if finding.severity is Severity.ERROR]
    assert place in [(finding.file, finding.offset) for finding in errors]
    lost = set()
    for storage, state in opened(root):
        topic = state.topics.get(1)
        if topic is None or 1 not in topic.ledger.ledgers:
            return set(range(len(recorded.entries)))
        known = topic.ledger.ledgers[1].entries
        lost = set(range(known, len(recorded.entries)))
        for entry_id, entry in enumerate(recorded.entries[:known]):
            try:
                runs = storage.read(1, entry_id, 1, 1)
            except StorageDamaged:
                lost.add(entry_id)
            else:
                assert runs
                assert runs[0].entry(entry_id) == entry
        assert not lost or topic.damage is not None
        assert all(any(damage.holds(1, entry_id) for damage in topic.damages) for entry_id in lost if entry_id < known)
        assert any("is read-only" in finding.text for finding in errors) == (topic.damage is not None)
    for _, state in opened(root):
        known = [] if 1 not in state.topics else state.topics[1].damages
        assert len(known) == len(set(known)), "found again, noted again"
    return lost


def test_after_a_clean_close_the_last_group_is_known(recorded: Recorded, tmp_path: Path) -> None:
    layout = recorded.copy(tmp_path / "copy")
    for _ in opened(layout.root):
        pass
    # Opening wrote it again, to a segment of its own.
    newest = layout.segment(max(layout.segments()))
    flip(newest, (SEGMENT_HEADER_BYTES + recorded.ends[1][-1] - recorded.ends[1][-2]) * 8 - 1)
    place = (f"journal/{newest.name}", SEGMENT_HEADER_BYTES)
    assert lost_entries(layout.root, recorded, place) == {len(recorded.entries) - 1}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A journal of several segments."""
    return Recorded(tmp_path_factory.mktemp("several"), entries=40, size=5000)


def test_damage_in_a_segment_before_the_last_is_found(several: Recorded, tmp_path: Path) -> None:
    segments = list(several.layout.segments())
    assert len(segments) >= 3
    for number in segments[:-1]:
        # Its last group: only the next segment tells that it was there.
        layout = several.copy(tmp_path / "copy")
        flip(layout.segment(number), several.ends[number][-1] * 8 - 1)
        place = (f"journal/{layout.segment(number).name}", several.ends[number][-2])
        assert len(lost_entries(layout.root, several, place)) == 1


def test_a_missing_segment_is_noticed(several: Recorded, tmp_path: Path) -> None:
    numbers = list(several.layout.segments())
    for before, number, after in zip([0, *numbers], numbers, numbers[1:], strict=False):
        layout = several.copy(tmp_path / "copy")
        layout.segment(number).unlink()
        name, offset = layout.segment(after).name, 0
        if before:
            name, offset = layout.segment(before).name, several.ends[before][-1]
        lost = lost_entries(layout.root, several, (f"journal/{name}", offset))
        gone = len(several.ends[number]) - (2 if number == 1 else 0)
        # Without the first one nothing is known of the topic itself.
        assert len(lost) == (len(several.entries) if number == 1 else gone)


def test_a_damaged_segment_header_is_found(several: Recorded, tmp_path: Path) -> None:
    for number in several.layout.segments():
        layout = several.copy(tmp_path / "copy")
        flip(layout.segment(number), 77)
        assert lost_entries(layout.root, several, (f"journal/{layout.segment(number).name}", 0)) == set()


def test_killed_while_a_segment_was_begun(several: Recorded, tmp_path: Path) -> None:
    """Header and name are there, the first group is not: what follows is of an earlier life."""
    layout = several.copy(tmp_path / "copy")
    last = max(layout.segments())
    stale = bytearray(layout.segment(min(layout.segments())).read_bytes())
    first_group = 1 + sum(len(ends) for ends in several.ends.values())
    stale[:SEGMENT_HEADER_BYTES] = segment_header_bytes(
        SegmentHeader(last + 1, b"new salt", first_group, len(stale), True)
    )
    layout.segment(last + 1).write_bytes(stale)
    for _ in range(2):
        for storage, state in opened(layout.root):
            assert entry_count(state) == len(several.entries)
            assert storage.report.torn_bytes == 0
            record = CounterSet("n", 1)
            apply(state, record)
            storage.submit([record])
    for _, state in opened(layout.root):
        assert state.counters["n"] == 1


def test_a_segment_cut_short_is_damage(several: Recorded, tmp_path: Path) -> None:
    for number in several.layout.segments():
        for size in (0, 10, 1000, SMALL_SEGMENT_BYTES - 1):
            layout = several.copy(tmp_path / "copy")
            with layout.segment(number).open("r+b") as file:
                file.truncate(size)
            name = f"journal/{layout.segment(number).name}"
            place = (name, 0) if size < SEGMENT_HEADER_BYTES else (name, size)
            lost = lost_entries(layout.root, several, place)
            is_last = number == max(layout.segments())
            kept = sum(end <= size for end in several.ends[number])
            gone = len(several.ends[number]) - kept
            if number > 1 and not is_last:
                assert len(lost) == gone
            elif is_last and kept == 0:
                assert lost in (set(), set(range(len(several.entries) - gone, len(several.entries))))


def test_groups_of_a_recycled_segments_earlier_life_are_never_replayed(tmp_path: Path) -> None:
    world = FileWorld(tmp_path)
    world.apply_and_submit(TopicCreated(1, "persistent://public/default/t", 1, {}))
    world.apply_and_submit(*world.state.records_to_open_ledger(1, 2))
    total = 0
    stale_follows = False

    def newest() -> Segment:
        return max(world.files._segments.in_use.values(), key=lambda segment: segment.number)

    for _ in range(12):
        for _ in range(7):
            world.apply_and_submit(EntriesAppended(run_of(1, total, [b"%05d/" % total + b"z" * 6000])))
            total += 1
        world.checkpoint()
        # Where the live segment is a recycled one, valid groups of its earlier life follow the last new group.
        stale_follows |= newest().path.read_bytes()[newest().write_at :].startswith(GROUP_MAGIC)
        copy = Path(shutil.copytree(world.data_dir, tmp_path / f"copy-{total}"))
        for _, state in opened(copy):
            assert state.topics[1].ledger.total_entries == total
    assert stale_follows
    world.dispose()
