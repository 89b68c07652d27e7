"""Answers about everything there is, sent as they are made: ten thousand topics neither hold up the broker nor fill its
memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class Piecewise(Response):
    """200 with blocks of bytes, each made in little time; others run in between."""

    def __init__(self, blocks: Iterator[bytes], media_type: str) -> None:
        super().__init__(None, 200, media_type=media_type)
        del self.headers["content-length"]
        self._blocks = blocks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, letting others run in between."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            for block in self._blocks:
                if block:
                    await send({"type": "http.response.body", "body": block, "more_body": True})
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
