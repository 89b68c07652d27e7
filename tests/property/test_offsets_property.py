"""Offsets as text: they come back as they were, and equal ones are equal text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.offsets.source_offset import SourceOffset
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
    items = list(positions.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert json.dumps(SourceOffset(dict(items)).to_json()) == json.dumps(SourceOffset(positions).to_json())


@given(read_positions)
def test_positions_survive_as_text_and_as_message_ids(position: ReadPosition) -> None:
    assert parse_position(str(position)) == position
    assert ReadPosition.of(position.message_id) == position
