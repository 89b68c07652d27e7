"""Shares add up, walking by any grants visits every message once, and nothing newer goes before something older."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.admission import Ahead, advance, earliest, share
from spark_pulsar.connector.offsets import EARLIEST, ReadPosition

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


entry_lists = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=20)


def numbered(shapes: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    out, ledger, entry = [], 0, 0
    for step, count in shapes:
        if step == 3:
            ledger, entry = ledger + 1, 0
        out.append((ledger, entry, count))
        entry += step
    return out


@given(entry_lists, st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_walking_visits_every_message_once(shapes: list[tuple[int, int]], grants: list[int]) -> None:
    entries = numbered(shapes)
    every = [(ledger, entry, index) for ledger, entry, count in entries for index in range(count)]
    position, visited, turn = EARLIEST, 0, 0
    while visited < len(every):
        grant = grants[turn % len(grants)]
        turn += 1
        following, taken = advance(position, entries, grant)
        between = [message for message in every if position <= ReadPosition(*message) < following]
        assert between == every[visited : visited + taken]
        assert taken == min(grant, len(every) - visited)
        position, visited = following, visited + taken


partitions = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=8), st.booleans()),
)


@given(st.integers(1, 60), partitions, st.integers(0, 1))
def test_nothing_newer_before_something_older(
    limit: int, shapes: dict[str, tuple[list[tuple[int, int]], bool]], least: int
) -> None:
    ahead, ages = {}, {}
    for topic, (entries, is_all) in shapes.items():
        counts, times = (np.array([entry[place] for entry in entries], np.int64) for place in range(2))
        ahead[topic] = Ahead(counts, times, is_all)
        # A message is as old as the oldest one from it on.
        ages[topic] = [int(times[at:].min()) for at, count in enumerate(counts) for _ in range(count)]
    granted = earliest(limit, ahead, least)
    lasts = [int(one.publish_times_ms[-1]) for one in ahead.values() if not one.is_all and len(one.counts)]
    horizon = min(lasts, default=10)
    due = {topic: [age for age in of if age <= horizon] for topic, of in ages.items()}
    floors = {topic: min(least, len(of)) for topic, of in ages.items()}
    possible = sum(max(len(due[topic]), floors[topic]) for topic in due)
    assert sum(granted.values()) == max(min(limit, possible), sum(floors.values()))
    taken = [age for topic, of in ages.items() for age in of[floors[topic] : granted[topic]]]
    left = [age for topic, of in due.items() for age in of[granted[topic] :]]
    assert not taken or not left or max(taken) <= min(left)
