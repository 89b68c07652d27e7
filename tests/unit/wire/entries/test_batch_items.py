"""Batches as compaction reads and cuts them, beside what protobuf reads."""

from typing import Any, NamedTuple

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_BROKER_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.wire.entries.batch_items import PORTION_ITEMS, pieces_left, portions_of
from spark_pulsar.wire.entries.compacted import is_readable_batch, repack_batch, unpacked_payload
from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.entries.entry_bytes import Checksum, build_entry, parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType, MessageMetadata, SingleMessageMetadata

SIZES = st.sampled_from((0, 1, 100, 127, 128, 300, 16_383, 16_384))
KEYS = st.one_of(st.none(), st.text(max_size=6), st.text(min_size=120, max_size=140))
OTHERS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.just([{"key": "a", "value": "b"}]),
        "compacted_out": st.booleans(),
        "event_time": st.integers(0, 2**64 - 1),
        "partition_key_b64_encoded": st.booleans(),
        "ordering_key": st.binary(max_size=3),
        "sequence_id": st.integers(0, 2**64 - 1),
        "null_value": st.booleans(),
        "null_partition_key": st.booleans(),
    },
)
SINGLES = st.builds(
    lambda key, size, others: SingleMessageMetadata(partition_key=key, payload_size=size, **others), KEYS, SIZES, OTHERS
)
BYTES = st.integers(0, 255)


class Item(NamedTuple):
    """A message: where it is, its key, and whether it is empty or was taken out."""

    bounds: tuple[int, int]
    key: bytes | None
    is_empty: bool
    is_taken_out: bool


def packed(singles: list[bytes], payload_sizes: list[int]) -> bytes:
    """The payload of a batch with these metadata."""
    pieces = [
        len(single).to_bytes(4, "big") + single + bytes(size)
        for single, size in zip(singles, payload_sizes, strict=True)
    ]
    return b"".join(pieces)


def batch_of(singles: list[SingleMessageMetadata]) -> bytes:
    return packed([single.SerializeToString() for single in singles], [single.payload_size for single in singles])


def by_protobuf(data: bytes, messages: int) -> tuple[list[Item], bool]:
    """The messages in front of the first damage, and whether there is any."""
    items: list[Item] = []
    at = 0
    for _ in range(messages):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if at + 4 > len(data) or end > len(data):
            return items, True
        try:
            single = SingleMessageMetadata.FromString(data[at + 4 : end])
        except DecodeError:
            return items, True
        if not single.IsInitialized():
            return items, True
        after = end + single.payload_size
        if not end <= after <= len(data):
            return items, True
        key: str | bytes | None = single.partition_key if single.HasField("partition_key") else None
        if single.compacted_out:
            key = None
        is_empty = single.payload_size == 0 and not single.compacted_out
        items.append(Item((at, after), key.encode() if isinstance(key, str) else key, is_empty, single.compacted_out))
        at = after
    return items, False


def by_portions(data: bytes, messages: int) -> tuple[list[Item], bool]:
    items: list[Item] = []
    try:
        for portion in portions_of(data, messages):
            assert portion.first == len(items)
            assert len(portion.keys) <= PORTION_ITEMS
            for index, key in enumerate(portion.keys):
                bounds = portion.bounds[index], portion.bounds[index + 1]
                items.append(Item(bounds, key, index in portion.empty, index in portion.taken_out))
            assert set(portion.empty + portion.taken_out) <= set(range(len(portion.keys)))
    except CorruptMessage:
        return items, True
    return items, False


@given(st.lists(SINGLES, max_size=5), st.sampled_from(sorted(CompressionType.values())))
def test_messages_are_what_protobuf_reads(singles: list[SingleMessageMetadata], codec: Any) -> None:
    # covers CMP-C3
    data = batch_of(singles)
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=len(singles))
    metadata.compression, metadata.uncompressed_size = codec, len(data)
    entry = build_entry(metadata, compress(codec, data))
    assert is_readable_batch(metadata)
    padded = b"??" + entry + b"??"
    assert unpacked_payload(metadata, padded, 2, 2 + len(entry)) == data
    items, is_damaged = by_portions(data, len(singles))
    assert (items, is_damaged) == by_protobuf(data, len(singles))
    assert not is_damaged
    assert len(items) == len(singles)


def test_a_batch_that_says_it_is_huge_is_not_inflated() -> None:
    size = MAX_BROKER_DECOMPRESSED_SIZE_BYTES + 1
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=1)
    metadata.compression, metadata.uncompressed_size = CompressionType.Value("ZSTD"), size
    entry = build_entry(metadata, compress(metadata.compression, bytes(size)))
    with pytest.raises(CorruptMessage, match="is outside"):
        unpacked_payload(metadata, entry, 0, len(entry))


@given(st.lists(SINGLES, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 60), BYTES), max_size=3), st.data())
def test_damaged_messages_are_what_protobuf_reads(
    singles: list[SingleMessageMetadata], changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    # covers CMP-C3
    batch = bytearray(batch_of(singles))
    for at, value in changes:
        batch[at % len(batch)] = value
    cut = bytes(batch[: data.draw(st.integers(0, len(batch)))])
    for messages in (1, len(singles), 5):
        assert by_portions(cut, messages) == by_protobuf(cut, messages)


FIELDS = st.sampled_from(
    (
        *(
            b"\x12\x01k",
            b"\x12\x00",
            b"\x12\x02\xff\xfe",
            b"\x12\x81\x00k",
            b"\x18\x02",
            b"\x18\x82\x00",
            b"\x18\x80\x00",
        ),
        *(b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x18\x82\x80\x00", b"\x20\x01", b"\x20\x00", b"\x28\x05"),
        *(b"\x40" + b"\x80" * 8 + b"\x01", b"\x40" + b"\x80" * 9 + b"\x01", b"\x40\x80", b"\x48\x01", b"\x48\x02"),
        *(b"\x30\x01", b"\x50\x01", b"\x0a\x00", b"\x0a\x06\x0a\x01a\x12\x01b", b"\x3a\x01o", b"\x58\x01", b"\x00"),
    )
)


@given(st.lists(st.lists(FIELDS, max_size=5).map(b"".join), min_size=1, max_size=3), st.integers(0, 3))
@example([b"\x12\x01k\x18\x02\x20\x01"], 2)
@example([b"\x12\x01k\x18\x02\x12\x01l"], 2)
@example([b"\x18\x01\x18\x02\x12\x01k"], 2)
def test_metadata_of_any_writer_are_what_protobuf_reads(singles: list[bytes], payload_size: int) -> None:
    # covers CMP-C3
    data = packed(singles, [payload_size] * len(singles))
    assert by_portions(data, len(singles)) == by_protobuf(data, len(singles))


@given(st.binary(max_size=60), st.integers(-1, 4))
def test_any_bytes_are_read_or_refused(data: bytes, messages: int) -> None:
    assert by_portions(data, messages) == by_protobuf(data, messages)


def test_what_a_batch_claims_to_hold_takes_no_memory() -> None:
    batch = batch_of([SingleMessageMetadata(payload_size=1)])
    items, is_damaged = by_portions(batch, 2**31 - 1)
    assert (len(items), is_damaged) == (1, True)


@given(st.integers(1, 3 * PORTION_ITEMS), st.data())
def test_what_is_cut_keeps_its_index(messages: int, data: st.DataObject) -> None:
    # covers CMP-C3
    batch = batch_of([SingleMessageMetadata(partition_key=f"{number}", payload_size=2) for number in range(messages)])
    kept = sorted(data.draw(st.sets(st.integers(0, messages - 1), max_size=20)))
    pieces: list[bytes] = []
    for portion in portions_of(batch, messages):
        end = portion.first + len(portion.keys)
        within = [index for index in kept if portion.first <= index < end]
        pieces += pieces_left(batch, portion.first, portion.bounds, within)
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, num_messages_in_batch=messages)
    parsed = parse_entry(repack_batch(metadata, pieces))
    assert parsed.checksum is Checksum.OK
    assert parsed.metadata.uncompressed_size == len(parsed.payload)
    items, is_damaged = by_portions(bytes(parsed.payload), messages)
    assert not is_damaged
    assert [index for index, item in enumerate(items) if not item.is_taken_out] == kept
    assert [item.key for item in items if item.key is not None] == [f"{index}".encode() for index in kept]
