"""Entries: kinds, checksums, broker metadata, damage, delays in a run of them."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries import entry_bytes
from spark_pulsar.wire.entries.delivery_times import Delay, delays_in
from spark_pulsar.wire.entries.entry_bytes import Checksum, Kind, build_entry, metadata_of
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests import entry_commands
from tests.cases import cases


def metadata(**fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=1, publish_time=1_700_000_000_000, **fields)  # type: ignore[arg-type]


def checked(body: bytes) -> bytes:
    return b"\x0e\x01" + struct.pack(">I", crc32c(body)) + body


@pytest.mark.parametrize(
    ("fields", "kind", "count"),
    [
        ({}, Kind.SINGLE, 1),
        ({"num_messages_in_batch": 1}, Kind.BATCH, 1),
        ({"num_messages_in_batch": 7}, Kind.BATCH, 7),
        ({"num_messages_in_batch": 0}, Kind.BATCH, 1),
        ({"num_messages_in_batch": -5}, Kind.BATCH, 1),
        ({"num_chunks_from_msg": 1}, Kind.SINGLE, 1),
        ({"num_chunks_from_msg": 2, "chunk_id": 0}, Kind.CHUNK, 1),
    ],
)
def test_kinds(fields: dict[str, int], kind: Kind, count: int) -> None:
    # 4.1: the presence of num_messages_in_batch decides, not its value
    entry = entry_bytes.parse_entry(entry_bytes.build_entry(metadata(**fields), b"payload"))
    assert (entry.kind, entry.message_count) == (kind, count)
    assert not entry.is_encrypted


def test_encrypted_and_marker() -> None:
    encrypted = metadata()
    encrypted.encryption_keys.add(key="k", value=b"v")
    assert entry_bytes.parse_entry(entry_bytes.build_entry(encrypted, b"")).is_encrypted


def test_inside_a_larger_buffer() -> None:
    stored = entry_bytes.build_entry(metadata(), b"payload")
    entry = entry_bytes.parse_entry(b"before" + stored + b"after", 6, 6 + len(stored))
    assert entry.checksum is Checksum.OK
    assert bytes(entry.payload) == b"payload"


HEAD = metadata().SerializeToString()
DAMAGED = {
    "nothing": b"",
    "three bytes": b"\x00\x00\x00",
    "ends in the checksum": b"\x0e\x01\x00",
    "ends after the checksum": b"\x0e\x01\x00\x00\x00\x00",
    "ends in the metadata size": b"\x0e\x01\x00\x00\x00\x00\x00\x00",
    "metadata of 4 GB": checked(b"\xff\xff\xff\xff" + HEAD),
    "metadata one byte too long": checked(struct.pack(">I", len(HEAD) + 1) + HEAD),
    "metadata that are none": checked(struct.pack(">I", 4) + b"\xff\xff\xff\xff"),
    "metadata cut off": checked(struct.pack(">I", len(HEAD) - 1) + HEAD),
    "metadata without what is required": checked(b"\x00\x00\x00\x00"),
    "broker metadata cut off": b"\x0e\x02\x00\x00",
    "broker metadata of 4 GB": b"\x0e\x02\xff\xff\xff\xff" + HEAD,
    "broker metadata that are none": b"\x0e\x02\x00\x00\x00\x01\xff" + checked(b"\x00\x00\x00\x00"),
    "nothing behind broker metadata": entry_commands.build_broker_metadata(1, 2),
}


@pytest.mark.parametrize("stored", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_gives_one_typed_error(stored: bytes) -> None:
    with pytest.raises(CorruptMessage):
        entry_bytes.parse_entry(stored)
    if not stored.startswith(b"\x0e\x02"):
        with pytest.raises(CorruptMessage):
            entry_bytes.metadata_of(stored, 0, len(stored))


def test_incomplete_metadata_are_not_written() -> None:
    with pytest.raises(CorruptMessage):
        entry_bytes.build_entry(MessageMetadata(producer_name="p"), b"")


@pytest.mark.parametrize(
    "head", [b"\x18\x05", b"\x0a\x01p\x10\x01\x18\x05", b"\x61" + bytes(8) + b"\x65" + bytes(4) + b"\x18\x05"]
)
def test_publish_time_among_other_fields(head: bytes) -> None:
    stored = struct.pack(">I", len(head)) + head
    assert entry_bytes.publish_time_of(stored, 0, len(stored)) == 5


@cases("name_bytes", [0, 1, 60, 127, 128, 200, 20_000])
@cases("sequence_id", [0, 1, 127, 128, 2**35, 2**63 - 1, 2**64 - 1])
def test_the_short_way_to_the_publish_time_is_the_long_one(name_bytes: int, sequence_id: int) -> None:
    for time_ms in (0, 5, 2**35 - 1, 2**35, 1_700_000_000_000, 1_795_123_456_789, 2**42 - 1, 2**42, 2**63):
        for payload in (b"", b"x" * 100):
            described = MessageMetadata(producer_name="p" * name_bytes, sequence_id=sequence_id, publish_time=time_ms)
            stored = entry_bytes.build_entry(described, payload)
            assert entry_bytes.publish_time_of(stored, 0, len(stored)) == time_ms


@pytest.mark.parametrize(
    "head", [b"", b"\x0a\x7f", b"\x18", b"\x18\x80", b"\x0b", b"\x10\x01", b"\x0a\xff\xff\xff\xff\x0fp"]
)
def test_no_publish_time(head: bytes) -> None:
    stored = struct.pack(">I", len(head)) + head + b"\x18\x05"
    with pytest.raises(CorruptMessage):
        entry_bytes.publish_time_of(stored, 0, len(stored))


def test_text_that_is_none() -> None:
    parsed = MessageMetadata.FromString(b"\x0a\x02\xc3\x28\x10\x01\x18\x05")
    stored = entry_bytes.build_entry(parsed, b"")
    assert entry_bytes.text_of(entry_bytes.parse_entry(stored).metadata.producer_name) == "\ufffd("
    assert entry_bytes.text_of("plain") == "plain"


LURE = b"\x98\x01\x98\x98\x01"
"""Bytes that look like the field and are not, in payloads and names."""


def entry_of(deliver_at_ms: int | None, payload: bytes, name: str = "p", *, with_checksum: bool = True) -> bytes:
    metadata = MessageMetadata(producer_name=name, sequence_id=152, publish_time=1_795_000_000_000)
    if deliver_at_ms is not None:
        metadata.deliver_at_time = deliver_at_ms
    return build_entry(metadata, payload, with_checksum)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            entry_of,
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.sampled_from((b"", LURE, LURE * 9, b"x" * 2_000 + LURE)),
            st.sampled_from(("p", "\u0098\u0001", "p" * 152)),
            with_checksum=st.booleans(),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_same_as_parsing_everything(entries: list[bytes]) -> None:
    # covers DEL-1, DEL-10
    buffer, starts, ends = b"", [], []
    for entry in entries:
        buffer += LURE
        starts.append(len(buffer))
        buffer += entry
        ends.append(len(buffer))
    expected = []
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        metadata = metadata_of(buffer, start, end)
        if metadata.deliver_at_time > 0:
            expected.append(Delay(index, metadata.deliver_at_time, metadata.publish_time))
    assert delays_in(buffer + LURE, starts, ends) == expected


def test_metadata_that_cannot_be_read_have_no_time() -> None:
    for entry in (b"\x0e\x01", b"\x0e\x01\0\0\0\0\0\0\0\x02\x98\x01", b"\x98\x01\x98\x01\x98\x01", b"\x98"):
        assert delays_in(entry, [0], [len(entry)]) == []
