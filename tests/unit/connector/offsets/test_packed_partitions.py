"""Offsets of topics with many partitions: packed, small, canonical, and read again as they were."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.packed_partitions import MAX_PARTITIONS, PACKED_FROM
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.model.fingerprints import Fingerprint

T = "persistent://public/default/t-partition-"
NUMBERS = st.one_of(st.integers(0, 20), st.integers(0, 2**63 - 1))
POSITIONS = st.one_of(st.just(EARLIEST), st.builds(ReadPosition, NUMBERS, NUMBERS, st.integers(0, 2**31 - 1)))
TOPICS = st.one_of(
    st.builds("{}{}".format, st.sampled_from([T, "a-partition-"]), st.integers(0, 60)),
    st.sampled_from([T, "a", "a-partition-01", "b-partition-x", "c-partition-3-partition-4", "d\n-partition-5"]),
)
MEMBERS = st.dictionaries(TOPICS, POSITIONS, max_size=80)
SEEN = st.dictionaries(
    TOPICS, st.builds(Fingerprint, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)), max_size=80
)


def loaded(offset: SourceOffset) -> Any:
    return json.loads(json.dumps(offset.to_json()))


@given(MEMBERS, MEMBERS, MEMBERS, SEEN, st.randoms(use_true_random=False))
def test_offsets_come_back_and_equal_ones_are_the_same_text(
    positions: dict[str, ReadPosition],
    first: dict[str, ReadPosition],
    initial: dict[str, ReadPosition],
    seen: dict[str, Fingerprint],
    order: random.Random,
) -> None:
    # covers OFFSET-27, READ-22
    offset = SourceOffset(positions, first=first, newest=first, seen=seen, initial=initial)
    assert SourceOffset.from_json(loaded(offset)) == offset
    items = list(positions.items())
    order.shuffle(items)
    other = SourceOffset(dict(items), first=first, newest=first, seen=seen, initial=initial)
    assert json.dumps(other.to_json()) == json.dumps(offset.to_json())


def of_partitions(count: int, *, is_first: bool = False) -> SourceOffset:
    """An offset in the middle of a busy topic, or that of its first micro-batch."""
    draw = random.Random(27)
    positions, seen, first = {}, {}, {}
    for number in range(count):
        topic, ledger_id = f"{T}{number}", 2_861_729_749 + number
        positions[topic] = ReadPosition(ledger_id, draw.randrange(100_000, 999_999), draw.choice([0, 0, 7]))
        entry_id = positions[topic].entry_id - (0 if positions[topic].batch_index else 1)
        published_ms = 1_790_000_000_000 + draw.randrange(60_000)
        seen[topic] = Fingerprint(ledger_id, entry_id, published_ms, draw.randrange(2**32))
        first[topic] = ReadPosition(ledger_id, 0)
    initial = dict.fromkeys(positions, EARLIEST)
    return (
        SourceOffset(positions, seen=seen, first=first, initial=initial)
        if is_first
        else SourceOffset(positions, seen=seen)
    )


def test_a_thousand_partitions_are_less_than_thirty_kilobytes() -> None:
    # covers OFFSET-27
    for offset in (of_partitions(1_000), of_partitions(1_000, is_first=True)):
        assert len(json.dumps(offset.to_json())) < 30_000
        again = SourceOffset.from_json(loaded(offset))
        assert again == offset
        assert list(again.positions) == sorted(again.positions)


def test_few_partitions_have_their_names() -> None:
    # covers OFFSET-27: at the bound, just below it, and for a topic whose own name the packed partitions would have
    below, at = loaded(of_partitions(PACKED_FROM - 1)), loaded(of_partitions(PACKED_FROM))
    assert (below["version"], len(below["positions"])) == (1, PACKED_FROM - 1)
    assert (at["version"], list(at["positions"]), list(at["seen"])) == (2, [T], [T])
    many = of_partitions(PACKED_FROM).positions
    named = SourceOffset({**many, T: ReadPosition(1, 2)}, newest=many)
    assert loaded(named)["version"] == 1
    assert SourceOffset.from_json(loaded(named)) == named


def test_the_text_of_packed_partitions() -> None:
    # covers OFFSET-27: checkpoints hold it
    positions = {f"{T}{number}": ReadPosition(812, 7) for number in range(16)}
    positions |= {f"{T}1": ReadPosition(812, 34, 2), f"{T}20": ReadPosition(9, 3), f"{T}21": EARLIEST}
    positions |= {f"{T}22": EARLIEST, f"{T}23": ReadPosition(10, 0)}
    seen = {topic: Fingerprint(812, 6, 1_790_000_000_000, 0x1A2B3C4D) for topic in list(positions)[:16]}
    offset = SourceOffset(positions, seen=seen)
    assert loaded(offset) == {
        "version": 2,
        "positions": {T: "812:7 +0:34:2 +0:7*14 20=-803:3 earliest*2 +1:0"},
        "seen": {T: "+1790000000000:1a2b3c4d 812:6:+0:1a2b3c4d +0:1a2b3c4d*14"},
    }
    assert SourceOffset.from_json(loaded(offset)) == offset


def test_damaged_texts_are_refused() -> None:
    # covers OFFSET-27
    texts = ["", "x", "1:2  +1:2", "1:2 1:2", "+1:2", "1:2 -2:3", f"{2**63}:1", f"1:{2**63}", f"1:2:{2**31}", "0=1:2=3"]
    texts += ["1:2*0", "1:2*", "*3", "1:2 3*2", "3=1:2 2=+0:3", "1:2 0=+0:3", "01=1:2"]
    texts += [f"earliest*{MAX_PARTITIONS + 1}", f"earliest*{MAX_PARTITIONS} earliest"]
    for text in texts:
        with pytest.raises(OffsetError):
            SourceOffset.from_json({"version": 2, "positions": {T: text}})


def test_damaged_fingerprints_are_refused() -> None:
    # covers OFFSET-27
    for text in ("", "1a2b3c4d", "12:1a2b3c4d", "-1:1a2b3c4d", "+1:xyz", "1:+1:1a2b3c4d", "+1:1a2b3c4d*2"):
        with pytest.raises(OffsetError):
            SourceOffset.from_json({"version": 2, "positions": {T: "1:2"}, "seen": {T: text}})
    assert SourceOffset.from_json({"version": 1, "positions": {T: "1:2"}}).positions == {T: ReadPosition(1, 2)}
