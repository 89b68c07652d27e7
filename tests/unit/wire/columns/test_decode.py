"""Columns of decoded messages: types, nulls, large values, text that is not UTF-8, bounds of work and memory."""

import contextlib
import struct
import time
import tracemalloc

import numpy as np
import pulsar
import pytest

from spark_pulsar.model.errors import MalformedBatch
from spark_pulsar.wire.columns.entries import EncryptedEntry, EntrySlice
from spark_pulsar.wire.columns.kernels.column_kernels import bytes_offsets
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.unit.wire.columns.decode import decode_entries
from tests.unit.wire.columns.test_entries import BATCH, HELLO, entry


def batch_of(*items: tuple[SingleMessageMetadata, bytes]) -> EntrySlice:
    payload = b""
    for metadata, value in items:
        metadata.payload_size = len(value)
        head = metadata.SerializeToString()
        payload += struct.pack(">I", len(head)) + head + value
    return EntrySlice(entry(payload, num_messages_in_batch=len(items)), 1, 2, 3)


def column(name: str, *items: tuple[SingleMessageMetadata, bytes]) -> list[object]:
    values: list[object] = decode_entries([batch_of(*items)], [name]).column(name).to_pylist()
    return values


def test_keys_null_empty_text_and_base64() -> None:
    meta = SingleMessageMetadata
    assert column(
        "key",
        (meta(), b""),
        (meta(partition_key=""), b""),
        (meta(partition_key="é"), b""),
        (meta(partition_key="/wA=", partition_key_b64_encoded=True), b""),
        (meta(partition_key="/wA", partition_key_b64_encoded=True), b""),
        (meta(partition_key="", partition_key_b64_encoded=True), b""),
        (meta(partition_key="/wA=", partition_key_b64_encoded=True, null_partition_key=True), b""),
    ) == [None, b"", "é".encode(), b"\xff\0", b"\xff\0", b"", None]


def test_null_and_empty_values() -> None:
    meta = SingleMessageMetadata
    assert column("value", (meta(), b""), (meta(null_value=True), b""), (meta(null_value=True), b"x")) == [
        b"",
        None,
        None,
    ]
    single = EntrySlice(entry(b"", null_value=True), 1, 0)
    assert decode_entries([single], ["value"]).column("value").to_pylist() == [None]
    # What the Python client sends for send(None) in a batch.
    data = entry(bytes.fromhex("00000006" + "180040024801"), num_messages_in_batch=1)
    assert decode_entries([EntrySlice(data, 1, 0)], ["value", "sequence_id"]).to_pylist() == [
        {"value": None, "sequence_id": 2}
    ]


def test_event_time_zero_is_null_and_sequence_ids_fall_back_to_the_entry() -> None:
    meta = SingleMessageMetadata
    assert column("event_time", (meta(), b""), (meta(event_time=0), b""), (meta(event_time=5), b"")) == [None, None, 5]
    assert column("sequence_id", (meta(), b""), (meta(sequence_id=9), b"")) == [0, 9]


def test_values_above_64_kilobytes() -> None:
    values = [np.random.default_rng(i).bytes(70_000 + i) for i in range(5)]
    assert column("value", *((SingleMessageMetadata(), value) for value in values)) == values


def test_properties_of_single_and_batched_messages() -> None:
    item = SingleMessageMetadata()
    for key, value in (("a", "1"), ("b", ""), ("a", "2"), ("", "é")):
        item.properties.add(key=key, value=value)
    # Of equal keys the last one counts, as in the maps of the official clients.
    assert column("properties", (item, b"x"), (SingleMessageMetadata(), b"y")) == [
        [("b", ""), ("a", "2"), ("", "é")],
        [],
    ]


def test_many_properties_with_repeated_keys() -> None:
    many, few = SingleMessageMetadata(), SingleMessageMetadata()
    for i in range(300):
        many.properties.add(key=f"k{i % 100}", value=str(i))
    few.properties.add(key="a", value="b")
    first, second, third = column("properties", (few, b""), (many, b""), (few, b""))
    assert first == third == [("a", "b")]
    assert second == [(f"k{i % 100}", str(i)) for i in range(200, 300)]


def test_text_that_is_not_utf_8_is_replaced_as_java_shows_it() -> None:
    pair = b"\x0a\x02k\xff" + b"\x12\x03v\xed\xa0"
    data = entry() + b"value"
    head = data[4 : 4 + int.from_bytes(data[:4], "big")] + b"\x22" + bytes([len(pair)]) + pair
    slices = [EntrySlice(struct.pack(">I", len(head)) + head + b"value", 1, 0)]
    batch = decode_entries(slices, ["properties", "value"])
    batch.validate(full=True)
    assert batch.column("properties").to_pylist() == [[("k�", "v��")]]


def test_message_ids_are_those_of_the_official_client() -> None:
    slices = [EntrySlice(BATCH, 2**40, 7, 3), EntrySlice(HELLO, 5, 2**62, -1)]
    for serialized in decode_entries(slices, ["message_id"]).column("message_id").to_pylist():
        official = pulsar.MessageId.deserialize(serialized)
        assert official.serialize() == serialized
        assert (official.ledger_id(), official.entry_id()) in {(2**40, 7), (5, 2**62)}
        assert official.partition() == (3 if official.ledger_id() == 2**40 else -1)


def test_a_column_above_two_gigabytes_is_refused_not_wrapped() -> None:
    lengths = np.full(3, 2**30, np.int64)
    total, _ = bytes_offsets(lengths, np.empty(4, np.int32))
    assert total < 0


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x22\x04\x0a\x00\x12\x00" * 700_000,  # two hundred thousand equal properties and more
        b"\x22\x06\x0a\x01a\x12\x01b" * 500_000,
        b"\x98\x06\x00" * 1_400_000,  # a million unknown fields
        b"\x6a\x00" * 2_000_000,  # a million empty encryption keys
    ],
)
def test_hostile_metadata_takes_bounded_time_and_memory(hostile: bytes) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1).SerializeToString() + hostile
    slices = [EntrySlice(struct.pack(">I", len(metadata)) + metadata, 1, 0)]
    tracemalloc.start()
    start = time.process_time()
    with contextlib.suppress(EncryptedEntry):
        assert decode_entries(slices).num_rows == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - start < 20
    assert peak < 100 * len(metadata)


def test_batches_of_nothing_but_headers_take_bounded_time() -> None:
    count = 800_000
    data = entry(b"\0\0\0\x02\x18\0" * count, num_messages_in_batch=count)
    batch = decode_entries([EntrySlice(data, 1, 0)], ["value", "batch_index"])
    assert batch.num_rows == count
    with pytest.raises(MalformedBatch):
        decode_entries([EntrySlice(data[:-1], 1, 0)])
