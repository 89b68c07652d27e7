"""The admin API's HTTP server, in the loop of the broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn

from spark_pulsar.admin.app import build_app

if TYPE_CHECKING:
    import socket

    from .engine import Engine


class _Uvicorn(uvicorn.Server):
    """A server that leaves the process's signals to the runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield


class WebServer:
    """Serves the admin API on given sockets, asking the engine of the moment."""

    def __init__(self, engine: Callable[[], Engine | None], binary_port: int) -> None:
        app = build_app(engine, binary_port)
        settings: dict[str, Any] = {"loop": "none", "lifespan": "off", "ws": "none", "access_log": False}
        settings["http"] = "h11"  # the other one takes a path or headers of any length
        # What it logs goes where everything else goes.
        self._server = _Uvicorn(uvicorn.Config(app, log_config=None, log_level="warning", **settings))
        self._task: asyncio.Task[None] | None = None

    def start(self, sockets: list[socket.socket]) -> None:
        """Begin to serve."""
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=sockets))

    async def started(self) -> None:
        """Wait until it accepts requests."""
        while not self._server.started:
            assert self._task is not None, "start comes first"
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """End; requests under way are cut off."""
        self._server.should_exit = True
        self._server.force_exit = True
        if self._task is not None:
            await self._task
