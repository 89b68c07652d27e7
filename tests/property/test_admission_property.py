"""Admission for any partitions that are counted bit by bit: the limits are kept, each partition gets one at least,
nothing newer goes before something older, every micro-batch moves on, and all of them visit each message once."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import Ahead, Counting, CountMore, Limits, admit, has_at_least, share

backlogs = st.dictionaries(st.text(max_size=3), st.integers(0, 2**40), max_size=12)


@given(st.integers(1, 2**41), backlogs)
def test_shares(limit: int, waiting: dict[str, int]) -> None:
    granted = share(limit, waiting)
    busy = {topic: count for topic, count in waiting.items() if count}
    assert set(granted) == set(busy)
    assert all(1 <= granted[topic] <= busy[topic] for topic in busy)
    assert sum(granted.values()) == min(sum(busy.values()), max(limit, len(busy)))
    assert share(limit, dict(reversed(waiting.items()))) == granted


@given(st.integers(1, 2**41), backlogs)
def test_more_backlog_never_means_less(limit: int, waiting: dict[str, int]) -> None:
    granted = share(limit, waiting)
    ordered = sorted(granted, key=lambda topic: waiting[topic])
    for less, more in pairwise(ordered):
        assert granted[less] <= granted[more] + 1


class Entry(NamedTuple):
    ledger_id: int
    entry_id: int
    count: int
    size: int
    publish_time_ms: int


class Topic:
    """A partition that is counted bit by bit."""

    def __init__(self, shapes: list[tuple[int, int, int, int]], step: int) -> None:
        ledger, entry = 0, 0
        self.entries: list[Entry] = []
        times = sorted(shape[3] for shape in shapes)
        for (gap, count, size, _), time in zip(shapes, times, strict=True):
            if gap == 3:
                ledger, entry = ledger + 1, 0
            self.entries.append(Entry(ledger, entry, count, size if count else 0, time))
            entry += gap
        self.end = ReadPosition(ledger, entry) if shapes else EARLIEST
        self.step = step
        self.counted = 0

    def messages(self) -> list[tuple[ReadPosition, Entry]]:
        return [(ReadPosition(*e[:2], index), e) for e in self.entries for index in range(e.count)]

    def counting(self, start: ReadPosition) -> Counting:
        known = [e for e in self.entries[: self.counted] if (e.ledger_id, e.entry_id) >= start[:2]]
        columns = [np.array([e[place] for e in known], np.int64) for place in (0, 1, 2, 3, 4)]
        if known and known[0][:2] == start[:2] and start.batch_index:
            columns[3][0] -= columns[3][0] * start.batch_index // columns[2][0]
            columns[2][0] -= start.batch_index
        is_all = self.counted >= len(self.entries)
        backlog = max(int(columns[2].sum()) + len(self.entries) - self.counted, 1)
        return Counting(start, self.end, Ahead(*columns[:5], is_all), backlog)  # type: ignore[arg-type]

    def count_more(self) -> None:
        assert self.counted < len(self.entries), "asked for more than there is"
        self.counted += self.step


shapes = st.tuples(st.integers(1, 3), st.integers(0, 5), st.integers(0, 30), st.integers(0, 9))
topics = st.dictionaries(st.sampled_from("abcd"), st.builds(Topic, st.lists(shapes, max_size=8), st.integers(1, 4)))
most = st.one_of(st.none(), st.integers(1, 60))


def next_end(all_of: Mapping[str, Topic], at: Mapping[str, ReadPosition], limits: Limits) -> dict[str, ReadPosition]:
    for _ in range(1_000):
        counted = {topic: one.counting(at[topic]) for topic, one in all_of.items()}
        answer = admit(counted, limits)
        assert admit(dict(reversed(counted.items())), limits) == answer
        if not isinstance(answer, CountMore):
            return answer
        assert answer.wanted
        for topic, wanted in answer.wanted.items():
            while all_of[topic].counting(at[topic]).ahead.lacks(wanted):
                all_of[topic].count_more()
    raise AssertionError("it never ends")


@given(topics, most, st.one_of(st.none(), st.integers(1, 300)))
def test_micro_batches(all_of: dict[str, Topic], max_messages: int | None, max_bytes: int | None) -> None:
    limits = Limits(max_messages, max_bytes)
    at: dict[str, ReadPosition] = dict.fromkeys(all_of, EARLIEST)
    visited: dict[str, list[ReadPosition]] = {topic: [] for topic in all_of}
    while any(at[topic] < one.end for topic, one in all_of.items()):
        end = next_end(all_of, at, limits)
        assert end != at
        rows = {
            topic: [(place, e) for place, e in one.messages() if at[topic] <= place < end[topic]]
            for topic, one in all_of.items()
        }
        rest = {topic: [(p, e) for p, e in one.messages() if p >= end[topic]] for topic, one in all_of.items()}
        for topic in all_of:
            assert rows[topic] or not rest[topic], "each partition has one at least"
            visited[topic] += [place for place, _ in rows[topic]]
        total = sum(map(len, rows.values()))
        floor = sum(1 for of in rows.values() if of)
        if max_messages is not None:
            assert total <= max(max_messages, floor)
        if max_bytes is not None and total > floor:
            assert sum(Fraction(e.size, e.count) for of in rows.values() for _, e in of) <= max_bytes
        newest = max((e.publish_time_ms for of in rows.values() for _, e in of[1:]), default=-1)
        left = [of[0][1].publish_time_ms for of in rest.values() if of]
        assert newest <= min(left, default=newest)
        at = end
    assert visited == {topic: [place for place, _ in one.messages()] for topic, one in all_of.items()}


@given(topics, st.integers(1, 60))
def test_at_least_so_many(all_of: dict[str, Topic], count: int) -> None:
    for _ in range(1_000):
        answer = has_at_least({topic: one.counting(EARLIEST) for topic, one in all_of.items()}, count)
        if not isinstance(answer, CountMore):
            break
        assert answer.wanted
        for topic, wanted in answer.wanted.items():
            while all_of[topic].counting(EARLIEST).ahead.lacks(wanted):
                all_of[topic].count_more()
    assert answer == (sum(len(one.messages()) for one in all_of.values()) >= count)
