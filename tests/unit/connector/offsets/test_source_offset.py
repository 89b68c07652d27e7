"""Offsets in checkpoints: canonical text, golden files, the recorded start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.entry_evidence import last_before
from spark_pulsar.connector.offsets.source_offset import SourceOffset, recorded_start
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, entries_between, parse_position
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId

GOLDEN = Path(__file__).parent / "checkpoints"
T = "persistent://public/default/t-partition-"


def golden(name: str) -> SourceOffset:
    return SourceOffset.from_json(json.loads((GOLDEN / name).read_text()))


def test_positions_as_text() -> None:
    assert str(ReadPosition(12, 34, 5)) == "12:34:5"
    assert parse_position("12:34") == ReadPosition(12, 34, 0) == parse_position("12:34:-1")
    assert str(EARLIEST) == "earliest"
    assert parse_position("earliest") == EARLIEST
    assert parse_position(f"1:2:{2**31 - 1}").batch_index == 2**31 - 1
    for wrong in ("", "latest", "1", "1:2:3:4", "-1:2", "a:b", f"{2**63}:0", "1:2:", " 1:2", f"1:2:{2**31}"):
        with pytest.raises(OffsetError):
            parse_position(wrong)


def test_positions_in_the_clients_words() -> None:
    assert ReadPosition.of(MessageId(1, 2, 3, -1)) == ReadPosition(1, 2, 0)
    assert ReadPosition.of(MessageId(1, 2, 3, 4)) == ReadPosition(1, 2, 4)
    assert ReadPosition.of(MessageId(-1, -1, 0)) == EARLIEST
    assert ReadPosition(1, 2, 4).message_id == MessageId(1, 2, -1, 4)
    assert ReadPosition(1, 2).message_id.batch_index == -1
    assert EARLIEST.message_id[:2] == (-1, -1)


def test_the_next_message_orders_before_the_next_entry() -> None:
    assert EARLIEST < ReadPosition(0, 0) < ReadPosition(0, 0, 1) < ReadPosition(0, 1) < ReadPosition(1, 0)


def same_text(name: str) -> bool:
    """Returns whether an offset is written again as its file has it."""
    return json.dumps(json.loads((GOLDEN / name).read_text())) == json.dumps(golden(name).to_json())


def test_golden_offsets_of_version_1() -> None:
    positions = {f"{T}0": ReadPosition(12, 34), f"{T}1": EARLIEST, f"{T}2": ReadPosition(7, 0, 5)}
    assert golden("offset-v1.json") == SourceOffset(positions)
    assert golden("offset-v1-first.json").initial == {f"{T}0": ReadPosition(3, 4, 5)}
    known = golden("offset-v1-with-newest.json")
    assert (known.newest, known.first) == ({f"{T}1": ReadPosition(15, 7)}, {f"{T}0": ReadPosition(11, 0)})
    assert same_text("offset-v1-first.json")
    assert same_text("offset-v1-with-newest.json")
    # a minor addition of the future is ignored, a version of the future refused
    assert golden("offset-v1-with-future-fields.json").positions == {f"{T}0": ReadPosition(12, 34)}
    reason = "offsets of version 9, this spark-pulsar reads up to version 2: use a newer one"
    with pytest.raises(OffsetError, match=reason):
        golden("offset-v9.json")


def test_golden_offset_with_evidence() -> None:
    # covers OFFSET-17
    offset = golden("offset-v1-with-seen.json")
    assert offset.seen == {
        f"{T}0": Fingerprint(12, 33, 1_790_000_000_000, 0x1A2B3C4D),
        f"{T}1": Fingerprint(9, 0, 0, 7),
    }
    assert (offset.replaced, offset.subscription) == ({f"{T}1", f"{T}0"}, "mine")
    assert same_text("offset-v1-with-seen.json")
    assert SourceOffset.from_json({"version": 1, "positions": {}}).seen == {}


def test_the_entry_before_a_position() -> None:
    # covers OFFSET-17
    assert last_before(ReadPosition(5, 8)) == ReadPosition(5, 7)
    assert last_before(ReadPosition(5, 8, 3)) == ReadPosition(5, 8)
    assert last_before(ReadPosition(5, 0, 1)) == ReadPosition(5, 0)
    assert last_before(ReadPosition(5, 0)) is None
    assert last_before(EARLIEST) is None


def test_entries_between_two_positions() -> None:
    assert entries_between(ReadPosition(1, 5), ReadPosition(1, 9)) == 4
    assert entries_between(ReadPosition(1, 5), ReadPosition(1, 9, 2)) == 5
    assert entries_between(ReadPosition(1, 5), ReadPosition(3, 0)) == 1
    assert entries_between(ReadPosition(1, 5), ReadPosition(3, 7)) == 7
    assert entries_between(ReadPosition(1, 5), ReadPosition(1, 5)) == 0


def test_what_is_no_offset_is_refused() -> None:
    empty = {"version": 1, "positions": {}}
    members = ({"initial": 3}, {"newest": 3}, {"first": {"t": "x"}}, {"seen": []}, {"replaced": "t"})
    members += ({"seen": {"t": "1:2:3"}}, {"seen": {"t": "1:2:3:xyz"}}, {"positions": []}, {"positions": {"t": 5}})
    members += ({"positions": {"t": "x"}}, {"version": "1"}, {"version": True}, {"version": 0})
    for loaded in (None, [], "x", {"version": "1"}, {"version": 1}, *(empty | member for member in members)):
        with pytest.raises(OffsetError):
            SourceOffset.from_json(loaded)


def test_the_recorded_start_wins_over_a_start_asked_again() -> None:
    # covers OFFSET-1: restart between offsets/0 and commits/0 with a moving latest
    recorded = {f"{T}0": ReadPosition(1, 7)}
    asked_again = SourceOffset({f"{T}0": ReadPosition(1, 30)}, fresh=True)
    end = SourceOffset({f"{T}0": ReadPosition(1, 40)}, initial=recorded)
    assert recorded_start(asked_again, end).positions == recorded
    committed = SourceOffset({f"{T}0": ReadPosition(1, 35)}, initial=recorded)
    assert recorded_start(committed, end) == committed
    assert recorded_start(asked_again, SourceOffset({})) == asked_again
