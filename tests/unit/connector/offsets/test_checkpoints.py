"""Texts of `startingOffsets`: of message ids, and of where a checkpoint stands, of this connector or StreamNative's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_pulsar import starting_offsets
from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets.source_offset import SourceOffset, check_known_start
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

TOPIC = "persistent://public/default/t"
SETTINGS = '{"batchWatermarkMs":0}'
NONE_YET = [8, *[-1] * 9, 1, 16, *[-1] * 9, 1, 48, 0]
"""`MessageId.earliest` as StreamNative's connector writes it."""


def ours(text: str, **more: object) -> str:
    return json.dumps({"version": 1, "positions": {TOPIC: text}, **more})


def theirs(*numbers: int) -> str:
    return json.dumps({TOPIC: numbers})


def checkpoint(directory: Path, offsets: dict[int, str], commits: int, first: str = "", version: str = "v1") -> str:
    for folder in ("offsets", "commits", "sources/0"):
        (directory / folder).mkdir(parents=True)
    for number, line in offsets.items():
        (directory / "offsets" / str(number)).write_text(f"{version}\n{SETTINGS}\n{line}")
        (directory / "offsets" / f".{number}.crc").write_bytes(b"\xff")
    for number in range(commits):
        (directory / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    if first:
        (directory / "sources" / "0" / "0").write_text(f"v1\n{first}")
    return str(directory)


def start_of(place: str) -> dict[str, str]:
    return dict(json.loads(starting_offsets(checkpoint=place)))


@pytest.mark.parametrize(
    ("offsets", "commits", "first", "start"),
    [
        ({0: ours("5:7:0"), 1: ours("5:9:3")}, 2, "", "5:9:-1:3"),
        ({0: ours("5:7:0"), 1: ours("5:9:3")}, 1, "", "5:7:-1:-1"),
        ({0: ours("5:7:0", initial={TOPIC: "earliest"})}, 0, "", "earliest"),
        ({0: theirs(8, 5, 16, 7), 1: theirs(8, 5, 16, 9, 32, 2)}, 2, "", "5:9:-1:3"),
        ({0: theirs(8, 5, 16, 7), 1: theirs(8, 5, 16, 9, 32, 2)}, 1, "", "5:8:-1:-1"),
        ({0: theirs(8, 5, 16, 7)}, 0, theirs(*NONE_YET), "earliest"),
        ({0: theirs(8, 5, 16, 7)}, 0, theirs(8, 5, 16, 3), "5:3:-1:-1"),
        ({0: theirs(8, 5, 16, 7)}, 0, theirs(8, 5, 16, 7), "5:8:-1:-1"),
        ({}, 0, theirs(8, 5, 16, 3), "5:3:-1:-1"),
        ({0: f'{{"logOffset":3}}\n{ours("5:7:0")}\n-'}, 1, "", "5:7:-1:-1"),
    ],
)
def test_a_checkpoint_names_where_it_stands(
    tmp_path: Path, offsets: dict[int, str], commits: int, first: str, start: str
) -> None:
    # covers OFFSET-25
    assert start_of(checkpoint(tmp_path / "at", offsets, commits, first)) == {TOPIC: start}


def test_sources_that_have_names(tmp_path: Path) -> None:
    other = ours("6:1:0").replace("/t", "/u")
    place = checkpoint(tmp_path / "at", {0: f"left:{ours('5:7:0')}\nright:{other}"}, 1, version="v2")
    assert start_of(f"file://{place}") == {TOPIC: "5:7:-1:-1", TOPIC.replace("/t", "/u"): "6:1:-1:-1"}


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    for name, offsets, reason in (
        ("none", None, "is no checkpoint"),
        ("other", {0: '{"logOffset":3}'}, "no offset of a source of Pulsar"),
        ("two", {0: f"{ours('5:7:0')}\n{ours('5:8:0')}"}, "two sources of the query"),
        ("future", {0: '{"version":9,"positions":{}}'}, "use a newer one"),
        ("gone", {7: ours("5:7:0")}, "no offsets of micro-batch 0"),
    ):
        place = str(tmp_path / name) if offsets is None else checkpoint(tmp_path / name, offsets, 1)
        with pytest.raises(OffsetError, match=reason):
            starting_offsets(checkpoint=place)
    with pytest.raises(OffsetError, match="message ids or a checkpoint"):
        starting_offsets()
    with pytest.raises(OffsetError, match="give the session that reads it, spark=…, or install fsspec"):
        starting_offsets(checkpoint="s3a://bucket/checkpoint")


def test_an_offset_of_streamnative() -> None:
    # covers OFFSET-24
    loaded = {TOPIC: [8, 5, 16, 9, 32, 2, 48, 0], "a": NONE_YET, "b": [8, -13, -45, -71, -45, 10, 16, 43]}
    offset = SourceOffset.from_json(loaded)
    assert offset.is_streamnative
    assert offset.positions == {
        TOPIC: ReadPosition(5, 9, 3),
        "a": EARLIEST,
        "b": ReadPosition(2_859_362_803, 44),
    }
    assert SourceOffset.from_json({}).positions == {}
    for bad in ([8, 1], [8, 300, 16, 1], ["8"], [8, *[-1] * 8, 127, 16, *[-1] * 8, 127]):
        with pytest.raises(OffsetError):
            SourceOffset.from_json({TOPIC: bad})


def test_the_start_of_a_first_micro_batch_is_known_again_but_for_latest() -> None:
    fresh = SourceOffset({TOPIC: ReadPosition(5, 9)}, fresh=True)
    end = SourceOffset.from_json({TOPIC: [8, 5, 16, 7]})
    check_known_start(fresh, end, is_latest=False)
    check_known_start(fresh, SourceOffset.from_json({TOPIC: NONE_YET}), is_latest=True)
    check_known_start(SourceOffset(fresh.positions), end, is_latest=True)
    with pytest.raises(OffsetError, match="starting_offsets"):
        check_known_start(fresh, end, is_latest=True)


# ---- message ids


def of(message_id: Any, *, after: bool = False) -> str:
    (found,) = json.loads(starting_offsets({TOPIC: message_id}, after=after)).values()
    return str(found)


def serialized(**fields: int) -> bytes:
    return MessageIdData(ledgerId=5, entryId=7, **fields).SerializeToString()


@pytest.mark.parametrize(
    ("message_id", "at", "after"),
    [
        (serialized(), "5:7:-1:-1", "5:8:-1:-1"),
        (serialized(partition=3), "5:7:-1:-1", "5:8:-1:-1"),
        (serialized(batch_index=0, batch_size=1), "5:7:-1:-1", "5:8:-1:-1"),
        (serialized(batch_index=1, batch_size=3), "5:7:-1:1", "5:7:-1:2"),
        (bytearray(serialized(batch_index=2, batch_size=3)), "5:7:-1:2", "5:8:-1:-1"),
        (serialized(batch_index=2), "5:7:-1:2", "5:7:-1:3"),
        (pulsar.MessageId(ledger_id=5, entry_id=7), "5:7:-1:-1", "5:8:-1:-1"),
        ("5:7:-1:-1", "5:7:-1:-1", "5:8:-1:-1"),
        ("(5,7,-1,2)", "5:7:-1:2", "5:7:-1:3"),
        ("earliest", "earliest", "earliest"),
        ("latest", "latest", "latest"),
        ("Earliest", "earliest", "earliest"),
    ],
)
def test_a_message_id_is_a_position(message_id: Any, at: str, after: str) -> None:
    assert [of(message_id), of(message_id, after=True)] == [at, after]


def test_topics_have_their_full_names() -> None:
    text = starting_offsets({"t": serialized(), "a/b/c-partition-1": serialized()})
    assert set(json.loads(text)) == {TOPIC, "persistent://a/b/c-partition-1"}


@pytest.mark.parametrize("wrong", [b"", b"\xff", "5:7:0", 5, None, pulsar.MessageId.earliest, pulsar.MessageId.latest])
def test_what_is_no_message_id_is_refused(wrong: Any) -> None:
    with pytest.raises(OffsetError, match="message id"):
        of(wrong)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"message_ids": "earliest"}, "message_ids is 'earliest': give a dictionary"),
        ({"message_ids": [TOPIC]}, "message_ids is .*: give a dictionary"),
        ({"message_ids": {}}, "message_ids is {}: give a dictionary"),
        ({"message_ids": {5: "earliest"}}, "5 is no name of a topic"),
        ({"message_ids": {"a/b": "earliest"}}, "Invalid topic name: a/b"),
        ({"checkpoint": 5}, "checkpoint is 5: give the directory of a query"),
        ({"checkpoint": Path("nowhere")}, "'nowhere' is no checkpoint"),
        ({"checkpoint": "nowhere", "spark": "session"}, "spark is 'session': give a SparkSession"),
    ],
)
def test_arguments_of_other_types(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(OffsetError, match=reason):
        starting_offsets(**arguments)
