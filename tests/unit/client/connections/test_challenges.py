"""Brokers that ask for credentials: in the handshake, and again while a connection is in use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import CredentialsError, OperationTimeout
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.eventually import eventually
from tests.unit.client.peer import Caller, Peer, message

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"
REFRESH = b"PulsarAuthRefresh"


def token_in(path: Path) -> Authentication:
    return Authentication("token", Secret(path.as_uri()))


def test_connect_shows_the_credentials(peer: Peer, client_of: MakeClient) -> None:
    client_of(peer.url, authentication=Authentication("token", Secret("token:abc"))).partition_count(TOPIC)
    connect = peer.of(BaseCommand.CONNECT)[0].connect
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"abc")
    assert connect.feature_flags.supports_auth_refresh


def test_a_challenge_is_answered_with_what_the_file_holds_now(
    peer: Peer, client_of: MakeClient, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    client = client_of(peer.url, authentication=token_in(path))
    assert client.partition_count(TOPIC) == 0
    path.write_text("second")
    peer.callers[0].send(commands.auth_challenge("token", REFRESH, "peer", 19))
    (answer,) = peer.wait_for(BaseCommand.AUTH_RESPONSE)
    response = answer.authResponse.response
    assert (response.auth_method_name, response.auth_data) == ("token", b"second")
    assert client.partition_count(TOPIC) == 0
    assert len(peer.callers) == 1
    path.write_text("third")
    peer.callers[0].close()
    eventually(lambda: not peer.callers[0].open)
    assert client.partition_count(TOPIC) == 0
    assert peer.of(BaseCommand.CONNECT)[1].connect.auth_data == b"third"


def test_a_reader_that_is_held_back_answers_a_challenge(peer: Peer, client_of: MakeClient) -> None:
    entries = 200
    peer.last = MessageId(1, entries - 1)
    payload = b"x" * 1_000
    peer.handlers[BaseCommand.FLOW] = lambda caller, command, _: (
        [caller.send(message(command.flow.consumer_id, MessageId(1, each), payload)) for each in range(entries)]
        and caller.send(commands.auth_challenge("token", REFRESH, "peer", 19))
    )
    client = client_of(peer.url, authentication=Authentication("token", Secret("token:abc")))
    with client.fetch(TOPIC, MessageId(1, 0), MessageId(1, entries), max_queued_bytes=5_000) as fetch:
        block = fetch.next_block(5_000)
        assert block is not None
        assert peer.wait_for(BaseCommand.AUTH_RESPONSE)  # while nothing more is taken
        read = list(block.entry_ids)
        while not fetch.finished:
            block = fetch.next_block(5_000)
            read += [] if block is None else block.entry_ids
    assert read == list(range(entries))


def test_a_challenge_in_the_handshake(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(BaseCommand.CONNECT, lambda _: commands.auth_challenge("basic", b"more", "peer", 19))
    peer.answer(BaseCommand.AUTH_RESPONSE, lambda _: commands.connected(19, "peer"))
    params = Secret('{"userId": "me", "password": "p"}')
    assert client_of(peer.url, authentication=Authentication("basic", params)).partition_count(TOPIC) == 0
    assert peer.of(BaseCommand.AUTH_RESPONSE)[0].authResponse.response.auth_data == b"me:p"


@pytest.mark.parametrize("each_time", [True, False])
def test_a_challenge_by_another_method(peer: Peer, client_of: MakeClient, each_time: bool) -> None:
    """The error names it, also if the time is up in a later attempt that nobody answers."""
    challenge = commands.auth_challenge("sasl", b"", "peer", 19)
    peer.answer(BaseCommand.CONNECT, lambda _: challenge if each_time or len(peer.callers) == 1 else b"")
    client = client_of(peer.url, authentication=Authentication("token", Secret("abc")), operation_timeout_ms=800)
    with pytest.raises(OperationTimeout, match="credentials of the method 'sasl', ours is 'token'"):
        client.partition_count(TOPIC)


def test_a_connection_whose_credentials_are_gone_is_made_again(
    peer: Peer, client_of: MakeClient, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    client = client_of(peer.url, authentication=token_in(path))
    client.partition_count(TOPIC)
    path.unlink()
    peer.callers[0].send(commands.auth_challenge("token", REFRESH, "peer", 19))
    eventually(lambda: not peer.callers[0].open)
    with pytest.raises(CredentialsError, match="No such file"):
        client.partition_count(TOPIC)
    path.write_text("second")
    assert client.partition_count(TOPIC) == 0
    assert not peer.of(BaseCommand.AUTH_RESPONSE)


def test_refused_credentials_are_tried_again_only_if_there_are_newer_ones(
    peer: Peer, client_of: MakeClient, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    def refuse_the_old(caller: Caller, command: BaseCommand, _: bytes) -> None:
        if command.connect.auth_data == b"new":
            caller.send(commands.connected(19, "peer"))
            return
        path.write_text("new" if len(peer.of(BaseCommand.CONNECT)) == 3 else "old")
        caller.send(commands.error(commands.NO_REQUEST, AuthenticationError("Failed to authenticate")))
        caller.close()

    peer.handlers[BaseCommand.CONNECT] = refuse_the_old
    client = client_of(peer.url, authentication=token_in(path))
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="Failed to authenticate"):
            client.partition_count(TOPIC)
    assert client.partition_count(TOPIC) == 0
    assert [command.connect.auth_data for command in peer.of(BaseCommand.CONNECT)] == [b"old"] * 3 + [b"new"]


def test_every_challenge_of_a_handshake_is_answered(peer: Peer, client_of: MakeClient) -> None:
    """One that comes while the thread that answered the last is about to end is not lost."""
    rounds = 300
    peer.answer(BaseCommand.CONNECT, lambda _: commands.auth_challenge("token", b"more", "peer", 19))
    peer.answer(
        BaseCommand.AUTH_RESPONSE,
        lambda _: (
            commands.auth_challenge("token", b"more", "peer", 19)
            if len(peer.of(BaseCommand.AUTH_RESPONSE)) < rounds
            else commands.connected(19, "peer")
        ),
    )
    authentication = Authentication("token", Secret("token:abc"))
    client = client_of(peer.url, authentication=authentication, connect_timeout_ms=8_000, operation_timeout_ms=10_000)
    assert client.partition_count(TOPIC) == 0
    assert len(peer.of(BaseCommand.AUTH_RESPONSE)) == rounds
