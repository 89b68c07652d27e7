"""ACKs read by hand, against what protobuf reads, and bitmaps of batches (CUR-3)."""

import contextlib
import time

import pytest

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.positions.ids import Position, signed
from spark_pulsar.model.positions.singles import Singles
from spark_pulsar.wire.protocol import ack_sets, acks, commands, frames, requests, varint
from spark_pulsar.wire.protocol.acks import PlainAck, parse_ack_ids
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, MessageIdData
from tests.cases import cases


def ack_frame(entry_ids: list[tuple[int, int]], **options: object) -> bytes:
    return frames.command_frame(requests.ack(5, [Position(*at) for at in entry_ids], **options))  # type: ignore[arg-type]


def parsed(frame: bytes) -> PlainAck:
    """An ACK that is read by hand."""
    ack = parse_ack_ids(b"before" + frame + b"after", 6, 6 + len(frame))
    assert ack is not None
    return ack


def positions_of(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    return [(ledger_id, entry_id) for ledger_id, first, end in ranges for entry_id in range(first, end)]


ID_LISTS = {
    "one": [(7, 3)],
    "none": [],
    "consecutive": [(7, i) for i in range(2000)],
    "across every length": [(7, i) for i in range(2**14 - 200, 2**14 + 200)]
    + [(7, i) for i in range(2**21 - 9, 2**21 + 9)],
    "alternating": [(7, i) for i in range(0, 1000, 2)],
    "runs": [(7, i) for i in range(1000) if i % 7],
    "down": [(7, i) for i in range(500, 0, -1)],
    "repeated": [(7, 3), (7, 3), (7, 4), (7, 3), (7, 200), (7, 200), (7, 201)],
    "two ledgers": [(ledger, i) for ledger in (7, 8, 300) for i in range(120, 140)],
    "ledgers in turn": [(ledger, i) for i in range(120, 140) for ledger in (7, 8)],
    "every third": [(7, i) for i in range(2**14 - 900, 2**14 + 900, 3)],
    "apart over every length": [(7, i) for i in (*range(1, 140, 3), *range(2**14 - 9, 2**21 + 70, 2**14 + 1), 2**40)],
    "apart in three ledgers": [(ledger, i) for ledger in (7, 9, 300) for i in range(120, 240, 2)],
    "apart, then in a row": [(7, i) for i in (*range(0, 60, 2), *range(60, 900))],
    "apart, then down": [(7, i) for i in (*range(0, 200, 2), *range(199, 100, -2))],
    "apart, then again": [(7, i) for i in (*range(0, 200, 2), 198, 198)],
    "wide apart": [(7, 1), (7, 2**20), (7, 2**20 + 1), (2**40, 2**50), (7, 2)],
    "extremes": [(-1, 0), (2**63 - 1, 2**62 - 1)],
}


@cases("ids", ID_LISTS.values())
@cases("request_id", [None, 0, 300])
def test_plain_acks(ids: list[tuple[int, int]], request_id: int | None) -> None:
    ack = parsed(ack_frame(ids, request_id=request_id))
    assert (ack.consumer_id, ack.is_cumulative, ack.request_id) == (5, False, request_id)
    assert positions_of(ack.ranges) == ids


def test_many_apart_are_one_list() -> None:
    ids = [each for each in range(2**14 - 1_000, 2**14 + 1_000) if each % 7 in (0, 3, 4)]
    ranges = parsed(ack_frame([(7, each) for each in ids])).ranges
    assert isinstance(ranges, Singles)
    assert (ranges.ledger_id, ranges.entry_ids) == (7, ids)


def java_frame() -> bytes:
    """An ACK as Java writes it: partition, batch index and batch size do not matter for that of a whole entry."""
    command = requests.ack(5, [])
    fields = {"ledgerId": 7, "partition": -1, "batch_index": -1, "batch_size": 10}
    command.ack.message_id.extend(MessageIdData(entryId=entry_id, **fields) for entry_id in range(100, 150))
    return frames.command_frame(command)


@pytest.mark.parametrize(
    ("frame", "is_cumulative", "ranges"),
    [
        (
            ack_frame([*((7, i) for i in range(1000)), (7, 1001), *((8, i) for i in range(5))]),
            False,
            [(7, 0, 1000), (7, 1001, 1002), (8, 0, 5)],
        ),
        (ack_frame([(7, 200), (7, -1), (7, 2**63 - 1), (7, 2**62), (7, 201), (-1, -1)]), False, [(7, 200, 202)]),
        (ack_frame([(7, 900)], cumulative=True), True, [(7, 900, 901)]),
        (java_frame(), False, [(7, 100, 150)]),
    ],
    ids=["neighbours are merged", "ids that no entry has are left out", "cumulative", "of Java"],
)
def test_ranges(frame: bytes, is_cumulative: bool, ranges: list[tuple[int, int, int]]) -> None:
    ack = parsed(frame)
    assert (ack.is_cumulative, ack.ranges) == (is_cumulative, ranges)


@pytest.mark.parametrize("ids", [[], [(7, -1)], [(7, 5), (7, 9)], [(7, 5), (7, 6)]])
def test_cumulative_of_no_entry_or_several_is_left_to_protobuf(ids: list[tuple[int, int]]) -> None:
    frame = ack_frame(ids, cumulative=True)
    assert parse_ack_ids(frame, 0, len(frame)) is None


def test_what_protobuf_must_read() -> None:
    rare: list[BaseCommand] = [
        requests.ack(5, [Position(7, 3)], ack_set=5),
        requests.ack(5, [Position(7, 3)], validation_error=CommandAck.ChecksumMismatch),
        requests.flow(5, 10),
        commands.ping(),
    ]
    with_properties, in_transaction, after_plain = (requests.ack(5, [Position(7, 3)]) for _ in range(3))
    with_properties.ack.properties.add(key="k", value=1)
    in_transaction.ack.txnid_least_bits = 0
    after_plain.ack.message_id.add(ledgerId=7, entryId=4, ack_set=[1])
    for command in [*rare, with_properties, in_transaction, after_plain]:
        frame = frames.command_frame(command)
        assert parse_ack_ids(frame, 0, len(frame)) is None


@pytest.mark.parametrize("entry_ids", [range(126, 131), range(90, 150, 3)], ids=["in a row", "apart"])
def test_every_damaged_byte_is_read_as_protobuf_reads_it_or_left_to_it(entry_ids: range) -> None:
    frame = ack_frame([(7, i) for i in entry_ids], request_id=9)
    for at in range(8, len(frame)):
        for value in (0, 1, 0x1A, 0x7F, 0x80, 0xFF):
            damaged = frame[:at] + bytes([value]) + frame[at + 1 :]
            ack = parse_ack_ids(damaged, 0, len(damaged))
            if ack is None:
                continue
            content = frames.parse_command(damaged, 0, len(damaged))[0].ack
            assert ack.consumer_id == content.consumer_id
            assert ack.is_cumulative == (content.ack_type == CommandAck.Cumulative)
            ids = [(signed(data.ledgerId), data.entryId) for data in content.message_id if data.entryId < 2**62]
            assert positions_of(ack.ranges) == ids
            assert ack.request_id == (content.request_id if content.HasField("request_id") else None)


def test_a_frame_cut_short_is_malformed_or_left() -> None:
    frame = ack_frame([(7, i) for i in range(126, 131)])
    behind = frames.HEADER.pack(len(frame) - 3, len(frame) - 8) + frame[8:] + b"x"
    assert parse_ack_ids(behind, 0, len(behind)) is None
    for end in range(len(frame)):
        with contextlib.suppress(MalformedFrame):
            assert parse_ack_ids(frame, 0, end) is None


def ack_of(ids: list[bytes]) -> bytes:
    """An ACK frame with these ids as they are."""
    body = b"\x08\x01\x10\x00" + b"".join(b"\x1a" + bytes([len(each)]) + each for each in ids)
    command = b"\x08\x0a\x52" + varint.encode(len(body)) + body
    return frames.HEADER.pack(4 + len(command), len(command)) + command


def test_ids_of_ever_changing_shape_are_not_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each block costs a look at all that is left: one for each id would take hours for a frame of 5 MB.
    blocks: list[int] = []
    block = acks._block
    monkeypatch.setattr(acks, "_block", lambda *args: blocks.append(1) or block(*args))
    rests = [b"\x20\x01", b"\x20\x02"]
    ids = [b"\x08\x05\x10" + varint.encode(100_000 + 3 * number) + rests[number % 2] for number in range(500)]
    data = ack_of(ids)
    ack = parse_ack_ids(data, 0, len(data))
    assert ack is not None
    assert list(ack.ranges) == [(5, 100_000 + 3 * number, 100_001 + 3 * number) for number in range(500)]
    assert len(blocks) < 10


@pytest.mark.parametrize("first", [100, 16_000, 16_384, 2_096_900, 2**28 - 300])
@pytest.mark.parametrize("step", [2, 5, 128, 200])
def test_entry_ids_that_grow_wider_are_read_by_columns(first: int, step: int) -> None:
    entry_ids = range(first, first + 150 * step, step)
    data = ack_frame([(5, entry_id) for entry_id in entry_ids])
    read = acks.read_ack_columns(data, data.index(b"\x1a"), len(data))
    assert read is not None
    assert (list(read[0]), read[1]) == ([(5, each, each + 1) for each in entry_ids], len(data))


@pytest.mark.parametrize("count", [0, 30])
def test_an_empty_id_at_the_end_is_left_to_protobuf(count: int) -> None:
    ids = [b"\x08\x05\x10" + varint.encode(1_000 + 3 * number) for number in range(count)]
    data = ack_of([*ids, b""])
    assert parse_ack_ids(data, 0, len(data)) is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, []),
        (0b100, [4]),
        (1 << 63, [-(2**63)]),
        ((1 << 64) - 1, [-1]),
        (1 << 64, [0, 1]),
        ((1 << 200) - 1, [-1, -1, -1, 255]),
    ],
)
def test_words(mask: int, words: list[int]) -> None:
    assert ack_sets.words(mask) == words
    assert ack_sets.mask(words) == mask


def test_trailing_zero_words_do_not_matter() -> None:
    assert ack_sets.mask([5, 0, 0]) == ack_sets.mask([5]) == 5
    assert ack_sets.mask([0]) == 0


def test_indexes() -> None:
    assert list(ack_sets.indexes(ack_sets.full(3))) == [0, 1, 2]
    assert list(ack_sets.indexes(ack_sets.from_index(2, 5))) == [2, 3, 4]
    assert list(ack_sets.indexes(1 << 130)) == [130]
    assert ack_sets.from_index(5, 5) == 0


def test_as_many_words_as_a_frame_holds_take_their_length_and_no_more() -> None:
    # Hostile input: word by word this is a number of megabytes built half a million times, which is minutes.
    words = [-1, 0, 5] * 200_000
    began = time.process_time()
    mask = ack_sets.mask(words)
    assert ack_sets.words(mask) == words
    assert time.process_time() - began < 30
