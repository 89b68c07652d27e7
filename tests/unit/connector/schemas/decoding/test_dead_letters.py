"""Dead letters: what a message that did not decode becomes."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.errors import UndecodableMessageError
from spark_pulsar.connector.schemas.decoding.dead_letters import DeadLetters, letter_metadata
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.wire.protocol.commands import connected
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageIdData
from tests.unit.client.peer import Peer

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def test_event_times_keep_their_millisecond_and_tombstones_are_told() -> None:
    for time_ms in (*range(1_000, 1_300), *range(1_700_000_000_000, 1_700_000_000_100)):
        message = {
            "__key": b"\xff",
            "__eventTime": EPOCH + datetime.timedelta(milliseconds=time_ms),
            "__messageProperties": [("a", "b")],
            "__messageId": MessageIdData(ledgerId=1, entryId=2, partition=-1).SerializeToString(),
            "value": None if time_ms % 2 else b"x",
        }
        metadata = letter_metadata(message, "t", "reason")
        assert metadata.event_time == time_ms
        assert metadata.null_value is bool(time_ms % 2)
        assert metadata.partition_key_b64_encoded
        assert {each.key for each in metadata.properties} == {"a", "REAL_TOPIC", "ORIGIN_MESSAGE_ID", "DECODE_ERROR"}


def test_properties_that_leave_no_room_are_told_with_the_option() -> None:
    peer = Peer()
    peer.answer(BaseCommand.CONNECT, lambda asked: connected(asked.protocol_version, "peer", 1_000))
    message = {
        "value": b"x",
        "__key": None,
        "__messageId": MessageIdData(ledgerId=1, entryId=2, partition=-1).SerializeToString(),
        "__eventTime": None,
        "__messageProperties": [("a", "b" * 2_000)],
    }
    kinds = pa.map_(pa.string(), pa.string())
    batch = pa.RecordBatch.from_pylist([message]).drop_columns("__messageProperties")
    batch = batch.append_column("__messageProperties", pa.array([message["__messageProperties"]], kinds))
    try:
        with PulsarClient(ClientConfig(peer.url)) as client, DeadLetters(client, "letters", "t") as letters:
            with pytest.raises(UndecodableMessageError, match=r"t: message 1:2:-1 .*too large for the deadLetterTopic"):
                letters.publish(batch, Reasons.of({0: "no JSON"}))
            assert not peer.of(BaseCommand.SEND)
    finally:
        peer.close()
