"""Handshake, life signs, lookups: what a broken or unusual peer does to the client."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, ConnectionLost, OperationTimeout, TooManyRedirects
from spark_pulsar.model.errors import AuthenticationError, InvalidTopicName, MetadataError, TopicNotFound
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from tests.eventually import eventually
from tests.unit.client.peer import Caller, Peer, lookup_redirect

MakeClient = Callable[..., PulsarClient]
TOPIC = "persistent://public/default/t"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that nobody listens on, nor can: it is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


# ---- handshake


def test_connect_says_who_we_are(peer: Peer, client_of: MakeClient) -> None:
    # covers W1
    client_of(peer.url).partition_count(TOPIC)
    connect = peer.of(BaseCommand.CONNECT)[0].connect
    assert connect.client_version.startswith("spark-pulsar-")
    assert connect.protocol_version >= 19
    assert connect.auth_method_name == "none"
    assert not connect.HasField("proxy_to_broker_url")
    assert not connect.feature_flags.supports_auth_refresh
    assert connect.feature_flags.supports_broker_entry_metadata


def test_nobody_listens(silent_port: int, client_of: MakeClient) -> None:
    url = f"pulsar://127.0.0.1:{silent_port}"
    with pytest.raises(OperationTimeout, match=r"requesting the partitions of .*cannot connect to 127.0.0.1") as caught:
        client_of(url, operation_timeout_ms=400).partition_count(TOPIC)
    assert caught.value.timeout_ms == 400
    assert isinstance(caught.value.__cause__, ConnectFailed)


def test_no_time_left_to_connect_names_what_it_was_for(peer: Peer) -> None:
    config = ClientConfig(peer.url)
    with pytest.raises(OperationTimeout, match="opening a reader"):
        Connection.open(config.addresses[0], "", config, Deadline(0, "opening a reader", peer.url))


def test_the_next_host_is_tried(silent_port: int, peer: Peer, client_of: MakeClient) -> None:
    client = client_of(f"pulsar://127.0.0.1:{silent_port},127.0.0.1:{peer.port}")
    assert client.partition_count(TOPIC) == 0


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names that stand for several addresses, as those of a load balancer do."""
    known: dict[str, list[str]] = {}
    resolve = socket.getaddrinfo

    def resolved(host: str, port: int, *others: int, **more: int) -> list[tuple[object, ...]]:
        return [found for address in known.get(host, [host]) for found in resolve(address, port, *others, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return known


@contextlib.contextmanager
def deaf(port: int, addresses: list[str]) -> Iterator[None]:
    """Addresses that answer no attempt to connect: their queues are full."""
    with contextlib.ExitStack() as stack:
        for address in addresses:
            listener = stack.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
            for _ in range(2):
                caller = stack.enter_context(socket.socket())
                caller.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    caller.connect((address, port))
        yield


def test_addresses_of_one_name_share_the_time_to_connect(
    peer: Peer, client_of: MakeClient, names: dict[str, list[str]]
) -> None:
    silent = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    with deaf(peer.port, silent):
        names["pulsar.test"] = [*silent, "127.0.0.1"]
        url = f"pulsar://pulsar.test:{peer.port}"
        config = ClientConfig(url, connect_timeout_ms=800)
        Connection.open(config.addresses[0], "", config, Deadline(5_000, "trying", url)).close()
        names["pulsar.test"] = silent
        begun = time.monotonic()
        with pytest.raises(ConnectFailed, match="no answer within 800 ms"):
            Connection.open(config.addresses[0], "", config, Deadline(5_000, "trying", url))
        assert time.monotonic() - begun < 1.6  # not three times the time-out


def test_a_peer_that_never_greets(peer: Peer, client_of: MakeClient) -> None:
    del peer.handlers[BaseCommand.CONNECT]
    text = f"500 ms requesting the partitions of .*: cannot connect to 127.0.0.1:{peer.port}: no answer within"
    with pytest.raises(OperationTimeout, match=text):
        client_of(peer.url, connect_timeout_ms=100, operation_timeout_ms=500).partition_count(TOPIC)
    assert len(peer.callers) > 1


def test_a_peer_that_greets_at_the_second_try(peer: Peer, client_of: MakeClient) -> None:
    greet = peer.handlers[BaseCommand.CONNECT]

    def late(caller: Caller, command: BaseCommand, payload: bytes) -> None:
        if caller.number > 0:
            greet(caller, command, payload)

    peer.handlers[BaseCommand.CONNECT] = late
    assert client_of(peer.url, connect_timeout_ms=300).partition_count(TOPIC) == 0


def test_a_refused_handshake_says_why(peer: Peer, client_of: MakeClient) -> None:
    peer.handlers[BaseCommand.CONNECT] = lambda caller, command, _: (
        caller.send(commands.error(commands.NO_REQUEST, AuthenticationError("Failed to authenticate"))),
        caller.close(),
    )
    with pytest.raises(AuthenticationError, match="Failed to authenticate"):
        client_of(peer.url).partition_count(TOPIC)


def test_a_challenge_is_more_than_this_client_can_answer(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(BaseCommand.CONNECT, lambda _: commands.auth_challenge("token", b"", "peer", 19))
    with pytest.raises(OperationTimeout, match="credentials"):
        client_of(peer.url, operation_timeout_ms=500).partition_count(TOPIC)


def test_frames_that_arrive_byte_by_byte(peer: Peer, client_of: MakeClient) -> None:
    # covers W9
    def trickle(caller: Caller, command: BaseCommand, _: bytes) -> None:
        for byte in command_frame(commands.partition_metadata(command.partitionMetadata.request_id, 7)):
            caller.send(bytes([byte]))

    peer.handlers[BaseCommand.PARTITIONED_METADATA] = trickle
    assert client_of(peer.url).partition_count(TOPIC) == 7


# ---- replies


def test_a_connection_cut_in_mid_frame_is_made_again(peer: Peer, client_of: MakeClient) -> None:
    def cut_the_first(caller: Caller, command: BaseCommand, _: bytes) -> None:
        frame = command_frame(commands.partition_metadata(command.partitionMetadata.request_id, 3))
        if caller.number == 0:
            caller.send(frame[:9])
            caller.close()
        else:
            caller.send(frame)

    peer.handlers[BaseCommand.PARTITIONED_METADATA] = cut_the_first
    assert client_of(peer.url).partition_count(TOPIC) == 3
    assert len(peer.callers) == 2


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x00" * 4, b"\xff" * 64])
def test_bytes_that_are_no_frame_end_the_connection(garbage: bytes, peer: Peer, client_of: MakeClient) -> None:
    peer.answer(BaseCommand.PARTITIONED_METADATA, lambda _: garbage)
    with pytest.raises(OperationTimeout) as caught:
        client_of(peer.url, operation_timeout_ms=500).partition_count(TOPIC)
    assert isinstance(caught.value.__cause__, ConnectionLost)
    assert len(peer.callers) > 1


def test_a_request_without_answer_times_out(peer: Peer, client_of: MakeClient) -> None:
    del peer.handlers[BaseCommand.PARTITIONED_METADATA]
    client = client_of(peer.url, operation_timeout_ms=1_000)
    with pytest.raises(OperationTimeout, match=f"1000 ms requesting the partitions of {TOPIC} at {peer.url}"):
        client.partition_count(TOPIC)
    assert len(peer.of(BaseCommand.PARTITIONED_METADATA)) == 2  # and once more after half the time


def test_a_lost_request_is_made_again(peer: Peer, client_of: MakeClient) -> None:
    for kind in (BaseCommand.PARTITIONED_METADATA, BaseCommand.LOOKUP):
        peer.lose(kind)
    client = client_of(peer.url, operation_timeout_ms=2_000)
    assert client.partition_count(TOPIC) == 0
    assert client.last_message_id(TOPIC) is None
    assert [len(peer.of(kind)) for kind in (BaseCommand.PARTITIONED_METADATA, BaseCommand.LOOKUP)] == [2, 2]
    assert len(peer.callers) == 1


def test_retriable_errors_are_retried_and_others_are_not(peer: Peer, client: PulsarClient) -> None:
    answers = [MetadataError("not now"), MetadataError("not now"), TopicNotFound("no such topic")]
    peer.handlers[BaseCommand.PARTITIONED_METADATA] = lambda caller, command, _: caller.refuse(command, answers.pop(0))
    with pytest.raises(TopicNotFound, match="no such topic"):
        client.partition_count(TOPIC)
    assert len(peer.of(BaseCommand.PARTITIONED_METADATA)) == 3
    peer.refuse(BaseCommand.PARTITIONED_METADATA, InvalidTopicName("bad"))
    with pytest.raises(InvalidTopicName):
        client.partition_count(TOPIC)


def test_commands_from_the_future_and_stray_answers_are_ignored(peer: Peer, client_of: MakeClient) -> None:
    body = bytes.fromhex("08d807c23d00")  # type 984 with an empty content in field 984
    unknown = (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body

    def chatter(caller: Caller, command: BaseCommand, _: bytes) -> None:
        request_id = command.partitionMetadata.request_id
        caller.send(
            unknown,
            commands.success(request_id + 1000),
            commands.reached_end_of_topic(1),
            commands.active_consumer_change(1, True),
            commands.pong(),
            commands.partition_metadata(request_id, 2),
        )

    peer.handlers[BaseCommand.PARTITIONED_METADATA] = chatter
    assert client_of(peer.url).partition_count(TOPIC) == 2
    assert len(peer.callers) == 1


# ---- life signs


def test_ping_is_answered(peer: Peer, client: PulsarClient) -> None:
    client.partition_count(TOPIC)
    peer.callers[0].send(commands.ping())
    assert peer.wait_for(BaseCommand.PONG)


def test_an_idle_connection_sends_ping_and_lives_on_answers(peer: Peer, client_of: MakeClient) -> None:
    client = client_of(peer.url, keep_alive_interval_ms=400)
    client.partition_count(TOPIC)
    peer.wait_for(BaseCommand.PING, 3)
    client.partition_count(TOPIC)
    assert len(peer.callers) == 1


def test_a_silent_peer_is_given_up(peer: Peer, client_of: MakeClient) -> None:
    del peer.handlers[BaseCommand.PING]
    peer.handlers[BaseCommand.PARTITIONED_METADATA] = lambda caller, command, _: (
        caller.send(commands.partition_metadata(command.partitionMetadata.request_id, 5)) if caller.number else None
    )
    client = client_of(peer.url, keep_alive_interval_ms=300)
    assert client.partition_count(TOPIC) == 5  # the first connection fell silent, the second answers
    assert len(peer.callers) > 1


def test_an_idle_connection_closed_by_the_broker_is_replaced(peer: Peer, client: PulsarClient) -> None:
    client.partition_count(TOPIC)
    peer.callers[0].close()
    assert client.partition_count(TOPIC) == 0
    assert len(peer.callers) == 2


# ---- lookups


def test_a_redirect_is_followed_with_authoritative_copied(peer: Peer, other_peer: Peer, client_of: MakeClient) -> None:
    # covers W2
    peer.answer(BaseCommand.LOOKUP, lambda asked: lookup_redirect(asked.request_id, other_peer.url, authoritative=True))
    other_peer.last = MessageId(3, 4, -1, -1)
    assert client_of(peer.url).last_message_id(TOPIC) == MessageId(3, 4)
    assert not peer.of(BaseCommand.LOOKUP)[0].lookupTopic.authoritative
    assert other_peer.of(BaseCommand.LOOKUP)[0].lookupTopic.authoritative
    assert not peer.of(BaseCommand.SUBSCRIBE)
    assert other_peer.of(BaseCommand.SUBSCRIBE)


def test_redirects_in_a_circle_end(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(BaseCommand.LOOKUP, lambda asked: lookup_redirect(asked.request_id, peer.url))
    with pytest.raises(TooManyRedirects, match="more than 20"):
        client_of(peer.url).last_message_id(TOPIC)
    assert len(peer.of(BaseCommand.LOOKUP)) == 21


def test_a_proxy_is_told_the_broker(peer: Peer, client_of: MakeClient) -> None:
    peer.answer(
        BaseCommand.LOOKUP,
        lambda asked: commands.lookup_connect(
            asked.request_id, "pulsar://broker-1.internal:6650", proxy_through_service_url=True
        ),
    )
    client_of(peer.url).last_message_id(TOPIC)
    greetings = [command.connect for command in peer.of(BaseCommand.CONNECT)]
    assert [greeting.proxy_to_broker_url for greeting in greetings] == ["", "broker-1.internal:6650"]


def test_a_proxy_flag_for_the_same_address_needs_no_second_connection(peer: Peer, client_of: MakeClient) -> None:
    # A standalone Apache Pulsar sets the flag in every answer.
    peer.answer(
        BaseCommand.LOOKUP,
        lambda asked: commands.lookup_connect(asked.request_id, peer.url, proxy_through_service_url=True),
    )
    client_of(peer.url).last_message_id(TOPIC)
    assert len(peer.callers) == 1


def test_a_broker_that_moved_is_looked_up_again(peer: Peer, other_peer: Peer, client: PulsarClient) -> None:
    served_by = [other_peer.url, peer.url]
    peer.answer(BaseCommand.LOOKUP, lambda asked: commands.lookup_connect(asked.request_id, served_by.pop(0)))
    client.last_message_id(TOPIC)
    other_peer.close()
    peer.last = MessageId(1, 1)
    assert client.last_message_id(TOPIC) == MessageId(1, 1)


def test_a_host_that_closes_what_it_accepts_is_left_for_the_next(
    peer: Peer, other_peer: Peer, client_of: MakeClient
) -> None:
    """So does a load balancer without a broker behind it."""
    peer.on_accept = lambda caller: caller.close()
    client = client_of(f"{peer.url},127.0.0.1:{other_peer.port}")
    assert client.partition_count(TOPIC) == 0
    assert len(peer.callers) == 2  # asked once more, with TLS: a port of TLS closes like that, too


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_can_have_no_address(host: str, client_of: MakeClient) -> None:
    with pytest.raises(OperationTimeout, match=f"cannot connect to {host}:6650"):
        client_of(f"pulsar://{host}", operation_timeout_ms=300).partition_count(TOPIC)


# ---- processes


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_connects_for_itself(peer: Peer, client: PulsarClient) -> None:
    client.partition_count(TOPIC)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if client.partition_count(TOPIC) == 0 else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.partition_count(TOPIC) == 0
    assert len(peer.callers) == 2


def test_closing_lets_go_of_everything(peer: Peer, client: PulsarClient) -> None:
    client.last_message_id(TOPIC)
    client.close()
    client.close()
    eventually(lambda: not peer.callers[0].open)
    assert client.partition_count(TOPIC) == 0  # a closed client may be used again
