"""Space of the disk that holds the messages. Ours: in Apache Pulsar the disks are those of its bookies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from .answers import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from .calls import Call, Routes
    from .gate import Gate

Space = tuple[int, int]
"""Size of a disk and its free space, in bytes."""


async def space_of(gate: Gate) -> Space | None:
    """Returns the space of the broker's disk; None when there is none, or it cannot be asked."""
    try:
        return await asyncio.to_thread(gate.disk_space)
    except OSError:
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
        raise Refused(503, "The disk cannot be asked for its space")
    return JSONResponse(
        {"sizeBytes": space[0], "freeBytes": space[1], "fullReason": call.core.disk_full_reason or None}
    )


ROUTES: Final[Routes] = (("admin/v2/broker-stats/disk", {"GET": _disk}),)
