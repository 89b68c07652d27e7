"""Paths of subscriptions, their properties (CUR-19) and their cursors (ADM-74); `cursors` does the work, and reads
names that are escaped twice (T-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import text_map
from spark_pulsar.admin.http.calls import TOPIC_PATH, changes, reads, routes, whole_number_in_path
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import run_in_slices
from spark_pulsar.admin.topics.non_persistent_refusals import check_stored

from . import cursors

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.admin.http.calls import Call, Handler, Routes
    from spark_pulsar.broker.entities.core import Core


def wanted_place(call: Call) -> cursors.Place:
    """Reads the place that the body must name."""
    place = cursors.place_in(call.json())
    if place is None:
        raise Refused(400, "The request body names no message id")
    return place


def _age_s(call: Call) -> int:
    """Reads the age from which on entries expire; 405 for a topic that stores nothing."""
    check_stored(call.topic, "Expire messages")
    return whole_number_in_path(call.parts["seconds"])


def _names(core: Core, call: Call) -> object:
    return cursors.names_of(core, call.topic)


def _later(begin: Callable[[Core, Call, cursors.Answer], object]) -> Handler:
    """Makes the handler of a change that may have to read entries first; 204 when it is done."""

    async def handler(call: Call) -> Response:
        def run(core: Core, answer: cursors.Answer) -> object:
            return begin(core, call, answer)

        await run_in_slices(call.gate, run, changes=True)
        return Response(status_code=204)

    return handler


def _of_one(operation: Callable[..., object], *values: Callable[[Call], object]) -> Callable[..., object]:
    """Makes the step of a handler that does an operation with the subscription of a call, and values read from it."""

    def step(core: Core, call: Call, *answer: cursors.Answer) -> object:
        return operation(core, call.topic, call.parts["subscription"], *(read(call) for read in values), *answer)

    return step


def _expire(core: Core, call: Call) -> None:
    check_stored(call.topic, "Expire messages")
    cursors.expire_to_place(core, call.topic, call.parts["subscription"], wanted_place(call))


def _reset_to_time(core: Core, call: Call, answer: cursors.Answer) -> object:
    time_ms = whole_number_in_path(call.parts["time"])
    return cursors.reset_to_time_in_steps(core, call.topic, call.parts["subscription"], time_ms, answer)


def _delete(core: Core, call: Call) -> object:
    return cursors.delete_in_steps(core, call.topic, call.parts["subscription"], force=call.flag("force"))


_CREATE: Final = _of_one(cursors.create_in_steps, lambda call: cursors.place_in(call.json()))
_SET_PROPERTIES: Final = _of_one(cursors.set_properties, lambda call: text_map(call.json(), "properties"))
_SKIP: Final = _of_one(cursors.skip, lambda call: whole_number_in_path(call.parts["count"]))
_EXPIRE_BY_TIME: Final = _of_one(cursors.expire_by_time_in_steps, _age_s)


def _expire_all(core: Core, call: Call, answer: cursors.Answer) -> object:
    return cursors.expire_all_by_time(core, call.topic, _age_s(call), answer)


ROUTES: Final[Routes] = (
    *routes(TOPIC_PATH, ("GET /subscriptions", access.topic("GET_SUBSCRIPTIONS"), reads(_names))),
    *routes(
        f"{TOPIC_PATH}/subscription/{{subscription}}",
        ("PUT", access.topic("SUBSCRIBE"), _later(_CREATE)),
        ("DELETE", access.topic("UNSUBSCRIBE"), changes(_delete)),
        ("GET /properties", access.topic("CONSUME"), reads(_of_one(cursors.properties_of))),
        ("PUT /properties", access.topic("SUBSCRIBE"), changes(_SET_PROPERTIES)),
        ("POST /skip_all", access.topic("SKIP"), changes(_of_one(cursors.clear_backlog_in_steps))),
        ("POST /skip/{count}", access.topic("SKIP"), changes(_SKIP)),
        ("POST /resetcursor", access.topic("RESET_CURSOR"), _later(_of_one(cursors.reset_to_place, wanted_place))),
        ("POST /resetcursor/{time}", access.topic("RESET_CURSOR"), _later(_reset_to_time)),
        ("POST /expireMessages", access.topic("EXPIRE_MESSAGES"), changes(_expire)),
        ("POST /expireMessages/{seconds}", access.topic("EXPIRE_MESSAGES"), _later(_EXPIRE_BY_TIME)),
    ),
    *routes(
        f"{TOPIC_PATH}/all_subscription",
        ("POST /expireMessages/{seconds}", access.topic("EXPIRE_MESSAGES"), _later(_expire_all)),
    ),
)
