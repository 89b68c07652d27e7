"""Selectors of Key_Shared subscriptions: the consumer of each sticky hash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from spark_pulsar.broker.dispatch.key_shared.selectors import (
    AutoSplitSelector,
    ConsistentHashSelector,
    RangeSelector,
    Selector,
    StickySelector,
)
from spark_pulsar.model.errors import ConsumerAssignFailed
from spark_pulsar.wire.keys.murmur3 import murmur3_32


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


def test_halving_the_widest_range_step_by_step() -> None:
    # covers KS-4, KS-5, X6, X7: the worked example of the seed, as Apache Pulsar 4.0.8 does it
    selector = AutoSplitSelector()
    first = join(selector, Named("C1"))
    assert table(selector) == {65536: "C1"}
    join(selector, Named("C2"))
    assert table(selector) == {32768: "C2", 65536: "C1"}
    third = join(selector, Named("C3"))
    assert table(selector) == {16384: "C3", 32768: "C2", 65536: "C1"}
    assert selector.owner(6067) is third
    fourth = join(selector, Named("C4"))
    assert table(selector) == {16384: "C3", 32768: "C2", 49152: "C4", 65536: "C1"}
    assert selector.owner(6067) is third
    assert selector.ranges_of(fourth) == [(32769, 49152)]
    selector.leave(fourth)
    assert table(selector) == {16384: "C3", 32768: "C2", 65536: "C1"}
    selector.leave(first)
    assert table(selector) == {16384: "C3", 65536: "C2"}


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


def test_the_ring_as_seen_on_apache_pulsar() -> None:
    # covers KS-6, X9
    selector = ConsistentHashSelector(100)
    first = join(selector, Named("c1"))
    second = join(selector, Named("c2"))
    assert [selector.owner(sticky_hash) for sticky_hash in (34662, 61273, 23534)] == [first] * 3
    assert [selector.owner(sticky_hash) for sticky_hash in (18701, 2959, 61677)] == [second] * 3
    keys = ["key-1", "key-2", "order-42", "hello", "test", "NONE_KEY", "producer-1-0"]
    assert names_of(selector, keys) == "c2 c1 c1 c1 c1 c2 c1"
    third = join(selector, Named("c3"))
    assert names_of(selector, keys) == "c2 c3 c3 c1 c1 c3 c1"
    selector.leave(third)
    assert names_of(selector, keys) == "c2 c1 c1 c1 c1 c2 c1"
    assert selector.owner(65535) is selector.owner(1)
    assert [selector.ranges_of(first)[index] for index in (0, 1, -1)] == [(1, 1031), (1425, 1870), (64400, 65535)]
    selector.leave(first)
    assert selector.ranges_of(second) == [(1, 65535)]


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


def test_consumers_of_one_name_share_the_ring() -> None:
    # covers KS-6
    selector = ConsistentHashSelector(100)
    alike = [join(selector, Named("same")) for _ in range(3)]
    keys = [f"key-{number}" for number in range(600)]
    before = [owner_of(selector, key) for key in keys]
    assert set(before) == set(alike)
    selector.leave(alike[1])
    again = join(selector, Named("same"))
    assert [owner if owner is not alike[1] else again for owner in before] == [owner_of(selector, key) for key in keys]


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


def test_who_has_some_of_the_slots_already() -> None:
    # covers KS-7
    selector = StickySelector()
    taken = join(selector, Named("taken", ((50, 250), (300, 400))))
    rivals = {ranges: selector.rival((ranges,)) for ranges in ((0, 49), (0, 50), (100, 200), (250, 300), (251, 299))}
    assert [rival is taken for rival in rivals.values()] == [False, True, True, True, False]
    assert ConsistentHashSelector(100).rival(((0, 50),)) is None


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ((), "Ranges for KeyShared policy must not be empty."),
        (((10, 5),), r"Fixed hash range start > end for range: \[10,5\]"),
        (((300, 400), (350, 500)), r"Consumer's own ranges conflict: \[300,400\] overlaps with \[350,500\]"),
    ],
)
def test_fixed_ranges_that_cannot_be(ranges: tuple[tuple[int, int], ...], text: str) -> None:
    # covers KS-7
    selector = StickySelector()
    join(selector, Named("taken", ((0, 250),)))
    before = table(selector)
    with pytest.raises(ConsumerAssignFailed, match=text):
        join(selector, Named("x", ranges))
    assert table(selector) == before


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
