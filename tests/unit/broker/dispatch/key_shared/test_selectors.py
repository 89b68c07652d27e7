"""Selectors of Key_Shared subscriptions: the consumer of each sticky hash."""

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
from spark_pulsar.broker.dispatch.key_shared.selectors import (
    AutoSplitSelector,
    ConsistentHashSelector,
    RangeSelector,
    Selector,
    StickySelector,
)
from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.keys.murmur3 import murmur3_32, ring_hash


@dataclass(eq=False)
class Named:
    """A consumer, as far as selectors look at it."""

    name: str
    hash_ranges: tuple[tuple[int, int], ...] = field(default=())


def join(selector: Selector, consumer: Any) -> Any:
    selector.join(consumer)
    return consumer


def table(selector: RangeSelector) -> dict[int, str]:
    return {
        bound: getattr(owner, "name", "nobody") for bound, owner in zip(selector.bounds, selector.owners, strict=True)
    }


def owner_of(selector: Selector, key: str) -> Any:
    return selector.owner(selector.sticky_hash_of(murmur3_32(key.encode())))


def names_of(selector: Selector, keys: list[str]) -> str:
    return " ".join(owner_of(selector, key).name for key in keys)


def test_who_gets_which_key_of_four() -> None:
    # covers KS-1, KS-3: seen on Apache Pulsar 4.0.8
    selector = AutoSplitSelector()
    for name in ("c1", "c2", "c3", "c4"):
        join(selector, Named(name))
    keys = ["key-1", "key-2", "order-42", "hello", "test", "NONE_KEY", "producer-1-0"]
    assert names_of(selector, keys) == "c3 c2 c4 c1 c1 c4 c3"


def test_the_last_one_leaves_nothing_to_anybody() -> None:
    selector = AutoSplitSelector()
    only = join(selector, Named("a"))
    selector.leave(only)
    assert selector.owner(1) is None
    assert selector.ranges_of(only) == []


def test_a_slot_cannot_be_halved() -> None:
    # covers KS-4
    selector = AutoSplitSelector()
    selector.bounds, selector.owners = [1, 2], [Named("a"), Named("b")]  # type: ignore[list-item]
    with pytest.raises(ConsumerAssignFailed, match="No more range can assigned to new consumer, assigned consumers 2"):
        join(selector, Named("c"))
    assert selector.bounds == [1, 2]


def test_the_ring_is_fair_and_moves_little() -> None:
    # covers KS-6, KS-5
    selector = ConsistentHashSelector(100)
    consumers = [join(selector, Named(f"consumer-{number}")) for number in range(10)]
    keys = [f"key-{number}" for number in range(10_000)]
    before = {key: owner_of(selector, key) for key in keys}
    shares = [sum(owner is each for owner in before.values()) for each in consumers]
    assert all(600 <= share <= 1_400 for share in shares), shares
    newcomer = join(selector, Named("newcomer"))
    after = {key: owner_of(selector, key) for key in keys}
    moved = [key for key in keys if after[key] is not before[key]]
    assert {after[key] for key in moved} == {newcomer}
    assert 500 <= len(moved) <= 1_400
    selector.leave(newcomer)
    assert {key: owner_of(selector, key) for key in keys} == before


def test_fixed_ranges_and_what_nobody_covers() -> None:
    # covers KS-7, KS-8
    selector = StickySelector()
    first = join(selector, Named("C1", ((0, 16383), (32768, 49151))))
    second = join(selector, Named("C2", ((16384, 32767), (49152, 65535))))
    assert selector.owner(6067) is first
    assert [selector.owner(sticky_hash) for sticky_hash in (16383, 16384, 49151, 49152, 65535)] == [
        first, second, first, second, second,
    ]  # fmt: skip
    selector.leave(second)
    assert selector.owner(20_000) is None
    assert selector.owner(65_535) is None
    assert selector.ranges_of(first) == [(0, 16383), (32768, 49151)]  # type: ignore[arg-type]
    join(selector, Named("C3", ((20_000, 20_000), (60_000, 99_000))))
    assert [selector.owner(sticky_hash) is None for sticky_hash in (19_999, 20_000, 20_001, 59_999, 60_000)] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_fixed_ranges_of_all_consumers_are_no_more_than_there_are_slots() -> None:
    # covers KS-7: hostile input
    selector = StickySelector()
    first = join(selector, Named("C1", tuple((sticky_hash, sticky_hash) for sticky_hash in range(40_000))))
    beyond = Named("C2", tuple((sticky_hash, sticky_hash) for sticky_hash in range(70_000, 95_537)))
    with pytest.raises(ConsumerAssignFailed, match="more hash ranges than the 65536 slots"):
        selector.join(beyond)  # type: ignore[arg-type]
    assert selector.owner(39_999) is first
    join(selector, Named("C3", beyond.hash_ranges[:-1]))
    selector.leave(first)
    join(selector, Named("C4", tuple((sticky_hash, sticky_hash) for sticky_hash in range(40_000))))


@pytest.mark.parametrize(
    "make", [AutoSplitSelector, lambda: ConsistentHashSelector(20), StickySelector], ids=["halves", "ring", "fixed"]
)
@pytest.mark.parametrize("most", [6, 300])
def test_the_table_of_slots_says_the_same(make: Any, most: int) -> None:
    # covers KS-3: also with more owners than fit into a byte, and ranges beyond all sticky hashes
    selector, there = make(), []
    for number in range(most):
        low = number * 200
        high = low + 150 if number < most - 1 else 2**31 - 1
        there.append(join(selector, Named(f"C{number}", ((low, high),))))
        if number % 3 == 2:
            selector.leave(there.pop(0))
        if number < 6 or number == most - 1:
            numbers, owners = selector.table()
            assert len(numbers) == 65_537
            assert owners[0] is None
            for sticky_hash in (*range(0, 65_537, 97), *(low + by for by in (0, 1, 150, 151)), 65_536):
                assert owners[numbers[min(sticky_hash, 65_536)]] is selector.owner(min(sticky_hash, 65_536))


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
