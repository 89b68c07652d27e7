"""Requests to the core from outside Pulsar's protocol (the admin API): each is answered, even when the core ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.broker.turn.events import Requested
from spark_pulsar.model.errors import PulsarError, ServiceNotReady

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

_Answer = TypeVar("_Answer")


class CoreContradiction(PulsarError):
    """The core failed at a request and is restarted from disk: the request may have been carried out or not."""


class CoreRequests:
    """Requests that wait for their answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: set[asyncio.Future[Any]] = set()
        self._ended = False

    def submit(
        self, request: Callable[[Core], _Answer], happen: Callable[[Requested], None]
    ) -> asyncio.Future[_Answer]:
        """Has the core carry out `request`. The answer is its result, once everything it changed is on disk; the
        PulsarError that it raised; CoreContradiction for any other error, which goes on to the engine; ServiceNotReady
        when the core ends before."""
        answer: asyncio.Future[_Answer] = self._loop.create_future()

        def reply(result: _Answer) -> None:
            if not answer.done():
                answer.set_result(result)

        def refuse(error: PulsarError) -> None:
            if not answer.done():
                answer.set_exception(error)

        def carry_out(core: Core) -> None:
            try:
                disk_full.carry_out(core, request, reply, refuse)
            except Exception as error:
                refuse(CoreContradiction(f"The broker restarts its core from disk: {type(error).__name__}: {error}"))
                raise

        if self._ended:
            refuse(ServiceNotReady("The broker is restarting"))
        else:
            self._waiting.add(answer)
            answer.add_done_callback(self._waiting.discard)
            happen(Requested(carry_out))
        return answer

    def end(self) -> None:
        """Refuses all requests that wait, and all that come: the core has ended. A change that is not known to be on
        disk may have been made or not."""
        self._ended = True
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(
                    ServiceNotReady("The broker restarts: check whether the change was made, or send the request again")
                )
