"""Texts that wait for a WebSocket's client, in order, and the end of the WebSocket."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

MAX_CHARACTERS: Final = 1024 * 1024
"""Characters of answers that may wait before the client is not read from."""

GOING_AWAY: Final = 1001
BAD_DATA: Final = 1007
TOO_LARGE: Final = 1009
UNEXPECTED: Final = 1011
SERVICE_RESTART: Final = 1012
_MAX_REASON_BYTES: Final = 123
"""Bytes of a close frame's reason (RFC 6455)."""


class Source(Protocol):
    """Messages for the client, one after another."""

    def next_message(self) -> str | None:
        """Returns the next message, None while there is none."""

    def on_sent(self) -> None:
        """Notes that the client has taken that message."""


class Outbox:
    """Texts for one WebSocket."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._characters = 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.closing: tuple[int, str] | None = None
        """Code and reason with which the WebSocket is to be closed."""

    def put(self, text: str) -> None:
        """Adds a text."""
        self._texts.append(text)
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            self._has_room.clear()
        self._changed.set()

    def close(self, code: int, reason: str) -> None:
        """Closes the WebSocket after the texts that wait. The first reason counts."""
        if self.closing is None:
            self.closing = code, reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")
        self._has_room.set()
        self._changed.set()

    def wake(self) -> None:
        """Has the sender see whether there is a message."""
        self._changed.set()

    async def has_room(self) -> None:
        """Waits while the client leaves too many answers unread."""
        await self._has_room.wait()

    async def send_all(self, send: Callable[[str], Awaitable[None]], source: Source) -> None:
        """Sends texts, and messages of the source when no text waits, until the WebSocket is to be closed."""
        while True:
            self._changed.clear()
            while self._texts:
                text = self._texts.popleft()
                await send(text)
                self._characters -= len(text)
                if self._characters <= MAX_CHARACTERS // 2:
                    self._has_room.set()
            if self.closing is not None:
                return
            message = source.next_message()
            if message is None:
                await self._changed.wait()
            else:
                await send(message)
                source.on_sent()
