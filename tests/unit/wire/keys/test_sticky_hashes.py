"""Sticky hashes of many entries at once are those of each entry alone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.keys.murmur3 import murmur3_32, range_hash, ring_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes
from spark_pulsar.wire.keys.sticky_keys import NONE_KEY, _parsed_key, sticky_key
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

NOW_MS = 1_795_000_000_000


def entry(sequence_id: int, with_checksum: bool = True, **fields: Any) -> bytes:
    described = {"producer_name": "p-1", "publish_time": NOW_MS + sequence_id // 3} | fields
    return build_entry(MessageMetadata(sequence_id=sequence_id, **described), b"payload" * 2, with_checksum)


def check(entries: list[bytes]) -> None:
    """Sticky hashes by all ways of telling them, and from a buffer with something on both sides."""
    buffer, starts, ends = b"\x0e\x01", [], []
    for each in entries:
        starts.append(len(buffer))
        buffer += each
        ends.append(len(buffer))
    for sticky_hash_of in (range_hash, ring_hash):
        alone = [sticky_hash_of(murmur3_32(sticky_key(each, 0, len(each)))) for each in entries]
        sticky_hashes = StickyHashes(sticky_hash_of)
        for end in (buffer, buffer + bytes(100)):
            assert sticky_hashes.of(end, starts, ends) == alone


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"uncompressed_size": 100},
        {"uncompressed_size": 14, "partition_key_b64_encoded": False},
        {"partition_key": "a2V5", "partition_key_b64_encoded": True},
        {"ordering_key": b"o"},
        {"event_time": 7, "num_messages_in_batch": 300},
        {"properties": [{"key": "a", "value": "b"}]},
        {"replicated_from": "r"},
        {"publish_time": 1},
        {"partition_key": "k" * 200},
        {"producer_name": "n" * 200},
        {"schema_version": b"\0" * 8, "compression": 2, "encryption_param": b"x"},
    ],
    ids=lambda fields: ",".join(fields) or "plain",
)
def test_of_one_producer(fields: dict[str, Any]) -> None:
    # covers KS-2, KS-3
    check([entry(n, **{"partition_key": f"key-{n % 120}"} | fields) for n in range(100, 400)])
    check([entry(n, **fields) for n in range(16_380, 16_420)])


@pytest.mark.parametrize("seed", range(4))
def test_of_many_kinds_in_turn(seed: int) -> None:
    # covers KS-2
    random = Random(seed)
    kinds: list[dict[str, Any]] = [
        {"partition_key": "a"},
        {"partition_key": "b", "producer_name": "p-2"},
        {"partition_key": "b", "producer_name": "q\u00e9"},
        {"partition_key": "c", "with_checksum": False},
        {"partition_key": "d", "ordering_key": b"e"},
        {"partition_key": "f", "publish_time": 3},
        {},
    ]
    streak = random.choice((1, 3, 40))
    check([entry(n * 50, **random.choice(kinds)) for n in range(30) for _ in range(random.randint(1, streak))])


def test_metadata_that_cannot_be_read() -> None:
    # covers KS-2
    good = [entry(n, partition_key="k") for n in range(30)]
    check([*good, b"", b"\x0e\x01", *good, b"\x0e\x01\0\0\0\0\0\0\0\x03\x0a\x05p", good[0][:24], *good])
    longer = bytearray(good[0])
    longer[9] += 60
    check([*good, bytes(longer), *good, bytes(longer)])


@given(
    st.lists(
        st.tuples(st.binary(max_size=30), st.booleans(), st.integers(0, 60), st.sampled_from(["k", "kk", ""])),
        max_size=40,
    )
)
def test_any_bytes_have_the_slot_of_their_key(some: list[tuple[bytes, bool, int, str]]) -> None:
    # covers KS-2
    entries = []
    for number, (data, is_damaged, at, key) in enumerate(some):
        each = entry(number, partition_key=key)
        entries.append(each[:at] + data + each[at + len(data) :] if is_damaged else each)
    check(entries)


def test_more_keys_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.wire.keys.sticky_hashes._MOST_LEARNT", 50)
    check([entry(n, partition_key=f"key-{n}") for n in range(300)])


def test_large_metadata_are_not_remembered() -> None:
    # covers KS-2: what is remembered lives as long as the process
    sticky_hashes = StickyHashes(range_hash)
    entries = [entry(number, partition_key="k", schema_version=bytes([number]) * 5_000) for number in range(3)]
    ends = [len(b"".join(entries[: index + 1])) for index in range(len(entries))]
    assert len(set(sticky_hashes.of(b"".join(entries), [0, *ends[:-1]], ends))) == 1
    assert not any(len(tail) > 5_000 for tail in sticky_hashes._known)


# ---- metadata that no client writes, beside what protobuf makes of them


def overlong(value: int, width: int) -> bytes:
    """A number in at least so many bytes, up to ten."""
    digits = [value >> shift & 127 for shift in range(0, 70, 7)]
    needed = max((index + 1 for index, digit in enumerate(digits) if digit), default=1)
    digits = digits[: max(needed, width)]
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


Width = st.integers(1, 10)
Numbers = st.builds(overlong, st.integers(0, 2**64 - 1) | st.integers(0, 300), Width)
Texts = st.binary(max_size=4) | st.sampled_from([b"k", b"a2V5", b"\x0a\x01a\x12\x01b", b"\x0a\x00\x12\x00"])


def one_field(number: int, wire_type: int, width: int, value: bytes, text: bytes) -> bytes:
    tag = overlong(number << 3 | wire_type, width)
    if wire_type == 0:
        return tag + value
    if wire_type == 2:
        return tag + overlong(len(text), 1) + text
    return tag + bytes(8 if wire_type == 1 else 4)


Fields = st.builds(
    one_field,
    st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 17, 18, 22, 30]),
    st.sampled_from([0, 0, 2, 2, 1, 5]),
    st.sampled_from([1, 1, 1, 2, 5]),
    Numbers,
    Texts,
)
USUAL_TIME = b"\x18" + overlong(NOW_MS, 6)


def of_fields(sequence: bytes, between: list[bytes], key: bytes, after: list[bytes]) -> bytes:
    """An entry that begins as those of clients do, as far as its sequence id goes."""
    metadata = b"\x0a\x01p\x10" + sequence + b"".join(between) + USUAL_TIME + key + b"".join(after)
    return b"\x0e\x01" + bytes(4) + len(metadata).to_bytes(4, "big") + metadata + b"payload" * 4


Odd = st.builds(
    of_fields,
    Numbers,
    st.lists(Fields, max_size=2),
    st.sampled_from([b"\x32\x01k", b"\x32\x04a2V5", b"\x32\x02k", b"\x32\x7fkey", b"\x32\x00", b"\x32", b""]),
    st.lists(Fields, max_size=3),
)


@given(st.lists(Odd, min_size=1, max_size=8))
@settings(max_examples=150)
def test_metadata_that_no_client_writes_have_the_slots_that_protobuf_says(entries: list[bytes]) -> None:
    # covers KS-2
    keys = [_parsed_key(each, 0, len(each)) for each in entries]
    assert [sticky_key(each, 0, len(each)) for each in entries] == keys
    ends = [len(b"".join(entries[: index + 1])) for index in range(len(entries))]
    expected = [range_hash(murmur3_32(key)) for key in keys]
    assert StickyHashes(range_hash).of(b"".join(entries), [0, *ends[:-1]], ends) == expected


@pytest.mark.parametrize("key", [b"\x32\x04key", b"\x32\x7fkey", b"\x32\x01"])
def test_a_key_that_ends_behind_the_metadata_is_none(key: bytes) -> None:
    # covers KS-2: the metadata cannot be read
    entries = [of_fields(b"\x05", [], each, []) for each in (b"\x32\x03key", key, b"\x32\x03key", key, key)]
    ends = [len(b"".join(entries[: index + 1])) for index in range(len(entries))]
    good, none = range_hash(murmur3_32(b"key")), range_hash(murmur3_32(NONE_KEY))
    found = StickyHashes(range_hash).of(b"".join(entries), [0, *ends[:-1]], ends)
    assert found == [good, none, good, none, none]


@pytest.mark.parametrize(
    ("hidden", "key"),
    [
        (b"\x88\x01\x01", b"key"),
        (b"\x92\x01\x01o", b"o"),
        (b"\x92\x81\x00\x01o", b"o"),
        (b"\x32\x01x\x88\x01\x01", b"key"),
    ],
    ids=["base64", "ordering key", "ordering key with a long tag", "another key"],
)
def test_a_key_hidden_where_the_first_entry_has_its_sequence_id(hidden: bytes, key: bytes) -> None:
    # covers KS-2, KS-3: the layout of a run is that of its first entry
    first = of_fields(overlong(5, 1 + len(hidden)), [], b"\x32\x04a2V5", [])
    odd = of_fields(b"\x05", [hidden], b"\x32\x04a2V5", [])
    entries = [first, first, odd, first]
    assert len({len(each) for each in entries}) == 1
    ends = [len(first) * number for number in range(1, 5)]
    found = StickyHashes(range_hash).of(b"".join(entries), [0, *ends[:-1]], ends)
    usual, other = range_hash(murmur3_32(b"a2V5")), range_hash(murmur3_32(key))
    assert found == [usual, usual, other, usual]
