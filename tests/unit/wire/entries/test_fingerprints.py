"""Fingerprints of entries: the same bytes give the same, with and without what a broker adds."""

from __future__ import annotations

import struct

from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.connector.read_limits.counting import Counted
from spark_pulsar.model.fingerprints import Fingerprint
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.columns.entries import inspect_block
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.entries.fingerprints import fingerprint_of
from spark_pulsar.wire.protocol.frames import FrameSplitter, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BrokerEntryMetadata, MessageMetadata
from tests import entry_commands

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
