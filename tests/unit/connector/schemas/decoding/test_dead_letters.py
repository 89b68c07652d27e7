"""Dead letters: what a message that did not decode becomes."""

from __future__ import annotations

import datetime

from spark_pulsar.connector.schemas.decoding.dead_letters import letter_metadata
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData

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
