"""What the admin API sees of a running broker: its core to read, and a way to have it change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

Answer = TypeVar("Answer")


class Gate(Protocol):
    """One running core. All its methods belong to the loop's thread."""

    @property
    def core(self) -> Core:
        """The core, for reading only."""

    def ask(self, request: Callable[[Core], Answer]) -> asyncio.Future[Answer]:
        """Run `request` in the core; the future gets its result when its changes are on disk, or its error."""


CurrentGate = Callable[[], Gate | None]
"""The running core of the moment; None while the broker restarts it."""
