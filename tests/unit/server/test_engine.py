"""The engine on a real loop and real sockets, over a disk in memory that can fail."""

import asyncio
import contextlib
import gc
import itertools
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple, TypeVar

import pytest

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.model.errors import MalformedFrame, ServiceNotReady
from spark_pulsar.model.names import TopicName
from spark_pulsar.server.core_requests import CoreContradiction
from spark_pulsar.server.engine import Engine, SharedByConnections
from spark_pulsar.server.sockets import listen, local_text, peer_text
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import command_frame, parse_command, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, MessageMetadata, Schema
from spark_pulsar.wire.sends.run_splitter import RunSplitter
from tests.conftest import CORE_STOPPED
from tests.contract.memory_storage import MemoryDisk, MemoryStorage
from tests.unit.server.scene import SceneClock, within

TOPIC = "persistent://public/default/t"
TIMEOUT_S = 10
Kind = TypeVar("Kind")
START_MS = 1_795_000_000_000
ENTRY = build_entry(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"hello")


class Peer:
    """A client on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def sent(self) -> None:
        """Waits until the socket has taken all bytes, giving the other side its turn."""
        await self.turn()
        await self._writer.drain()

    async def turn(self) -> None:
        """Gives the other side its turn."""
        answer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, None)
        await answer

    async def receive(self) -> BaseCommand:
        size = await asyncio.wait_for(self._reader.readexactly(4), TIMEOUT_S)
        frame = size + await asyncio.wait_for(self._reader.readexactly(int.from_bytes(size)), TIMEOUT_S)
        return parse_command(frame, 0, len(frame))[0]

    async def open_producer(self) -> None:
        self.send(command_frame(requests.producer(1, TOPIC, 1, "p")))
        assert (await self.receive()).type == BaseCommand.PRODUCER_SUCCESS

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def closed(self) -> bool:
        return await asyncio.wait_for(self._reader.read(), TIMEOUT_S) == b""


class CountingEngine(Engine):
    """Counts its turns."""

    turns = 0

    def turn(self, rotation_us: int = 0) -> None:
        self.turns += 1
        super().turn(rotation_us)


class Scene(NamedTuple):
    """An engine over a storage, and a peer that has done its handshake."""

    engine: CountingEngine
    storage: MemoryStorage
    peer: Peer
    stopped: list[BaseException]


@contextlib.asynccontextmanager
async def playing(*, auto: bool = True) -> AsyncIterator[Scene]:
    """A scene from its beginning to its end. `auto`: what is submitted is durable at once."""
    stopped: list[BaseException] = []
    loop = asyncio.get_running_loop()
    storage, state = MemoryStorage.open(MemoryDisk(), on_failed=lambda error: engine.stop(error), auto=auto)
    clock = SceneClock(itertools.count(START_MS).__next__)  # a millisecond a turn
    engine = CountingEngine(loop, storage, state, BrokerConfig(), clock, stopped.append)
    server = await loop.create_server(engine.new_connection, "127.0.0.1", 0)
    peer = Peer(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    peer.send(command_frame(requests.connect("test")))
    assert (await peer.receive()).type == BaseCommand.CONNECTED
    try:
        yield Scene(engine, storage, peer, stopped)
    finally:
        server.close()
        engine.close()
        await peer.close()


played, unsynced = within(playing), within(partial(playing, auto=False))


@played
async def test_frames_that_arrive_byte_by_byte(scene: Scene) -> None:
    frames = command_frame(requests.producer(1, TOPIC, 1, "p")) + payload_frame(requests.send(1, 5), ENTRY)
    for index in range(len(frames)):
        scene.peer.send(frames[index : index + 1])
        await scene.peer.sent()
    assert (await scene.peer.receive()).producer_success.producer_name == "p"
    assert (await scene.peer.receive()).send_receipt.sequence_id == 5


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00\x01\x00", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"])
@played
async def test_bytes_that_are_no_frame_end_the_connection_and_nothing_else(scene: Scene, garbage: bytes) -> None:
    scene.peer.send(garbage)
    assert await scene.peer.closed()
    assert scene.stopped == []
    assert not scene.engine.core.sessions


def of_kind(kind: type[Kind]) -> list[Kind]:
    return [each for each in gc.get_objects() if isinstance(each, kind)]


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"\x00\x00\x00\x08\x00\x00\x00\x04\x08\x03\x12\xff"])
async def test_a_connection_that_ended_with_garbage_leaves_nothing_behind(garbage: bytes) -> None:
    # Its frames may have 5 MB each, and the collector of cycles comes seldom.
    gc.collect()
    known, old = len(of_kind(RunSplitter)), of_kind(MalformedFrame)
    gc.disable()
    try:
        async with playing() as scene:
            scene.peer.send(garbage)
            assert await scene.peer.closed()
            assert not scene.engine.core.sessions
            assert len(of_kind(RunSplitter)) <= known + 1, "that of the connection, kept until it is known to be over"
            assert not [each for each in of_kind(MalformedFrame) if each.__traceback__ is not None and each not in old]
    finally:
        gc.enable()


@played
async def test_good_frames_before_a_bad_one_are_answered(scene: Scene) -> None:
    scene.peer.send(command_frame(commands.ping()), b"\xff" * 8)
    assert (await scene.peer.receive()).type == BaseCommand.PONG
    assert await scene.peer.closed()


@played
async def test_failing_journal_stops_the_engine_without_a_receipt(scene: Scene) -> None:
    # covers DUR-10
    await scene.peer.open_producer()
    scene.storage.fail_next_sync(OSError("no space left"))
    scene.peer.send(payload_frame(requests.send(1, 0), ENTRY))
    assert await scene.peer.closed()
    assert len(scene.stopped) == 1
    assert not scene.engine.connections


@unsynced
async def test_all_that_one_write_made_durable_is_answered_in_one_turn(scene: Scene) -> None:
    # covers DUR-1
    scene.peer.send(command_frame(requests.producer(1, TOPIC, 1, "p")), command_frame(commands.ping()))
    assert (await scene.peer.receive()).type == BaseCommand.PONG
    scene.storage.sync()
    assert (await scene.peer.receive()).type == BaseCommand.PRODUCER_SUCCESS
    for sequence_id in range(3):
        scene.peer.send(payload_frame(requests.send(1, sequence_id), ENTRY), command_frame(commands.ping()))
        assert (await scene.peer.receive()).type == BaseCommand.PONG
    turns = scene.engine.turns
    scene.storage.sync()
    receipts = [(await scene.peer.receive()).send_receipt.sequence_id for _ in range(3)]
    assert receipts == [0, 1, 2]
    assert scene.engine.turns == turns + 1
    scene.storage.sync()  # of the end


@played
async def test_one_turn_takes_no_more_entries_than_a_submit_holds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers PR-15: many connections that send large entries at once
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_BYTES", 3 * len(ENTRY))
    await scene.peer.open_producer()
    before = len(scene.storage._disk.groups)
    sends = [payload_frame(requests.send(1, number), ENTRY) for number in range(10)]
    # Commands between them, so that each is an event of its own.
    scene.peer.send(b"".join(each + command_frame(commands.ping()) for each in sends))
    answers = [await scene.peer.receive() for _ in range(20)]
    receipts = [each.send_receipt.sequence_id for each in answers if each.type == BaseCommand.SEND_RECEIPT]
    assert receipts == list(range(10))
    assert len(scene.storage._disk.groups) - before >= 3


@played
async def test_a_turn_comes_once_much_was_read_although_the_sockets_hold_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The disk is to write the first megabytes while the loop takes in the next.
    await scene.peer.open_producer()
    (connection,) = scene.engine.connections.values()
    frames = [payload_frame(requests.send(1, number), ENTRY) for number in range(9)]
    limit = sum(map(len, frames[:3]))
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_READ_BYTES", limit)
    before, groups = scene.engine.turns, len(scene.storage._disk.groups)
    turns = []
    for frame in frames:  # all in one callback of the loop
        connection.data_received(frame)
        turns.append(scene.engine.turns - before)
    assert turns == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert len(scene.storage._disk.groups) - groups == 3
    connection.data_received(frames[0][: limit // 3 - 1])
    assert [(await scene.peer.receive()).send_receipt.sequence_id for _ in range(9)] == list(range(9))
    assert not scene.stopped


@played
async def test_one_turn_takes_no_more_schemas_than_a_submit_holds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # covers PR-15: many connections that bring large schemas at once
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_BYTES", 30_000)
    opening = [requests.producer(number, f"{TOPIC}{number}", number) for number in range(20)]
    for number, each in enumerate(opening):
        each.producer.schema.name, each.producer.schema.type = "n", Schema.Protobuf
        fields = [{"name": f"f{number}", "type": "int"}]
        text = {"type": "record", "name": "A", "doc": "d" * 10_000, "fields": fields}
        each.producer.schema.schema_data = json.dumps(text).encode()
    before = len(scene.storage._disk.groups)
    scene.peer.send(b"".join(map(command_frame, opening)))
    for number in range(20):
        assert (await scene.peer.receive()).producer_success.request_id == number
    assert len(scene.storage._disk.groups) - before >= 7
    assert not scene.stopped


ASKED = 150


def listing(number: int) -> bytes:
    return command_frame(requests.topics_of_namespace(number, "public/default"))


@played
async def test_who_asks_for_lists_and_does_not_read_them_waits_for_more(scene: Scene) -> None:
    # covers SH-9: 5 KB of requests for 15 MB of answers
    names = [TopicName.parse(f"{TOPIC}-{number:04}-{'x' * 1_000}") for number in range(100)]
    await asyncio.gather(*(scene.engine.submit(lambda core, name=name: lifecycle.create(core, name)) for name in names))
    for number in range(ASKED):
        scene.peer.send(listing(number))
    (connection,) = scene.engine.connections.values()
    while not connection.writing_paused:
        await scene.peer.sent()
    transport = connection.transport
    assert transport is not None
    for _ in range(100):
        await scene.peer.sent()
    assert transport.get_write_buffer_size() < 2 * 1024 * 1024 + 1_000_000
    assert scene.engine.core.sliced_requests.is_waiting(connection.session_id)
    answers = [await scene.peer.receive() for _ in range(ASKED)]
    assert [each.getTopicsOfNamespaceResponse.request_id for each in answers] == list(range(ASKED))
    scene.peer.send(command_frame(commands.ping()))
    assert (await scene.peer.receive()).type == BaseCommand.PONG


@played
async def test_who_asks_and_does_not_read_is_not_read_either(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SH-9: wrong names of 10 KB, which the answer quotes
    most, asked = 300_000, 1_500
    monkeypatch.setattr("spark_pulsar.server.connections.connection.MAX_UNREAD_BYTES", most)
    monkeypatch.setattr("spark_pulsar.server.connections.connection._HIGH_WATER_BYTES", most // 2)
    for number in range(asked):
        scene.peer.send(command_frame(requests.lookup(number, f"odd://public/default/{'x' * 10_000}")))
    (connection,) = scene.engine.connections.values()
    while connection.is_read or not connection.writing_paused:
        await scene.peer.turn()
    transport = connection.transport
    assert transport is not None
    for _ in range(100):
        await scene.peer.turn()
    assert transport.get_write_buffer_size() < most + 1_000_000
    answers = [await scene.peer.receive() for _ in range(asked)]
    assert [each.lookupTopicResponse.request_id for each in answers] == list(range(asked))
    scene.peer.send(command_frame(commands.ping()))
    assert (await scene.peer.receive()).type == BaseCommand.PONG
    assert connection.is_read


@played
async def test_what_later_turns_take_is_answered_before_the_connection_ends(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_US", 20)
    for _ in range(50):
        scene.peer.send(command_frame(commands.ping()))
    scene.peer.send(b"\xff" * 8)
    assert [(await scene.peer.receive()).type for _ in range(50)] == [BaseCommand.PONG] * 50
    assert await scene.peer.closed()
    assert not scene.engine.connections
    assert not scene.stopped


@played
async def test_core_that_contradicts_itself_stops_the_engine(scene: Scene) -> None:
    scene.engine.core.sessions[1].consumers = None  # type: ignore[assignment]
    scene.peer.send(command_frame(requests.flow(1, 5)))
    assert await scene.peer.closed()
    assert isinstance(scene.stopped[0], AttributeError)


@played
async def test_a_turn_that_cannot_weigh_its_events_stops_the_engine(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had taken the events of all connections by then, and they were lost without a word."""

    def fail(_events: object) -> int:
        raise ValueError("no size")

    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.taken", fail)
    scene.peer.send(command_frame(requests.flow(1, 5)))
    assert await scene.peer.closed()
    assert [type(error) for error in scene.stopped] == [ValueError]


@played
async def test_a_broken_invariant_stops_the_engine(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    # covers SUB-4
    scene.peer.send(command_frame(requests.subscribe(1, TOPIC, "s", 1)))
    assert (await scene.peer.receive()).type == BaseCommand.SUCCESS
    scene.engine.core.sessions[1].consumers[1].permits += 1
    scene.peer.send(command_frame(requests.flow(1, 5)))
    assert await scene.peer.closed()
    assert "granted = sent + left" in str(scene.stopped[0])
    assert CORE_STOPPED in caplog.text.encode(), "what the fixtures of the suite look for"


@played
async def test_an_order_at_which_the_core_fails_is_answered_and_so_is_every_other_that_waits(scene: Scene) -> None:
    def fail(_core: Core) -> None:
        raise KeyError("gone")

    engine = scene.engine
    before = engine.submit(lambda core: lifecycle.create(core, TopicName.parse(TOPIC)))  # waits for the disk
    failing = engine.submit(fail)
    behind = engine.submit(lambda core: core.now_ms)
    with pytest.raises(CoreContradiction, match="restarts its core from disk: KeyError: 'gone'") as refused:
        await asyncio.wait_for(failing, TIMEOUT_S)
    assert refused.value.http_status == 500
    for unknown in (before, behind, engine.submit(fail)):
        with pytest.raises(ServiceNotReady):
            await asyncio.wait_for(unknown, TIMEOUT_S)
    assert await scene.peer.closed()
    assert [type(error) for error in scene.stopped] == [KeyError]


async def test_no_more_connections_are_served_than_there_is_room_for_however_many_come_at_once() -> None:
    # covers T-8: this loop accepts all that wait before the first of them is connected
    loop, clients, most = asyncio.get_running_loop(), 12, 3
    storage, state = MemoryStorage.open(MemoryDisk(), on_failed=None, auto=True)
    shared = SharedByConnections(has_room=lambda count: count < most)
    engine = Engine(loop, storage, state, BrokerConfig(), SceneClock(lambda: START_MS), print, shared)
    (listener,) = listen("127.0.0.2", 0)  # which has no twin in IPv6
    peers = [Peer(*await asyncio.open_connection(*listener.getsockname())) for _ in range(clients)]
    server = await loop.create_server(engine.new_connection, sock=listener)
    served = refused = 0
    for peer in peers:
        peer.send(command_frame(requests.connect("test")))
        try:
            served += (await peer.receive()).type == BaseCommand.CONNECTED
        except (asyncio.IncompleteReadError, ConnectionError):
            refused += 1
    assert (served, refused) == (most, clients - most)
    assert len(engine.connections) == most
    server.close()
    engine.close()
    for peer in peers:
        await peer.close()


def test_addresses() -> None:
    # covers SEC-48
    assert local_text(("::ffff:127.0.0.1", 6650, 0, 0)) == "127.0.0.1:6650"
    assert local_text(("::1", 6650, 0, 0)) == "[::1]:6650"
    assert peer_text(("10.0.0.1", 5)) == "/10.0.0.1:5"
