"""Encoded batches are, byte for byte, what protobuf would have written, and decode to what went in."""

import struct
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.wire.columns.encode import encode_batches, message_columns
from spark_pulsar.wire.columns.entries import EntrySlice
from spark_pulsar.wire.columns.kernels.compiler import COMPILED
from spark_pulsar.wire.columns.key_hashes import group_rows, text_keys
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.unit.wire.columns.decode import decode_entries

FUZZ = settings(max_examples=250 if COMPILED else 60, derandomize=True, deadline=None)
PROPERTIES = pa.map_(pa.string(), pa.string())


def message(rng: Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.3 else value

    def some_bytes() -> bytes:
        return rng.randbytes(rng.choice([0, 1, 2, 3, 50, 130, 20_000 if rng.random() < 0.05 else 7]))

    def some_text() -> str:
        return "".join(rng.choices("aé日𝄞", k=rng.choice([0, 1, 5, 60])))

    return {
        "value": maybe(some_bytes()),
        "key": maybe(some_bytes()),
        "text_key": maybe(some_text()),
        "ordering_key": maybe(some_bytes()),
        "properties": maybe([(f"{i}{some_text()}", some_text()) for i in range(rng.randrange(4))]),
        "event_time": maybe(rng.choice([0, 1, 127, 128, 2**62, -1, -(2**63)])),
        "group": rng.randrange(3),
    }


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def item(metadata: SingleMessageMetadata, value: bytes | None) -> bytes:
    metadata.payload_size = len(value or b"")
    if value is None:
        metadata.null_value = True
    head = metadata.SerializeToString(deterministic=True)
    return struct.pack(">I", len(head)) + head + (value or b"")


def by_protobuf(row: dict[str, Any], keys: Any, index: int, is_base64: bool, sequence_id: int) -> bytes:
    metadata = SingleMessageMetadata(sequence_id=sequence_id)
    for key, value in row["properties"] or []:
        metadata.properties.add(key=key, value=value)
    key = keys.text.item(index)
    if key is not None:
        metadata.partition_key = key.decode()
        if is_base64:
            metadata.partition_key_b64_encoded = True
    if row["ordering_key"] is not None:
        metadata.ordering_key = row["ordering_key"]
    if row["event_time"]:
        metadata.event_time = row["event_time"] & 0xFFFFFFFFFFFFFFFF
    return item(metadata, row["value"])


@FUZZ
@given(st.randoms(use_true_random=True), st.booleans())
def test_batches_are_what_protobuf_writes(rng: Random, is_base64: bool) -> None:
    rows = [message(rng) for _ in range(rng.randrange(8))]
    key_name = "key" if is_base64 else "text_key"
    keys = text_keys(pa.array([row[key_name] for row in rows], pa.binary() if is_base64 else pa.string()))
    columns = message_columns(
        pa.array([row["value"] for row in rows], pa.large_binary()),
        keys=keys,
        ordering_keys=pa.array([row["ordering_key"] for row in rows], pa.binary()),
        properties=pa.array([row["properties"] for row in rows], PROPERTIES),
        event_times=pa.array([row["event_time"] for row in rows], pa.int64()),
    )
    first_ids = [rng.choice([0, 126, 2**40]) for _ in range(3)]
    most_messages, most_bytes = rng.randrange(1, 6), rng.choice([1, 100, 1000, 10**6])
    batches = encode_batches(
        columns,
        groups=group_rows([row["group"] for row in rows], 3),
        first_sequence_ids=first_ids,
        max_messages=most_messages,
        max_bytes=most_bytes,
    )
    sent: list[int] = []
    next_ids = list(first_ids)
    slices = []
    for batch in batches:
        assert 1 <= batch.message_count <= most_messages
        assert batch.message_count == 1 or len(batch.payload) <= most_bytes
        assert batch.first_sequence_id == next_ids[batch.group]
        expected = [
            by_protobuf(rows[i], keys, i, is_base64, next_ids[batch.group] + place)
            for place, i in enumerate(batch.rows.tolist())
        ]
        assert bytes(batch.payload) == b"".join(expected)
        sent += batch.rows.tolist()
        next_ids[batch.group] += batch.message_count
        metadata = MessageMetadata(producer_name="p", publish_time=1)
        batch.describe(metadata)
        head = metadata.SerializeToString()
        slices.append(EntrySlice(len(head).to_bytes(4, "big") + head + bytes(batch.payload), batch.group, 0))
    assert sent == sorted(range(len(rows)), key=lambda i: (rows[i]["group"], i))
    names = ["value", "key", "properties", "event_time"]
    assert decode_entries(slices, names).to_pylist() == [
        {
            "value": rows[i]["value"],
            "key": rows[i]["key"] if is_base64 else as_bytes(rows[i]["text_key"]),
            "properties": rows[i]["properties"] or [],
            "event_time": rows[i]["event_time"] or None,
        }
        for i in sent
    ]
