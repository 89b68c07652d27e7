"""The running broker as the admin API has it: a core to read, and requests that change it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from spark_pulsar.model.errors import PulsarError

from .answers import Refused
from .slices import change_in_slices

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

Answer = TypeVar("Answer")

_PATIENCE_S: Final = 60.0
"""Longest time that a request takes unless the core was restarted meanwhile or the disk answers no more."""


class Gate(Protocol):
    """One running core. All its methods but `disk_space` belong to the loop's thread."""

    @property
    def core(self) -> Core:
        """The core, for reading only."""

    def ask(self, request: Callable[[Core], Answer]) -> asyncio.Future[Answer]:
        """Runs `request` in the core; the future gets its result when its changes are on disk, or its error."""

    def disk_space(self) -> tuple[int, int] | None:
        """Returns the size of the disk that holds the storage and its free space, in bytes; None when there is no disk.
        May wait for it."""


CurrentGate = Callable[[], Gate | None]
"""The running core of the moment; None while the broker restarts it."""


async def ask_later(gate: Gate, begin: Callable[[Core, Callable[[Answer | PulsarError], None]], object]) -> Answer:
    """Runs `begin` in the core, in slices if it is a generator, with a function for its answer; returns the answer once
    all changes up to it are on disk.

    Raises what `begin` raises, or the error it answers with; 503 when no answer comes, because the core was restarted
    or because reading takes too long.
    """
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def settle(answer: Answer | PulsarError) -> None:
        if answered.done():
            return
        if isinstance(answer, PulsarError):
            answered.set_exception(answer)
        else:
            answered.set_result(answer)

    await change_in_slices(gate, lambda core: begin(core, lambda answer: core.when_durable(lambda: settle(answer))))
    try:
        return await asyncio.wait_for(answered, _PATIENCE_S)
    except TimeoutError as error:
        if _has_ended(gate):
            raise Refused(503, "The broker was restarted meanwhile: ask again") from error
        raise Refused(503, f"Not answered within {_PATIENCE_S:g} s: reading from disk takes too long") from error


def _has_ended(gate: Gate) -> bool:
    """Tells whether the core that was asked has ended: it refuses requests at once."""
    asked = gate.ask(lambda _: None)
    if asked.done():
        return asked.exception() is not None
    asked.cancel()
    return False
