"""Messages that were published first go first, from all partitions."""

from __future__ import annotations

import numpy as np

from spark_pulsar.connector.read_limits.admission import Ahead, Limits, earliest


def ahead(*entries: tuple[int, int], is_all: bool = True) -> Ahead:
    """Entries of (messages, publish time)."""
    counts, times = (np.array([entry[place] for entry in entries], np.int64) for place in range(2))
    ids = np.arange(len(entries))
    return Ahead(ids, ids, counts, counts, times, is_all)


def granted(limit: int, partitions: dict[str, Ahead], unawaited: set[str] | None = None) -> dict[str, int]:
    return earliest(Limits(limit), partitions, unawaited or set())[0]


def test_nothing_ahead() -> None:
    assert earliest(Limits(5), {}) == ({}, False)
    assert earliest(Limits(5), {"a": ahead(), "b": ahead((0, 7))}) == ({"a": 0, "b": 0}, False)


def test_everything_fits() -> None:
    fits = {"a": ahead((3, 1), (1, 9)), "b": ahead((6, 5))}
    assert earliest(Limits(11), fits) == ({"a": 4, "b": 6}, False)
    assert earliest(Limits(10), fits) == ({"a": 4, "b": 6}, True)
    assert earliest(Limits(None, 10), fits) == ({"a": 4, "b": 6}, True)  # one byte each
    assert earliest(Limits(), fits) == ({"a": 4, "b": 6}, False)


def test_the_oldest_first_and_the_last_entry_in_part() -> None:
    assert granted(9, {"a": ahead((5, 1), (5, 3)), "b": ahead((5, 2), (5, 4))}) == {"a": 5, "b": 4}
    assert granted(9, {"b": ahead((5, 1)), "a": ahead((5, 1))}) == {"a": 5, "b": 4}


def test_one_of_each_before_all_others() -> None:
    partitions = {"a": ahead((0, 1), (8, 1)), "b": ahead((8, 2)), "c": ahead((8, 3))}
    assert granted(9, partitions) == {"a": 7, "b": 1, "c": 1}
    assert granted(2, partitions) == {"a": 1, "b": 1, "c": 1}


def test_nothing_newer_than_where_the_counting_of_another_stopped() -> None:
    newer = ahead((2, 1), (2, 5), (2, 6))
    goes_on = ahead((1, 3), (1, 5), is_all=False)
    assert granted(99, {"a": newer, "b": goes_on}) == {"a": 4, "b": 2}
    assert granted(99, {"a": newer, "b": ahead((1, 3), (1, 5))}) == {"a": 6, "b": 2}
    assert granted(99, {"a": newer, "b": goes_on}, {"b"}) == {"a": 6, "b": 2}


def test_a_clock_ahead_does_not_hold_up_what_comes_behind_it() -> None:
    hasty = ahead((1, 1), (1, 10**15), (1, 2), (1, 5))
    assert granted(4, {"a": hasty, "b": ahead((9, 3))}) == {"a": 3, "b": 1}


def test_a_message_that_does_not_fit_ends_the_micro_batch() -> None:
    ids = np.arange(3)
    sizes = np.array([10, 1_000, 1])
    large = Ahead(ids, ids, np.ones(3, np.int64), sizes, np.array([1, 2, 3]), is_all=True)
    small = Ahead(ids, ids, np.ones(3, np.int64), np.ones(3, np.int64), np.array([1, 1, 4]), is_all=True)
    assert earliest(Limits(None, 100), {"a": large, "b": small}) == ({"a": 1, "b": 2}, True)
