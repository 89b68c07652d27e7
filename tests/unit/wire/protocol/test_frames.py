"""Frames and varints: limits, hostile bytes, what is delivered before a failure."""

import struct
from collections.abc import Callable

import pytest

from spark_pulsar.model.errors import MalformedFrame, NotAllowed, UnknownCommand
from spark_pulsar.model.limits import FRAME_PADDING_BYTES, MAX_FRAME_SIZE_BYTES, MAX_MESSAGE_SIZE_BYTES, MAX_PROPERTIES
from spark_pulsar.wire.protocol import commands, frames, requests, varint
from spark_pulsar.wire.protocol.frames import FrameSplitter
from spark_pulsar.wire.protocol.varint import decode, encode, encode_cached
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandProducer, CommandReachedEndOfTopic
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from tests.cases import cases

PING = frames.command_frame(commands.ping())
FLOW = frames.command_frame(requests.flow(1, 500))


def sized(body: bytes) -> bytes:
    """The frame of a command body that need not be one."""
    return struct.pack(">II", len(body) + 4, len(body)) + body


@pytest.fixture(params=[FrameSplitter, RunSplitter])
def splitter(request: pytest.FixtureRequest) -> FrameSplitter:
    return request.param()


def feed(splitter: FrameSplitter, data: bytes) -> int:
    """Counts the items that come of `data`."""
    return len(splitter.feed_sends(data) if isinstance(splitter, RunSplitter) else splitter.feed(data))


@pytest.mark.parametrize("total", [0, 1, 5, MAX_FRAME_SIZE_BYTES - 3, 2**31, 2**32 - 1])
def test_a_size_out_of_bounds_fails_as_soon_as_it_is_known(splitter: FrameSplitter, total: int) -> None:
    with pytest.raises(MalformedFrame) as caught:
        feed(splitter, struct.pack(">I", total))
    assert caught.value.closes == "session"
    with pytest.raises(MalformedFrame):
        feed(splitter, PING)


def test_the_frame_limit_counts_the_size_field(splitter: FrameSplitter) -> None:
    # 1.3: totalSize 5,253,116 is read, 5,253,117 closes the connection.
    assert MAX_FRAME_SIZE_BYTES == MAX_MESSAGE_SIZE_BYTES + FRAME_PADDING_BYTES == 5_253_120
    assert feed(splitter, struct.pack(">I", 5_253_116)) == 0
    assert splitter.held_bytes == 4


def test_the_limit_can_follow_what_the_peer_announces() -> None:
    splitter = FrameSplitter()
    splitter.limit_frames(len(FLOW) - 1)
    assert splitter.feed(PING)
    with pytest.raises(MalformedFrame):
        splitter.feed(FLOW)


@pytest.mark.parametrize("error", ["42080801100118632200", "7206080110631a00"], ids=["SEND_ERROR", "ERROR"])
def test_a_command_of_another_type_has_no_error_of_the_future_beside_it(error: str) -> None:
    """Its size cannot be told: that failed a turn, and the events of all connections in it were lost."""
    frame = sized(commands.ping().SerializeToString() + bytes.fromhex(error))
    with pytest.raises(MalformedFrame):
        frames.parse_command(frame, 0, len(frame))


def test_good_frames_are_served_before_the_failure(splitter: FrameSplitter) -> None:
    assert feed(splitter, PING + FLOW + b"\x00\x00\x00\x01") == 2
    assert splitter.failure is not None
    assert splitter.held_bytes == 0
    with pytest.raises(MalformedFrame):
        feed(splitter, b"")


def test_whole_frames_share_the_received_buffer() -> None:
    data = PING + FLOW + PING
    assert all(frame.buffer is data for frame in FrameSplitter().feed(data))


def test_a_large_frame_in_small_pieces_is_joined_once(splitter: FrameSplitter) -> None:
    entry = bytes(1_000_000)
    frame = frames.payload_frame(requests.send(1, 1), entry)
    counts = [feed(splitter, frame[at : at + 1000]) for at in range(0, len(frame), 1000)]
    assert counts == [0] * (len(counts) - 1) + [1]
    assert splitter.held_bytes == 0


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(sized(b""), id="no command"),
        pytest.param(sized(b"\x08"), id="one byte"),
        pytest.param(struct.pack(">II", 8, 5) + b"\x08\x12\x92\x01", id="command longer than its frame"),
        pytest.param(struct.pack(">II", 9, 2**32 - 1) + b"\x08\x12\x92\x01\x00", id="command of 4 GB"),
        pytest.param(sized(b"\x08\x12"), id="type without its content"),
        pytest.param(sized(b"\x92\x01\x00"), id="content without a type"),
        pytest.param(sized(b"\x08\x92"), id="type cut off"),
        pytest.param(sized(b"\x08" + b"\xff" * 11), id="type that never ends"),
        pytest.param(sized(b"\x08\x0b\x5a\x02\x08\x80"), id="number cut off"),
        pytest.param(sized(b"\x08\x0b\x5a\x7f\x08\x01"), id="content longer than the command"),
        pytest.param(sized(b"\x08\x0b\x5a\x02\x08\x01"), id="required field missing"),
        pytest.param(sized(b"\x08\x12\x5a\x04\x08\x00\x10\x04"), id="content of another type"),
        pytest.param(sized(b"\x08\x17\xba\x01\x07\x0a\x03a\xff\xfe\x10\x01"), id="text that is not UTF-8"),
        pytest.param(sized(b"\xff\xff\xff\xff"), id="garbage"),
        pytest.param(
            frames.command_frame(requests.subscribe(1, "t", "s", 1)).replace(
                b"\x12\x01s\x18\x00", b"\x12\x01s\x18\x09"
            ),
            id="unknown value of a required enum",
        ),
    ],
)
def test_hostile_commands_give_one_typed_error(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        frames.parse_command(frame, 0, len(frame))


@pytest.mark.parametrize("key", ["", "k", "\u00e9"])
@pytest.mark.parametrize("extra", [0, 1])
def test_a_command_has_so_many_properties_and_no_more(key: str, extra: int) -> None:
    command = requests.subscribe(1, "t", "s", 1)
    for _ in range(MAX_PROPERTIES + extra):
        command.subscribe.metadata.add(key=key, value="")
    frame = frames.command_frame(command)
    if extra:
        with pytest.raises(MalformedFrame, match=f"{MAX_PROPERTIES + 1} times"):
            frames.parse_command(frame, 0, len(frame))
    else:
        assert frames.parse_command(frame, 0, len(frame))[0] == command


@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_frame_must_be_named_exactly(wrong: int) -> None:
    with pytest.raises(MalformedFrame):
        frames.parse_command(PING + b"\x00", 0, len(PING) + wrong)


@pytest.mark.parametrize("number", [1, 41, 69, 70, 81, 1000])
def test_unknown_command_types_are_told_apart(number: int) -> None:
    # covers A14: a type of another protocol version need not end the session.
    body = bytes([0x08]) + frames.varint.encode(number) + b"\xb2\x04\x02\x08\x01"
    frame = sized(body)
    with pytest.raises(UnknownCommand) as caught:
        frames.parse_command(frame, 0, len(frame))
    assert caught.value.command_type == number
    assert caught.value.closes == "request"
    assert isinstance(caught.value, NotAllowed)


def test_unknown_value_of_an_optional_enum_reads_as_the_default() -> None:
    command = requests.producer(1, "t", 1)
    frame = frames.command_frame(command).replace(b"\x50\x00", b"\x50\x09")
    content = frames.parse_command(frame, 0, len(frame))[0].producer
    assert not content.HasField("producer_access_mode")
    assert content.producer_access_mode == CommandProducer().producer_access_mode


def test_unknown_fields_are_ignored() -> None:
    frame = sized(PING[8:] + b"\xfa\x3e\x01x")
    command, payload_start = frames.parse_command(frame, 0, len(frame))
    assert command.type == BaseCommand.PING
    assert payload_start == len(frame)


@pytest.mark.parametrize("feeding", [lambda data: [data], lambda data: [data[i : i + 1] for i in range(len(data))]])
def test_frames_come_in_order(splitter: FrameSplitter, feeding: Callable[[bytes], list[bytes]]) -> None:
    assert sum(feed(splitter, data) for data in feeding(PING + FLOW + PING + FLOW)) == 4


def subscribe_of(parts: bytes) -> bytes:
    """A SUBSCRIBE with these fields beside the required ones."""
    content = requests.subscribe(1, "t", "s", 1).subscribe.SerializeToString() + parts
    body = b"\x08\x04\x22" + varint.encode(len(content)) + content
    return frames.HEADER.pack(len(body) + 4, len(body)) + body


def field(number: int, content: bytes) -> bytes:
    return varint.encode(number << 3 | 2) + varint.encode(len(content)) + content


RANGE = field(3, b"\x08\x01\x10\x02")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        pytest.param(field(10, b"\x0a\x00\x12\x00") * 800_000, "more than 16384 times .*metadata", id="properties"),
        pytest.param(
            field(12, field(5, b"\x0a\x00\x12\x00") * 600_000), "more than 16384 times .*properties", id="of a schema"
        ),
        pytest.param(field(17, b"\x08\x01" + RANGE * 700_000), "more than 65536 times .*hashRanges", id="hash ranges"),
        pytest.param((varint.encode(1600) + b"\x01") * 1_600_000, "more than 16384 fields", id="unknown fields"),
    ],
)
def test_a_long_command_is_counted_before_it_is_parsed(
    parts: bytes, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers hostile input: a million parts take a tenth of a second to parse
    monkeypatch.setattr(frames, "parse_command", lambda *_: pytest.fail("parsed"))
    frame = subscribe_of(parts)
    with pytest.raises(MalformedFrame, match=text):
        frames.parse_request(frame, 0, len(frame))


@pytest.mark.parametrize(
    "parts",
    [
        field(10, b"\x0a\x00\x12\x00") * MAX_PROPERTIES,
        field(17, b"\x08\x01" + RANGE * 65_536),
        field(10, b"\x0a\x00\x12" + varint.encode(4_000_000) + b"x" * 4_000_000),
        field(12, b"\x0a\x01n\x1a" + varint.encode(4_000_000) + b"\x2a\x00" * 2_000_000 + b"\x20\x01"),
    ],
)
def test_a_long_command_within_bounds_is_parsed(parts: bytes) -> None:
    frame = subscribe_of(parts)
    assert frames.parse_request(frame, 0, len(frame))[0].subscribe.subscription == "s"


@pytest.mark.parametrize("rest", [b"\xff" * 3_000_000, b"\x52" + b"\x80" * 3_000_000, b"\x57" * 100_000, b"\x52\x7f"])
def test_long_bytes_that_are_no_command_are_refused_by_the_parser(rest: bytes) -> None:
    frame = subscribe_of(field(3, b"x" * 70_000) + rest)
    with pytest.raises(MalformedFrame, match="not a command"):
        frames.parse_request(frame, 0, len(frame))


EDGES = sorted({0, 2**64 - 1, *(2**bits + off for bits in range(7, 64, 7) for off in (-1, 0, 1))})


@cases("number", EDGES)
def test_as_protobuf_writes_it(number: int) -> None:
    expected = CommandReachedEndOfTopic(consumer_id=number).SerializeToString()[1:]
    assert encode(number) == encode_cached(number) == expected
    for behind in range(4):
        end = 1 + len(expected) + behind
        assert decode(b"x" + expected + b"xxx", 1, end) == (number, len(expected) + 1)
    with pytest.raises(MalformedFrame):
        decode(expected, 0, len(expected) - 1)


def test_negative_numbers_take_ten_bytes() -> None:
    assert encode(-1) == b"\xff" * 9 + b"\x01"
    assert len(encode(-(2**31))) == 10


def test_no_more_than_ten_bytes() -> None:
    with pytest.raises(MalformedFrame):
        decode(b"\x80" * 10 + b"\x01", 0, 11)
    assert decode(b"\xff" * 9 + b"\x7f", 0, 10) == (2**64 - 1, 10)
    assert decode(b"\x80\x00", 0, 2) == (0, 2)
