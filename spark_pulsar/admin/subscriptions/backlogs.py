"""Backlogs over REST: their size from a message on, and a check of all quotas (BAT-3, ST-6, BQ-3). What is stored of
cursors, and counts of a backlog, are in `managed_info` (ADM-73)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import ADMIN_PATH, TOPIC_PATH, changes, routes, shows_later
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.topics.messages import stored_topic
from spark_pulsar.broker.publishing import backlog_quota
from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.model.errors import PulsarError

from .subscription_routes import wanted_place

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.positions.ids import Position

_Answer = Callable[["int | PulsarError"], None]
_WHAT: Final = "Get backlog size"


def _size(core: Core, call: Call, answer: _Answer) -> None:
    """Answers the exact number of bytes that are stored from a message on, that one included."""
    place = wanted_place(call)
    topic = stored_topic(core, call, _WHAT, ", please try do it on specific topic partition")
    _measure(core, topic, topic.ledger.previous_position(topic.ledger.at_or_after(place.position)), answer)


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

    backlog_bytes.measure(core, topic, span, measured)


def _check_quotas(core: Core, _call: Call) -> Steps[None]:
    """Checks all backlog quotas now; the broker checks them anyway when messages come or grow too old."""
    for topic in list(core.topics.values()):
        if core.topics.get(topic.full_name) is topic:
            backlog_quota.check(core, topic)
        yield


ROUTES: Final[Routes] = (
    *routes(TOPIC_PATH, ("PUT /backlogSize", access.topic("GET_BACKLOG_SIZE"), shows_later(_size))),
    *routes(
        ADMIN_PATH, ("GET /brokers/backlog-quota-check", access.broker("CHECK_BACKLOG_QUOTA"), changes(_check_quotas))
    ),
)
