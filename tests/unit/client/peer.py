"""A broker's side of a socket, played by the test: for what no real broker can be made to do."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import FrameSplitter, command_frame, parse_command, payload_frame
from spark_pulsar.wire.protocol.replies import refusal
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandLookupTopicResponse, MessageMetadata
from tests import entry_commands
from tests.eventually import eventually

_TLS_HANDSHAKE = 0x16  # the first byte of a TLS connection
Handler = Callable[["Caller", BaseCommand, bytes], None]


def lookup_redirect(request_id: int, service_url: str, authoritative: bool = False) -> BaseCommand:
    """LOOKUP_RESPONSE: ask another broker."""
    command = commands.lookup_connect(request_id, service_url, authoritative=authoritative)
    command.lookupTopicResponse.response = CommandLookupTopicResponse.Redirect
    return command


class Caller:
    """One accepted connection."""

    def __init__(self, peer: Peer, sock: socket.socket, number: int) -> None:
        self.peer = peer
        self.number = number
        self.open = True
        self._socket = sock

    def send(self, *frames: BaseCommand | bytes) -> None:
        """Send commands, or bytes as they are, in one write."""
        data = b"".join(frame if isinstance(frame, bytes) else command_frame(frame) for frame in frames)
        with contextlib.suppress(OSError):  # the client may have gone
            self._socket.sendall(data)

    def refuse(self, command: BaseCommand, error: PulsarError) -> None:
        """Answer a request with an error, the way brokers do for this type of command."""
        answer = refusal(command, error)
        assert answer is not None
        self.send(answer)

    def close(self) -> None:
        """Cut the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Peer:
    """Listens on a free port and answers as its handlers say; without one, as a friendly broker with an empty topic.

    `seen` collects every command received as (number of the connection, command, payload).
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.handlers: dict[int, Handler] = {}
        self.answer(BaseCommand.CONNECT, lambda asked: commands.connected(asked.protocol_version, "peer"))
        self.answer(BaseCommand.PING, lambda _: commands.pong())
        self.answer(
            BaseCommand.LOOKUP,
            lambda asked: commands.lookup_connect(asked.request_id, self.url, self.url if self._tls else None),
        )
        self.answer(BaseCommand.PARTITIONED_METADATA, lambda asked: commands.partition_metadata(asked.request_id, 0))
        self.answer(
            BaseCommand.GET_LAST_MESSAGE_ID,
            lambda asked: commands.last_message_id(asked.request_id, self.last, Position(-1, -1)),
        )
        self.answer(
            BaseCommand.PRODUCER,
            lambda asked: commands.producer_success(asked.request_id, asked.producer_name or "peer-0"),
        )
        for kind in ("SUBSCRIBE", "CLOSE_CONSUMER", "CLOSE_PRODUCER", "SEEK", "UNSUBSCRIBE"):
            self.answer(BaseCommand.Type.Value(kind), lambda asked: commands.success(asked.request_id))
        self._lost: dict[int, int] = {}
        self.seen: list[tuple[int, BaseCommand, bytes]] = []
        self.last = MessageId(-1, -1)
        """The answer to GET_LAST_MESSAGE_ID."""
        self.on_accept: Callable[[Caller], None] = lambda caller: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.callers: list[Caller] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The service URL of this peer."""
        return f"{'pulsar+ssl' if self._tls else 'pulsar'}://127.0.0.1:{self.port}"

    def of(self, kind: int) -> list[BaseCommand]:
        """The commands of one type received so far."""
        return [command for _, command, _ in list(self.seen) if command.type == kind]

    def wait_for(self, kind: int, count: int = 1) -> list[BaseCommand]:
        """The commands of one type, once there are `count`."""
        eventually(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def answer(self, kind: int, make: Callable[[Any], BaseCommand | bytes]) -> None:
        """Answers each command of a type with what is made of it."""
        field = BaseCommand.DESCRIPTOR.fields_by_number[kind].name
        self.handlers[kind] = lambda caller, command, _: caller.send(make(getattr(command, field)))

    def refuse(self, kind: int, error: PulsarError) -> None:
        """Refuses each command of a type."""
        self.handlers[kind] = lambda caller, command, _: caller.refuse(command, error)

    def lose(self, kind: int, count: int = 1) -> None:
        """Receive the next commands of a type and do nothing about them."""
        self._lost[kind] = count

    def close(self) -> None:
        """Stop listening and cut all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for caller in list(self.callers):
            caller.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._greet, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _greet(self, sock: socket.socket) -> None:
        if self._tls is not None:
            try:
                sock = self._tls.wrap_socket(sock, server_side=True)
            except OSError:  # the client does not trust us
                return
        caller = Caller(self, sock, len(self.callers))
        self.callers.append(caller)
        self._serve(caller, sock)

    def _serve(self, caller: Caller, sock: socket.socket) -> None:
        splitter = FrameSplitter()
        self.on_accept(caller)
        with sock, contextlib.suppress(OSError):
            while data := sock.recv(1 << 16):
                if data[0] == _TLS_HANDSHAKE and self._tls is None:
                    return  # the client asks a port that closed its connection for TLS (READ-34)
                for buffer, start, end in splitter.feed(data):
                    command, payload_start = parse_command(buffer, start, end)
                    payload = buffer[payload_start:end]
                    self.seen.append((caller.number, command, payload))
                    handler = self.handlers.get(command.type)
                    if self._lost.get(command.type, 0) > 0:
                        self._lost[command.type] -= 1
                    elif handler is not None:
                        handler(caller, command, payload)
        caller.open = False


def message(consumer_id: int, message_id: MessageId, payload: bytes = b"x", **fields: Any) -> bytes:
    """A MESSAGE frame with one entry; `fields` go into its metadata."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    return payload_frame(entry_commands.message(consumer_id, message_id), build_entry(metadata, payload))
