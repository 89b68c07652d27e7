"""Limits of connections before their clients are known: at each limit, and just past it."""

import logging
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.server.connections.admission import Admission, Pending
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.unit.server.scene import CONNECT, Peer, Scene

PING = command_frame(commands.ping())


def refusal_of(peer: Peer) -> str:
    """The text of the ERROR that a peer got before it was closed."""
    (error,) = [each.error for each in peer._got if each.type == BaseCommand.ERROR]
    assert peer.closing
    assert error.request_id == commands.NO_REQUEST
    assert error.error == 22
    return str(error.message)


def test_connections_at_the_limit_are_served_and_one_more_is_refused() -> None:
    # covers SEC-24
    scene = Scene(Admission(most=2))
    first, second = scene.connect(), scene.connect()
    assert not first.closing
    assert not second.closing
    assert refusal_of(scene.connect(first=b"")) == "Reached the maximum number of connections"
    first.connection.connection_lost(None)
    assert not scene.connect().closing


def test_connections_of_one_address_are_counted_apart() -> None:
    # covers SEC-24
    scene = Scene(Admission(most_of_host=1))
    first, other = scene.connect(host="10.0.0.1"), scene.connect(host="10.0.0.2")
    assert not first.closing
    assert not other.closing
    third = scene.connect(first=b"", host="10.0.0.1")
    assert refusal_of(third) == "Reached the maximum number of connections on address/10.0.0.1:1"
    third.connection.connection_lost(None)
    assert refusal_of(scene.connect(first=b"", host="10.0.0.1"))
    first.connection.connection_lost(None)
    assert not scene.connect(host="10.0.0.1").closing


def test_of_too_many_handshakes_the_oldest_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-25
    scene = Scene(Admission(pending=Pending("handshakes", most=3)))
    connected = [scene.connect() for _ in range(5)]
    with caplog.at_level(logging.WARNING):
        waiting = [scene.connect(first=CONNECT[:5]) for _ in range(3)]
        assert not any(each.closing for each in waiting)
        waiting += [scene.connect(first=b"") for _ in range(2)]
    assert [each.closing for each in waiting] == [True, True, False, False, False]
    assert len(caplog.records) == 1
    assert not any(each.closing for each in connected)
    late = scene.connect()
    assert late.got(BaseCommand.CONNECTED) == 1, "who means it comes in"
    waiting[-1].arrive(CONNECT)
    scene.loop.settle()
    assert waiting[-1].got(BaseCommand.CONNECTED) == 1


def test_handshakes_of_one_address_do_not_cost_another_its_place() -> None:
    # covers SEC-25
    scene = Scene(Admission(pending=Pending("handshakes", most=10, most_of_host=2)))
    other = scene.connect(first=b"", host="10.0.0.2")
    many = [scene.connect(first=b"", host="10.0.0.1") for _ in range(20)]
    assert [each.closing for each in many] == [True] * 18 + [False] * 2
    assert not other.closing


def test_pings_are_no_handshake_and_frames_before_it_are_small() -> None:
    # covers SEC-25, SEC-26
    admission = Admission(pending=Pending("handshakes"))
    scene = Scene(admission)
    peer = scene.connect(first=PING * 3 + PING[:2])
    assert peer.got(BaseCommand.PONG) == 3
    assert len(admission.pending) == 1
    peer.arrive(PING[2:] + (16 * 1024 - 3).to_bytes(4))
    scene.loop.settle()
    assert peer.closing
    scene = Scene(admission)
    peer = scene.connect(first=PING)
    for _ in range(40):
        scene.loop.pass_time(1)
        if not peer.closing:
            peer.arrive(PING)
            scene.loop.settle()
    assert peer.closing, "PINGs instead of a CONNECT hold it open"


def test_a_handshake_that_drips_ends_in_time() -> None:
    # covers SEC-26
    scene = Scene()
    peer = scene.connect(first=b"")
    frame = command_frame(requests.connect("x" * 100))
    for index in range(29):
        scene.loop.pass_time(1)
        peer.arrive(frame[index : index + 1])
        scene.loop.settle()
    assert not peer.closing
    scene.loop.pass_time(1)
    assert peer.closing


def test_who_is_gone_has_no_place() -> None:
    # covers SEC-24, SEC-25
    admission = Admission(most=10, most_of_host=10, pending=Pending("handshakes", 10, 10))
    scene = Scene(admission)
    peers = [scene.connect(), scene.connect(first=b""), scene.connect(first=CONNECT[:3])]
    for each in peers:
        each.connection.connection_lost(None)
    scene.loop.settle()
    assert (len(admission.pending), admission._hosts, admission._count_of_host) == (0, {}, {})
    scene.connect()
    scene.engine.stop(RuntimeError("test"))
    assert (len(admission.pending), admission._hosts, admission._count_of_host) == (0, {}, {})


@given(
    most=st.integers(0, 6),
    most_of_host=st.integers(0, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 3)), max_size=60),
)
def test_the_oldest_go_first_whatever_comes(most: int, most_of_host: int, steps: list[tuple[bool, int, int]]) -> None:
    # covers SEC-25
    pending = Pending("x", most, most_of_host)
    model: OrderedDict[int, int] = OrderedDict()
    ended: list[int] = []
    for enters, number, host in steps:
        if not enters:
            pending.leave(number)
            model.pop(number, None)
            continue
        expected: list[int] = []
        model.pop(number, None)
        of_host = [each for each, known in model.items() if known == host]
        if most_of_host and len(of_host) >= most_of_host:
            expected = of_host[:1]
        elif most and len(model) >= most:
            expected = [next(iter(model))]
        for each in expected:
            del model[each]
        model[number] = host
        ended.clear()
        pending.enter(number, (f"10.0.0.{host}", 1), lambda number=number: ended.append(number))  # type: ignore[misc]
        assert ended == expected
        assert len(pending) == len(model)
        assert not most or len(model) <= most
