"""Plans: consecutive offsets cover every position once, and depend on nothing but the offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.planning.ranges import plan
from spark_pulsar.connector.positions import EARLIEST, ReadPosition

positions = st.builds(ReadPosition, st.integers(0, 3), st.integers(0, 5), st.integers(0, 3))
topics = st.sampled_from(["a", "b", "c"])
steps = st.lists(st.dictionaries(topics, positions), min_size=1, max_size=6)


@given(steps)
def test_consecutive_plans_touch_and_do_not_overlap(moves: list[dict[str, ReadPosition]]) -> None:
    stood: dict[str, ReadPosition] = {}
    reached: dict[str, ReadPosition] = {}
    for move in moves:
        following = stood | {topic: max(at, stood.get(topic, EARLIEST)) for topic, at in move.items()}
        planned = plan(SourceOffset(stood), SourceOffset(following))
        assert not planned.losses
        for work in planned.ranges:
            assert work.start == reached.get(work.topic, EARLIEST)
            assert work.start < work.end
            reached[work.topic] = work.end
        stood = following
    assert all(reached.get(topic, EARLIEST) == at for topic, at in stood.items())


@given(st.dictionaries(topics, positions), st.dictionaries(topics, positions))
def test_a_replay_plans_the_same(start: dict[str, ReadPosition], end: dict[str, ReadPosition]) -> None:
    first = plan(SourceOffset(start), SourceOffset(end))
    again = plan(SourceOffset(dict(reversed(start.items()))), SourceOffset(dict(reversed(end.items()))))
    assert first == again
    assert [work.topic for work in first.ranges] == sorted(work.topic for work in first.ranges)
    assert len(first.losses) == len(set(start) - set(end)) + sum(1 for t in end if end[t] < start.get(t, EARLIEST))
