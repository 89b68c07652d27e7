"""Entries brought together by ledger, on their way from the journal to the ledgers' files."""

import pytest

from spark_pulsar.ledger.entries import EntryColumns
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.storage.ledgers.lost_entries import LostEntries
from spark_pulsar.storage.ledgers.writing import MergedEntries
from spark_pulsar.storage.settling.ledger_merge import ENTRY_OVERHEAD_BYTES, LedgerMerge, Place
from tests import without_numpy
from tests.entry_runs import run_of

both_ways = without_numpy.both_ways

Entry = tuple[int, int]


def bytes_of(place: Entry) -> bytes:
    return b"%d:%d" % place


def columns(*places: Entry, counts: list[int] | None = None) -> EntryColumns:
    entries = [bytes_of(place) for place in places]
    ends = [sum(map(len, entries[: index + 1])) for index in range(len(entries))]
    starts = [end - len(entry) for end, entry in zip(ends, entries, strict=True)]
    ledger_ids, entry_ids = zip(*places, strict=True)
    return EntryColumns(b"".join(entries), ledger_ids, entry_ids, starts, ends, counts)


class World:
    """A ledger merge and the blocks that it wrote: for each ledger its blocks of (entry id, messages)."""

    def __init__(self, needed: dict[int, int], lost: list[tuple[int, int, int]] | None = None) -> None:
        known = LostEntries()
        for ledger_id, first, end in lost or []:
            known.note(TopicDamaged(1, ledger_id, first, end, "journal/1:1", "lost"))
        self.written: dict[int, list[list[Entry]]] = {}
        self.merge = LedgerMerge(needed, known, self._write)

    def _write(self, entries: MergedEntries) -> None:
        ids = range(entries.first, entries.end)
        assert [bytes(entry) for entry in entries.entries] == [bytes_of((entries.ledger_id, each)) for each in ids]
        counts = entries.counts or [1] * len(ids)
        self.written.setdefault(entries.ledger_id, []).append(list(zip(ids, counts, strict=True)))

    def run(self, offset: int, ledger_id: int, first: int, end: int, counts: list[int] | None = None) -> None:
        entries = [bytes_of((ledger_id, entry_id)) for entry_id in range(first, end)]
        self.merge.add(Place("j", offset), run_of(ledger_id, first, entries, counts))

    def columns(self, offset: int, *places: Entry, counts: list[int] | None = None) -> None:
        self.merge.add(Place("j", offset), columns(*places, counts=counts))

    def drain(self) -> None:
        for _ in self.merge.drain():
            pass
        assert self.merge.size_bytes == 0


def test_runs_and_columns_of_a_ledger_keep_their_order() -> None:
    world = World({1: 0, 2: 5, 3: 1})
    world.run(0, 1, 0, 2)
    world.columns(1, (1, 2), (2, 4), (2, 5), (9, 0), (1, 3), (3, 0))
    world.run(2, 1, 4, 6)
    world.columns(3, (9, 1), (9, 2))
    world.columns(4, (2, 6), (1, 6))
    world.drain()
    world.run(5, 2, 6, 8)
    world.columns(6, (3, 1))
    world.drain()
    assert world.written == {
        1: [[(entry_id, 1) for entry_id in range(7)]],
        2: [[(5, 1), (6, 1)], [(7, 1)]],
        3: [[(1, 1)]],
    }
    world.merge.must_be_whole({1: 7, 2: 8, 3: 2})
    with pytest.raises(StorageDamaged, match="entries 3:2 to 3:4 are not where"):
        world.merge.must_be_whole({3: 5})


def test_what_nobody_needs_takes_no_room() -> None:
    world = World({1: 2, 2: 1})
    for entry_id in range(3):
        world.columns(entry_id, *((ledger_id, entry_id) for ledger_id in range(3, 50)))
    world.columns(3, (1, 0), (2, 0), (1, 1))
    assert world.merge.size_bytes == 0
    world.columns(4, (7, 3), (1, 2), (8, 3))
    assert world.merge.size_bytes == len(bytes_of((1, 2))) + ENTRY_OVERHEAD_BYTES
    world.drain()
    assert world.written == {1: [[(2, 1)]]}


def test_batches_among_single_messages_keep_their_counts() -> None:
    world = World({1: 0, 2: 0, 3: 0})
    world.run(0, 1, 0, 2)
    world.columns(1, (2, 0), (1, 2))
    world.columns(2, (2, 1), (3, 0), (1, 3), counts=[7, 8, 1])
    world.run(3, 3, 1, 3)
    world.run(4, 2, 2, 4, [5, 1])
    world.drain()
    world.columns(5, (1, 4))
    world.drain()
    assert world.written == {
        1: [[(0, 1), (1, 1), (2, 1), (3, 1)], [(4, 1)]],
        2: [[(0, 1), (1, 7), (2, 5), (3, 1)]],
        3: [[(0, 8), (1, 1), (2, 1)]],
    }


def test_what_is_lost_divides_blocks() -> None:
    world = World({1: 0, 2: 0}, [(1, 2, 4), (2, 0, 1)])
    world.columns(0, (1, 0), (2, 1), (1, 1))
    world.run(1, 1, 2, 6, [1, 1, 3, 1])
    world.drain()
    assert world.written == {1: [[(0, 1), (1, 1)], [(4, 3), (5, 1)]], 2: [[(1, 1)]]}


def test_a_gap_that_nobody_knows_of_is_damage_where_it_was_seen() -> None:
    world = World({1: 0, 2: 0})
    world.columns(10, (1, 0), (2, 0))
    world.columns(20, (2, 1), (1, 2))
    world.run(30, 1, 3, 5)
    with pytest.raises(StorageDamaged, match="entries 1:1 to 1:1 are not where") as raised:
        world.drain()
    assert (raised.value.file, raised.value.offset, raised.value.lost) == ("j", 20, [(1, 1, 2)])


def test_what_comes_twice_is_written_once() -> None:
    world = World({1: 0})
    world.run(0, 1, 0, 3)
    world.columns(1, (1, 2), (1, 3))
    world.drain()
    world.run(2, 1, 2, 5)
    world.drain()
    assert [block for blocks in world.written[1] for block in blocks] == [(entry_id, 1) for entry_id in range(5)]
