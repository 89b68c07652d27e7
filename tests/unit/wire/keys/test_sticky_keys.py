"""The sticky key of an entry, by the short way and by the long one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.keys import sticky_keys
from spark_pulsar.wire.keys.murmur3 import murmur3_32, range_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes
from spark_pulsar.wire.keys.sticky_keys import sticky_key
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

NOW_MS = 1_795_000_000_000


def entry(with_checksum: bool = True, **fields: Any) -> bytes:
    described = {"producer_name": "p", "sequence_id": 7, "publish_time": NOW_MS} | fields
    return build_entry(MessageMetadata(**described), b"payload", with_checksum)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"partition_key": "k"}, b"k"),
        ({"partition_key": ""}, b""),
        ({"partition_key": "ü" * 90}, ("ü" * 90).encode()),
        ({"partition_key": "k", "ordering_key": b"o"}, b"o"),
        ({"partition_key": "k", "ordering_key": b""}, b""),
        ({"partition_key": "a2V5", "partition_key_b64_encoded": True}, b"key"),
        ({"partition_key": "a2V5", "partition_key_b64_encoded": False}, b"a2V5"),
        ({"partition_key": "=", "partition_key_b64_encoded": True}, b"="),
        ({"properties": [{"key": "a", "value": "2"}], "partition_key": "k"}, b"k"),
        ({"properties": [{"key": "a", "value": "x" * 300}], "partition_key": "k"}, b"k"),
        ({"replicated_from": "other", "partition_key": "k"}, b"k"),
        ({"event_time": 4}, b"p-7"),
        ({"sequence_id": 300, "num_messages_in_batch": 4}, b"p-300"),
        ({"sequence_id": 2**64 - 1}, b"p--1"),
        ({"publish_time": 4, "partition_key": "k"}, b"k"),
        ({"producer_name": "n" * 300}, b"n" * 300 + b"-7"),
        ({}, b"p-7"),
    ],
)
def test_which_key_counts(fields: dict[str, Any], key: bytes) -> None:
    # covers KS-2
    for data in (entry(**fields), entry(with_checksum=False, **fields)):
        assert sticky_key(data, 0, len(data)) == key
        framed = b"\x92\x01" + data + b"\x32\x01x"
        assert sticky_key(framed, 2, 2 + len(data)) == key


def test_metadata_that_cannot_be_read_have_the_key_of_none() -> None:
    # covers KS-2
    for data in (b"", b"\x0e\x01", b"\x0e\x01\0\0\0\0\0\0\0\x03\x0a\x05p", b"\0\0\0\x01\x0a"):
        assert sticky_key(data, 0, len(data)) == b"NONE_KEY"


@pytest.mark.parametrize(
    ("key", "sticky_hash"), [("Order-3459134", 6067), ("key1", 293), ("hello", 64071), ("", 1), ("NONE_KEY", 48803)]
)
def test_hash_and_slot_of_known_keys(key: str, sticky_hash: int) -> None:
    # covers KS-3
    entries = [entry(partition_key="other"), entry(partition_key=key)]
    buffer = b"".join(entries)
    ends = [len(entries[0]), len(buffer)]
    sticky_hashes = StickyHashes(range_hash).of(buffer, [0, ends[0]], ends)
    assert sticky_hashes == [range_hash(murmur3_32(b"other")), sticky_hash]


@given(
    name=st.text(max_size=140),
    sequence_id=st.integers(0, 2**64 - 1),
    publish_time=st.integers(0, 2**62),
    key=st.none() | st.text(max_size=140),
    ordering_key=st.none() | st.binary(max_size=5),
    properties=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=150)), max_size=2),
    event_time=st.none() | st.integers(0, 2**40),
)
def test_both_ways_agree(
    name: str,
    sequence_id: int,
    publish_time: int,
    key: str | None,
    ordering_key: bytes | None,
    properties: list[tuple[str, str]],
    event_time: int | None,
) -> None:
    # covers KS-2
    metadata = MessageMetadata(producer_name=name, sequence_id=sequence_id, publish_time=publish_time)
    if key is not None:
        metadata.partition_key = key
    if ordering_key is not None:
        metadata.ordering_key = ordering_key
    if event_time is not None:
        metadata.event_time = event_time
    for each in properties:
        metadata.properties.add(key=each[0], value=each[1])
    data = build_entry(metadata, b"xyz")
    assert sticky_key(data, 0, len(data)) == sticky_keys._parsed_key(data, 0, len(data))


@given(data=st.binary(max_size=40), size=st.integers(0, 40))
def test_any_bytes_have_a_key(data: bytes, size: int) -> None:
    framed = b"\x0e\x01\0\0\0\0\0\0\0" + bytes((size,)) + b"\x0a\x01p\x10" + data
    assert isinstance(sticky_key(framed, 0, len(framed)), bytes)
