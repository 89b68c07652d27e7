"""Space of the disk that holds the messages. Ours: in Apache Pulsar the disks are those of its bookies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, routes
from spark_pulsar.admin.http.refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.gate import Gate

_PATIENCE_S: Final = 2.0
Space = tuple[int, int]
"""Size of a disk and its free space, in bytes."""


async def space_of(gate: Gate) -> Space | None:
    """Returns the space of the broker's disk; None when there is none, when it cannot be queried, or does not
    answer."""
    if gate.core.disk_hang_reason:
        return None
    try:
        return await asyncio.wait_for(asyncio.to_thread(gate.disk_space), _PATIENCE_S)
    except (OSError, TimeoutError):
        return None


def metric_lines(space: Space | None) -> Iterator[str]:
    """Writes the space as metrics."""
    if space is None:
        return
    for name, text, value in (
        ("spark_pulsar_disk_size_bytes", "Size of the disk of the data directory.", space[0]),
        ("spark_pulsar_disk_free_bytes", "Free bytes of the disk of the data directory.", space[1]),
    ):
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n{name} {value}\n"


async def _disk(call: Call) -> Response:
    """Answers the space, and why the broker takes no more messages, if it does not."""
    space = await space_of(call.gate)
    if space is None:
        raise Refused(503, "The broker cannot read the free space of its disk")
    return JSONResponse({"sizeBytes": space[0], "freeBytes": space[1], "fullReason": call.core.disk_reason or None})


ROUTES: Final[Routes] = routes(ADMIN_PATH, ("GET /broker-stats/disk", access.super_user, _disk))
