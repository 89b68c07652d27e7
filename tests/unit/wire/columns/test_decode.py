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


def test_values_above_64_kilobytes() -> None:
    values = [np.random.default_rng(i).bytes(70_000 + i) for i in range(5)]
    assert column("value", *((SingleMessageMetadata(), value) for value in values)) == values


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
