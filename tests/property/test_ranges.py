"""RangeSet against a plain set of positions, operation by operation."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from spark_pulsar.model.positions import intervals, mapped_intervals
from spark_pulsar.model.positions.ranges import RangeSet
from tests.cases import cases


@pytest.fixture(params=[4, 1_024], ids=["small chunks", "large chunks"], autouse=True)
def chunk_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small chunks they split and join all the time, and maps move on."""
    if request.param == 4:
        monkeypatch.setattr(mapped_intervals, "WIDEST", 12)
        monkeypatch.setattr(mapped_intervals, "MARGIN", 4)
    monkeypatch.setattr(intervals, "MAX_CHUNK", request.param)
    monkeypatch.setattr(intervals, "MIN_CHUNK", min(intervals.MIN_CHUNK, request.param // 2))


LEDGERS = st.integers(0, 3)
ENTRIES = st.integers(0, 40)
LENGTHS = st.integers(-1, 12)


def naive_ranges(entries: set[tuple[int, int]]) -> list[tuple[int, int, int]]:
    ranges: list[tuple[int, int, int]] = []
    for ledger_id, entry_id in sorted(entries):
        if ranges and ranges[-1][0] == ledger_id and ranges[-1][2] == entry_id:
            ranges[-1] = (ledger_id, ranges[-1][1], entry_id + 1)
        else:
            ranges.append((ledger_id, entry_id, entry_id + 1))
    return ranges


class AgainstPlainSet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ranges = RangeSet()
        self.entries: set[tuple[int, int]] = set()

    @rule(ledger=LEDGERS, first=ENTRIES, length=LENGTHS)
    def add(self, ledger: int, first: int, length: int) -> None:
        new = {(ledger, entry) for entry in range(first, first + length)}
        assert self.ranges.add(ledger, first, first + length) == len(new - self.entries)
        self.entries |= new

    @rule(ledger=LEDGERS, length=st.integers(1, 3), gap=st.integers(0, 2))
    def append(self, ledger: int, length: int, gap: int) -> None:
        first = max((entry for at, entry in self.entries if at == ledger), default=0) + gap
        self.add(ledger, first, length)

    @rule(ledger=LEDGERS, first=ENTRIES, length=st.integers(1, 12))
    def join(self, ledger: int, first: int, length: int) -> None:
        before = {(at, start): end for at, start, end in naive_ranges(self.entries)}
        changed: set[tuple[int, int]] = set()
        self.ranges.join([(ledger, first, first + length)], 2, changed)
        self.entries |= {(ledger, entry) for entry in range(first, first + length)}
        after = {(at, start): end for at, start, end in naive_ranges(self.entries)}
        different = {(at, start >> 2) for (at, start), _ in before.items() ^ after.items()}
        assert different <= changed, "every interval that came, went or changed is noted"
        assert len(changed) <= len(different) + 3

    @rule(ledger=LEDGERS, entries=st.sets(ENTRIES, min_size=1, max_size=8))
    def join_each(self, ledger: int, entries: set[int]) -> None:
        before = {(at, start): end for at, start, end in naive_ranges(self.entries)}
        changed: set[tuple[int, int]] = set()
        self.ranges.join_each(ledger, sorted(entries), 2, changed)
        self.entries |= {(ledger, entry) for entry in entries}
        after = {(at, start): end for at, start, end in naive_ranges(self.entries)}
        different = {(at, start >> 2) for (at, start), _ in before.items() ^ after.items()}
        assert different <= changed, "every interval that came, went or changed is noted"

    @rule(ledger=LEDGERS, lengths=st.lists(st.integers(1, 3), max_size=9))
    def append_many(self, ledger: int, lengths: list[int]) -> None:
        first = max((entry for at, entry in self.entries if at == ledger), default=0) + 2
        starts, ends = [], []
        for length in lengths:
            starts.append(first)
            ends.append(first + length)
            self.entries |= {(ledger, entry) for entry in range(first, first + length)}
            first += length + 1
        self.ranges.append(ledger, starts, ends)

    @rule(ledger=LEDGERS, first=ENTRIES, length=LENGTHS)
    def remove(self, ledger: int, first: int, length: int) -> None:
        gone = {(ledger, entry) for entry in range(first, first + length)}
        assert self.ranges.remove(ledger, first, first + length) == len(gone & self.entries)
        self.entries -= gone

    @rule(ledger=LEDGERS, entry=st.integers(-1, 40))
    def remove_through(self, ledger: int, entry: int) -> None:
        gone = {position for position in self.entries if position <= (ledger, entry)}
        assert self.ranges.remove_through(ledger, entry) == len(gone)
        self.entries -= gone

    @rule(ledger=LEDGERS)
    def discard_ledger(self, ledger: int) -> None:
        gone = {position for position in self.entries if position[0] == ledger}
        assert self.ranges.discard_ledger(ledger) == len(gone)
        self.entries -= gone

    @rule()
    def go_on_with_a_copy(self) -> None:
        before = self.ranges
        self.ranges = before.copy()
        before.add(9, 0, 100)

    @rule(ledger=LEDGERS, first=ENTRIES, length=LENGTHS)
    def ask(self, ledger: int, first: int, length: int) -> None:
        end = first + length
        ranges = self.ranges
        asked = [(ledger, entry) for entry in range(first, end)]
        within = [position for position in asked if position in self.entries]
        without = [position for position in asked if position not in self.entries]
        assert ranges.contains(ledger, first) == ((ledger, first) in self.entries)
        assert ranges.covers(ledger, first, end) == (not without)
        assert ranges.intersects(ledger, first, end) == bool(within)
        assert ranges.count_between(ledger, first, end) == len(within)
        assert [(ledger, *piece) for piece in ranges.pieces_in(ledger, first, end)] == naive_ranges(set(within))
        assert [(ledger, *piece) for piece in ranges.pieces_not_in(ledger, first, end)] == naive_ranges(set(without))
        assert ranges.count_after(ledger, first) == len([at for at in self.entries if at > (ledger, first)])
        assert ranges.ledgers_through(ledger) == sorted({at for at, _ in self.entries if at <= ledger})
        gap = first
        while (ledger, gap) in self.entries:
            gap += 1
        assert ranges.next_gap(ledger, first) == gap
        begun = [at[1:] for at in naive_ranges(self.entries) if at[0] == ledger and first <= at[1] < end]
        starts, ends = ranges.starting_in(ledger, first, end)
        assert list(zip(starts, ends, strict=True)) == begun
        assert list(ranges.blocks(ledger, first, end, 2)) == sorted({start >> 2 for start, _ in begun})
        later = [at[1:] for at in naive_ranges(self.entries) if at[0] == ledger and at[2] > first]
        assert ranges.next_range(ledger, first) == (later[0] if later else None)

    @invariant()
    def agrees(self) -> None:
        expected = naive_ranges(self.entries)
        assert list(self.ranges) == expected
        assert self.ranges.count() == len(self.entries)
        assert bool(self.ranges) == bool(self.entries)
        assert self.ranges.range_count() == len(expected)
        assert self.ranges.ledgers() == sorted({ledger for ledger, _ in self.entries})
        assert self.ranges.first() == (min(self.entries) if self.entries else None)
        assert self.ranges.last() == (max(self.entries) if self.entries else None)
        for ledger in self.ranges.ledgers():
            assert [(ledger, *part) for part in self.ranges.ranges_of(ledger)] == [
                r for r in expected if r[0] == ledger
            ]
        assert self.ranges == RangeSet(expected)


@cases("seed", range(20))
def test_long_random_walks(seed: int) -> None:
    # Hypothesis prefers short and small; a walk stays among many intervals, where splitting and merging happens.
    random = Random(seed)
    pair = AgainstPlainSet()
    for _ in range(400):
        ledger, first, length = random.randrange(2), random.randrange(41), random.randrange(-1, 9)
        step = random.random()
        if step < 0.15:
            pair.join_each(ledger, set(random.sample(range(first, first + 12), random.randint(1, 6))))
        elif step < 0.45:
            pair.add(ledger, first, length)
        elif step < 0.85:
            pair.remove(ledger, first, length)
        elif step < 0.95:
            pair.ask(ledger, first, length)
        elif step < 0.99:
            pair.remove_through(ledger, random.randrange(-1, 8))
        else:
            pair.go_on_with_a_copy()
        pair.agrees()


@pytest.mark.parametrize(
    ("starts", "ends"),
    [([3], [3]), ([4], [3]), ([3, 5], [5, 6]), ([3, 5], [4]), ([2], [3]), ([8, 3], [9, 4])],
    ids=["empty", "backwards", "touching", "missing", "not behind the last", "falling"],
)
def test_intervals_out_of_order_are_not_appended(starts: list[int], ends: list[int]) -> None:
    ranges = RangeSet([(1, 0, 2)])
    with pytest.raises(ValueError, match="out of order"):
        ranges.append(1, starts, ends)


def test_clear() -> None:
    ranges = RangeSet([(1, 0, 5), (2, 7, 9)])
    ranges.clear()
    assert (list(ranges), ranges.count(), ranges.first(), ranges.last()) == ([], 0, None, None)
    assert ranges.add(1, 3, 4) == 1


def test_against_a_plain_set() -> None:
    run_state_machine_as_test(
        AgainstPlainSet, settings=settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)
    )


@given(st.permutations(range(60)))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_any_order_of_acks_ends_in_one_range(order: list[int]) -> None:
    ranges = RangeSet()
    for entry in order:
        assert ranges.add(1, entry, entry + 1) == 1
        assert ranges.add(1, entry, entry + 1) == 0
    assert list(ranges) == [(1, 0, 60)]


def test_dropping_at_the_front_stays_cheap_and_exact() -> None:
    # A million holes must not make each step of the mark-delete position move a million intervals.
    ranges = RangeSet()
    for entry in range(0, 2000, 2):
        ranges.add(5, entry, entry + 1)
    for entry in range(0, 2000, 2):
        assert ranges.remove_through(5, entry) == 1
        assert ranges.next_range(5, 0) == ((entry + 2, entry + 3) if entry + 2 < 2000 else None)
    assert not ranges
    assert ranges.ledgers() == []


@pytest.mark.parametrize("seed", range(3))
def test_no_step_moves_more_than_a_chunk(seed: int) -> None:
    # covers CUR-5: the cost of an ack does not grow with the number of holes
    random = Random(seed)
    one = intervals.Intervals()
    order = list(range(0, 6_000, 2))
    random.shuffle(order)
    for entry in order:
        one.add(entry, entry + 1)
    for entry in order[:2_000]:
        one.remove(entry, entry + 1)
    sizes = [len(chunk) for chunk in one.starts]
    assert max(sizes) <= intervals.MAX_CHUNK
    assert sum(sizes) == 1_000
    small = [size for size in sizes if size < intervals.MIN_CHUNK]
    assert len(small) <= 1 + 2 * sum(sizes) // max(1, intervals.MIN_CHUNK), "small chunks are joined"


def test_an_entry_that_is_never_acked_costs_nothing_behind_it() -> None:
    ranges = RangeSet()
    for first in range(1, 200_000, 500):
        for odd in (0, 1):
            ranges.join_each(7, list(range(first + odd, first + 500, 2)), 12, set())
    assert list(ranges) == [(7, 1, 200_001)]
    thin = RangeSet()
    thin.join_each(7, [0, 10**12], 12, set())
    assert list(thin) == [(7, 0, 1), (7, 10**12, 10**12 + 1)]
    ranges.join_each(7, [0, 10**12, 10**12 + 2], 12, set())
    assert list(ranges) == [(7, 0, 200_001), (7, 10**12, 10**12 + 1), (7, 10**12 + 2, 10**12 + 3)]
    assert ranges.remove_through(7, 10**12) == 200_002


def test_a_changing_set_has_no_hash() -> None:
    assert RangeSet.__hash__ is None
    assert RangeSet([(1, 0, 3), (1, 3, 5)]) == RangeSet([(1, 0, 5)])
    assert RangeSet() != "nothing"
    assert repr(RangeSet([(1, 0, 5)])) == "RangeSet(1:[0, 5))"
