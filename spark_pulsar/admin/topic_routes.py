"""Paths of topics, partitions, their statistics and their list of subscriptions (admin-rest.md 1.4, 1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from . import topic_stats, topics
from .answers import Refused, text_map, whole_number

if TYPE_CHECKING:
    from starlette.responses import Response

    from .calls import Call, Routes


async def _list(call: Call) -> Response:
    parts = call.parts
    found = topics.list_topics(
        call.core, parts["domain"], parts["tenant"], parts["namespace"], with_system=call.flag("includeSystemTopic")
    )
    return JSONResponse(found)


async def _list_partitioned(call: Call) -> Response:
    parts = call.parts
    return JSONResponse(topics.list_partitioned(call.core, parts["domain"], parts["tenant"], parts["namespace"]))


async def _create(call: Call) -> Response:
    name, properties = call.topic, text_map(call.json(), "properties")
    return await call.change(lambda core: topics.create(core, name, properties))


async def _delete(call: Call) -> Response:
    name, force = call.topic, call.flag("force")
    return await call.change(lambda core: topics.delete(core, name, force=force))


def _partitions_in(call: Call) -> tuple[int, dict[str, str]]:
    """`4`, `"4"`, or `{"partitions": 4, "properties": {...}}`."""
    body = call.json()
    if isinstance(body, dict):
        return whole_number(body.get("partitions"), "partitions"), text_map(body.get("properties"), "properties")
    return whole_number(body, "partitions"), {}


async def _create_partitions(call: Call) -> Response:
    name = call.topic
    count, properties = _partitions_in(call)
    return await call.change(lambda core: topics.create_partitioned(core, name, count, properties))


async def _grow_partitions(call: Call) -> Response:
    name, (count, _) = call.topic, _partitions_in(call)
    return await call.change(lambda core: topics.grow(core, name, count))


async def _get_partitions(call: Call) -> Response:
    may_be_created = call.flag("checkAllowAutoCreation")
    return JSONResponse(topics.partition_metadata(call.core, call.topic, may_be_created=may_be_created))


async def _delete_partitions(call: Call) -> Response:
    name, force = call.topic, call.flag("force")
    return await call.change(lambda core: topics.delete_partitioned(core, name, force=force))


async def _stats(call: Call) -> Response:
    return JSONResponse(topic_stats.topic_stats(topics.existing(call.core, call.topic)))


async def _partitioned_stats(call: Call) -> Response:
    core, name = call.core, call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise Refused(404, f"Partitioned Topic {name} not found")
    return JSONResponse(topic_stats.partitioned_stats(known.partitions, topics.existing_partitions(core, name)))


async def _subscriptions(call: Call) -> Response:
    found = topics.existing_partitions(call.core, call.topic)
    names = dict.fromkeys(name for topic in found for name, each in topic.subscriptions.items() if each.is_durable)
    return JSONResponse(list(names))


async def _delete_subscription(call: Call) -> Response:
    name, subscription, force = call.topic, call.parts["subscription"], call.flag("force")
    return await call.change(lambda core: topics.delete_subscription(core, name, subscription, force=force))


_NAMESPACE: Final = "admin/v2/{domain}/{tenant}/{namespace}"
_TOPIC: Final = f"{_NAMESPACE}/{{topic}}"

ROUTES: Final[Routes] = (
    (_NAMESPACE, {"GET": _list}),
    (f"{_NAMESPACE}/partitioned", {"GET": _list_partitioned}),
    (_TOPIC, {"PUT": _create, "DELETE": _delete}),
    (
        f"{_TOPIC}/partitions",
        {
            "GET": _get_partitions,
            "PUT": _create_partitions,
            "POST": _grow_partitions,
            "DELETE": _delete_partitions,
        },
    ),
    (f"{_TOPIC}/stats", {"GET": _stats}),
    (f"{_TOPIC}/partitioned-stats", {"GET": _partitioned_stats}),
    (f"{_TOPIC}/subscriptions", {"GET": _subscriptions}),
    (f"{_TOPIC}/subscription/{{subscription}}", {"DELETE": _delete_subscription}),
)
