"""A WebSocket on a socket: the server's own protocol, with the bounds that every connection of this broker has (WS-9).

A client that does not take its messages is not read from, one that says nothing for too long is closed, and the bytes
that a connection holds count as those of all others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from spark_pulsar.server.connections.connection_memory import UNCOUNTED_BYTES
from spark_pulsar.server.sockets import peer_text

from .outbox import GOING_AWAY

if TYPE_CHECKING:
    from spark_pulsar.server.connections.connection_memory import ConnectionMemory


_NO_WEBSOCKET: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 46\r\n\r\n"
    b'{"reason":"Invalid request for a WebSocket"}\r\n'
)
"""Answer to a request that wants a WebSocket and cannot have one."""


class _Transport:
    """Transport of a WebSocket: it reads unless something pauses it, and counts the output that the client has not
    read."""

    def __init__(self, transport: asyncio.Transport, connection: UpgradedConnection) -> None:
        self._transport = transport
        self._connection = connection
        self._reasons: set[str] = set()

    def write(self, data: bytes) -> None:
        """Writes, as a transport does."""
        if data:
            self._transport.write(data)
            self._connection.note_unread(self._transport.get_write_buffer_size())

    def pause_reading(self) -> None:
        """Reads no more: the application has enough."""
        self.hold("application", is_held=True)

    def resume_reading(self) -> None:
        """Reads again."""
        self.hold("application", is_held=False)

    def hold(self, reason: str, *, is_held: bool) -> None:
        """Notes a reason not to read, or that it is gone."""
        was_read = not self._reasons
        (self._reasons.add if is_held else self._reasons.discard)(reason)
        if was_read == bool(self._reasons) and not self._transport.is_closing():
            (self._transport.pause_reading if was_read else self._transport.resume_reading)()

    @property
    def is_read(self) -> bool:
        """Returns whether the client is read from."""
        return not self._reasons

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class UpgradedConnection(WebSocketsSansIOProtocol):
    """One WebSocket on a socket."""

    def __init__(self, *args: Any, memory: ConnectionMemory | None, idle_s: float, **named: Any) -> None:
        """`idle_s`: time without a message either way after which the WebSocket is closed; 0: never."""
        super().__init__(*args, **named)
        self._memory = memory
        self._idle_s = idle_s
        self._heard_s = self.loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._is_counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._held = _Transport(cast("asyncio.Transport", transport), self)
        super().connection_made(cast("asyncio.Transport", self._held))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._memory is not None:
            self._memory.release(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self.loop.time()
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.handshake_initiated = True
            self._held.write(_NO_WEBSOCKET)  # which uvicorn leaves without an answer
            self._held.close()
        self._count_received()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._held.hold("client", is_held=True)  # else its PINGs would be answered without end

    def resume_writing(self) -> None:
        super().resume_writing()
        self._held.hold("client", is_held=False)
        if self._memory is not None:
            self._memory.unread(self, 0)

    async def send(self, message: Any) -> None:
        """Sends, as ASGI has it, once the client has received everything sent before."""
        await super().send(message)
        self._heard_s = self.loop.time()
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # else uvicorn logs an error for each request that is refused

    def note_unread(self, unread_bytes: int) -> None:
        """Counts the bytes that the client has not taken."""
        if unread_bytes > UNCOUNTED_BYTES and self._memory is not None:
            self._memory.unread(self, unread_bytes)

    def _count_received(self) -> None:
        """Counts the unfinished message."""
        kept_bytes = len(self.conn.reader.buffer) + sum(len(frame) for frame in self.frames)
        was_counted, self._is_counted = self._is_counted, kept_bytes > UNCOUNTED_BYTES
        if self._memory is not None and (was_counted or self._is_counted):
            self._memory.received(self, kept_bytes if self._is_counted else 0, 0)

    # Called by the memory of connections

    def restrain(self, *, is_read: bool, gets_messages: bool) -> None:
        """Reads from the client, or pauses; the client gets more once it has received everything sent before."""
        del gets_messages
        self._held.hold("memory", is_held=not is_read)

    def is_listening(self) -> bool:
        """Returns whether it is up to the client that nothing arrives."""
        return self._held.is_read

    def count_unread(self) -> int:
        """Counts the bytes that the client has not taken."""
        size: int = self._held.get_write_buffer_size()
        return size

    def keep_waiting(self) -> None:
        """Does nothing."""

    def end(self) -> str:
        """Ends the connection immediately, and names it."""
        self._held.abort()
        return f"WebSocket of {peer_text(self._held.get_extra_info('peername'))}"

    # A client that says nothing

    def _watch(self) -> None:
        if self._idle_s > 0:
            self._idle_timer = self.loop.call_at(self._heard_s + self._idle_s, self._check_idle)

    def _check_idle(self) -> None:
        if self.loop.time() < self._heard_s + self._idle_s:
            self._watch()
        elif self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": GOING_AWAY})
            self.conn.fail(GOING_AWAY, "Idle Timeout")
            self._held.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
            self._held.close()
        else:
            self._held.abort()
