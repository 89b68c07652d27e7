"""Frames, runs, receipts, MESSAGE frames and acks against protobuf, on any input and however it arrives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.model.errors import MalformedFrame, UnknownCommand
from spark_pulsar.model.positions.ids import MessageId, Position, signed
from spark_pulsar.wire.entries import entry_bytes
from spark_pulsar.wire.entries.messages import message_frames
from spark_pulsar.wire.protocol import commands, frames, requests
from spark_pulsar.wire.protocol.acks import parse_ack_ids
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, MessageIdData, MessageMetadata
from spark_pulsar.wire.sends import run_splitter, send_runs
from spark_pulsar.wire.sends.columnar_receipts import columnar_receipts
from spark_pulsar.wire.sends.receipts import receipts
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from spark_pulsar.wire.sends.send_runs import ColumnarSends
from tests import entry_commands

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
U64 = st.integers(0, 2**64 - 1)
NUMBERS = st.one_of(st.integers(0, 300), st.integers(16_300, 16_500), U64)
# What a run is made of: mostly the next id of the same producer.
STEPS = st.tuples(
    st.sampled_from([1, 1, 1, 1, 0, 5, 127, 128, -3]),
    st.sampled_from(["plain", "plain", "plain", "plain", "batch", "java", "chunk", "txn", "bad", "unchecked", "ping"]),
    st.integers(0, 40),
)


def send_frames(producers: list[int], first: int, steps: list[tuple[int, str, int]]) -> list[bytes]:
    made, at = [], first
    for index, (step, kind, size) in enumerate(steps):
        at = max(0, min(at + step, 2**64 - 1))
        if kind == "ping":
            made.append(frames.command_frame(commands.ping()))
            continue
        command = requests.send(
            producers[index // 7 % len(producers)],
            at,
            size + 2 if kind in ("batch", "java") else 1,
            min(at + size, 2**64 - 1) if kind == "java" else None,
            kind == "chunk",
        )
        if kind == "txn":
            command.send.txnid_least_bits, command.send.txnid_most_bits = size, size // 50
        metadata = MessageMetadata(producer_name="p", sequence_id=at, publish_time=1)
        stored = bytearray(entry_bytes.build_entry(metadata, bytes(size), kind != "unchecked"))
        if kind == "bad":
            stored[-1] ^= 1
        made.append(frames.payload_frame(command, bytes(stored)))
    return made


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    return pieces


Row = tuple[int, int, int, int | None, int, tuple[int, int] | None, bytes] | bytes


def row_of(frame: Frame) -> Row:
    """One frame as protobuf and the entry parser read it."""
    command, payload_start = frames.parse_command(*frame)
    if command.type != BaseCommand.SEND:
        return frame.buffer[frame.start : frame.end]
    send = command.send
    entry = entry_bytes.parse_entry(frame.buffer, payload_start, frame.end)
    flags = {
        entry_bytes.Checksum.OK: 0,
        entry_bytes.Checksum.WRONG: send_runs.CHECKSUM_WRONG,
        entry_bytes.Checksum.ABSENT: send_runs.CHECKSUM_ABSENT,
    }[entry.checksum]
    flags |= send_runs.CHUNK if send.is_chunk else 0
    flags |= send_runs.TRANSACTION if send.HasField("txnid_most_bits") else 0
    highest = send.highest_sequence_id if send.HasField("highest_sequence_id") else None
    return (
        send.producer_id,
        send.sequence_id,
        send.num_messages,
        highest,
        flags,
        (send.txnid_most_bits, send.txnid_least_bits) if send.HasField("txnid_most_bits") else None,
        frame.buffer[payload_start : frame.end],
    )


def rows_of(run: run_splitter.Item) -> list[Row]:
    if isinstance(run, Frame):
        return [run.buffer[run.start : run.end]]
    if isinstance(run, ColumnarSends):
        columns = (run.producer_ids, run.sequence_ids, run.message_counts, run.starts, run.ends)
        return [
            (producer_id, sequence_id, count, None, send_runs.PLAIN, None, run.buffer[start:end])
            for producer_id, sequence_id, count, start, end in zip(*columns, strict=True)
        ]
    assert run.flags in send_runs.IN_RUNS or len(run) == 1
    highest = run.highest_sequence_ids or [None] * len(run)
    return [
        (
            run.producer_id,
            run.sequence_ids[i],
            run.message_counts[i],
            highest[i],
            run.flags,
            run.transaction,
            run.buffer[run.starts[i] : run.ends[i]],
        )
        for i in range(len(run))
    ]


@QUICK
@given(
    st.lists(NUMBERS, min_size=1, max_size=3),
    NUMBERS,
    st.lists(STEPS, max_size=60),
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
)
def test_runs_hold_what_protobuf_reads(
    producers: list[int], first: int, steps: list[tuple[int, str, int]], sizes: list[int]
) -> None:
    data = b"".join(send_frames(producers, first, steps))
    expected = [row_of(frame) for frame in FrameSplitter().feed(data)]
    for pieces in ([data] if data else [], cut(data, sizes)):
        splitter, found = RunSplitter(), []
        splitter.least_columnar_sends = 2
        for piece in pieces:
            for item in splitter.feed_sends(piece):
                found += rows_of(item)
        assert found == expected
        assert splitter.held_bytes == 0


@QUICK
@given(
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([1, 1, 1, 2, 130]), st.sampled_from([1, 1, 1, 1, 3, 0])),
        max_size=150,
    ),
    st.integers(0, 2**63),
    st.lists(st.integers(1, 2000), min_size=1, max_size=3),
)
def test_columnar_sends_hold_what_protobuf_reads(
    producers: list[int], steps: list[tuple[int, int, int]], first: int, sizes: list[int]
) -> None:
    made, at = [], dict.fromkeys(producers, first)
    for which, step, count in steps:
        producer_id = producers[which % len(producers)]
        metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
        stored = bytearray(entry_bytes.build_entry(metadata, bytes(count)))
        if not count:
            stored[-1] ^= 1  # a wrong checksum now and then
        made.append(frames.payload_frame(requests.send(producer_id, at[producer_id], max(1, count)), bytes(stored)))
        at[producer_id] += step
    data = b"".join(made)
    expected = [row_of(frame) for frame in FrameSplitter().feed(data)]
    for pieces in ([data] if data else [], cut(data, sizes)):
        splitter, found = RunSplitter(), []
        for piece in pieces:
            for item in splitter.feed_sends(piece):
                found += rows_of(item)
        assert found == expected


@QUICK
@given(
    st.lists(STEPS, min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=6),
    st.integers(0, 60),
)
def test_hostile_bytes_give_frames_or_one_typed_error(
    steps: list[tuple[int, str, int]], damage: list[tuple[int, int]], missing: int
) -> None:
    data = bytearray(b"".join(send_frames([3, 300], 120, steps)))
    for at, value in damage:
        data[at % len(data)] = value
    received = bytes(data[: max(0, len(data) - missing)])
    for splitter in (FrameSplitter(), RunSplitter()):
        try:
            items = splitter.feed_sends(received) if isinstance(splitter, RunSplitter) else splitter.feed(received)
            for item in items:
                if isinstance(item, Frame):
                    frames.parse_command(*item)
                    parse_ack_ids(*item)
        except (MalformedFrame, UnknownCommand):
            continue


@QUICK
@given(st.binary(max_size=60))
def test_any_bytes_as_a_command(body: bytes) -> None:
    frame = frames.HEADER.pack(len(body) + 4, len(body)) + body
    try:
        command, payload_start = frames.parse_command(frame, 0, len(frame))
    except (MalformedFrame, UnknownCommand):
        return
    assert payload_start == len(frame)
    again = frames.command_frame(command)
    assert frames.parse_command(again, 0, len(again))[0] == command


@QUICK
@given(NUMBERS, NUMBERS, st.integers(0, 2**62), NUMBERS, st.lists(st.sampled_from([1, 1, 1, 2, 128]), max_size=300))
def test_receipts_are_what_protobuf_writes(
    producer_id: int, ledger_id: int, first_entry: int, first: int, steps: list[int]
) -> None:
    ids, at = [], first
    for step in steps:
        ids.append(at & (2**64 - 1))
        at += step
    expected = [
        frames.command_frame(
            entry_commands.send_receipt(producer_id, sequence_id, Position(signed(ledger_id), first_entry + index))
        )
        for index, sequence_id in enumerate(ids)
    ]
    assert receipts(producer_id, signed(ledger_id), first_entry, ids) == b"".join(expected)


@QUICK
@given(st.lists(st.tuples(*[NUMBERS.filter(lambda number: number < 2**63)] * 4), max_size=30))
def test_columnar_receipts_are_what_protobuf_writes(rows: list[tuple[int, int, int, int]]) -> None:
    expected = [
        frames.command_frame(entry_commands.send_receipt(producer_id, sequence_id, Position(ledger_id, entry_id)))
        for producer_id, ledger_id, entry_id, sequence_id in rows
    ]
    columns = [[row[column] for row in rows] for column in range(4)]
    assert columnar_receipts(*columns) == b"".join(expected)


@QUICK
@given(
    NUMBERS,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**62),
    st.integers(-1, 2**31 - 1),
    st.lists(
        st.tuples(st.binary(max_size=30), st.integers(0, 2**32 - 1), st.none() | st.integers(1, 2**130)), max_size=150
    ),
    st.none() | st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_message_frames_are_what_protobuf_writes(
    consumer_id: int,
    ledger_id: int,
    first_entry: int,
    partition: int,
    rows: list[tuple[bytes, int, int | None]],
    epoch: int | None,
    is_plain: bool,
) -> None:
    buffer, starts, ends = b"", [], []
    for stored, _, _ in rows:
        starts.append(len(buffer))
        buffer += stored
        ends.append(len(buffer))
    counts = None if is_plain else [count for _, count, _ in rows]
    masks = None if is_plain else [mask for _, _, mask in rows]
    pieces = message_frames(consumer_id, ledger_id, first_entry, partition, buffer, starts, ends, counts, masks, epoch)
    expected = [
        frames.payload_frame(
            entry_commands.message(
                consumer_id,
                MessageId(ledger_id, first_entry + index, partition),
                0 if counts is None else counts[index],
                None if masks is None else masks[index],
                epoch,
            ),
            stored,
        )
        for index, (stored, _, _) in enumerate(rows)
    ]
    assert b"".join(pieces) == b"".join(expected)


IDS = st.one_of(
    st.tuples(st.integers(0, 3), st.integers(0, 400)),
    st.tuples(NUMBERS, NUMBERS),
)


@QUICK
@given(
    NUMBERS,
    st.lists(st.tuples(IDS, st.integers(1, 200), st.integers(1, 3)), max_size=8),
    st.none() | U64,
    st.booleans(),
    st.booleans(),
)
def test_acks_are_read_as_protobuf_reads_them(
    consumer_id: int,
    runs: list[tuple[tuple[int, int], int, int]],
    request_id: int | None,
    is_cumulative: bool,
    with_partition: bool,
) -> None:
    command = requests.ack(consumer_id, [], cumulative=is_cumulative, request_id=request_id)
    for (ledger_id, first), length, step in runs:
        for entry_id in range(first, min(first + length * step, 2**64), step):
            data = MessageIdData(ledgerId=ledger_id, entryId=entry_id)
            if with_partition:
                data.partition = -1
            command.ack.message_id.append(data)
    frame = frames.command_frame(command)
    ack = parse_ack_ids(frame, 0, len(frame))
    if is_cumulative and [data.entryId < 2**62 for data in command.ack.message_id] != [True]:
        assert ack is None or len(command.ack.message_id) > 1
        return
    assert ack is not None
    assert (ack.consumer_id, ack.request_id) == (consumer_id, request_id)
    assert ack.is_cumulative == (command.ack.ack_type == CommandAck.Cumulative)
    expected = [(signed(data.ledgerId), data.entryId) for data in command.ack.message_id if data.entryId < 2**62]
    assert [(ledger, entry) for ledger, start, end in ack.ranges for entry in range(start, end)] == expected
