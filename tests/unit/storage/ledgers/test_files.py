from pathlib import Path
from random import Random

import pytest

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.disk.disk import Disk
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.ledgers.files import (
    BLOCK_MAX_ENTRIES,
    Extent,
    LedgerFiles,
    block_parts,
    load_table,
    parse_block,
)
from spark_pulsar.storage.ledgers.writing import LedgerWriter, MergedEntries, cut_out
from tests.entry_runs import run_of

LEDGER = 5


def write(layout: Layout, extent: Extent | None, *runs: EntryRun, seal: bool = False) -> Extent:
    writer = LedgerWriter(Disk(), layout)
    entries = [entry for run in runs for entry in cut_out(run.buffer, run.starts, run.ends)]
    counts = [count for run in runs for count in run.message_counts or [1] * len(run)]
    merged = MergedEntries(LEDGER, runs[0].first_entry_id, entries, counts)
    return writer.finish(LEDGER, writer.append(extent, merged), seal)


def read_all(layout: Layout, extent: Extent, first: int = 0) -> dict[int, tuple[bytes, int]]:
    files = LedgerFiles(Disk(), layout)
    found: dict[int, tuple[bytes, int]] = {}
    while (run := files.read(LEDGER, extent, first)) is not None:
        for index, entry_id in enumerate(range(run.first_entry_id, run.end_entry_id)):
            count = 1 if run.message_counts is None else run.message_counts[index]
            found[entry_id] = (run.entry(entry_id), count)
        first = run.end_entry_id
    return found


def test_a_block_comes_back_and_every_bit_of_it_counts() -> None:
    data = b"".join(block_parts(LEDGER, 7, [memoryview(b"one"), memoryview(b""), memoryview(b"three")], [1, 2, 3]))
    run = parse_block(data, LEDGER)
    assert run is not None
    assert [run.entry(entry_id) for entry_id in (7, 8, 9)] == [b"one", b"", b"three"]
    assert list(run.message_counts or ()) == [1, 2, 3]
    assert parse_block(data, LEDGER + 1) is None
    for cut in range(len(data)):
        assert parse_block(data[:cut], LEDGER) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert parse_block(bytes(damaged), LEDGER) is None


@pytest.mark.parametrize("seal", [False, True])
def test_entries_are_read_through_the_table(layout: Layout, seal: bool) -> None:
    random = Random(3)
    entries = [random.randbytes(random.choice((0, 10, 5000))) for _ in range(2000)]
    counts = [random.choice((1, 1, 9)) for _ in entries]
    extent: Extent | None = None
    for first in range(0, 2000, 500):
        runs = [run_of(LEDGER, at, entries[at : at + 50], counts[at : at + 50]) for at in range(first, first + 500, 50)]
        extent = write(layout, extent, *runs, seal=seal and first == 1500)
    assert extent is not None
    assert (extent.first, extent.end, extent.sealed) == (0, 2000, seal)
    assert read_all(layout, extent) == {at: (entries[at], counts[at]) for at in range(2000)}
    assert min(read_all(layout, extent, 1234)) == 1234
    assert len(load_table(Disk(), layout, LEDGER, extent).firsts) > 4


def test_consumed_entries_leave_gaps(layout: Layout) -> None:
    extent = write(layout, None, run_of(LEDGER, 3, [b"a", b"b"]))
    extent = write(layout, extent, run_of(LEDGER, 9, [b"c"]))
    assert (extent.first, extent.end) == (3, 10)
    assert sorted(read_all(layout, extent)) == [3, 4, 9]
    assert sorted(read_all(layout, extent, 5)) == [9]
    assert read_all(layout, extent, 10) == {}


def test_what_no_checkpoint_names_is_overwritten(layout: Layout) -> None:
    extent = write(layout, None, run_of(LEDGER, 0, [b"kept"]))
    write(layout, extent, run_of(LEDGER, 1, [b"lost" * 1000]))
    assert read_all(layout, extent) == {0: (b"kept", 1)}
    again = write(layout, extent, run_of(LEDGER, 1, [b"new"]), seal=True)
    assert read_all(layout, again) == {0: (b"kept", 1), 1: (b"new", 1)}


def test_blocks_are_bounded(layout: Layout) -> None:
    runs = [run_of(LEDGER, at, [b"x"] * 1000) for at in range(0, 10_000, 1000)]
    extent = write(layout, None, *runs)
    table = load_table(Disk(), layout, LEDGER, extent)
    assert all(end - first <= BLOCK_MAX_ENTRIES for first, end in zip(table.firsts, table.ends, strict=True))
    assert len(table.firsts) >= 2


@pytest.mark.parametrize("seal", [False, True])
def test_every_flipped_bit_is_found(layout: Layout, seal: bool) -> None:
    runs = [run_of(LEDGER, at, [b"%d" % at * 20, b"y"], [1, 3]) for at in range(0, 6, 2)]
    extent: Extent | None = None
    for run in runs:
        extent = write(layout, extent, run, seal=seal and run is runs[-1])
    assert extent is not None
    path = layout.ledger(LEDGER)
    good = path.read_bytes()
    assert len(good) > 200
    for bit in range(0, len(good) * 8, 5):
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        if bit // 8 >= extent.size:  # the footer only repeats what the blocks say
            assert sorted(read_all(layout, extent)) == list(range(6))
            with pytest.raises(StorageDamaged, match="footer"):
                load_table(Disk(), layout, LEDGER, extent)
            continue
        with pytest.raises(StorageDamaged, match=path.name) as raised:
            read_all(layout, extent)
        # Exactly the block that was damaged is lost.
        [lost] = raised.value.lost
        assert lost[0] == LEDGER
        assert lost[2] - lost[1] == 2
        files = LedgerFiles(Disk(), layout)
        files.extents[LEDGER] = extent
        for entry_id in set(range(6)) - set(range(*lost[1:])):
            found = files.read(LEDGER, extent, entry_id)
            assert found is not None
            assert found.entry(entry_id) in (b"%d" % entry_id * 20, b"y")


@pytest.mark.parametrize("size", [0, 1, 100, 5000])
def test_of_a_file_cut_short_what_is_left_is_read(layout: Layout, size: int) -> None:
    extent: Extent | None = None
    for at in range(0, 60, 20):
        extent = write(layout, extent, run_of(LEDGER, at, [b"%04d" % entry_id * 25 for entry_id in range(at, at + 20)]))
    assert extent is not None
    with layout.ledger(LEDGER).open("r+b") as file:
        file.truncate(size)
    files = LedgerFiles(Disk(), layout)
    files.extents[LEDGER] = extent
    left = set()
    for entry_id in range(60):
        try:
            run = files.read(LEDGER, extent, entry_id)
        except StorageDamaged as error:
            [(_, first, end)] = error.lost
            assert first <= entry_id < end
        else:
            assert run is not None
            left.add(run.first_entry_id)
    assert left == set(range(20 * (size // 2200)))


def test_a_trimmed_ledger_is_no_damage(layout: Layout) -> None:
    extent = write(layout, None, run_of(LEDGER, 0, [b"x"]))
    layout.ledger(LEDGER).unlink()
    with pytest.raises(FileNotFoundError):
        read_all(layout, extent)
    # The file of a ledger that should be there is.
    files = LedgerFiles(Disk(), layout)
    files.extents[LEDGER] = extent
    with pytest.raises(StorageDamaged) as raised:
        files.read(LEDGER, extent, 0)
    assert raised.value.lost == [(LEDGER, 0, 1)]


def test_a_ledger_that_is_trimmed_while_its_file_is_read_is_no_damage(layout: Layout) -> None:
    class Trimming(Disk):
        """The file goes after the reader looked for it."""

        def open(self, path: Path, flags: int) -> int:
            path.unlink(missing_ok=True)
            return super().open(path, flags)

    extent = write(layout, None, run_of(LEDGER, 0, [b"x"]))
    with pytest.raises(FileNotFoundError):
        LedgerFiles(Trimming(), layout).read(LEDGER, extent, 0)


def test_what_an_unfinished_settling_left_does_not_hide_the_footer(layout: Layout) -> None:
    extent = write(layout, None, run_of(LEDGER, 0, [b"x" * 100] * 5))
    path = layout.ledger(LEDGER)
    with path.open("ab") as file:
        file.write(b"blocks that no checkpoint ever named" * 100)
    sealed = LedgerWriter(Disk(), layout).finish(LEDGER, extent, seal=True)
    assert sorted(read_all(layout, sealed)) == list(range(5))
