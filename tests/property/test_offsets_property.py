"""Offsets as text come back as they were, equal ones as equal text; plans between them cover every position once, and
depend on nothing but the offsets."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.planning.ranges import plan
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, parse_position

numbers = st.integers(0, 2**63 - 1)
read_positions = st.one_of(st.just(EARLIEST), st.builds(ReadPosition, numbers, numbers, st.integers(0, 2**31 - 1)))
maps = st.dictionaries(st.text(min_size=1), read_positions, max_size=8)
offsets = st.builds(SourceOffset, maps, st.none() | maps, st.booleans())


@given(offsets)
def test_offsets_survive_the_checkpoint(offset: SourceOffset) -> None:
    text = json.dumps(offset.to_json())
    again = SourceOffset.from_json(json.loads(text))
    assert again == offset
    assert json.dumps(again.to_json()) == text


@given(maps, st.randoms(use_true_random=False))
def test_order_of_insertion_does_not_show(positions: dict[str, ReadPosition], random: object) -> None:
    # covers READ-22
    items = list(positions.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert json.dumps(SourceOffset(dict(items)).to_json()) == json.dumps(SourceOffset(positions).to_json())


@given(read_positions)
def test_positions_survive_as_text_and_as_message_ids(position: ReadPosition) -> None:
    assert parse_position(str(position)) == position
    assert ReadPosition.of(position.message_id) == position


small_positions = st.builds(ReadPosition, st.integers(0, 3), st.integers(0, 5), st.integers(0, 3))
topics = st.sampled_from(["a", "b", "c"])
steps = st.lists(st.dictionaries(topics, small_positions), min_size=1, max_size=6)


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


@given(st.dictionaries(topics, small_positions), st.dictionaries(topics, small_positions))
def test_a_replay_plans_the_same(start: dict[str, ReadPosition], end: dict[str, ReadPosition]) -> None:
    first = plan(SourceOffset(start), SourceOffset(end))
    again = plan(SourceOffset(dict(reversed(start.items()))), SourceOffset(dict(reversed(end.items()))))
    assert first == again
    assert [work.topic for work in first.ranges] == sorted(work.topic for work in first.ranges)
    assert len(first.losses) == len(set(start) - set(end)) + sum(1 for t in end if end[t] < start.get(t, EARLIEST))
