import pytest

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo, RollLimits, fitting, is_full
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position

MINUTE_MS = 60_000


def chain(*ledgers: tuple[int, int, int], open_last: bool = True) -> ManagedLedger:
    """Ledgers as (id, entries, first readable entry)."""
    managed = ManagedLedger(1)
    for ledger_id, entries, first in ledgers:
        managed.add(LedgerInfo(ledger_id, 1, managed.total_entries, 0, entries=entries, sealed_ms=9))
        managed.drop_before(ledger_id, first)
    if open_last and ledgers:
        managed.open_ledger = managed.ledgers[ledgers[-1][0]]
        managed.open_ledger.sealed_ms = None
    return managed


@pytest.mark.parametrize(
    ("entries", "size", "age_ms", "full"),
    [
        (49_999, 0, 11 * MINUTE_MS, False),
        (50_000, 0, 11 * MINUTE_MS, True),
        (50_000, 0, 10 * MINUTE_MS, False),
        (50_000, 0, 10 * MINUTE_MS + 1, True),
        (80_000, 2**40, 0, False),
        (1, 2048 * 1024 * 1024, 11 * MINUTE_MS, True),
        (1, 2048 * 1024 * 1024 - 1, 11 * MINUTE_MS, False),
        (1, 0, 240 * MINUTE_MS - 1, False),
        (1, 0, 240 * MINUTE_MS, True),
    ],
)
def test_when_a_ledger_is_full(entries: int, size: int, age_ms: int, full: bool) -> None:
    # covers ML-2
    info = LedgerInfo(1, 1, 0, opened_ms=1000, entries=entries, size_bytes=size)
    assert is_full(info, 1000 + age_ms, RollLimits()) is full


@pytest.mark.parametrize(
    ("entries", "size", "age_ms", "run", "fit"),
    [
        (49_990, 0, 11 * MINUTE_MS, 10, 10),
        (49_990, 0, 11 * MINUTE_MS, 11, 10),
        (49_990, 0, 10 * MINUTE_MS, 11, 11),
        (0, 0, 11 * MINUTE_MS, 50_001, 50_000),
        (0, 2048 * 1024 * 1024 - 1, 11 * MINUTE_MS, 3, 1),
        (0, 2048 * 1024 * 1024 - 100, 11 * MINUTE_MS, 3, 1),
        (0, 2048 * 1024 * 1024 - 101, 11 * MINUTE_MS, 3, 2),
        (0, 2048 * 1024 * 1024 - 300, 11 * MINUTE_MS, 3, 3),
    ],
)
def test_a_run_fills_a_ledger_and_no_more(entries: int, size: int, age_ms: int, run: int, fit: int) -> None:
    # covers ML-2
    info = LedgerInfo(1, 1, 0, opened_ms=1000, entries=entries, size_bytes=size)
    starts = range(7, 7 + 100 * run, 100)
    ends = range(107, 107 + 100 * run, 100)
    assert fitting(info, 1000 + age_ms, RollLimits(), starts, ends) == fit


def test_a_ledger_must_be_opened_when_none_is_ours() -> None:
    # covers ML-1
    never = RollLimits(min_age_ms=10**12)
    assert chain().must_roll(0, never)
    managed = chain((3, 2, 0))
    assert not managed.must_roll(0, never)
    managed.open_ledger = None
    assert managed.must_roll(0, never)
    assert chain((3, 2, 0), open_last=False).must_roll(0, never)


def test_positions_of_an_empty_topic() -> None:
    managed = chain()
    assert managed.last_position == EARLIEST
    assert managed.first_position == managed.end_position == Position(-1, 0)
    assert managed.count_after(EARLIEST) == 0
    opened = chain((4, 0, 0))
    assert opened.first_position == opened.end_position == Position(4, 0)


def test_clamping_positions() -> None:
    # covers CUR-10, CUR-11
    managed = chain((3, 4, 2), (5, 0, 0), (8, 2, 0))
    for asked, found in [
        (EARLIEST, (3, 2)),
        (Position(1, 100), (3, 2)),
        (Position(3, -1), (3, 2)),
        (Position(3, 3), (3, 3)),
        (Position(3, 4), (8, 0)),
        (Position(4, 7), (8, 0)),
        (Position(5, 0), (8, 0)),
        (Position(8, 1), (8, 1)),
        (Position(8, 2), (8, 2)),
        (Position(9, 0), (8, 2)),
        (LATEST, (8, 2)),
    ]:
        assert managed.at_or_after(asked) == found, asked
    assert managed.next_position(Position(3, 3)) == (8, 0)
    assert managed.previous_position(Position(8, 0)) == (8, -1)
    asked = [Position(8, -1), Position(8, 3), Position(9, -1), Position(3, -1)]
    assert [managed.last_passed(mark_delete) for mark_delete in asked[1::2]] == asked[1::2]
    assert managed.last_passed(asked[0]) < asked[0]
    assert managed.last_passed(asked[2])[0] == 8


def test_positions_by_number() -> None:
    # covers CUR-14
    managed = chain((3, 4, 2), (5, 10, 10), (8, 5, 1))
    assert [managed.position_at(index) for index in range(7)] == [
        (3, 2),
        (3, 3),
        (8, 1),
        (8, 2),
        (8, 3),
        (8, 4),
        (8, 4),
    ]
    assert managed.advance(Position(3, 2), 2) == (8, 1)
    assert managed.advance(Position(3, 2), 100) == (8, 4)
    assert managed.advance(Position(8, 4), 1) == (8, 4)


def test_positions_after_everything_was_trimmed() -> None:
    managed = chain((3, 10, 0), (5, 10, 0), open_last=False)
    assert managed.remove([3, 5, 99]) == [3, 5]
    assert managed.last_position == (5, 9)
    assert managed.end_position == managed.first_position == (5, 10)
    assert managed.count_after(EARLIEST) == 0
    managed.add(LedgerInfo(9, 1, managed.total_entries, 0))
    assert managed.end_position == (9, 0)
