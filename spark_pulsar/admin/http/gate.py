"""The running broker as the admin API has it: a core to read, and requests that change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

Answer = TypeVar("Answer")


class Gate(Protocol):
    """One running core. All its methods but `disk_space` belong to the loop's thread."""

    @property
    def core(self) -> Core:
        """The core, for reading only."""

    def submit(self, request: Callable[[Core], Answer]) -> asyncio.Future[Answer]:
        """Runs `request` in the core; the future gets its result when its changes are on disk, or its error."""

    def disk_space(self) -> tuple[int, int] | None:
        """Returns the size of the disk that holds the storage and its free space, in bytes; None when there is no disk.
        May wait for it."""


CurrentGate = Callable[[], Gate | None]
"""The running core of the moment; None while the broker restarts it."""
