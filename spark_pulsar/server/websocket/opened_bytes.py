"""Memory of large entries that are opened for WebSockets: one budget for all of them (WS-9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_OPENED_BYTES: Final = 32 * 1024 * 1024
"""Bytes that one entry, or a message of chunks, may have when it is opened for a WebSocket."""
BUDGET_BYTES: Final = 128 * 1024 * 1024
FREE_BYTES: Final = 1024 * 1024
"""Entries up to this size are not counted."""


class OpenedBytes:
    """The budget. An entry that does not fit waits until others are with their clients."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.held_bytes = 0
        self._budget_bytes = budget_bytes
        self._waiting: dict[int, Callable[[], None]] = {}

    def acquire(self, size_bytes: int, wake: Callable[[], None]) -> bool:
        """Takes bytes for an entry; False when it has to wait, until `wake` is called."""
        if size_bytes <= FREE_BYTES:
            return True
        if self.held_bytes and self.held_bytes + size_bytes > self._budget_bytes:
            self._waiting[id(wake.__self__)] = wake  # type: ignore[attr-defined]
            return False
        self.held_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Gives back the bytes of an entry."""
        if size_bytes > FREE_BYTES:
            self.held_bytes -= size_bytes
            waiting, self._waiting = self._waiting, {}
            for wake in waiting.values():
                wake()
