"""A connection inside the process: the transport of an engine's connection, whose peer is a WebSocket.

The engine serves it as any connection: handshake, turns, back-pressure and limits are the same. What the engine writes
counts as unread until the WebSocket has released it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from spark_pulsar.wire.protocol.frames import Frame, FrameSplitter


class Pipe(asyncio.Transport):
    """Transport of one connection inside the process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        extra: dict[str, Any],
        on_frames: Callable[[list[Frame]], None],
        on_end: Callable[[], None],
    ) -> None:
        """`on_frames` gets frames of the engine, in a call of the loop of its own; `on_end` is called once, when the
        connection has ended. `extra`: `peername`, `sockname`, `sslcontext`, and `vouched`."""
        super().__init__(extra)
        self._loop = loop
        self._on_frames = on_frames
        self._on_end = on_end
        self._protocol: asyncio.Protocol | None = None
        self._splitter = FrameSplitter(1 << 31)  # the engine is no stranger
        self._arrived: list[bytes] = []
        self._is_due = False
        self._unread_bytes = 0
        self._high_bytes = self._low_bytes = 0
        self._is_writing_paused = False
        self._is_closing = False
        self._may_send = asyncio.Event()
        self._may_send.set()

    def open(self, protocol: asyncio.Protocol) -> None:
        """Connects the engine's side."""
        self._protocol = protocol
        protocol.connection_made(self)

    # The WebSocket's side

    def send(self, frame: bytes) -> None:
        """Hands a frame to the engine. `may_send` says when."""
        if self._protocol is not None and not self._is_closing:
            self._protocol.data_received(frame)

    async def may_send(self) -> None:
        """Waits while the engine does not read from this connection."""
        await self._may_send.wait()

    def release(self, size_bytes: int) -> None:
        """Notes the number of bytes of the frames that the WebSocket's client has read."""
        self._unread_bytes -= size_bytes
        if self._is_writing_paused and self._unread_bytes <= self._low_bytes:
            self._is_writing_paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    # The engine's side

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets the unread bytes from which on the engine hears that its peer is slow."""
        self._high_bytes = high or 0
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Counts the bytes that the WebSocket's client has not taken."""
        return self._unread_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends whole frames to the WebSocket."""
        if self._is_closing:
            return
        self._arrived.append(bytes(data))
        self._unread_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._deliver)  # not in the engine's turn
        if not self._is_writing_paused and self._unread_bytes > self._high_bytes:
            self._is_writing_paused = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def is_closing(self) -> bool:
        """Returns whether the connection ends, or has ended."""
        return self._is_closing

    def close(self) -> None:
        """Ends the connection after the bytes already written."""
        if not self._is_closing:
            self._is_closing = True
            self._may_send.set()
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        """Ends the connection."""
        self._arrived.clear()
        self.close()

    def pause_reading(self) -> None:
        """Pauses reading of frames."""
        if not self._is_closing:
            self._may_send.clear()

    def resume_reading(self) -> None:
        """Takes frames again."""
        self._may_send.set()

    def _deliver(self) -> None:
        self._is_due = False
        arrived, self._arrived = self._arrived, []
        if arrived:
            self._on_frames(self._splitter.feed(arrived[0] if len(arrived) == 1 else b"".join(arrived)))

    def _end(self) -> None:
        self._deliver()
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(None)
            self._on_end()
