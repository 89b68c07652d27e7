"""Blocks of entries, cut from MESSAGE frames, and their fingerprints."""

import struct

import pytest

from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.connector.read_limits.counting import Counted
from spark_pulsar.model.errors import ChecksumFailed, MalformedFrame
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.columns.entries import inspect_block
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of, message_count_of, permits_of
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.entries.fingerprints import fingerprint_of
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter, command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BrokerEntryMetadata, MessageMetadata
from tests import entry_commands
from tests.unit.client.peer import message


def _frames(*parts: bytes) -> list[Frame]:
    return FrameSplitter().feed(b"".join(parts))


def _run(*parts: bytes) -> list[list[Frame]]:
    return [_frames(*parts)]


def _ids(block: EntryBlock) -> list[tuple[int, int]]:
    return list(zip(block.ledger_ids, block.entry_ids, strict=True))


def _entries(block: EntryBlock) -> list[bytes]:
    return [block.buffer[start:end] for start, end in zip(block.starts, block.ends, strict=True)]


def test_entries_and_ids_over_all_lengths_of_numbers() -> None:
    ids = [
        (ledger, entry) for ledger in (0, 127, 128, 2**40) for entry in (0, 1, 126, 127, 128, 129, 16383, 16384, 2**62)
    ]
    frames = _frames(*(message(3, MessageId(*one), str(one).encode()) for one in ids))
    block = block_of([frames], 3, 5, "t")
    assert _ids(block) == ids
    assert block.partition == 5
    for one, entry in zip(ids, _entries(block), strict=True):
        assert entry.startswith(b"\x0e\x01")
        assert entry.endswith(str(one).encode())
    assert block.size_bytes == sum(map(len, _entries(block)))


def test_redelivery_counts_ack_sets_and_other_consumers_between() -> None:
    entry = build_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
    frames = _frames(
        payload_frame(entry_commands.message(1, MessageId(1, 1)), entry),
        payload_frame(entry_commands.message(1, MessageId(1, 2), redelivery_count=3), entry),
        payload_frame(entry_commands.message(2, MessageId(1, 3)), entry),
        payload_frame(entry_commands.message(1, MessageId(1, 4), ack_set=5), entry),
        payload_frame(entry_commands.message(1, MessageId(2, 0, 7)), entry),
    )
    assert _ids(block_of([frames], 1, -1, "t")) == [(1, 1), (1, 2), (1, 4), (2, 0)]


@pytest.mark.parametrize("messages", [1, 3])
def test_what_the_broker_put_in_front_stays_and_is_no_part_of_the_checksum(messages: int) -> None:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    if messages > 1:
        metadata.num_messages_in_batch = messages
    entry = entry_commands.build_broker_metadata(5, 6) + build_entry(metadata, b"value")
    block = block_of(_run(payload_frame(entry_commands.message(1, MessageId(1, 1)), entry)), 1, -1, "t")
    assert _entries(block) == [entry]
    assert permits_of(block) == messages


def test_a_wrong_checksum_names_the_entry() -> None:
    good, bad = message(1, MessageId(4, 1), b"good"), bytearray(message(1, MessageId(4, 2), b"bad"))
    bad[-1] ^= 1
    with pytest.raises(ChecksumFailed, match=r"some-topic: .* entry 4:2 "):
        block_of(_run(good, bytes(bad)), 1, -1, "some-topic")


def test_an_entry_without_checksum_passes() -> None:
    entry = build_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x", with_checksum=False)
    block = block_of(_run(payload_frame(entry_commands.message(1, MessageId(1, 1)), entry)), 1, -1, "t")
    assert _entries(block) == [entry]
    assert permits_of(block) == 1


def test_frames_whose_sizes_lie() -> None:
    frame = bytearray(message(1, MessageId(1, 1)))
    frame[7] = 250  # commandSize beyond the frame
    with pytest.raises(MalformedFrame):
        block_of([[Frame(bytes(frame), 0, len(frame))]], 1, -1, "t")


def test_permits_are_messages() -> None:
    frames = _frames(
        message(1, MessageId(1, 1)),
        message(1, MessageId(1, 2), num_messages_in_batch=25),
        message(1, MessageId(1, 3), partition_key="X marks no batch"),
        message(1, MessageId(1, 4), num_messages_in_batch=1),
    )
    block = block_of([frames], 1, -1, "t")
    assert [message_count_of(block, i) for i in range(4)] == [1, 25, 1, 1]
    assert permits_of(block) == 28


def test_cutting() -> None:
    block = block_of(_run(*(message(1, MessageId(1, i)) for i in range(5)), message(1, MessageId(2, 0))), 1, -1, "t")
    block.cut_before(1, 2)
    assert _ids(block) == [(1, 2), (1, 3), (1, 4), (2, 0)]
    block.cut_from(1, 9)
    assert _ids(block) == [(1, 2), (1, 3), (1, 4)]
    block.cut_before(1, 0)
    block.cut_from(7, 0)
    assert len(block) == 3
    block.cut_from(0, 0)
    assert len(block) == 0


def test_runs_of_several_buffers_are_joined() -> None:
    runs = [_frames(message(1, MessageId(1, i), b"%d" % i), message(1, MessageId(1, i + 1))) for i in (0, 2, 4)]
    block = block_of(runs, 1, -1, "t")
    assert _ids(block) == [(1, i) for i in range(6)]
    assert [entry[-1:] for entry in _entries(block)] == [b"0", b"x", b"2", b"x", b"4", b"x"]


def test_an_unknown_command_in_place_of_a_message_is_malformed() -> None:
    frame = command_frame(commands.ping())
    block = block_of([[Frame(frame, 0, len(frame))]], 1, -1, "t")
    assert len(block) == 0


METADATA = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1_790_000_000_123)


def block(*entries: bytes) -> EntryBlock:
    """A block of entries 5:0, 5:1, …"""
    consumer_id = next_id()
    frames = b"".join(
        payload_frame(entry_commands.message(consumer_id, MessageId(5, number)), entry)
        for number, entry in enumerate(entries)
    )
    return block_of([FrameSplitter().feed(frames)], consumer_id, -1, "t")


def test_what_a_broker_adds_is_no_part_of_it() -> None:
    # covers OFFSET-17
    entry = build_entry(METADATA, b"payload")
    added = BrokerEntryMetadata(broker_timestamp=7, index=1).SerializeToString()
    behind = b"\x0e\x02" + struct.pack(">I", len(added)) + added + entry
    unchecked = entry[6:]
    whole = block(entry, behind, unchecked, build_entry(METADATA, b"another"))
    found = [fingerprint_of(whole, index) for index in range(4)]
    assert {each.publish_time_ms for each in found} == {1_790_000_000_123}
    assert len({each.checksum for each in found[:3]}) == 1
    assert found[3].checksum != found[0].checksum
    assert [each[:2] for each in found] == [(5, number) for number in range(4)]


def test_counted_entries_have_the_same_fingerprints() -> None:
    # covers OFFSET-17
    entries = [build_entry(METADATA, b"%d" % number) for number in range(3)]
    added = BrokerEntryMetadata(broker_timestamp=7, index=1).SerializeToString()
    entries[1] = b"\x0e\x02" + struct.pack(">I", len(added)) + added + entries[1]
    whole = block(*entries, entries[2][6:])
    counted = Counted.of(whole, inspect_block(whole))
    found: list[Fingerprint | None] = [counted.fingerprint(ReadPosition(5, number)) for number in range(3)]
    assert found == [fingerprint_of(whole, number) for number in range(3)]
    assert counted.part(1, 3).fingerprint(ReadPosition(5, 2)) == found[2]
    assert counted.fingerprint(ReadPosition(5, 3)) is None  # sent without a checksum
    assert counted.fingerprint(ReadPosition(5, 9)) is None
