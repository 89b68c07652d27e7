"""Singles are the ranges that they stand for."""

from itertools import chain

import pytest

from spark_pulsar.model.positions.singles import Singles

RANGES = [(7, 2, 3), (7, 5, 6), (7, 6, 7), (7, 2**40, 2**40 + 1)]


def test_as_a_sequence_of_ranges() -> None:
    singles = Singles(7, [2, 5, 6, 2**40])
    assert singles == RANGES
    assert list(singles) == RANGES
    assert (len(singles), singles[1], singles[-1], singles[1:3]) == (4, RANGES[1], RANGES[-1], RANGES[1:3])
    assert singles.flat().tolist() == list(chain.from_iterable(RANGES))
    assert singles != RANGES[1:]
    assert singles != 7
    assert repr(singles) == f"Singles(7, [2, 5, 6, {2**40}])"


@pytest.mark.parametrize(
    ("first", "end", "some"),
    [(0, 2**50, [2, 5, 6, 2**40]), (3, 6, [5]), (2, 2, None), (7, 2**40, None), (3, 7, [5, 6])],
)
def test_those_of_a_part(first: int, end: int, some: list[int] | None) -> None:
    found = Singles(7, [2, 5, 6, 2**40]).between(first, end)
    assert (None if found is None else found.entry_ids) == some
