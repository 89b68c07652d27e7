"""Messages that were published first go first, from all partitions."""

from __future__ import annotations

import numpy as np

from spark_pulsar.connector.admission import Ahead, earliest


def ahead(*entries: tuple[int, int], is_all: bool = True) -> Ahead:
    """Entries of (messages, publish time)."""
    counts, times = ([entry[place] for entry in entries] for place in range(2))
    return Ahead(np.array(counts, np.int64), np.array(times, np.int64), is_all)


def test_nothing_ahead() -> None:
    assert earliest(5, {}, 1) == {}
    assert earliest(5, {"a": ahead(), "b": ahead((0, 7))}, 1) == {"a": 0, "b": 0}


def test_everything_fits() -> None:
    assert earliest(10, {"a": ahead((3, 1), (1, 9)), "b": ahead((6, 5))}, 1) == {"a": 4, "b": 6}


def test_the_oldest_first_and_the_last_entry_in_part() -> None:
    assert earliest(9, {"a": ahead((5, 1), (5, 3)), "b": ahead((5, 2), (5, 4))}, 0) == {"a": 5, "b": 4}
    assert earliest(9, {"b": ahead((5, 1)), "a": ahead((5, 1))}, 0) == {"a": 5, "b": 4}


def test_one_of_each_before_all_others() -> None:
    partitions = {"a": ahead((0, 1), (8, 1)), "b": ahead((8, 2)), "c": ahead((8, 3))}
    assert earliest(9, partitions, 1) == {"a": 7, "b": 1, "c": 1}
    assert earliest(2, partitions, 1) == {"a": 1, "b": 1, "c": 1}
    assert earliest(2, partitions, 0) == {"a": 2, "b": 0, "c": 0}


def test_nothing_newer_than_where_the_counting_of_another_stopped() -> None:
    newer = ahead((2, 1), (2, 5), (2, 6))
    assert earliest(99, {"a": newer, "b": ahead((1, 3), (1, 5), is_all=False)}, 0) == {"a": 4, "b": 2}
    assert earliest(99, {"a": newer, "b": ahead((1, 3), (1, 5))}, 0) == {"a": 6, "b": 2}
    assert earliest(99, {"a": newer, "b": ahead((1, 3), (1, 5), is_all=False)}, 0, {"b"}) == {"a": 6, "b": 2}
    assert earliest(99, {"a": newer, "b": ahead(is_all=False)}, 0) == {"a": 6, "b": 0}


def test_a_clock_ahead_does_not_hold_up_what_comes_behind_it() -> None:
    hasty = ahead((1, 1), (1, 10**15), (1, 2), (1, 5))
    assert earliest(4, {"a": hasty, "b": ahead((9, 3))}, 0) == {"a": 3, "b": 1}
