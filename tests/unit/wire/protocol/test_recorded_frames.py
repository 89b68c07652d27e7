"""Frames recorded from the official Python client: read, written back as they came, and written by us alike."""

from collections.abc import Callable

import pytest

from spark_pulsar.model.errors import MalformedFrame
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, MessageId, Position
from spark_pulsar.wire.entries import entry_bytes, messages
from spark_pulsar.wire.entries.entry_bytes import Checksum
from spark_pulsar.wire.protocol import acks, commands, frames, requests
from spark_pulsar.wire.protocol.commands import FIELD_OF
from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    MessageIdData,
)
from spark_pulsar.wire.sends.receipts import receipts
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from spark_pulsar.wire.sends.send_runs import PLAIN, SendRun
from tests import entry_commands

RECORDED = {
    "connect": "0000002900000025080212210a1150756c7361722d4350502d76342e322e3020142a046e6f6e65520408011001",
    "connected": "000000100000000c08031a080a0466616b651014",
    "partitioned_metadata": (
        "0000002b000000270815aa01220a1e70657273697374656e743a2f2f7075626c69632f64656661756c742f74311001"
    ),
    "partitioned_metadata-response": "0000000f0000000b0816b20106080010011800",
    "lookup": (
        "0000002f0000002b0817ba01260a1e70657273697374656e743a2f2f7075626c69632f64656661756c742f7431100218003a00"
    ),
    "lookup-response": "00000029000000250818c201200a1870756c7361723a2f2f3132372e302e302e313a3430323839180120022801",
    "ping": "00000009000000050812920100",
    "pong": "000000090000000508139a0100",
    "producer": (
        "000000370000003308052a2f0a1e70657273697374656e743a2f2f7075626c69632f64656661756c742f743110001800"
        "2201702800400048015000"
    ),
    "producer_success": "0000000e0000000a08118a01050800120170",
    "send-hello": "000000270000000808063204080010000e016f295f8d0000000c0a017010001894c4e7e89f3468656c6c6f",
    "send_receipt": "000000140000001008073a0c080010001a04080510002000",
    "send-key-properties": (
        "000000360000000808063204080010010e01459c114d0000001e0a017010011894c4e7e89f3422060a01611201313201"
        "6b60e8079201016f6869"
    ),
    "send-batch-of-3": (
        "000000440000000a080632060801100018030e01c79876b10000000e0a016210001895c4e7e89f345803000000041802"
        "40006d3000000004180240016d3100000004180240026d32"
    ),
    "close_producer": "0000000c00000008080f7a0408001001",
    "success": "0000000a00000006080d6a020801",
    "subscribe-shared": (
        "000000410000003d080422390a1e70657273697374656e743a2f2f7075626c69632f64656661756c742f743212037375"
        "621801200028003202636e38004001580068007000"
    ),
    "flow": "0000000c00000008080b5a0408001004",
    "message-plain": (
        "000000360000001708094a130800120f0805100018ffffffffffffffffff010e01024c533a0000000c0a017010001880"
        "d095ffbc31706c61696e"
    ),
    "message-with-0x0e02": (
        "000000430000001708094a130800120f0805100218ffffffffffffffffff010e02000000090881d095ffbc3110070e01"
        "ec6fed200000000c0a017010021880d095ffbc3162656d"
    ),
    "message-batch-redelivered": (
        "0000004f0000001b08094a170800120f0805100318ffffffffffffffffff01180220050e01e9a9da780000000e0a0170"
        "10031880d095ffbc315803000000021802623000000002180262310000000218026232"
    ),
    "ack-list": (
        "0000003400000030080a522c080010001a04080510001a04080510011a04080510021a060805100328021a0608051003"
        "28021a0408051004"
    ),
    "ack-cumulative": "000000120000000e080a520a080010011a0408051001",
    "ack-cumulative-batch-index": "0000001400000010080a520c080010011a06080510052804",
    "ack-corrupt": "0000001400000010080a520c080010001a04080510002002",
    "redeliver-all": "0000000b000000070814a201020800",
    "redeliver-ids": "00000017000000130814a2010e0800120408051000120408051002",
    "seek-by-time": "0000001400000010081ce2010b080010012080d095ffbc31",
    "seek-by-id": "000000130000000f081ce2010a080010021a0408051003",
    "get_last_message_id": "0000000d00000009081dea010408001003",
    "get_last_message_id-response": "000000110000000d081ef201080a04080510031003",
    "unsubscribe": "0000000c00000008080c620408001001",
    "close_consumer": "0000000d00000009081082010408001001",
    "reader-subscribe-earliest": (
        "00000066000000620804225e0a1d70657273697374656e743a2f2f7075626c69632f64656661756c742f741211726561"
        "6465722d313537313537653637381800200028003202726e380040004a1608ffffffffffffffffff0110ffffffffffff"
        "ffffff01580068007000"
    ),
    "subscribe-key_shared-sticky": (
        "0000005b00000057080422530a1d70657273697374656e743a2f2f7075626c69632f64656661756c742f741201731803"
        "2000280032016b3800400152060a01781201795800680170008a011308011a04080010641a0708c80110ffff032000"
    ),
}

FRAMES = {name: bytes.fromhex(text) for name, text in RECORDED.items()}
WITH_ENTRY = [name for name in FRAMES if name.startswith(("send-", "message-")) and name != "send_receipt"]


@pytest.fixture(params=FRAMES, ids=list(FRAMES))
def frame(request: pytest.FixtureRequest) -> bytes:
    return FRAMES[request.param]


def whole(frame: bytes) -> list[bytes]:
    return [frame]


def byte_by_byte(frame: bytes) -> list[bytes]:
    return [frame[i : i + 1] for i in range(len(frame))]


def with_trailing_bytes(frame: bytes) -> list[bytes]:
    return [frame + FRAMES["ping"] + b"\x00\x00"]


@pytest.fixture(params=[whole, byte_by_byte, with_trailing_bytes])
def feeding(request: pytest.FixtureRequest) -> Callable[[bytes], list[bytes]]:
    return request.param


def parse(name: str) -> tuple[BaseCommand, bytes]:
    """(command, bytes behind it) of a recorded frame."""
    frame = FRAMES[name]
    command, payload_start = frames.parse_command(frame, 0, len(frame))
    return command, frame[payload_start:]


def test_written_back_byte_for_byte(frame: bytes) -> None:
    command, payload_start = frames.parse_command(frame, 0, len(frame))
    if payload_start == len(frame):
        assert frames.command_frame(command) == frame
    else:
        assert frames.payload_frame(command, frame[payload_start:]) == frame


@pytest.mark.parametrize("name", WITH_ENTRY)
def test_entries_written_back_byte_for_byte(name: str) -> None:
    _, stored = parse(name)
    entry = entry_bytes.parse_entry(stored)
    assert entry.checksum is Checksum.OK
    front = b""
    if entry.broker_metadata is not None:
        front = entry_commands.build_broker_metadata(
            entry.broker_metadata.broker_timestamp, entry.broker_metadata.index
        )
    assert front + entry_bytes.build_entry(entry.metadata, entry.payload) == stored


def test_cut_out_however_it_arrives(frame: bytes, feeding: Callable[[bytes], list[bytes]]) -> None:
    splitter = FrameSplitter()
    found = [cut for data in feeding(frame) for cut in splitter.feed(data)]
    assert found[0].buffer[found[0].start : found[0].end] == frame
    assert [cut.buffer[cut.start : cut.end] for cut in found[1:]] in ([], [FRAMES["ping"]])
    assert splitter.failure is None
    assert splitter.held_bytes in (0, 2)


def test_every_send_becomes_a_run_however_it_arrives(frame: bytes, feeding: Callable[[bytes], list[bytes]]) -> None:
    splitter = RunSplitter()
    item = next(item for data in feeding(frame) for item in splitter.feed_sends(data))
    command, payload_start = frames.parse_command(frame, 0, len(frame))
    if command.type != BaseCommand.SEND:
        assert isinstance(item, Frame)
        return
    assert isinstance(item, SendRun)
    assert item.flags == PLAIN
    assert item.producer_id == command.send.producer_id
    assert item.sequence_ids == [command.send.sequence_id]
    assert item.message_counts == [command.send.num_messages]
    assert item.highest_sequence_ids is None
    assert item.buffer[item.starts[0] : item.ends[0]] == frame[payload_start:]


def test_cut_short_anywhere_is_no_frame(frame: bytes) -> None:
    for end in range(len(frame)):
        assert FrameSplitter().feed(frame[:end]) == []
        with pytest.raises(MalformedFrame):
            frames.parse_command(frame, 0, end)


def test_every_command_type_has_its_field() -> None:
    assert set(FIELD_OF) == set(BaseCommand.Type.values())


class TestOurs:
    """Our constructors write what was recorded, wherever we mean the same."""

    TOPIC = "persistent://public/default/"

    @pytest.mark.parametrize(
        ("name", "command"),
        [
            ("partitioned_metadata", requests.partition_metadata(1, TOPIC + "t1")),
            ("partitioned_metadata-response", commands.partition_metadata(1, 0)),
            ("ping", commands.ping()),
            ("pong", commands.pong()),
            ("close_producer", requests.close_producer(1, 0)),
            ("close_producer", commands.close_producer(0, 1)),
            ("success", commands.success(1)),
            ("send_receipt", entry_commands.send_receipt(0, 0, Position(5, 0))),
            ("flow", requests.flow(0, 4)),
            ("ack-cumulative", requests.ack(0, [Position(5, 1)], cumulative=True)),
            ("ack-cumulative-batch-index", requests.ack(0, [Position(5, 5)], cumulative=True, ack_set=4)),
            ("ack-corrupt", requests.ack(0, [Position(5, 0)], validation_error=CommandAck.ChecksumMismatch)),
            ("redeliver-all", requests.redeliver(0)),
            ("redeliver-ids", requests.redeliver(0, [Position(5, 0), Position(5, 2)])),
            ("seek-by-time", requests.seek_to_time(1, 0, 1_700_000_000_000)),
            ("seek-by-id", requests.seek_to_id(2, 0, MessageId(5, 3))),
            ("get_last_message_id", requests.last_message_id(3, 0)),
            ("unsubscribe", requests.unsubscribe(1, 0)),
            ("close_consumer", requests.close_consumer(1, 0)),
            ("close_consumer", commands.close_consumer(0, 1)),
        ],
    )
    def test_command(self, name: str, command: BaseCommand) -> None:
        assert frames.command_frame(command).hex() == RECORDED[name]

    def test_receipts(self) -> None:
        assert receipts(0, 5, 0, [0]).hex() == RECORDED["send_receipt"]

    @pytest.mark.parametrize(
        ("name", "entry_id", "count", "ack_set"),
        [("message-plain", 0, 0, None), ("message-with-0x0e02", 2, 0, None), ("message-batch-redelivered", 3, 2, 5)],
    )
    def test_message_frames(self, name: str, entry_id: int, count: int, ack_set: int | None) -> None:
        _, stored = parse(name)
        pieces = messages.message_frames(0, 5, entry_id, -1, stored, [0], [len(stored)], [count], [ack_set])
        assert b"".join(pieces).hex() == RECORDED[name]

    @pytest.mark.parametrize("name", ["send-hello", "send-key-properties", "send-batch-of-3"])
    def test_send(self, name: str) -> None:
        command, stored = parse(name)
        ours = requests.send(command.send.producer_id, command.send.sequence_id, command.send.num_messages)
        assert frames.payload_frame(ours, stored).hex() == RECORDED[name]

    @pytest.mark.parametrize(
        ("start", "expected"),
        [
            (MessageId(*EARLIEST), "08ffffffffffffffffff0110ffffffffffffffffff01"),
            (MessageId(*LATEST), "08ffffffffffffffff7f10ffffffffffffffff7f"),
            (MessageId(7, 3, -1, 1), "080710032001"),
            (MessageId(7, 3), "08071003"),
        ],
    )
    def test_start_of_a_reader(self, start: MessageId, expected: str) -> None:
        content = requests.subscribe(1, "t", "s", 0, durable=False, start=start).subscribe
        assert content.start_message_id.SerializeToString().hex() == expected
        assert MessageIdData.FromString(bytes.fromhex(expected)) == content.start_message_id

    @pytest.mark.parametrize(
        ("name", "ids"), [("ack-cumulative", [(5, 1, 2)]), ("ack-list", None), ("ack-corrupt", None)]
    )
    def test_acks_of_whole_entries_need_no_protobuf(self, name: str, ids: list[tuple[int, int, int]] | None) -> None:
        plain = acks.parse_ack_ids(FRAMES[name], 0, len(FRAMES[name]))
        assert (plain.ranges if plain is not None else None) == ids
