"""Backlogs over REST: their size from a message on, and a check of all quotas (admin-rest.md 1.5.1, 1.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.publishing import backlog_quota
from spark_pulsar.broker.topic_log import backlog_size
from spark_pulsar.model.errors import PulsarError

from .answers import Refused
from .cursors import place_in
from .gate import ask_later
from .topics import check_namespace, existing

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.ids import Position

    from .calls import Call, Routes

_Answer = Callable[["int | PulsarError"], None]
_WHAT: Final = "Get backlog size"


async def _size(call: Call) -> Response:
    """Answers the exact number of bytes that are stored from a message on, that one included."""
    name, place = call.topic, place_in(call.json())
    if place is None:
        raise Refused(400, "The request body names no message id")

    def begin(core: Core, answer: _Answer) -> None:
        if not name.is_persistent:
            raise Refused(405, f"{_WHAT} on a non-persistent topic is not allowed")
        check_namespace(core, name)
        if registry.partition_count(core, name) is not None:
            hint = "please try do it on specific topic partition"
            raise Refused(405, f"{_WHAT} on a partitioned topic is not allowed, {hint}")
        topic = existing(core, name)
        _measure(core, topic, topic.ledger.previous_position(topic.ledger.at_or_after(place.position)), answer)

    return JSONResponse(await ask_later(call.gate, begin))


def _measure(core: Core, topic: Topic, before: Position, answer: _Answer) -> None:
    span = topic.ledger.unmeasured(before)
    if span is None:
        answer(topic.ledger.bytes_after_at_most(before))
        return

    def measured(is_known: bool) -> None:
        if is_known:
            _measure(core, topic, before, answer)
        else:
            answer(Refused(500, f"{_WHAT}: entries of ledger {span.ledger_id} cannot be read"))

    backlog_size.measure(core, topic, span, measured)


async def _check_quotas(call: Call) -> Response:
    """Checks all backlog quotas now; the broker checks them anyway when messages come or grow too old."""

    def look(core: Core) -> None:
        for topic in core.topics.values():
            backlog_quota.check(core, topic)

    return await call.change(look)


ROUTES: Final[Routes] = (
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/backlogSize", {"PUT": _size}),
    ("admin/v2/brokers/backlog-quota-check", {"GET": _check_quotas}),
)
