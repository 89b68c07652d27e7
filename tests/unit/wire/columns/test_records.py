"""The connector's record batches: Spark's exact Arrow types, projection, cutting, metadata, rows by key."""

import struct
from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.errors import MalformedBatch
from spark_pulsar.wire.columns.entries import EntrySlice, inspect_entries, whole_message
from spark_pulsar.wire.columns.key_set import KeySet
from spark_pulsar.wire.columns.records import METADATA_COLUMNS, RECORD_COLUMNS, RecordDecoder, record_schema
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.entry_commands import build_broker_metadata
from tests.unit.wire.columns.decode import record_batches
from tests.unit.wire.columns.test_entries import BATCH, HELLO, KEYED, WITH_BROKER_METADATA, entry

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


KEYS = [None, "", "a", "é", "YQ==", "b"]


def batch(messages: list[tuple[str | None, bool]]) -> EntrySlice:
    """A batch of messages with these keys, base64 or not; values say both."""
    payload = b""
    for key, is_base64 in messages:
        value = f"{key}{'!' if is_base64 else ''}".encode()
        meta = SingleMessageMetadata(payload_size=len(value))
        if key is not None:
            meta.partition_key = key
            meta.partition_key_b64_encoded = is_base64
        head = meta.SerializeToString()
        payload += struct.pack(">I", len(head)) + head + value
    return EntrySlice(entry(payload, num_messages_in_batch=len(messages)), 1, 0)


def chosen(entries: list[EntrySlice], texts: set[str], encoded: set[str], max_rows: int = 10_000) -> list[str]:
    keys = KeySet({key.encode() for key in texts}, {key.encode() for key in encoded})
    decoder = RecordDecoder("t", ["value"], keys=keys, max_rows=max_rows)
    return [value.decode() for part in decoder.batches(entries) for value in part.column("value").to_pylist()]


def test_a_text_is_no_bytes_and_no_key_is_no_empty_key() -> None:
    # covers READ-23
    one = batch([(key, False) for key in KEYS] + [("YQ==", True), ("", True)])
    assert chosen([one], {"a"}, set()) == ["a"]
    assert chosen([one], {"YQ=="}, set()) == ["YQ=="]
    assert chosen([one], set(), {"YQ=="}) == ["YQ==!"]
    assert chosen([one], {""}, {""}) == ["", "!"]
    assert chosen([one], {"nobody's"}, set()) == []
    assert chosen([EntrySlice(BATCH, 1, 1)], {"a"}, set()) == []


def test_what_is_damaged_is_told_with_other_keys_too() -> None:
    broken = EntrySlice(entry(b"\x00\x00\x00\xff", num_messages_in_batch=1, partition_key="b"), 1, 0)
    try:
        chosen([broken], {"a"}, set())
    except MalformedBatch:
        return
    raise AssertionError("a damaged batch was passed over")


@given(st.integers(0, 2**32), st.sets(st.sampled_from(KEYS[1:])), st.sets(st.sampled_from(["", "YQ==", "Yg=="])))
def test_rows_stay_in_order_across_entries(seed: int, texts: set[str], encoded: set[str]) -> None:
    rng = Random(seed)
    messages = [
        [(key, key in ("", "YQ==") and rng.random() < 0.5) for key in rng.choices(KEYS, k=rng.randrange(1, 8))]
        for _ in range(rng.randrange(1, 6))
    ]
    expected = [
        f"{key}{'!' if is_base64 else ''}"
        for one in messages
        for key, is_base64 in one
        if key in (encoded if is_base64 else texts)
    ]
    assert chosen([batch(one) for one in messages], texts, encoded, max_rows=rng.choice([1, 3, 100])) == expected
