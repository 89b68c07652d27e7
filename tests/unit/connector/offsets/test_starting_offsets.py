"""Message ids as the text of `startingOffsets`."""

from __future__ import annotations

import json
from typing import Any

import pulsar
import pytest

from spark_pulsar import starting_offsets
from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

TOPIC = "persistent://public/default/t"


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
