"""Connections of an engine on a loop whose turns and time the test makes: floods, slow peers, peers that are gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from spark_pulsar.broker.turn.config import BrokerConfig
from spark_pulsar.model.ids import Position
from spark_pulsar.model.limits import KEEP_ALIVE_INTERVAL_MS, MAX_FIRST_FRAME_SIZE_BYTES
from spark_pulsar.server.connection import TURN_WEIGHT, Connection
from spark_pulsar.server.engine import Engine
from spark_pulsar.wire import commands, requests
from spark_pulsar.wire.frames import FrameSplitter, command_frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.contract.memory_storage import MemoryDisk, MemoryStorage

TOPIC = "persistent://public/default/t"
CONNECT = command_frame(requests.connect("test"))
PING = command_frame(commands.ping())
GARBAGE = b"\xff" * 8
START_S = 1_795_000_000
KEEP_ALIVE_S = KEEP_ALIVE_INTERVAL_MS / 1000


class Timer:
    """A call at some time."""

    def __init__(self, when_s: float, callback: Callable[[], None]) -> None:
        self.when_s, self.callback, self.is_cancelled = when_s, callback, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The loop of an engine, one iteration at a time."""

    def __init__(self) -> None:
        self.now_s = float(START_S)
        self._soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._timers: list[Timer] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._soon.append((callback, args))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now_s + delay_s, callback)
        self._timers.append(timer)
        return timer

    @property
    def timers(self) -> list[Callable[[], None]]:
        return [each.callback for each in self._timers if not each.is_cancelled]

    def iterate(self) -> bool:
        """Runs one iteration, and tells whether there was anything to do."""
        due, self._soon = self._soon, []
        for callback, args in due:
            callback(*args)
        return bool(due)

    def settle(self) -> None:
        for _ in range(100_000):
            if not self.iterate():
                return
        raise AssertionError("it never ends")

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        due = [each for each in self._timers if each.when_s <= self.now_s]
        self._timers = [each for each in self._timers if each.when_s > self.now_s]
        for each in due:
            if not each.is_cancelled:
                each.callback()
        self.settle()


class Peer:
    """The other side of a connection, and the transport in between, which passes nothing on until `take` is called."""

    def __init__(self, engine: Engine, *, reads: bool = True, first: bytes = CONNECT) -> None:
        self.connection = engine.new_connection()
        self.reads = reads
        self.unread = b""
        self.is_read = True
        self.is_full = False
        self.closing = False
        self._splitter = FrameSplitter(1 << 30)
        self._got: list[BaseCommand] = []
        self.connection.connection_made(cast(asyncio.Transport, self))
        self.arrive(first)

    # The transport

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._high, self._low = high, low

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def write(self, data: bytes) -> None:
        self.unread += data
        if self.reads:
            self.take(len(self.unread))
        if len(self.unread) > self._high and not self.is_full:
            self.is_full = True
            self.connection.pause_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def close(self) -> None:
        self.closing = True

    abort = close

    # The peer

    def arrive(self, data: bytes) -> None:
        assert self.is_read, "no more than one read is held"
        self.connection.data_received(data)

    def take(self, count: int) -> None:
        """Reads `count` of the bytes that were written."""
        taken, self.unread = self.unread[:count], self.unread[count:]
        self._got += [parse_command(*frame)[0] for frame in self._splitter.feed(taken)]
        if self.is_full and len(self.unread) <= self._low:
            self.is_full = False
            self.connection.resume_writing()

    def got(self, kind: BaseCommand.Type.ValueType) -> int:
        """Counts the commands of this kind since the last count."""
        got, self._got = self._got, []
        return sum(each.type == kind for each in got)


class Scene:
    """An engine and its loop."""

    def __init__(self) -> None:
        self.loop = Loop()
        storage, state = MemoryStorage.open(MemoryDisk(), on_failed=None, auto=True)
        self.stopped: list[BaseException] = []
        self.engine = Engine(
            cast(asyncio.AbstractEventLoop, self.loop),
            storage,
            state,
            BrokerConfig(),
            lambda: int(self.loop.now_s * 1000),
            self.stopped.append,
        )

    def connect(self, *, reads: bool = True, first: bytes = CONNECT) -> Peer:
        peer = Peer(self.engine, reads=reads, first=first)
        self.loop.settle()
        return peer

    def is_served(self, connection: Connection) -> bool:
        return connection.session_id in self.engine.core.sessions


def connect_of(size: int) -> bytes:
    """A CONNECT frame of so many bytes."""
    spare = size - len(command_frame(requests.connect("x" * 10_000)))
    return command_frame(requests.connect("x" * (10_000 + spare)))


def test_a_first_frame_at_its_limit_is_taken() -> None:
    frame = connect_of(MAX_FIRST_FRAME_SIZE_BYTES)
    assert len(frame) == MAX_FIRST_FRAME_SIZE_BYTES
    peer = Scene().connect(first=frame)
    assert peer.got(BaseCommand.CONNECTED) == 1
    assert not peer.closing


def test_a_first_frame_past_its_limit_ends_the_connection_at_its_size(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        peer = Scene().connect(first=connect_of(MAX_FIRST_FRAME_SIZE_BYTES + 1)[:4])
    assert peer.closing
    assert peer.got(BaseCommand.CONNECTED) == 0
    assert "first frame of 16385 bytes" in caplog.text


def test_a_first_frame_may_come_in_bytes_and_with_larger_ones_behind() -> None:
    scene = Scene()
    peer = scene.connect(first=CONNECT[:1])
    for index in range(1, len(CONNECT) - 1):
        peer.arrive(CONNECT[index : index + 1])
    assert peer.got(BaseCommand.CONNECTED) == 0
    lookup = command_frame(requests.lookup(1, "persistent://public/default/" + "t" * MAX_FIRST_FRAME_SIZE_BYTES))
    peer.arrive(CONNECT[-1:] + PING + lookup)
    scene.loop.settle()
    assert not peer.closing
    assert [peer.got(BaseCommand.CONNECTED), scene.is_served(peer.connection)] == [1, True]


def test_who_stops_and_goes_on_reading_gets_no_larger_share_of_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    peer = scene.connect()
    with caplog.at_level(logging.INFO):
        peer.arrive(PING * (6 * TURN_WEIGHT) + GARBAGE)
        for _ in range(4):
            peer.connection.pause_writing()
            peer.connection.resume_writing()
        answers = []
        while scene.loop.iterate():
            answers.append(peer.got(BaseCommand.PONG))
    assert sum(answers) == 6 * TURN_WEIGHT
    assert max(answers) <= TURN_WEIGHT
    assert len([each for each in caplog.messages if each.startswith("session 1:")]) == 1, "bad bytes are told once"


@pytest.mark.parametrize("closing_first", [False, True], ids=["at once", "while it goes on"])
def test_what_arrived_before_the_peer_was_gone_is_carried_out(
    monkeypatch: pytest.MonkeyPatch, closing_first: bool
) -> None:
    # its UNSUBSCRIBE, behind as much as several turns take
    monkeypatch.setattr("spark_pulsar.server.connection.TURN_WEIGHT", 2)
    scene = Scene()
    peer = scene.connect()
    peer.arrive(command_frame(requests.subscribe(1, TOPIC, "s", 1)))
    scene.loop.settle()
    assert peer.got(BaseCommand.SUCCESS) == 1
    topic = scene.engine.core.topics[TOPIC]
    assert "s" in topic.subscriptions
    peer.arrive(PING * 9 + command_frame(requests.unsubscribe(2, 1)))
    assert peer.connection.held
    if closing_first:  # writing failed, which the loop tells a little later
        peer.closing = True
        scene.loop.iterate()
    peer.connection.connection_lost(None)
    scene.loop.settle()
    assert "s" not in topic.subscriptions
    assert not scene.is_served(peer.connection)
    assert not scene.engine.connections


def ack_that_keeps_something() -> bytes:
    command = requests.ack(1, [Position(1, 0)], cumulative=True)
    command.ack.properties.add(key="k", value=1)
    return command_frame(command)


def test_an_engine_that_is_behind_is_handed_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers PR-15: a flood of what takes a turn each
    monkeypatch.setattr("spark_pulsar.server.connection.TURN_WEIGHT", 5)
    monkeypatch.setattr("spark_pulsar.server.turn_budget.TURN_BYTES", 1)
    scene = Scene()
    flooding, other = scene.connect(), scene.connect()
    most = 0
    flooding.arrive(ack_that_keeps_something() * 100 + PING)
    scene.loop.iterate()
    assert scene.engine.is_behind
    other.arrive(PING)
    assert not other.is_read
    turns = 0
    while scene.loop.iterate():
        turns += 1
        most = max(most, len(scene.engine._happened))
    assert turns >= 100
    assert most <= 5 + 1
    for each in (flooding, other):
        assert each.got(BaseCommand.PONG) == 1
        assert each.is_read
    assert not scene.engine.is_behind


def test_what_came_before_bad_bytes_is_answered_however_many_turns_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.server.connection.TURN_WEIGHT", 5)
    monkeypatch.setattr("spark_pulsar.server.turn_budget.TURN_BYTES", 1)
    scene = Scene()
    peer = scene.connect()
    peer.arrive((ack_that_keeps_something() + PING) * 10 + GARBAGE)
    scene.loop.settle()
    assert peer.got(BaseCommand.PONG) == 10
    assert peer.closing


def test_an_engine_that_stopped_is_behind_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_pulsar.server.connection.TURN_WEIGHT", 5)
    monkeypatch.setattr("spark_pulsar.server.turn_budget.TURN_BYTES", 1)
    scene = Scene()
    peer = scene.connect()
    peer.arrive(ack_that_keeps_something() * 100)
    scene.loop.iterate()
    scene.engine.stop(KeyError("gone"))
    peer.connection.connection_lost(None)
    scene.loop.settle()
    assert len(scene.stopped) == 1
    assert not peer.connection.held


@pytest.fixture
def overfull(monkeypatch: pytest.MonkeyPatch) -> tuple[Scene, Peer]:
    """A peer that has asked for more than it reads."""
    for name, limit in (("_LOW_WATER_BYTES", 100), ("_HIGH_WATER_BYTES", 500), ("MAX_UNREAD_BYTES", 1_000)):
        monkeypatch.setattr(f"spark_pulsar.server.connection.{name}", limit)
    scene = Scene()
    peer = scene.connect()
    peer.reads = False
    peer.arrive(PING * 900)
    scene.loop.settle()
    assert not peer.is_read
    return scene, peer


def test_who_takes_what_it_was_sent_is_there_however_slow(overfull: tuple[Scene, Peer]) -> None:
    # covers SH-9: what it takes between two PINGs, not between two things that are written to it
    scene, peer = overfull
    for _ in range(int(5 * KEEP_ALIVE_S)):
        peer.take(20)
        scene.loop.pass_time(1)
    assert not peer.is_read
    assert scene.is_served(peer.connection)
    peer.reads = True
    peer.take(len(peer.unread))
    scene.loop.settle()
    assert peer.is_read
    assert peer.connection._look not in scene.loop.timers
    peer.arrive(PING)
    peer.got(BaseCommand.PONG)
    scene.loop.settle()
    assert peer.got(BaseCommand.PONG) == 1


def test_who_has_taken_enough_is_answered_further(
    monkeypatch: pytest.MonkeyPatch, overfull: tuple[Scene, Peer]
) -> None:
    # covers SH-9: it is read again only later, so that until then nothing else would show that it is there
    monkeypatch.setattr("spark_pulsar.server.connection.TURN_WEIGHT", 50)
    scene, peer = overfull
    peer.take(len(peer.unread))
    peer.arrive(PING * 900)
    scene.loop.settle()
    held = len(peer.connection.held)
    assert held
    peer.take(len(peer.unread) - 500)
    scene.loop.settle()
    assert len(peer.connection.held) == held
    scene.loop.pass_time(KEEP_ALIVE_S)  # with a PING
    assert 0 < len(peer.connection.held) < held


def test_who_takes_nothing_is_ended(overfull: tuple[Scene, Peer]) -> None:
    scene, peer = overfull
    for _ in range(int(3 * KEEP_ALIVE_S)):
        scene.loop.pass_time(1)
    assert peer.closing
    assert not scene.is_served(peer.connection)


def test_what_is_written_meanwhile_hides_nothing_that_was_taken(overfull: tuple[Scene, Peer]) -> None:
    scene, peer = overfull
    for _ in range(int(3 * KEEP_ALIVE_S)):
        peer.take(20)
        peer.connection.pieces.append(PING * 2)  # as an answer to what it asked before
        peer.connection.flush()
        scene.loop.pass_time(1)
    assert scene.is_served(peer.connection)


def test_nothing_is_looked_at_after_a_connection(overfull: tuple[Scene, Peer]) -> None:
    scene, peer = overfull
    assert peer.connection._look in scene.loop.timers
    peer.connection.connection_lost(None)
    scene.loop.settle()
    assert peer.connection._look not in scene.loop.timers
