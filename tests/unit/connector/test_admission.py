"""Admission: shares of a limit, and walking to them."""

from __future__ import annotations

from spark_pulsar.connector.admission import advance, share
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition


def test_everything_fits() -> None:
    assert share(10, {"a": 4, "b": 6, "c": 0}) == {"a": 4, "b": 6}


def test_in_proportion_to_backlog() -> None:
    assert share(100, {"a": 900, "b": 100}) == {"a": 90, "b": 10}


def test_never_less_than_one_each() -> None:
    assert share(10, {"a": 1_000_000, "b": 1}) == {"a": 9, "b": 1}
    assert share(1, {"a": 5, "b": 5, "c": 0}) == {"a": 1, "b": 1}


def test_the_order_of_partitions_does_not_matter() -> None:
    forward = share(7, {"a": 5, "b": 5, "c": 5})
    backward = share(7, {"c": 5, "b": 5, "a": 5})
    assert forward == backward
    assert sum(forward.values()) == 7


def test_many_small_partitions_beside_a_large_one() -> None:
    count = 20_000
    granted = share(count + 10, {"large": 10**12} | {f"small-{index}": 1 for index in range(count - 1)})
    assert sum(granted.values()) == count + 10
    assert granted["large"] == 11


def test_huge_numbers_are_exact() -> None:
    assert sum(share(2**62, {"a": 2**63, "b": 2**63 - 1}).values()) == 2**62


ENTRIES = [(5, 0, 1), (5, 1, 10), (5, 2, 0), (5, 3, 1), (6, 0, 3)]


def test_advance_over_whole_entries() -> None:
    assert advance(EARLIEST, ENTRIES, 1) == (ReadPosition(5, 1), 1)
    assert advance(EARLIEST, ENTRIES, 11) == (ReadPosition(5, 2), 11)
    assert advance(EARLIEST, ENTRIES, 12) == (ReadPosition(5, 4), 12)
    assert advance(EARLIEST, ENTRIES, 99) == (ReadPosition(6, 1), 15)


def test_advance_stops_inside_a_batch_and_goes_on_there() -> None:
    position, taken = advance(EARLIEST, ENTRIES, 4)
    assert (position, taken) == (ReadPosition(5, 1, 3), 4)
    assert advance(position, ENTRIES, 7) == (ReadPosition(5, 2), 7)
    assert advance(position, ENTRIES, 6) == (ReadPosition(5, 1, 9), 6)


def test_advance_with_nothing_ahead() -> None:
    assert advance(ReadPosition(9, 9, 3), ENTRIES, 4) == (ReadPosition(9, 9, 3), 0)
