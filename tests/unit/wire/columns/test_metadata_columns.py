"""Columns that come on request: ordering keys, and what the broker puts in front of an entry."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_pulsar.model.errors import MalformedBatch
from spark_pulsar.wire.columns.entries import EntrySlice, inspect_entries, whole_message
from spark_pulsar.wire.columns.records import METADATA_COLUMNS
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.entry_commands import build_broker_metadata
from tests.unit.wire.columns.decode import record_batches
from tests.unit.wire.columns.test_entries import BATCH, HELLO, KEYED, WITH_BROKER_METADATA, entry

TOPIC = "persistent://public/default/t-partition-2"


def rows(*slices: EntrySlice, names: tuple[str, ...] = METADATA_COLUMNS) -> list[dict[str, object]]:
    (batch,) = record_batches(list(slices), TOPIC, names)
    batch.validate(full=True)
    listed: list[dict[str, object]] = batch.to_pylist()
    return listed


def test_every_column_of_a_real_entry() -> None:
    assert rows(EntrySlice(KEYED, 5, 1, 2)) == [
        {
            "__orderingKey": b"o",
            "__producerName": "p",
            "__sequenceId": 1,
            "__schemaVersion": None,
            "__redeliveryCount": 0,
            "__partition": 2,
            "__ledgerId": 5,
            "__entryId": 1,
            "__batchIndex": None,
            "__brokerPublishTime": None,
            "__index": None,
            "__encryptionContext": None,
        }
    ]


def test_the_broker_tells_time_and_index_where_it_keeps_them() -> None:
    names = ("__brokerPublishTime", "__index")
    told, untold = rows(EntrySlice(WITH_BROKER_METADATA, 5, 1), EntrySlice(HELLO, 5, 2), names=names)
    assert told == {"__brokerPublishTime": datetime(2023, 11, 14, 22, 13, 20, 1_000, UTC), "__index": 7}
    assert untold == dict.fromkeys(names)


def test_the_index_of_a_batch_is_that_of_its_last_message() -> None:
    batch = EntrySlice(build_broker_metadata(1, 12) + BATCH, 5, 1)
    assert [row["__index"] for row in rows(batch, EntrySlice(HELLO, 5, 2))] == [10, 11, 12, None]
    rest = batch._replace(first_index=2)
    assert [row["__index"] for row in rows(rest)] == [12]


def test_ordering_keys_of_a_batch_are_those_of_its_messages() -> None:
    items = b""
    for key in (b"x", None, b""):
        item = SingleMessageMetadata(payload_size=1, ordering_key=key).SerializeToString()
        items += len(item).to_bytes(4, "big") + item + b"v"
    batch = EntrySlice(entry(items, num_messages_in_batch=3, ordering_key=b"of the batch"), 1, 1)
    assert [row["__orderingKey"] for row in rows(batch)] == [b"x", None, b""]


@pytest.mark.parametrize("size", [3, 2**32 - 1])
def test_metadata_of_the_broker_that_are_cut_off_are_refused(size: int) -> None:
    head = build_broker_metadata(1, 12)
    damaged = head[:2] + size.to_bytes(4, "big") + head[6:] + HELLO
    with pytest.raises(MalformedBatch):
        rows(EntrySlice(damaged, 1, 1))


def test_a_message_of_chunks_keeps_what_the_broker_told_of_its_last_chunk() -> None:
    told = build_broker_metadata(5, 6)
    table = inspect_entries([EntrySlice(told + HELLO, 5, 1), EntrySlice(HELLO, 5, 2)])
    assert [table.broker_metadata(0), table.broker_metadata(1)] == [told, b""]
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    whole = whole_message(metadata, b"v", 5, 1, broker_metadata=table.broker_metadata(0))
    assert rows(whole, names=("__index",)) == [{"__index": 6}]
