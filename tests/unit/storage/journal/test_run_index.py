from __future__ import annotations

from spark_pulsar.storage.journal.run_index import LedgerRuns, RunIndex, RunPlace
from tests import without_numpy

both_ways = without_numpy.both_ways


def runs() -> LedgerRuns:
    index = RunIndex()
    index.add(((9,), (10,), 5), 1, 100, 50)
    index.add(([9, 8, 9], [15, 0, 16], 3), 1, 200, 70)
    index.add(((9,), (17,), 3), 3, 64, 1 << 28)
    assert index.ledgers[8].place(0) == RunPlace(0, 1, 1, 200, 70, True)
    return index.ledgers[9]


def test_places_are_found_by_entry() -> None:
    found = runs()
    assert [found.index_of(entry_id) for entry_id in (0, 10, 14, 15, 16, 17, 19, 20)] == [0, 0, 0, 1, 2, 3, 3, 4]
    assert found.place(0) == RunPlace(10, 15, 1, 100, 50, False)
    assert found.place(1) == RunPlace(15, 16, 1, 200, 70, True)
    assert found.place(3) == RunPlace(17, 20, 3, 64, 1 << 28, False)


def test_the_front_is_settled_by_segment() -> None:
    found = runs()
    assert [found.count_before_segment(segment) for segment in (1, 2, 3, 4)] == [0, 3, 3, 4]
    assert [found.end_before(count) for count in (1, 3, 4)] == [15, 17, 20]
    index = RunIndex()
    index.ledgers[9] = found
    index.drop_before_segment(9, 3)
    assert (found.place(0).first, found.end) == (17, 20)
    index.drop_before_segment(9, 4)
    index.drop_before_segment(9, 4)
    assert index.ledgers == {}
