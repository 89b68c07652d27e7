"""The sticky key of an entry, by the short way and by the long one, and sticky hashes of many entries at once."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.keys import sticky_keys
from spark_pulsar.wire.keys.murmur3 import murmur3_32, range_hash, ring_hash
from spark_pulsar.wire.keys.sticky_hashes import StickyHashes
from spark_pulsar.wire.keys.sticky_keys import NONE_KEY, _parsed_key, sticky_key
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

NOW_MS = 1_795_000_000_000


def entry(sequence_id: int = 7, with_checksum: bool = True, **fields: Any) -> bytes:
    described = {"producer_name": "p-1", "publish_time": NOW_MS + sequence_id // 3} | fields
    return build_entry(MessageMetadata(sequence_id=sequence_id, **described), b"payload" * 2, with_checksum)


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
        ({"event_time": 4}, b"p-1-7"),
        ({"sequence_id": 300, "num_messages_in_batch": 4}, b"p-1-300"),
        ({"sequence_id": 2**64 - 1}, b"p-1--1"),
        ({"publish_time": 4, "partition_key": "k"}, b"k"),
        ({"producer_name": "n" * 300}, b"n" * 300 + b"-7"),
        ({}, b"p-1-7"),
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


@pytest.mark.parametrize("key", [b"\x32\x04key", b"\x32\x7fkey", b"\x32\x01", b"\x32\x03key\x40\x80"])
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
