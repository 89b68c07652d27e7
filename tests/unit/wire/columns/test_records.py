"""The connector's record batches: Spark's exact Arrow types, projection, cutting, times."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_pulsar.model.errors import MalformedBatch
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.records import RECORD_COLUMNS, RecordDecoder, record_schema
from tests.unit.wire.columns.decode import record_batches
from tests.unit.wire.columns.test_entries import BATCH, HELLO, KEYED, entry

TOPIC = "persistent://public/default/t-partition-2"


def test_the_schema_is_what_spark_demands() -> None:
    # covers SCHEMA-1
    assert record_schema().equals(
        pa.schema(
            [
                pa.field("value", pa.binary()),
                pa.field("__key", pa.binary()),
                pa.field("__topic", pa.string()),
                pa.field("__messageId", pa.binary()),
                pa.field("__publishTime", pa.timestamp("us", tz="UTC")),
                pa.field("__eventTime", pa.timestamp("us", tz="UTC")),
                pa.field("__messageProperties", pa.map_(pa.string(), pa.string())),
            ]
        )
    )


def test_a_real_entry_in_all_columns() -> None:
    (batch,) = record_batches([EntrySlice(KEYED, 5, 1, 2)], TOPIC)
    batch.validate(full=True)
    assert batch.schema.equals(record_schema())
    assert batch.to_pylist() == [
        {
            "value": b"hi",
            "__key": b"k",
            "__topic": TOPIC,
            "__messageId": bytes.fromhex("080510011802"),
            "__publishTime": datetime(2026, 11, 21, 7, 54, 54, 356_000, UTC),
            "__eventTime": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "__messageProperties": [("a", "1")],
        }
    ]


def test_columns_come_in_the_order_asked_for() -> None:
    (batch,) = record_batches([EntrySlice(BATCH, 5, 1)], TOPIC, ["__topic", "value"])
    assert batch.schema.names == ["__topic", "value"]
    assert batch.column("__topic").to_pylist() == [TOPIC] * 3
    (batch,) = record_batches([EntrySlice(BATCH, 5, 1)], TOPIC, [])
    assert (batch.num_columns, batch.num_rows) == (0, 3)
    with pytest.raises(ValueError, match="'__nonsense'"):
        record_schema(["__nonsense"])
    for name in RECORD_COLUMNS:
        (batch,) = record_batches([EntrySlice(BATCH, 5, 1)], TOPIC, [name])
        assert (batch.schema.names, batch.num_rows) == ([name], 3)


def test_null_values_are_null() -> None:
    slices = [EntrySlice(entry(null_value=True), 1, 0), EntrySlice(HELLO, 1, 1)]
    (nullable,) = record_batches(slices, TOPIC, ["value"])
    assert nullable.column("value").to_pylist() == [None, b"hello"]


def test_small_entries_are_put_together_and_large_ones_cut() -> None:
    slices = [EntrySlice(BATCH, 1, i) for i in range(10)]
    assert [batch.num_rows for batch in record_batches(slices, TOPIC)] == [30]
    assert [batch.num_rows for batch in record_batches(slices, TOPIC, max_rows=9)] == [9, 9, 9, 3]
    assert [batch.num_rows for batch in record_batches(slices, TOPIC, max_rows=2)] == [2, 1] * 10
    assert [batch.num_rows for batch in record_batches(slices, TOPIC, max_bytes=1)] == [1] * 30
    assert [batch.num_rows for batch in record_batches(slices, TOPIC, ["value"], max_bytes=4)] == [2, 1] * 10


def test_batches_of_one_decoder_share_the_topic_and_are_whole_by_themselves() -> None:
    decoder = RecordDecoder(TOPIC, ["__topic", "value"], max_rows=9)
    slices = [EntrySlice(BATCH, 1, i) for i in range(5)]
    batches = [batch for count in (1, 5, 2) for batch in decoder.batches(slices[:count])]
    assert [batch.num_rows for batch in batches] == [3, 9, 6, 6]
    for batch in batches:
        batch.validate(full=True)
        assert batch.column("__topic").to_pylist() == [TOPIC] * batch.num_rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, decoder.schema) as stream:
        stream.write_batch(batches[0])
    assert len(sink.getvalue()) < 1_000, "of the shared topics only those of the batch are sent"


def test_no_batch_is_empty() -> None:
    marker = EntrySlice(entry(marker_type=1), 1, 0)
    unwanted = EntrySlice(BATCH, 1, 1, first_index=3)
    assert list(record_batches([marker, unwanted], TOPIC)) == []
    assert list(record_batches([], TOPIC)) == []


def test_times_outside_the_calendar_are_held_at_its_ends() -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    for sent, shown in (
        (2**64 - 1, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)),
        (2**63, first),
        (2**63 - 1, last),
        (253_402_300_800_000, last),
        (0, None),
    ):
        (batch,) = record_batches([EntrySlice(entry(event_time=sent), 1, 0)], TOPIC, ["__eventTime"])
        assert batch.column(0).to_pylist() == [shown]


def test_what_was_read_before_a_bad_entry_is_not_lost() -> None:
    slices = [EntrySlice(BATCH, 1, 0), EntrySlice(entry(b"bad", num_messages_in_batch=0), 1, 1)]
    spoilt = EntrySlice(entry(b"\0\0\0\x02\x18\x09", num_messages_in_batch=1), 1, 2)
    batches = record_batches([*slices, spoilt], TOPIC, max_rows=3)
    assert next(batches).num_rows == 3
    with pytest.raises(MalformedBatch, match="1:2"):
        next(batches)
