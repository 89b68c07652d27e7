"""Batches from Arrow columns: input types, nulls, limits, groups, and what the shared metadata must say."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_pulsar.wire.columns.encode import EncodedBatches, encode_batches, message_columns
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.flat import event_times_ms
from spark_pulsar.wire.columns.key_hashes import RowGroups, text_keys
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.unit.wire.columns.decode import decode_entries

PROPERTIES = pa.map_(pa.string(), pa.string())


def decoded(batches: EncodedBatches, *names: str) -> list[list[Any]]:
    """Rows of all batches as the decoder sees them, through a described metadata."""
    slices = []
    for batch in batches:
        metadata = MessageMetadata(producer_name="p", publish_time=1)
        batch.describe(metadata)
        head = metadata.SerializeToString()
        slices.append(EntrySlice(len(head).to_bytes(4, "big") + head + bytes(batch.payload), batch.group, len(slices)))
    table = decode_entries(slices, names)
    return [list(row) for row in zip(*(table.column(name).to_pylist() for name in names), strict=True)]


def test_bytes_of_the_official_client() -> None:
    # A batch of three, and send(None), of the official client.
    (batch,) = encode_batches(message_columns(pa.array([b"m0", b"m1", b"m2"])))
    assert bytes(batch.payload).hex() == ("00000004180240006d30" + "00000004180240016d31" + "00000004180240026d32")
    (batch,) = encode_batches(message_columns(pa.array([None], pa.binary())), first_sequence_ids=[2])
    assert bytes(batch.payload).hex() == "00000006180040024801"


@pytest.mark.parametrize(
    "arrow_type",
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()],
)
def test_all_string_and_binary_types_with_nulls_slices_and_chunks(arrow_type: pa.DataType) -> None:
    is_text = "string" in str(arrow_type)
    items: list[Any] = ["skipped", "a", None, "", "é" * 40_000, "z"]
    column = pa.array([item if is_text or item is None else item.encode() for item in items], arrow_type)
    expected = [[b"a"], [None], [b""], ["é".encode() * 40_000]]
    assert decoded(encode_batches(message_columns(column.slice(1, 4))), "value") == expected
    chunked = pa.chunked_array([column.slice(1, 2), column.slice(3, 0), column.slice(3, 2)])
    assert decoded(encode_batches(message_columns(chunked)), "value") == expected


def test_other_columns_of_bytes() -> None:
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    assert decoded(encode_batches(message_columns(fixed)), "value") == [[b"ab"], [None], [b"cd"]]
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    assert decoded(encode_batches(message_columns(words)), "value") == [[b"x"], [b"y"], [b"x"]]
    assert decoded(encode_batches(message_columns(pa.nulls(2))), "value") == [[None], [None]]
    with pytest.raises(TypeError, match="int64"):
        message_columns(pa.array([1]))


def test_no_rows_give_no_batches() -> None:
    for column in (pa.array([], pa.binary()), pa.chunked_array([], pa.string()), pa.array(["a"]).slice(1)):
        assert list(encode_batches(message_columns(column))) == []


def test_sliced_maps() -> None:
    properties = pa.array([[("x", "y")], [("a", "1")], None, [("b", "2"), ("c", "3")]], PROPERTIES).slice(1)
    columns = message_columns(pa.array(["1", "2", "3"]), properties=properties)
    assert decoded(encode_batches(columns), "properties") == [[[("a", "1")]], [[]], [[("b", "2"), ("c", "3")]]]
    large = properties.cast(pa.map_(pa.large_string(), pa.large_string()))
    columns = message_columns(pa.array(["1", "2", "3"]), properties=large)
    assert decoded(encode_batches(columns), "properties")[2] == [[("b", "2"), ("c", "3")]]
    columns = message_columns(pa.array(["1", "2"]), properties=pa.nulls(2))
    assert decoded(encode_batches(columns), "properties") == [[[]], [[]]]


def test_a_property_without_value_names_row_and_key() -> None:
    properties = pa.array([[("fine", "1")], [("x", "y"), ("bad", None)]], PROPERTIES)
    with pytest.raises(ValueError, match="row 1: the property 'bad'"):
        message_columns(pa.array(["1", "2"]), properties=properties)
    with pytest.raises(TypeError, match="map"):
        message_columns(pa.array(["1"]), properties=pa.array(["1"]))
    message_columns(pa.array(["1"]), properties=properties.slice(0, 1))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_event_times_of_any_unit_and_zone(unit: str, zone: str | None) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    early = datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    column = pa.array([moment, None, early], pa.timestamp("us", tz="UTC")).cast(pa.timestamp(unit, tz="UTC"))
    column = column.cast(pa.timestamp(unit, tz=zone)) if zone else column.cast(pa.timestamp(unit))
    assert event_times_ms(column).tolist() == [1767323045000, 0, -1000]


def test_event_times_are_rounded_down_and_other_types_refused() -> None:
    assert event_times_ms(pa.array([-1, 1999], pa.timestamp("us"))).tolist() == [-1, 1]
    assert event_times_ms(pa.array([7, None], pa.int32())).tolist() == [7, 0]
    assert event_times_ms(pa.nulls(2)).tolist() == [0, 0]
    with pytest.raises(TypeError, match="string"):
        event_times_ms(pa.array(["now"]))


def test_batches_are_cut_where_the_caller_says() -> None:
    columns = message_columns(pa.array(list("abcdef")))
    cuts = np.array([1, 0, 1, 0, 0, 1], np.uint8)
    assert [b.message_count for b in encode_batches(columns, cuts=cuts)] == [2, 3, 1]
    assert [b.message_count for b in encode_batches(columns, cuts=cuts, max_messages=2)] == [2, 2, 1, 1]
    with pytest.raises(ValueError, match="6 rows need as many cuts, not 2"):
        encode_batches(columns, cuts=cuts[:2])


def test_a_row_with_a_delivery_time_is_a_batch_of_its_own() -> None:
    # covers DEL-1
    times = np.array([0, 0, 5, 0, 7, 8, 0], np.int64)
    columns = message_columns(pa.array(list("abcdefg")), deliver_at_times=times)
    batches = list(encode_batches(columns, first_sequence_ids=[10]))
    assert [batch.rows.tolist() for batch in batches] == [[0, 1], [2], [3], [4], [5], [6]]
    assert [batch.is_delayed for batch in batches] == [False, True, False, True, True, False]
    assert [batch.first_sequence_id for batch in batches] == [10, 12, 13, 14, 15, 16]
    metadata = MessageMetadata()
    assert columns.describe(4, metadata) == b"e"
    assert metadata.deliver_at_time == 7
    cuts = np.array([1, 1, 0, 0, 0, 0, 0], np.uint8)
    assert [batch.message_count for batch in encode_batches(columns, cuts=cuts)] == [1] * 7


def test_limits_cut_batches_in_order() -> None:
    columns = message_columns(pa.array([b"x" * 10] * 10))
    item = 4 + 4 + 10
    assert [b.message_count for b in encode_batches(columns, max_messages=4)] == [4, 4, 2]
    assert [b.message_count for b in encode_batches(columns, max_bytes=3 * item)] == [3, 3, 3, 1]
    assert [b.message_count for b in encode_batches(columns, max_bytes=3 * item - 1)] == [2] * 5
    assert [b.message_count for b in encode_batches(columns, max_bytes=1)] == [1] * 10
    assert [len(b.payload) for b in encode_batches(columns, max_messages=4)] == [4 * item, 4 * item, 2 * item]
    assert [b.first_sequence_id for b in encode_batches(columns, max_messages=4, first_sequence_ids=[7])] == [7, 11, 15]
    for limits in ({"max_messages": 0}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match="limits"):
            encode_batches(columns, **limits)


def test_rows_may_be_left_out_or_repeated() -> None:
    groups = RowGroups(np.array([2, 2, 0]), np.array([0, 2, 3]))
    batches = encode_batches(message_columns(pa.array(["a", "b", "c"])), groups=groups, first_sequence_ids=[0, 2**40])
    assert decoded(batches, "value", "sequence_id") == [[b"c", 0], [b"c", 1], [b"a", 2**40]]


@pytest.mark.parametrize(
    ("rows", "offsets"), [([3], [0, 1]), ([-1], [0, 1]), ([0], [0, 2]), ([0], [1, 1]), ([0, 1], [0, 2, 1, 2])]
)
def test_groups_that_do_not_fit_are_refused(rows: list[int], offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="group"):
        encode_batches(message_columns(pa.array(["a", "b", "c"])), groups=RowGroups(np.array(rows), np.array(offsets)))


def test_columns_and_ids_must_fit_together() -> None:
    with pytest.raises(ValueError, match="keys has 1 rows, value has 2"):
        message_columns(pa.array(["a", "b"]), keys=text_keys(pa.array(["k"])))
    with pytest.raises(ValueError, match="event_times has 3"):
        message_columns(pa.array(["a", "b"]), event_times=pa.array([1, 2, 3]))
    with pytest.raises(ValueError, match="1 groups"):
        encode_batches(message_columns(pa.array(["a"])), first_sequence_ids=[1, 2])


def test_the_metadata_of_a_batch_says_what_its_first_message_says() -> None:
    columns = message_columns(pa.array(["a", "b"]), keys=text_keys(pa.array([b"\xff", b"x"])))
    (batch,) = encode_batches(columns, first_sequence_ids=[5])
    metadata = MessageMetadata(producer_name="p", publish_time=1)
    batch.describe(metadata)
    assert metadata == MessageMetadata(
        producer_name="p",
        publish_time=1,
        sequence_id=5,
        highest_sequence_id=6,
        num_messages_in_batch=2,
        partition_key="/w==",
        partition_key_b64_encoded=True,
    )


def test_a_large_row_can_be_sent_alone() -> None:
    columns = message_columns(
        pa.array(["small", "x" * 1000, None]),
        keys=text_keys(pa.array(["k", "l", None])),
        properties=pa.array([None, [("a", "1")], None], PROPERTIES),
        event_times=pa.array([None, 9, None]),
    )
    sizes = [(batch.message_count, len(batch.payload) > 200) for batch in encode_batches(columns, max_bytes=200)]
    assert sizes == [(1, False), (1, True), (1, False)]
    metadata = MessageMetadata(producer_name="p", publish_time=1, sequence_id=4)
    assert columns.describe(1, metadata) == b"x" * 1000
    expected = MessageMetadata(producer_name="p", publish_time=1, sequence_id=4, partition_key="l", event_time=9)
    expected.properties.add(key="a", value="1")
    assert metadata == expected
    nothing = MessageMetadata(producer_name="p", publish_time=1, sequence_id=5)
    assert columns.describe(2, nothing) == b""
    assert nothing == MessageMetadata(producer_name="p", publish_time=1, sequence_id=5, null_value=True)
