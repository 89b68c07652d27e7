"""Handshake, keep-alive, liveness."""

import pytest

from spark_pulsar.broker.connections import handshake
from spark_pulsar.broker.turn.events import StillReading, WritingResumed
from spark_pulsar.model.limits import HANDSHAKE_TIMEOUT_MS, KEEP_ALIVE_INTERVAL_MS
from spark_pulsar.wire.protocol import commands, requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ServerError
from tests.unit.broker.world import TOPIC, World, entry, producing

PING, PONG = BaseCommand.PING, BaseCommand.PONG


def test_connection_without_handshake_ends_in_time_even_if_it_pings() -> None:
    world = World()
    client = world.open_socket()
    world.advance(HANDSHAKE_TIMEOUT_MS - 1)
    client.request(commands.ping(), PONG)
    assert not client.closed
    world.advance(1)
    assert client.closed


def test_silent_peer_is_pinged_then_closed() -> None:
    world, client = producing()
    world.advance(KEEP_ALIVE_INTERVAL_MS)
    client.expect(PING)
    client.send(commands.pong())
    world.advance(KEEP_ALIVE_INTERVAL_MS)
    client.expect(PING)
    world.advance(KEEP_ALIVE_INTERVAL_MS)
    assert client.closed
    assert not world.core.sessions
    assert not world.core.topics[TOPIC].producers  # covers A6


def test_a_frame_of_any_kind_keeps_a_peer_alive() -> None:
    world = World()
    client = world.connect()
    for _ in range(5):
        world.advance(KEEP_ALIVE_INTERVAL_MS)
        client.expect(PING)
        client.send(requests.flow(7, 1))
    assert not client.closed


@pytest.mark.parametrize("event", [StillReading, WritingResumed])
def test_who_takes_what_it_is_sent_is_there(event: type[StillReading] | type[WritingResumed]) -> None:
    # covers SH-9: one that has yet to read is not read from, so that its PONG cannot be seen
    world = World()
    client = world.connect()
    for _ in range(5):
        world.advance(KEEP_ALIVE_INTERVAL_MS)
        client.expect(PING)
        world.happen([event(client.session_id)])
    assert not client.closed
    world.happen([event(99)])  # one that is gone


def test_each_question_whether_a_peer_is_there_has_its_own_time() -> None:
    # covers PR-2, EX-1: an answer to the first question says nothing against a slower answer to the second
    world = World(keep_alive_interval_ms=1 << 50)
    limit_ms = world.core.config.liveness_check_timeout_ms
    holder, rival = world.connect_producer(), world.connect()
    rival.send(requests.producer(rival.request_id(), TOPIC, 1, "p"))
    holder.expect(PING)
    holder.send(commands.pong())
    rival.expect(BaseCommand.ERROR)
    world.advance(limit_ms - 100)
    rival.send(requests.producer(rival.request_id(), TOPIC, 1, "p"))
    holder.expect(PING)
    world.advance(limit_ms - 1)
    assert not holder.closed
    assert rival.take_all() == []
    world.advance(1)
    assert holder.closed
    rival.expect(BaseCommand.PRODUCER_SUCCESS)


def test_no_more_wait_for_the_answer_of_a_peer_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers PR-2: a peer that is silent for a while costs no memory for every client that asks
    monkeypatch.setattr(handshake, "MAX_LIVENESS_WAITERS", 2)
    world = World(keep_alive_interval_ms=1 << 50)
    holder, rival = world.connect_producer(), world.connect()
    for number in range(2):
        rival.send(requests.producer(rival.request_id(), TOPIC, number, "p"))
    assert rival.take_all() == []
    rival.send(requests.producer(rival.request_id(), TOPIC, 2, "p"))
    assert rival.expect(BaseCommand.ERROR).error == ServerError.ProducerBusy
    holder.expect(PING)
    world.advance(world.core.config.liveness_check_timeout_ms)
    assert holder.closed
    rival.expect(BaseCommand.PRODUCER_SUCCESS)
    assert rival.expect(BaseCommand.ERROR).error == ServerError.ProducerBusy


def test_a_peer_that_is_not_read_from_counts_as_there() -> None:
    # covers PR-2, PR-15: its PONG could not be seen
    world, holder = producing(max_pending_publishes_per_session=1)
    world.disk_is_slow = True
    holder.publish(1, entry("x"))
    holder.take_all()
    rival = world.connect()
    rival.send(requests.producer(rival.request_id(), TOPIC, 1, "p"))
    assert rival.expect(BaseCommand.ERROR).error == ServerError.ProducerBusy
    assert holder.take_all() == []
