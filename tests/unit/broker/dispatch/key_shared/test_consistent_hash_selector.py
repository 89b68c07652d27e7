"""The ring of consistent hashing beside a simple one, and what thousands of consumers cost on it."""

from __future__ import annotations

import tracemalloc
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.dispatch.key_shared import selectors
from spark_pulsar.broker.dispatch.key_shared.selectors import ConsistentHashSelector, StickySelector
from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.keys.murmur3 import murmur3_32, ring_hash


@dataclass(eq=False)
class Named:
    name: str
    hash_ranges: tuple[tuple[int, int], ...] = field(default=())


class SimpleRing:
    """Lines of consumers at points, as KS-6 says it."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.lines: dict[int, list[Any]] = {}
        self.numbers: dict[Any, int] = {}

    def join(self, consumer: Any) -> None:
        taken = {number for each, number in self.numbers.items() if each.name == consumer.name}
        number = self.numbers[consumer] = next(number for number in range(len(taken) + 1) if number not in taken)
        for index in range(self.points):
            point = ring_hash(murmur3_32(f"{consumer.name}\0{number}\0{index}".encode()))
            self.lines.setdefault(point, []).append(consumer)

    def leave(self, consumer: Any) -> None:
        del self.numbers[consumer]
        lines = {point: [each for each in line if each is not consumer] for point, line in self.lines.items()}
        self.lines = {point: line for point, line in lines.items() if line}

    def owners(self) -> list[Any]:
        """Consumers of sticky hashes 0 to 65,536."""
        points = sorted(self.lines)
        if not points:
            return [None] * 65_537
        first = [*points, points[0]]
        return [self.lines[first[bisect_left(points, sticky_hash)]][0] for sticky_hash in range(65_537)]


Moves = st.lists(st.sampled_from(["a", "b", "c", "long name"]) | st.integers(0, 20), max_size=20)


@given(Moves, st.sampled_from([1, 3, 100]), st.integers(0, 20))
@settings(max_examples=40)
def test_it_shares_out_slots_as_the_simple_one_does(moves: list[str | int], points: int, asked_after: int) -> None:
    # covers KS-6: whether the table is kept up or made anew
    ring, simple, there = ConsistentHashSelector(points), SimpleRing(points), []
    for number, move in enumerate(moves):
        if isinstance(move, str):
            there.append(consumer := Named(move))
            ring.join(consumer)  # type: ignore[arg-type]
            simple.join(consumer)
        elif there:
            gone = there.pop(move % len(there))
            ring.leave(gone)  # type: ignore[arg-type]
            simple.leave(gone)
        if number >= asked_after:
            numbers, owners = ring.table()
            assert len(numbers) == 65_537
            assert owners[0] is None
            ring.table()
    expected = simple.owners()
    numbers, owners = ring.table()
    assert [owners[number] for number in numbers] == expected
    assert all(ring.owner(sticky_hash) is expected[sticky_hash] for sticky_hash in range(0, 65_537, 61))
    shares = Counter(expected[1:65_536])
    for each in there:
        ranges = ring.ranges_of(each)  # type: ignore[arg-type]
        assert sum(high - low + 1 for low, high in ranges) == shares[each]
        assert all(expected[sticky_hash] is each for bounds in ranges for sticky_hash in bounds)
        assert all(high + 1 < low for (_, high), (low, _) in pairwise(ranges))


def test_a_table_of_more_consumers_than_fit_into_a_byte_is_kept_up() -> None:
    ring = ConsistentHashSelector(10)
    there = [Named(f"c{number}") for number in range(300)]
    for each in there:
        ring.join(each)  # type: ignore[arg-type]
        ring.table()
    for each in there[:200]:
        ring.leave(each)  # type: ignore[arg-type]
    again = [Named(f"d{number}") for number in range(100)]
    for each in again:
        ring.join(each)  # type: ignore[arg-type]
    numbers, owners = ring.table()
    assert len(owners) == 301, "seats that are free are taken again"
    assert all(owners[numbers[sticky_hash]] is ring.owner(sticky_hash) for sticky_hash in range(65_537))
    for each in (*there[200:], *again):
        ring.leave(each)  # type: ignore[arg-type]
    assert ring.owner(1) is None
    assert set(ring.table()[0]) == {0}


def test_hundreds_of_consumers_cost_little() -> None:
    # covers KS-6: memory
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        ring, there = ConsistentHashSelector(100), [Named(f"consumer-{number}") for number in range(300)]
        for each in there:
            ring.join(each)  # type: ignore[arg-type]
        cost = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert cost < 450_000


def test_a_crowd_of_one_name_is_numbered_without_a_search() -> None:
    # covers KS-6: the least number that is free, whoever left
    numbers = selectors._Numbers()
    assert [numbers.acquire("n") for _ in range(5)] == [0, 1, 2, 3, 4]
    for number in (3, 1):
        numbers.give_back("n", number)
    assert [numbers.acquire("n") for _ in range(3)] == [1, 3, 5]
    for number in range(6):
        numbers.give_back("n", number)
    assert not numbers._ends
    assert not numbers._free
    assert numbers.acquire("n") == 0


def test_tens_of_thousands_of_fixed_ranges() -> None:
    # covers KS-7: hostile input
    selector = StickySelector()
    many = tuple((sticky_hash, sticky_hash) for sticky_hash in range(0, 65_536, 2))
    taken = Named("taken", many)
    selector.join(taken)  # type: ignore[arg-type]
    assert selector.rival(tuple((sticky_hash, sticky_hash) for sticky_hash in range(1, 65_536, 2))) is None
    assert selector.rival(((3, 1), (65_535, 65_535), (7, 8))) is taken  # type: ignore[comparison-overlap]
    with pytest.raises(ConsumerAssignFailed, match=r"conflict: \[65535,65535\] overlaps with \[65535,70000\]"):
        selector.join(
            Named("x", (*((sticky_hash, sticky_hash) for sticky_hash in range(1, 65_536, 2)), (65_535, 70_000)))
        )  # type: ignore[arg-type]
    assert selector.ranges_of(taken) == list(many)  # type: ignore[arg-type]


Pairs = st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 6)), max_size=4)


@given(st.lists(Pairs, max_size=4), Pairs)
def test_the_rival_is_the_first_who_has_some_of_the_slots(joined: list[list[tuple[int, int]]], wanted: Any) -> None:
    # covers KS-7
    selector: Any = StickySelector()
    there = []
    for number, ranges in enumerate(joined):
        consumer = Named(f"c{number}", tuple((start, start + width) for start, width in ranges))
        if selector.rival(consumer.hash_ranges) is None:
            try:
                selector.join(consumer)
            except ConsumerAssignFailed:
                continue
            there.append(consumer)
    mine = [(start, start + width - 1) for start, width in wanted]
    rivals = [
        each
        for each in there
        if any(max(one[0], other[0]) <= min(one[1], other[1]) for one in mine for other in each.hash_ranges)
    ]
    assert selector.rival(mine) is (rivals[0] if rivals else None)
