import pytest

from spark_pulsar.ledger.entries import EntryRun
from tests.entry_runs import run_of


def test_a_run_tells_what_it_holds() -> None:
    run = run_of(7, 10, [b"aa", b"", b"bbbb"], [1, 2, 3])
    assert (len(run), run.last_entry_id, run.end_entry_id) == (3, 12, 13)
    assert (run.size_bytes, run.messages) == (6, 6)
    assert [run.entry(entry_id) for entry_id in (10, 11, 12)] == [b"aa", b"", b"bbbb"]
    for entry_id in (9, 13):
        with pytest.raises(IndexError):
            run.entry(entry_id)


def test_without_counts_every_entry_is_one_message() -> None:
    assert run_of(1, 0, [b"a", b"b"]).messages == 2


def test_a_slice_shares_the_buffer() -> None:
    run = run_of(1, 5, [b"a", b"b", b"c"], [1, 2, 3])
    part = run.slice(6, 100)
    assert part.buffer is run.buffer
    assert (part.first_entry_id, len(part), part.entry(7)) == (6, 2, b"c")
    assert part.message_counts == [2, 3]
    assert run.slice(0, 8) is run


def test_limits_leave_at_least_one_entry() -> None:
    run = run_of(1, 0, [b"a" * 10, b"b" * 10, b"c" * 10])
    assert len(run.limited(2, 1000)) == 2
    assert len(run.limited(10, 20)) == 2
    assert len(run.limited(10, 19)) == 1
    assert len(run.limited(10, 1)) == 1
    assert run.limited(3, 30) is run


def test_a_small_run_does_not_pin_a_large_buffer() -> None:
    run = EntryRun(1, 0, b"." * 1000 + b"ab" + b"." * 1000, [1000, 1001], [1001, 1002])
    compact = run.compact()
    assert len(compact.buffer) == 2
    assert [compact.entry(0), compact.entry(1)] == [b"a", b"b"]
    snug = EntryRun(1, 0, b"..ab", [2], [4])
    assert snug.compact() is snug
