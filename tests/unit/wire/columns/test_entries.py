"""Stored entries of real clients: headers, kinds, counts, chunks, checksums, and what decryption leaves."""

import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from spark_pulsar.model.errors import CorruptMessage, MalformedBatch
from spark_pulsar.wire.columns.entries import (
    EncryptedEntry,
    Entries,
    EntrySlice,
    EntryTable,
    Kind,
    UnassembledChunk,
    as_stored,
    inspect_entries,
    whole_message,
    with_payloads,
    without_entries,
)
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.pulsar_api_pb2 import ZLIB, MessageMetadata
from tests.unit.wire.columns.decode import decode_entries

# Entries of frames of the official client.
HELLO = bytes.fromhex("0e016f295f8d0000000c0a017010001894c4e7e89f3468656c6c6f")
KEYED = bytes.fromhex("0e01459c114d0000001e0a017010011894c4e7e89f3422060a016112013132016b60e8079201016f6869")
BATCH = bytes.fromhex(
    "0e01c79876b10000000e0a016210001895c4e7e89f34580300000004180240006d3000000004180240016d3100000004180240026d32"
)
WITH_BROKER_METADATA = bytes.fromhex("0e02000000090881d095ffbc3110070e01ec6fed200000000c0a017010021880d095ffbc3162656d")


def entry(payload: bytes = b"", **fields: object) -> bytes:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    head = metadata.SerializeToString()
    return struct.pack(">I", len(head)) + head + payload


def values(*slices: EntrySlice) -> list[bytes | None]:
    column: list[bytes | None] = decode_entries(slices, ["value"]).column("value").to_pylist()
    return column


def test_real_entries_are_told_apart_and_counted() -> None:
    table = inspect_entries(
        [EntrySlice(data, 5, i) for i, data in enumerate((HELLO, KEYED, BATCH, WITH_BROKER_METADATA))]
    )
    assert [Kind(kind) for kind in table.kinds.tolist()] == [Kind.SINGLE, Kind.SINGLE, Kind.BATCH, Kind.SINGLE]
    assert table.message_counts.tolist() == [1, 1, 3, 1]
    assert table.publish_times[0] == 1795247694356
    assert not table.has_chunks
    assert bytes(table.payload(0)) == b"hello"
    assert MessageMetadata.FromString(bytes(table.metadata(1))).partition_key == "k"


def test_entries_over_one_buffer_are_not_copied() -> None:
    buffer = np.frombuffer(HELLO + BATCH, np.uint8)
    entries = Entries.over(buffer, [0, len(HELLO)], [len(HELLO), len(buffer)], [1, 1], [0, 1], partition=4)
    assert entries.data is buffer
    batch = decode_entries(entries.part(1, 2), ["value", "entry_id", "partition"])
    assert batch.column("value").to_pylist() == [b"m0", b"m1", b"m2"]
    assert batch.column("entry_id").to_pylist() == [1, 1, 1]
    assert batch.column("partition").to_pylist() == [4, 4, 4]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_buffer_will_do(kind: type) -> None:
    assert values(EntrySlice(kind(HELLO), 1, 0)) == [b"hello"]
    assert decode_entries(Entries.over(kind(HELLO), [0], [len(HELLO)], [1], [0]), ["value"]).num_rows == 1


def test_ack_bits_say_what_is_to_be_delivered() -> None:
    # covers CUR-3, ACK-9: bit 1 = not acked; MESSAGE with ack_set [5] delivers b0 and b2
    assert values(EntrySlice(BATCH, 1, 0, ack_set=(5,))) == [b"m0", b"m2"]
    assert values(EntrySlice(BATCH, 1, 0, ack_set=(5,)), EntrySlice(BATCH, 1, 1)) == [b"m0", b"m2", b"m0", b"m1", b"m2"]


def test_ack_bits_reach_beyond_one_word_and_words_left_out_are_acked() -> None:
    count = 130
    data = entry(b"".join(b"\0\0\0\x02\x18\x01" + bytes([i]) for i in range(count)), num_messages_in_batch=count)
    assert values(EntrySlice(data, 1, 0, ack_set=(0, -(2**63), 2))) == [bytes([127]), bytes([129])]
    assert values(EntrySlice(data, 1, 0, ack_set=(1,))) == [bytes([0])]


def test_compacted_out_messages_keep_their_index() -> None:
    # covers CMP-C3
    items = b"\0\0\0\x04\x18\0\x20\x01" + b"\0\0\0\x02\x18\x01x"
    data = entry(items, num_messages_in_batch=2)
    assert decode_entries([EntrySlice(data, 1, 0)], ["value", "batch_index"]).to_pylist() == [
        {"value": b"x", "batch_index": 1}
    ]


def chunk(number: int, payload: bytes) -> EntrySlice:
    data = entry(payload, uuid="p-0", num_chunks_from_msg=2, total_chunk_msg_size=4, chunk_id=number, partition_key="k")
    return EntrySlice(data, 9, 10 + number, 3)


def test_chunks_are_shown_and_count_with_the_last_of_them() -> None:
    table = inspect_entries([chunk(0, b"ab"), chunk(1, b"cd")])
    assert table.has_chunks
    assert table.message_counts.tolist() == [0, 1]
    assert table.chunk(1) == ("p-0", 1, 2)
    with pytest.raises(UnassembledChunk, match=r"9:10 .*chunk"):
        decode_entries(table)


def test_a_message_put_together_decodes_among_others() -> None:
    table = inspect_entries([chunk(0, b"ab"), chunk(1, b"cd")])
    metadata = MessageMetadata.FromString(bytes(table.metadata(0)))
    whole = whole_message(metadata, b"abcd", 9, 11, 3, first_chunk=(9, 10))
    batch = decode_entries([EntrySlice(HELLO, 9, 9), whole], ["value", "key", "message_id"])
    assert batch.column("value").to_pylist() == [b"hello", b"abcd"]
    assert batch.column("key").to_pylist() == [None, b"k"]
    # As the official client serialises the id of a chunked message in partition 3.
    assert batch.column("message_id").to_pylist()[1] == bytes.fromhex("0809100b1803" + "3a06" + "0809100a1803")
    alone = decode_entries([whole])
    assert alone.column("message_id")[0] == batch.column("message_id")[1]
    assert metadata.uuid == "p-0"


def test_encrypted_entries_have_their_own_error() -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.encryption_keys.add(key="k", value=b"v")
    head = metadata.SerializeToString()
    slices = [EntrySlice(struct.pack(">I", len(head)) + head + b"secret", 4, 2)]
    assert inspect_entries(slices).is_encrypted.tolist() == [True]
    with pytest.raises(EncryptedEntry, match=r"4:2 .*encrypted"):
        decode_entries(slices)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends early"),
        (b"\x0e\x01", "ends early"),
        (b"\x0e\x02\xff\xff\xff\xff", "ends early"),
        (b"\0\0\0\x05abcd", "ends early"),
        (b"\xff\xff\xff\xff", "ends early"),
        (b"\0\0\0\x00", "required field"),
        (b"\0\0\0\x02\x0a\x05", "length"),
        (b"\0\0\0\x0b\x10" + b"\xff" * 10, "number"),
        (b"\0\0\0\x01\x07", "tag"),
        (entry(num_messages_in_batch=-1), "number of messages"),
        (entry(b"\0\0\0\x02\x18\0", num_messages_in_batch=2), "number of messages"),
        (entry(b"x" * 100, num_messages_in_batch=2**31 - 1), "number of messages"),
        (entry(b"\0\0\0\x02\x18\x09", num_messages_in_batch=1), "length"),
        (entry(b"\xff\xff\xff\xff\x18\x00", num_messages_in_batch=1), "length"),
        (entry(b"\0\0\0\x0b\x18" + b"\xff" * 9 + b"\x01", num_messages_in_batch=1), "negative"),
        (entry(b"\0\0\0\x02\x20\x00", num_messages_in_batch=1), "required field"),
        (entry(num_chunks_from_msg=2, chunk_id=2, uuid="u"), "chunk number"),
        (entry(num_chunks_from_msg=2, chunk_id=-1, uuid="u"), "chunk number"),
        (entry(partition_key="a", partition_key_b64_encoded=True), "base64"),
        (entry(partition_key="?" * 4, partition_key_b64_encoded=True), "base64"),
        (entry(b"x", compression=1, uncompressed_size=2**32 - 1), "limit"),
    ],
)
def test_hostile_entries_are_refused_with_id_and_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedBatch, match=rf"8:9 .*{reason}"):
        decode_entries([EntrySlice(HELLO, 8, 8), EntrySlice(data, 8, 9)])


def test_places_outside_the_buffer_are_refused() -> None:
    for start, end in ((-1, 5), (5, 4), (0, 2**62), (2**62, 2**62 + 9)):
        with pytest.raises(CorruptMessage):
            inspect_entries(Entries.over(HELLO, [start], [end], [1], [1]))


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one item per entry"):
        Entries.over(HELLO, [0], [1, 2], [1], [1])
    with pytest.raises(ValueError, match="one item per entry"):
        Entries.over(HELLO, [0], [1], [1], [1]).with_ack_sets([])


KEYS: dict[str, Any] = {"encryption_keys": [{"key": "a", "value": b"sealed"}], "encryption_param": b"nonce"}
ITEMS = b"".join(b"\0\0\0\x04\x18\x02\x40" + bytes([number]) + b"m%d" % number for number in range(3))
PACKED = zlib.compress(ITEMS)
SLICES = [
    EntrySlice(HELLO, 5, 0),
    EntrySlice(entry(b"?" * 99, num_messages_in_batch=3, **KEYS), 5, 1),
    EntrySlice(BATCH, 5, 2),
    EntrySlice(entry(b"!", partition_key="k", **KEYS), 5, 3),
    EntrySlice(
        entry(b"#" * 99, num_messages_in_batch=3, compression=ZLIB, uncompressed_size=len(ITEMS), **KEYS),
        5, 4, first_index=1, stop_index=2,
    ),
]  # fmt: skip
M = [b"m0", b"m1", b"m2"]


def all_values(table: EntryTable) -> list[bytes | None]:
    """The column of all rows, in groups of any size."""
    found: list[list[bytes | None]] = []
    for most in (1, 2, 10_000):
        batches = RecordDecoder("t", ["value"], max_rows=most).batches(table)
        found.append([value for batch in batches for value in batch.column("value").to_pylist()])
    assert found[0] == found[1] == found[2]
    return found[0]


def test_decrypted_payloads_are_read_in_their_places() -> None:
    # covers READ-13
    table = inspect_entries(SLICES)
    assert table.is_encrypted.tolist() == [False, True, False, True, True]
    opened = with_payloads(table, [1, 3, 4], [ITEMS, b"one", PACKED])
    assert all_values(opened) == [b"hello", *M, *M, b"one", b"m1"]
    assert not opened.is_encrypted.any()
    assert all_values(opened.part(2, 5)) == [*M, b"one", b"m1"]
    with pytest.raises(EncryptedEntry):
        all_values(with_payloads(table, [1], [ITEMS]))


def test_entries_that_stay_closed_are_left_out_or_read_as_they_are() -> None:
    # covers READ-14
    table = with_payloads(inspect_entries(SLICES), [3], [b"one"])
    assert all_values(without_entries(table, [1, 4])) == [b"hello", *M, b"one"]
    stored = as_stored(table, [1, 4])
    assert all_values(stored) == [b"hello", b"?" * 99, *M, b"one"]  # the last was read where its batch begins
    (batch,) = RecordDecoder("t", ["__batchIndex", "__encryptionContext"]).batches(stored)
    indexes, contexts = (batch.column(name).to_pylist() for name in batch.schema.names)
    assert indexes == [None, None, 0, 1, 2, None]
    assert [context is None for context in contexts] == [True, False, True, True, True, False]
    assert json.loads(contexts[1]) == {
        "keys": {"a": {"keyValue": "c2VhbGVk", "metadata": {}}},
        "param": "bm9uY2U=",
        "algorithm": None,
        "compressionType": "NONE",
        "uncompressedMessageSize": 0,
        "batchSize": 3,
    }
