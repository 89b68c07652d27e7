"""A client of the broker on a connection inside the process: handshake, requests, and what the broker sends of its own
(WS-2).

All rules are the broker's: a producer or consumer here is one of Pulsar's protocol. Bounds of frames and of unread
bytes are those of `websocket_transport` (WS-9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_pulsar.model.errors import PulsarError, ServiceNotReady
from spark_pulsar.model.limits import MAX_PARTITIONS
from spark_pulsar.model.names import TopicName
from spark_pulsar.wire.protocol import commands, replies, requests
from spark_pulsar.wire.protocol.frames import Frame, command_frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

from .pipe import Pipe

if TYPE_CHECKING:
    from spark_pulsar.server.security.provider import Vouched

CLIENT_VERSION: Final = "spark-pulsar WebSocket"
PATIENCE_S: Final = 30.0
"""Time that the broker may take to answer a request, as in Apache Pulsar's client."""
GONE: Final = "The broker has ended the connection"


class TimedOut(PulsarError):
    """A request that the broker has not answered in time."""

    http_status = 504


class Listener(Protocol):
    """A producer or a consumer of the session."""

    def on_command(self, command: BaseCommand, frame: Frame, payload_start: int) -> int:
        """Takes a command of the broker for it; returns the bytes of the frame that it keeps."""


class Host(Protocol):
    """The engine, as a session needs it."""

    def new_connection(self) -> asyncio.Protocol:
        """Makes the protocol object of a connection."""


class Session:
    """One connection to the broker with its producers and consumers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, extra: dict[str, Any], on_end: Callable[[str], None]) -> None:
        """`on_end` gets the reason why the broker has ended the connection, or one of its producers or consumers."""
        self._loop = loop
        self._pipe = Pipe(loop, extra, self._on_frames, self._on_pipe_end)
        self._on_end = on_end
        self._waiting: dict[int, asyncio.Future[BaseCommand]] = {}
        self._last_id = -1
        self._refusal = ""
        self._handshake: asyncio.Future[BaseCommand] | None = None
        self.producers: dict[int, Listener] = {}
        self.consumers: dict[int, Listener] = {}
        self.max_message_bytes = 0
        """The broker's limit of an entry, from CONNECTED."""

    async def open(self, host: Host, vouched: Vouched | None) -> None:
        """Connects. Raises the broker's error."""
        self._pipe.open(host.new_connection())
        connect = requests.connect(CLIENT_VERSION, "websocket" if vouched is not None else "none")
        if vouched is not None and vouched.principal.original is not None:
            connect.connect.original_principal = vouched.principal.original
        self._handshake = self._loop.create_future()
        self._pipe.send(command_frame(connect))
        connected = (await self._answer(self._handshake)).connected
        self.max_message_bytes = connected.max_message_size

    def next_id(self) -> int:
        """Returns a new id, of a request, a producer or a consumer."""
        self._last_id += 1
        return self._last_id

    async def request(self, command: BaseCommand, request_id: int) -> BaseCommand:
        """Returns the answer to a request. Raises the error that the broker answers; TimedOut; ServiceNotReady."""
        await self._pipe.may_send()
        answer: asyncio.Future[BaseCommand] = self._loop.create_future()
        self._waiting[request_id] = answer
        self._pipe.send(command_frame(command))
        try:
            return await self._answer(answer)
        finally:
            self._waiting.pop(request_id, None)

    async def may_send(self) -> None:
        """Waits while the broker takes nothing of this connection (PR-15)."""
        await self._pipe.may_send()

    def send(self, frame: bytes) -> None:
        """Sends a frame that no request waits for."""
        self._pipe.send(frame)

    def release(self, size_bytes: int) -> None:
        """Notes the number of bytes of a listener's messages that the WebSocket's client has read."""
        self._pipe.release(size_bytes)

    async def partitions(self, topic: TopicName) -> list[str]:
        """Returns the names of a topic's partitions, or its own when it has none. Creates a missing one (TN-7)."""
        request_id = self.next_id()
        answer = await self.request(requests.partition_metadata(request_id, topic.full), request_id)
        count = min(answer.partitionMetadataResponse.partitions, MAX_PARTITIONS)
        return [topic.at_partition(index).full for index in range(count)] or [topic.full]

    def close(self) -> None:
        """Ends the connection."""
        self._pipe.abort()

    async def _answer(self, answer: asyncio.Future[BaseCommand]) -> BaseCommand:
        if self._pipe.is_closing():
            raise ServiceNotReady(GONE)
        try:
            return await asyncio.wait_for(answer, PATIENCE_S)
        except TimeoutError:
            raise TimedOut(f"The broker has not answered within {PATIENCE_S:g} s") from None

    # What arrives

    def _on_frames(self, frames: list[Frame]) -> None:
        for frame in frames:
            command, payload_start = parse_command(frame.buffer, frame.start, frame.end)
            kept_bytes = self._on_command(command, frame, payload_start)
            self._pipe.release(frame.end - frame.start - kept_bytes)

    def _on_command(self, command: BaseCommand, frame: Frame, payload_start: int) -> int:
        """Takes a command; returns the bytes of its frame that are kept."""
        kind = command.type
        if kind == BaseCommand.PING:
            self._pipe.send(command_frame(commands.pong()))
            return 0
        content = getattr(command, commands.FIELD_OF[kind])
        if kind == BaseCommand.CONNECTED:
            self._settle(self._handshake, command)
        elif kind in (BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR, BaseCommand.CLOSE_PRODUCER):
            listener = self.producers.get(content.producer_id)
            return 0 if listener is None else listener.on_command(command, frame, payload_start)
        elif kind in (BaseCommand.MESSAGE, BaseCommand.REACHED_END_OF_TOPIC, BaseCommand.CLOSE_CONSUMER):
            listener = self.consumers.get(content.consumer_id)
            return 0 if listener is None else listener.on_command(command, frame, payload_start)
        elif kind == BaseCommand.ERROR and content.request_id == commands.NO_REQUEST:
            self._refusal = content.message
            self._settle(self._handshake, command)
        elif "request_id" in content.DESCRIPTOR.fields_by_name:
            self._settle(self._waiting.get(content.request_id), command)
        return 0

    def _settle(self, answer: asyncio.Future[BaseCommand] | None, command: BaseCommand) -> None:
        if answer is None or answer.done():
            return
        error = replies.error_of(command)
        if error is None:
            answer.set_result(command)
        else:
            answer.set_exception(error)

    def end(self, reason: str) -> None:
        """Ends the session for a reason that the WebSocket's client gets."""
        self._on_end(reason)

    def _on_pipe_end(self) -> None:
        for answer in (*self._waiting.values(), self._handshake):
            if answer is not None and not answer.done():
                answer.set_exception(ServiceNotReady(self._refusal or GONE))
                answer.exception()  # no listener may wait any more
        self._on_end(self._refusal or GONE)
