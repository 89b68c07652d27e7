"""Compaction over REST (admin-rest.md 1.8): begin it, and ask how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from spark_pulsar.broker.lifetime import compaction

from . import cursors, topics

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Routes


async def _begin(call: Call) -> Response:
    """204, and the work goes on behind it; on a partitioned topic for all its partitions. 409 while one runs."""
    name = call.topic
    cursors.check_stored(name, "Compaction")

    def begin(core: Core) -> None:
        for topic in topics.existing_partitions(core, name):
            compaction.request(core, topic)

    return await call.change(begin)


async def _status(call: Call) -> Response:
    """How the last one since the start of the broker went."""
    core = call.core
    cursors.check_stored(call.topic, "Compaction")
    status, error = compaction.status(core, topics.existing(core, call.topic))
    return JSONResponse({"status": status, "lastError": error})


ROUTES: Final[Routes] = (
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/compaction", {"PUT": _begin, "GET": _status}),
)
