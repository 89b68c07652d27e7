from __future__ import annotations

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position


def cursor_on(*entries: int, mark: Position = EARLIEST) -> Cursor:
    """A cursor on ledgers 1, 2, … with these numbers of entries."""
    managed = ManagedLedger(1)
    for index, count in enumerate(entries):
        managed.add(LedgerInfo(index + 1, 1, managed.total_entries, 0, entries=count, sealed_ms=1))
    return Cursor(managed, "sub", mark)


def test_acks_that_touch_mark_delete_move_it() -> None:
    # covers CUR-1
    cursor = cursor_on(5)
    cursor.acknowledge([(1, 1, 3)])
    assert (cursor.mark_delete, list(cursor.acked)) == (EARLIEST, [(1, 1, 3)])
    cursor.acknowledge([(1, 0, 1)])
    assert (cursor.mark_delete, list(cursor.acked)) == (Position(1, 2), [])


def test_mark_delete_moves_across_ledgers() -> None:
    # covers CUR-1, CUR-2
    cursor = cursor_on(3, 2, 4)
    cursor.acknowledge([(2, 0, 2), (3, 0, 1)])
    assert cursor.backlog() == 6
    cursor.acknowledge([(1, 0, 3)])
    assert cursor.mark_delete == Position(3, 0)
    assert cursor.backlog() == 3


def test_acking_twice_changes_nothing() -> None:
    cursor = cursor_on(10)
    for _ in range(2):
        cursor.acknowledge([(1, 2, 4), (1, 0, 1)])
    assert (cursor.mark_delete, list(cursor.acked), cursor.backlog()) == (Position(1, 0), [(1, 2, 4)], 7)
    cursor.acknowledge([(1, 0, 0), (0, 0, 50)])
    assert cursor.backlog() == 7


def test_parts_of_a_batch_are_anded() -> None:
    # covers CUR-3
    cursor = cursor_on(3)
    cursor.acknowledge_batch(1, 1, 0b10110)
    assert cursor.batch_set(1, 1) == 22
    assert not cursor.is_acked(1, 1)
    cursor.acknowledge_batch(1, 1, 0b01111)
    assert cursor.batch_set(1, 1) == 0b00110
    cursor.acknowledge_batch(1, 1, 0b11001)
    assert cursor.batch_set(1, 1) is None
    assert cursor.is_acked(1, 1)
    cursor.acknowledge_batch(1, 1, 0b11111)
    assert cursor.batch_set(1, 1) is None


def test_acking_the_entry_drops_its_bit_set_and_its_count() -> None:
    # covers CUR-3
    cursor = cursor_on(30)
    for entry_id in (3, 4, 20):
        cursor.acknowledge_batch(1, entry_id, 6)
    cursor.redeliver([(1, 0, 30)])
    cursor.redeliver([(1, 4, 5)])
    counts = cursor.redelivered[1]
    assert (counts[4], counts[5], 2 in cursor.redelivered) == (2, 1, False)
    cursor.acknowledge([(1, 4, 5)])
    assert (cursor.batch_set(1, 4), cursor.redelivered.get(1, {}).get(4, 0)) == (None, 0)
    cursor.advance_mark_delete(Position(1, 19))
    assert (cursor.batch_sets, cursor.redelivered) == ({1: {20: 6}}, {1: dict.fromkeys(range(20, 30), 1)})
    cursor.advance_mark_delete(Position(2, 0))
    assert (cursor.batch_sets, cursor.redelivered) == ({}, {})


def test_redelivery_counts_unacked_entries_only() -> None:
    cursor = cursor_on(10)
    cursor.acknowledge([(1, 0, 2), (1, 5, 6)])
    cursor.redeliver([(1, 0, 7)])
    assert cursor.redelivered == {1: {2: 1, 3: 1, 4: 1, 6: 1}}
    cursor.redeliver([(1, 0, 2)])
    assert list(cursor.redelivered[1]) == [2, 3, 4, 6]


def test_seeking_forgets_everything_after() -> None:
    # covers CUR-11
    cursor = cursor_on(10)
    cursor.acknowledge([(1, 0, 3), (1, 5, 6)])
    cursor.acknowledge_batch(1, 4, 6)
    cursor.redeliver([(1, 4, 5)])
    cursor.reset(Position(1, -1))
    assert (cursor.mark_delete, cursor.backlog(), cursor.batch_sets, cursor.redelivered) == (
        Position(1, -1),
        10,
        {},
        {},
    )


def test_mark_delete_never_moves_back() -> None:
    cursor = cursor_on(10)
    cursor.advance_mark_delete(Position(1, 5))
    cursor.advance_mark_delete(Position(1, 3))
    assert cursor.mark_delete == Position(1, 5)
    assert cursor.next_to_read == Position(1, 6)


def test_unacked_ranges() -> None:
    cursor = cursor_on(10, 3, 4)
    cursor.acknowledge([(1, 0, 2), (1, 4, 6), (2, 1, 2)])
    assert cursor.unacked(EARLIEST, LATEST, 100) == [(1, 2, 4), (1, 6, 10), (2, 0, 1), (2, 2, 3), (3, 0, 4)]
    assert cursor.unacked(Position(1, 5), LATEST, 3) == [(1, 6, 9)]
    assert cursor.unacked(Position(1, 7), Position(2, 0), 100) == [(1, 7, 10), (2, 0, 1)]
    assert cursor.unacked(Position(2, 1), Position(2, 1), 100) == []
    assert cursor.unacked(Position(3, 4), LATEST, 100) == []
    assert cursor.unacked(EARLIEST, LATEST, 0) == []


def test_unacked_of_a_wholly_acked_ledger_goes_on_with_the_next() -> None:
    cursor = cursor_on(2, 2, 2)
    cursor.acknowledge([(2, 0, 2)])
    assert cursor.unacked(EARLIEST, LATEST, 10) == [(1, 0, 2), (3, 0, 2)]


def test_backlog_through_a_position() -> None:
    cursor = cursor_on(10, 10)
    cursor.acknowledge([(1, 3, 5), (2, 0, 4)])
    assert cursor.backlog() == 14
    assert cursor.backlog(Position(1, 3)) == 3
    assert cursor.backlog(Position(2, 1)) == 8
    assert cursor.backlog(Position(2, 4)) == 9
