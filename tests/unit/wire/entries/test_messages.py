"""MESSAGE frames, against what protobuf writes."""

from __future__ import annotations

import pytest

from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.messages import message_frames
from spark_pulsar.wire.protocol import frames
from tests import entry_commands
from tests.cases import cases

SIZES = [1, 30, 0, 100, 100, 8191, 8192, 20_000]


def stored(count: int) -> tuple[bytes, list[int], list[int]]:
    """(buffer, starts, ends) of entries of several sizes with other bytes between them."""
    buffer, starts, ends = bytearray(), [], []
    for index in range(count):
        buffer += b"between"
        starts.append(len(buffer))
        buffer += bytes([index & 255]) * SIZES[index % len(SIZES)]
        ends.append(len(buffer))
    return bytes(buffer), starts, ends


@cases("consumer_id", [0, 127, 128, 2**64 - 1])
@cases("ledger_id", [0, 300, 2**40])
@cases("first_entry", [0, 120, 127, 128, 16_380])
@cases("partition", [-1, 0, 3, 200])
def test_message_frames(consumer_id: int, ledger_id: int, first_entry: int, partition: int) -> None:
    buffer, starts, ends = stored(20)
    pieces = message_frames(consumer_id, ledger_id, first_entry, partition, buffer, starts, ends)
    expected = b"".join(
        frames.payload_frame(
            entry_commands.message(consumer_id, MessageId(ledger_id, first_entry + i, partition)), buffer[start:end]
        )
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
    assert b"".join(pieces) == expected


def test_many_messages_over_all_lengths_of_entry_ids() -> None:
    buffer, starts, ends = b"entry", [0] * 20_000, [5] * 20_000
    written = b"".join(message_frames(1, 7, 0, -1, buffer, starts, ends))
    found = frames.FrameSplitter().feed(written)
    ids = [frames.parse_command(*frame)[0].message.message_id.entryId for frame in found]
    assert ids == list(range(20_000))


@pytest.mark.parametrize("epoch", [None, 0, 300])
def test_options(epoch: int | None) -> None:
    buffer, starts, ends = stored(4)
    counts, masks = [0, 1, 200, 0], [None, 0b101, 1 << 63 | 1, 1 << 200]
    pieces = message_frames(1, 7, 126, 2, buffer, starts, ends, counts, masks, epoch)
    expected = b"".join(
        frames.payload_frame(
            entry_commands.message(1, MessageId(7, 126 + i, 2), counts[i], masks[i], epoch), buffer[starts[i] : ends[i]]
        )
        for i in range(4)
    )
    assert b"".join(pieces) == expected
    only_counts = b"".join(message_frames(1, 7, 126, 2, buffer, starts, ends, counts))
    assert b"".join(message_frames(1, 7, 126, 2, buffer, starts, ends, counts, [None] * 4)) == only_counts


def test_a_count_of_zero_is_left_out() -> None:
    pieces = message_frames(1, 7, 0, -1, b"entry", [0], [5], [0], [None])
    assert b"".join(pieces) == b"".join(message_frames(1, 7, 0, -1, b"entry", [0], [5]))


@pytest.mark.parametrize("size", [10_000, 8192, 8191])
def test_a_large_entry_alone(size: int) -> None:
    expected = frames.payload_frame(entry_commands.message(1, MessageId(7, 3, -1)), bytes(size))
    assert b"".join(message_frames(1, 7, 3, -1, bytes(size), [0], [size])) == expected


def test_nothing_to_send() -> None:
    assert message_frames(1, 7, 0, -1, b"", [], []) == []


# ---- acknowledgements ----
