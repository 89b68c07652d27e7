"""Paths of subscriptions and their cursors (admin-rest.md 1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.responses import JSONResponse

from . import cursors
from .answers import Refused, done, text_map
from .calls import whole_number_in_path
from .gate import ask_later

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core

    from .calls import Call, Routes


def subscription_in(call: Call) -> str:
    """Returns the subscription that the path names. Go's library escapes twice: the name that exists counts (T-10)."""
    name = call.parts["subscription"]
    while "%" in name and name != unquote(name) and not cursors.is_known(call.core, call.topic, name):
        name = unquote(name)
    return name


async def _later(call: Call, begin: Callable[[Core, cursors.Answer], None]) -> Response:
    await ask_later(call.gate, begin)
    return done()


def _place(call: Call) -> cursors.Place:
    place = cursors.place_in(call.json())
    if place is None:
        raise Refused(400, "The request body names no message id")
    return place


async def _list(call: Call) -> Response:
    return JSONResponse(cursors.names_of(call.core, call.topic))


async def _create(call: Call) -> Response:
    topic, place = call.topic, cursors.place_in(call.json())
    return await _later(call, lambda core, answer: cursors.create(core, topic, subscription_in(call), place, answer))


async def _delete(call: Call) -> Response:
    topic, force = call.topic, call.flag("force")
    return await call.change(lambda core: cursors.delete(core, topic, subscription_in(call), force=force))


async def _get_properties(call: Call) -> Response:
    return JSONResponse(cursors.properties_of(call.core, call.topic, subscription_in(call)))


async def _set_properties(call: Call) -> Response:
    topic, properties = call.topic, text_map(call.json(), "properties")
    return await call.change(lambda core: cursors.set_properties(core, topic, subscription_in(call), properties))


async def _clear(call: Call) -> Response:
    topic = call.topic
    return await call.change(lambda core: cursors.clear_backlog(core, topic, subscription_in(call)))


async def _skip(call: Call) -> Response:
    topic, entries = call.topic, whole_number_in_path(call.parts["count"])
    return await call.change(lambda core: cursors.skip(core, topic, subscription_in(call), entries))


async def _reset_to_time(call: Call) -> Response:
    topic, time_ms = call.topic, whole_number_in_path(call.parts["time"])
    return await _later(
        call, lambda core, answer: cursors.reset_to_time(core, topic, subscription_in(call), time_ms, answer)
    )


async def _reset(call: Call) -> Response:
    topic, place = call.topic, _place(call)
    return await _later(
        call, lambda core, answer: cursors.reset_to_place(core, topic, subscription_in(call), place, answer)
    )


def _check_expirable(call: Call) -> None:
    if not call.topic.is_persistent:
        raise Refused(405, "Expire messages on a non-persistent topic is not allowed")


async def _expire(call: Call) -> Response:
    _check_expirable(call)
    topic, place = call.topic, _place(call)
    return await call.change(lambda core: cursors.expire_to_place(core, topic, subscription_in(call), place))


async def _expire_by_time(call: Call) -> Response:
    _check_expirable(call)
    topic, age_s = call.topic, whole_number_in_path(call.parts["seconds"])
    return await _later(
        call, lambda core, answer: cursors.expire_by_time(core, topic, subscription_in(call), age_s, answer)
    )


async def _expire_all(call: Call) -> Response:
    _check_expirable(call)
    topic, age_s = call.topic, whole_number_in_path(call.parts["seconds"])
    return await _later(call, lambda core, answer: cursors.expire_all_by_time(core, topic, age_s, answer))


_TOPIC: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION: Final = f"{_TOPIC}/subscription/{{subscription}}"

ROUTES: Final[Routes] = (
    (f"{_TOPIC}/subscriptions", {"GET": _list}),
    (_SUBSCRIPTION, {"PUT": _create, "DELETE": _delete}),
    (f"{_SUBSCRIPTION}/properties", {"GET": _get_properties, "PUT": _set_properties}),
    (f"{_SUBSCRIPTION}/skip_all", {"POST": _clear}),
    (f"{_SUBSCRIPTION}/skip/{{count}}", {"POST": _skip}),
    (f"{_SUBSCRIPTION}/resetcursor", {"POST": _reset}),
    (f"{_SUBSCRIPTION}/resetcursor/{{time}}", {"POST": _reset_to_time}),
    (f"{_SUBSCRIPTION}/expireMessages", {"POST": _expire}),
    (f"{_SUBSCRIPTION}/expireMessages/{{seconds}}", {"POST": _expire_by_time}),
    (f"{_TOPIC}/all_subscription/expireMessages/{{seconds}}", {"POST": _expire_all}),
)
