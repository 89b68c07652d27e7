"""Disks that take nothing. On full ones producers are refused until there is space again, and all that frees space goes
on (DUR-10); where a write does not return, producers that are there wait, and new ones are refused (DUR-15).

When nothing at all can be written any more, orders whose answer waits for the disk (a topic or subscription that is
made, a change of a policy) are answered with an error too, and may be tried again: they are done when there is space.

Storage reports it early, while there is room left for acknowledgements, trims and checkpoints. Clients of producers
keep messages without a receipt and come back by themselves; consumers go on reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.model.errors import PulsarError, ServiceNotReady

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.turn.events import DiskFull, DiskHangs


def admit_producer(core: Core) -> None:
    """Refuses a producer while the disk takes no more, with ServiceNotReady: its client tries again."""
    if core.disk_reason:
        raise ServiceNotReady(f"The broker takes no messages: {core.disk_reason}")


_Result = TypeVar("_Result")


class _Answer:
    """An answer that waits for the disk, or an error in its place when the disk takes no more."""

    __slots__ = ("_is_given", "_refuse", "_reply")

    def __init__(self, reply: Callable[[], object], refuse: Callable[[PulsarError], object]) -> None:
        self._reply = reply
        self._refuse = refuse
        self._is_given = False

    def __call__(self) -> None:
        if not self._is_given:
            self._is_given = True
            self._reply()

    def refuse(self, error: PulsarError) -> None:
        if not self._is_given:
            self._is_given = True
            self._refuse(error)


def answer_when_durable(
    core: Core,
    reply: Callable[[], object],
    refuse: Callable[[PulsarError], object],
    group: int | None = None,
) -> None:
    """Calls `reply` when all records appended up to now (or `group`, see `Core.when_group_durable`) are on disk, or
    `refuse` with ServiceNotReady when it cannot be written: now, or as soon as that is known."""
    answer = _Answer(reply, refuse)
    if group is None:
        core.when_durable(answer)
    else:
        core.when_group_durable(group, answer)
    if core.is_stalled:
        answer.refuse(_not_now(core))


def carry_out(
    core: Core,
    request: Callable[[Core], _Result],
    reply: Callable[[_Result], object],
    refuse: Callable[[PulsarError], object],
) -> None:
    """Carries out a request; `reply` gets its result when all it changed is on disk, `refuse` its error, or
    ServiceNotReady. A query while nothing can be written is answered at once."""
    before = core.waiting_records
    try:
        result = request(core)
    except PulsarError as error:
        refuse(error)
        return
    if core.is_stalled and core.waiting_records == before:
        reply(result)
    else:
        answer_when_durable(core, lambda: reply(result), refuse)


def admit_order(core: Core) -> None:
    """Refuses an order, with ServiceNotReady, while nothing can be written at all."""
    if core.is_stalled:
        raise _not_now(core)


def _not_now(core: Core) -> ServiceNotReady:
    return ServiceNotReady(f"The broker can store nothing now, try again: {core.disk_reason}")


def on_disk_full(core: Core, event: DiskFull) -> None:
    """Notes that the disk is short of space, or no more; closes producers when it is."""
    core.disk_full_reason = event.reason
    core.is_full = bool(event.reason) and event.is_stalled
    if not event.reason:
        return
    if core.is_full:
        _refuse_waiting(core)
    for session in core.sessions.values():
        for producer in list(session.producers.values()):
            if event.is_stalled:
                # Entries that it sent before cannot be answered as long as this lasts.
                producers.disconnect(core, producer)
            else:
                producers.disconnect_after_receipts(core, producer)


def on_disk_hangs(core: Core, event: DiskHangs) -> None:
    """Notes that a write does not return, or that it has. Producers keep their connections: their receipts follow."""
    core.disk_hang_reason = event.reason
    if event.reason:
        _refuse_waiting(core)


def _refuse_waiting(core: Core) -> None:
    for due in core.waiting_for_disk():
        if isinstance(due, _Answer):
            due.refuse(_not_now(core))
