"""Requests to the core whose answer does not come, and what the caller is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.admin.http import slices
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.server.core_requests import CoreRequests
from tests.unit.broker.world import World


class Gate:
    """The core of a world, asked as the server does it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._requests = CoreRequests(asyncio.get_running_loop())

    @property
    def core(self) -> Core:
        return self.world.core

    def submit(self, request: Callable[[Core], Any]) -> asyncio.Future[Any]:
        return self._requests.submit(request, lambda event: self.world.happen([event]))

    def end(self) -> None:
        self._requests.end()


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        (False, "Not answered within 0 s: reading from disk takes too long"),
        (True, "The broker was restarted meanwhile: send the request again"),
    ],
)
def test_only_a_restart_is_called_one(monkeypatch: pytest.MonkeyPatch, ends: bool, text: str) -> None:
    monkeypatch.setattr(slices, "_PATIENCE_S", 0)

    async def ask() -> None:
        asked = Gate(World())

        def begin(_core: Core, _answer: Callable[[Any], None]) -> None:
            if ends:  # after this order was answered
                asyncio.get_running_loop().call_soon(asked.end)

        await slices.run_in_slices(asked, begin)

    with pytest.raises(Refused) as raised:
        asyncio.run(ask())
    assert (raised.value.status, raised.value.message) == (503, text)
