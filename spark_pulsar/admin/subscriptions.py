"""Paths of subscriptions and their cursors (admin-rest.md 1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.responses import Response

from . import cursors
from .answers import Refused, text_map
from .calls import TOPIC_PATH, changes, reads, whole_number_in_path
from .gate import ask_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Handler, Routes


def subscription_in(call: Call) -> str:
    """Returns the subscription that the path names. Go's library escapes twice: the name that exists counts (T-10)."""
    name = call.parts["subscription"]
    while "%" in name and name != unquote(name) and not cursors.is_known(call.core, call.topic, name):
        name = unquote(name)
    return name


def wanted_place(call: Call) -> cursors.Place:
    """Reads the place that the body must name."""
    place = cursors.place_in(call.json())
    if place is None:
        raise Refused(400, "The request body names no message id")
    return place


def _age_s(call: Call) -> int:
    """Reads the age from which on entries expire; 405 for a topic that stores nothing."""
    cursors.check_stored(call.topic, "Expire messages")
    return whole_number_in_path(call.parts["seconds"])


def _expire(core: Core, call: Call) -> None:
    cursors.check_stored(call.topic, "Expire messages")
    cursors.expire_to_place(core, call.topic, subscription_in(call), wanted_place(call))


def _later(begin: Callable[[Core, Call, cursors.Answer], None]) -> Handler:
    """Makes the handler of a change that may have to read entries first; 204 when it is done."""

    async def handler(call: Call) -> Response:
        def run(core: Core, answer: cursors.Answer) -> None:
            begin(core, call, answer)

        await ask_later(call.gate, run)
        return Response(status_code=204)

    return handler


def _create(core: Core, call: Call, answer: cursors.Answer) -> None:
    cursors.create(core, call.topic, subscription_in(call), cursors.place_in(call.json()), answer)


def _reset_to_time(core: Core, call: Call, answer: cursors.Answer) -> None:
    time_ms = whole_number_in_path(call.parts["time"])
    cursors.reset_to_time(core, call.topic, subscription_in(call), time_ms, answer)


def _reset(core: Core, call: Call, answer: cursors.Answer) -> None:
    cursors.reset_to_place(core, call.topic, subscription_in(call), wanted_place(call), answer)


def _expire_by_time(core: Core, call: Call, answer: cursors.Answer) -> None:
    cursors.expire_by_time(core, call.topic, subscription_in(call), _age_s(call), answer)


def _delete(core: Core, call: Call) -> None:
    cursors.delete(core, call.topic, subscription_in(call), force=call.flag("force"))


def _get_properties(core: Core, call: Call) -> object:
    return cursors.properties_of(core, call.topic, subscription_in(call))


def _set_properties(core: Core, call: Call) -> None:
    cursors.set_properties(core, call.topic, subscription_in(call), text_map(call.json(), "properties"))


def _clear(core: Core, call: Call) -> None:
    cursors.clear_backlog(core, call.topic, subscription_in(call))


def _skip(core: Core, call: Call) -> None:
    cursors.skip(core, call.topic, subscription_in(call), whole_number_in_path(call.parts["count"]))


_SUBSCRIPTION: Final = f"{TOPIC_PATH}/subscription/{{subscription}}"

ROUTES: Final[Routes] = (
    (f"{TOPIC_PATH}/subscriptions", {"GET": reads(lambda core, call: cursors.names_of(core, call.topic))}),
    (_SUBSCRIPTION, {"PUT": _later(_create), "DELETE": changes(_delete)}),
    (f"{_SUBSCRIPTION}/properties", {"GET": reads(_get_properties), "PUT": changes(_set_properties)}),
    (f"{_SUBSCRIPTION}/skip_all", {"POST": changes(_clear)}),
    (f"{_SUBSCRIPTION}/skip/{{count}}", {"POST": changes(_skip)}),
    (f"{_SUBSCRIPTION}/resetcursor", {"POST": _later(_reset)}),
    (f"{_SUBSCRIPTION}/resetcursor/{{time}}", {"POST": _later(_reset_to_time)}),
    (f"{_SUBSCRIPTION}/expireMessages", {"POST": changes(_expire)}),
    (f"{_SUBSCRIPTION}/expireMessages/{{seconds}}", {"POST": _later(_expire_by_time)}),
    (
        f"{TOPIC_PATH}/all_subscription/expireMessages/{{seconds}}",
        {"POST": _later(lambda core, call, answer: cursors.expire_all_by_time(core, call.topic, _age_s(call), answer))},
    ),
)
