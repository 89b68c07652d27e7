import gc

from spark_pulsar.ledger.cache import RUN_OVERHEAD_BYTES, EntryCache
from spark_pulsar.ledger.entries import EntryRun
from tests.entry_runs import run_of


def test_entries_are_found_in_their_runs() -> None:
    cache = EntryCache(100_000)
    runs = [run_of(1, first, [b"a", b"b", b"c"]) for first in range(0, 30, 3)]
    for run in runs:
        cache.insert(run)
    assert cache.lookup(1, 0) is runs[0]
    assert cache.lookup(1, 29) is runs[9]
    assert cache.lookup(1, 13) is runs[4]
    assert cache.lookup(1, 30) is None
    assert cache.lookup(2, 0) is None


def test_the_oldest_leave_first_whatever_their_ledger() -> None:
    cache = EntryCache(4 * (100 + RUN_OVERHEAD_BYTES))
    for first in range(200):
        for ledger_id in (1, 2):
            cache.insert(run_of(ledger_id, first, [b"x" * 100]))
        assert cache.size_bytes <= cache.max_bytes
    assert [first for first in range(200) if cache.lookup(1, first)] == [198, 199]
    assert [first for first in range(200) if cache.lookup(2, first)] == [198, 199]


def test_a_small_run_is_copied_out_of_its_buffer() -> None:
    cache = EntryCache(100_000)
    cache.insert(EntryRun(1, 0, b"x" * 50_000, [5], [15]))
    assert cache.size_bytes == 10 + RUN_OVERHEAD_BYTES


def test_a_run_larger_than_the_cache_does_not_stay() -> None:
    cache = EntryCache(1000)
    cache.insert(run_of(1, 0, [b"x" * 2000]))
    assert (cache.lookup(1, 0), cache.size_bytes) == (None, 0)


def test_dropped_ledgers_count_until_they_leave() -> None:
    cache = EntryCache(5 * (100 + RUN_OVERHEAD_BYTES))
    for first in range(3):
        cache.insert(run_of(1, first, [b"x" * 100]))
    cache.insert(run_of(2, 0, [b"x" * 100]))
    cache.drop_ledger(1)
    cache.drop_ledger(1)
    assert cache.lookup(1, 0) is None
    assert cache.size_bytes == 4 * (100 + RUN_OVERHEAD_BYTES)
    for first in range(1, 20):
        cache.insert(run_of(2, first, [b"x" * 100]))
    assert cache.size_bytes == cache.max_bytes
    assert [first for first in range(20) if cache.lookup(2, first)] == [15, 16, 17, 18, 19]


def test_ledgers_that_come_and_go_stay_within_the_bound() -> None:
    cache = EntryCache(5 * (100 + RUN_OVERHEAD_BYTES))
    before = runs_alive()
    for ledger_id in range(100):
        cache.insert(run_of(ledger_id, 0, [b"x" * 100]))
        cache.drop_ledger(ledger_id)
    assert runs_alive() - before == 5


def runs_alive() -> int:
    return sum(type(each) is EntryRun for each in gc.get_objects())


def test_runs_out_of_order_are_not_cached() -> None:
    cache = EntryCache(100_000)
    cache.insert(run_of(1, 5, [b"x"]))
    cache.insert(run_of(1, 3, [b"y"]))
    assert cache.lookup(1, 3) is None
    cache.insert(run_of(1, 9, [b"z"]))
    assert cache.lookup(1, 7) is None
    assert cache.lookup(1, 9) is not None
