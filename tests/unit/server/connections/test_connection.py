"""Connections of an engine on a loop whose turns and time the test makes: floods, slow peers, peers that are gone."""

import logging

import pytest

from spark_pulsar.broker.turn.events import CommandReceived
from spark_pulsar.model.limits import KEEP_ALIVE_INTERVAL_MS, MAX_FIRST_FRAME_SIZE_BYTES
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.server.connections.rotation import PART_US
from spark_pulsar.server.connections.turn_budget import TURN_US, weight_us
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.server.scene import CONNECT, Peer, Scene

TOPIC = "persistent://public/default/t"
PING = command_frame(commands.ping())
GARBAGE = b"\xff" * 8
KEEP_ALIVE_S = KEEP_ALIVE_INTERVAL_MS / 1000


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


PING_US = weight_us(CommandReceived(1, commands.ping()), len(PING))


def limit_turns(monkeypatch: pytest.MonkeyPatch, pings: int) -> None:
    """Lets a turn take as long as so many PINGs."""
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_US", pings * PING_US)
    monkeypatch.setattr("spark_pulsar.server.connections.rotation.PART_US", pings * PING_US)


def test_who_stops_and_goes_on_reading_gets_no_larger_share_of_a_turn(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    peer = scene.connect()
    a_turn = (TURN_US + PART_US) // PING_US
    count = 6 * a_turn
    with caplog.at_level(logging.INFO):
        peer.arrive(PING * count + GARBAGE)
        for _ in range(4):
            peer.connection.pause_writing()
            peer.connection.resume_writing()
        answers = []
        while scene.loop.iterate():
            answers.append(peer.got(BaseCommand.PONG))
    assert sum(answers) == count
    assert max(answers) <= a_turn
    assert len([each for each in caplog.messages if each.startswith("session 1:")]) == 1, "bad bytes are told once"


@pytest.mark.parametrize("closing_first", [False, True], ids=["at once", "while it goes on"])
def test_what_arrived_before_the_peer_was_gone_is_carried_out(
    monkeypatch: pytest.MonkeyPatch, closing_first: bool
) -> None:
    # its UNSUBSCRIBE, behind as much as several turns take
    limit_turns(monkeypatch, 2)
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
    limit_turns(monkeypatch, 5)
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_BYTES", 1)
    scene = Scene()
    flooding, other = scene.connect(), scene.connect()
    most = 0
    flooding.arrive(ack_that_keeps_something() * 100 + PING)
    scene.loop.iterate()
    assert scene.engine.is_busy
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
    assert not scene.engine.is_busy


def test_what_came_before_bad_bytes_is_answered_however_many_turns_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_turns(monkeypatch, 5)
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_BYTES", 1)
    scene = Scene()
    peer = scene.connect()
    peer.arrive((ack_that_keeps_something() + PING) * 10 + GARBAGE)
    scene.loop.settle()
    assert peer.got(BaseCommand.PONG) == 10
    assert peer.closing


def test_an_engine_that_stopped_is_behind_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_turns(monkeypatch, 5)
    monkeypatch.setattr("spark_pulsar.server.connections.turn_budget.TURN_BYTES", 1)
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
    for name, limit in (
        ("_LOW_WATER_BYTES", 100),
        ("UNCOUNTED_BYTES", 500),
        ("_HIGH_WATER_BYTES", 500),
        ("MAX_UNREAD_BYTES", 1_000),
    ):
        monkeypatch.setattr(f"spark_pulsar.server.connections.connection.{name}", limit)
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
    assert peer.connection._check_progress not in scene.loop.timers
    peer.arrive(PING)
    peer.got(BaseCommand.PONG)
    scene.loop.settle()
    assert peer.got(BaseCommand.PONG) == 1


def test_who_has_taken_enough_is_answered_further(
    monkeypatch: pytest.MonkeyPatch, overfull: tuple[Scene, Peer]
) -> None:
    # covers SH-9: it is read again only later, so that until then nothing else would show that it is there
    limit_turns(monkeypatch, 50)
    scene, peer = overfull
    while not peer.is_read:
        peer.take(len(peer.unread))
        scene.loop.settle()
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


def test_no_check_is_left_after_a_connection(overfull: tuple[Scene, Peer]) -> None:
    scene, peer = overfull
    assert peer.connection._check_progress in scene.loop.timers
    peer.connection.connection_lost(None)
    scene.loop.settle()
    assert peer.connection._check_progress not in scene.loop.timers
