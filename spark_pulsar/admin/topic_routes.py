"""Paths of topics, partitions, their statistics, and changes of topics as a whole (admin-rest.md 1.4, 1.5, 1.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.lifetime import compaction
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import backlog_size, retention, termination
from spark_pulsar.broker.topics import lifecycle

from . import cursors, internal_stats, partitioned_stats, topic_stats, topics
from .answers import Refused, text_map, whole_number
from .calls import value_or_empty
from .gate import ask_later
from .messages import id_json

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName

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
    """Reads `4`, `"4"`, or `{"partitions": 4, "properties": {...}}`."""
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


async def _wanted(call: Call, found: Iterable[Topic]) -> topic_stats.Wanted:
    earliest: dict[tuple[str, str], int] | None = None
    if call.flag("getEarliestTimeInBacklog"):
        earliest = {}
        for topic in found:

            def begin(core: Core, done: Callable[[dict[str, int] | PulsarError], None], topic: Topic = topic) -> None:
                backlog_size.with_earliest(core, topic, done)

            times = await ask_later(call.gate, begin)
            earliest |= {(topic.full_name, name): published_ms for name, published_ms in times.items()}
    return topic_stats.Wanted(
        publishers=not call.flag("excludePublishers"),
        consumers=not call.flag("excludeConsumers"),
        subscription_backlog_bytes=call.query.get("subscriptionBacklogSize", "true").lower() != "false",
        earliest=earliest,
    )


async def _find_oldest(call: Call, found: Iterable[Topic]) -> None:
    """Reads the oldest entry of each backlog, so that its age is known."""
    for topic in found:

        def begin(core: Core, done: Callable[[object], None], topic: Topic = topic) -> None:
            backlog_size.with_oldest(core, topic, lambda _: done(None))

        await ask_later(call.gate, begin)


async def _stats(call: Call) -> Response:
    topic = topics.existing(call.core, call.topic)
    await _find_oldest(call, [topic])
    return JSONResponse(topic_stats.topic_stats(call.core, topic, await _wanted(call, [topic])))


async def _partitioned_stats(call: Call) -> Response:
    core, name = call.core, call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        topics.check_namespace(core, name)
        raise Refused(404, f"Partitioned Topic {name} not found")
    found = topics.existing_partitions(core, name)
    await _find_oldest(call, found)
    each = call.query.get("perPartition", "true").lower() != "false"
    return JSONResponse(
        partitioned_stats.partitioned_stats(core, known.partitions, found, await _wanted(call, found), each=each)
    )


async def _internal_stats(call: Call) -> Response:
    return JSONResponse(internal_stats.internal_stats(topics.existing(call.core, call.topic)))


async def _partitioned_internal_stats(call: Call) -> Response:
    core, name = call.core, call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise Refused(404, f"Partitioned Topic {name} not found")
    found = topics.existing_partitions(core, name)
    stats = {topic.full_name: internal_stats.internal_stats(topic) for topic in found}
    return JSONResponse({"metadata": {"partitions": known.partitions, "deleted": False}, "partitions": stats})


async def _get_properties(call: Call) -> Response:
    return JSONResponse(topics.properties(call.core, call.topic))


async def _put_properties(call: Call) -> Response:
    name, added = call.topic, text_map(call.json(), "properties")
    return await call.change(lambda core: topics.change_properties(core, name, added, None))


async def _delete_property(call: Call) -> Response:
    name, key = call.topic, call.query.get("key")
    if key is None:
        raise Refused(412, "Which property? Name it as ?key=NAME")
    return await call.change(lambda core: topics.change_properties(core, name, {}, key))


# ---- changes of a topic ------------------------------------------------------------------------------------------


async def _terminate(call: Call) -> Response:
    """Terminates a topic; 200 with the id of its last message, a second time too."""
    name = call.topic
    _check_persistent(name)

    def end(core: Core) -> dict[str, Any]:
        if registry.partition_count(core, name) is not None:
            raise Refused(405, "Termination of a partitioned topic is not allowed")
        return _end(core, topics.existing(core, name))

    return JSONResponse(await call.gate.ask(end))


async def _terminate_partitions(call: Call) -> Response:
    """Terminates all partitions; 200 with the id of the last message of each, by its number."""
    name = call.topic
    _check_persistent(name)

    def end(core: Core) -> dict[str, Any]:
        topics.check_namespace(core, name)
        if registry.partition_count(core, name) is None:
            raise Refused(
                405,
                "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use "
                "terminate commands",
            )
        return {str(topic.partition): _end(core, topic) for topic in topics.existing_partitions(core, name)}

    return JSONResponse(await call.gate.ask(end))


async def _of_each(call: Call, action: Callable[[Core, Topic], object]) -> Response:
    """Changes a topic, or all partitions of a partitioned one; 204."""
    name = call.topic

    def change(core: Core) -> None:
        for topic in topics.existing_partitions(core, name):
            action(core, topic)

    return await call.change(change)


async def _unload(call: Call) -> Response:
    return await _of_each(call, lifecycle.unload)


async def _truncate(call: Call) -> Response:
    """Moves every subscription to the end, and gives back the space of all messages."""
    if not call.topic.is_persistent:
        raise Refused(412, "unsupport truncate")
    return await _of_each(call, cursor_moves.truncate)


async def _trim(call: Call) -> Response:
    """Gives back the space of the messages that retention does not keep; 200 with nothing."""

    def trim(core: Core, topic: Topic) -> None:
        if topic.non_persistent is None:
            retention.trim(core, topic)

    await _of_each(call, trim)
    return value_or_empty(None)


async def _compact(call: Call) -> Response:
    """Begins a compaction (admin-rest.md 1.8); 409 while one runs."""
    cursors.check_stored(call.topic, "Compaction")
    return await _of_each(call, compaction.request)


async def _compaction_status(call: Call) -> Response:
    """Answers the outcome of the last compaction since the start of the broker."""
    cursors.check_stored(call.topic, "Compaction")
    status, error = compaction.status(call.core, topics.existing(call.core, call.topic))
    return JSONResponse({"status": status, "lastError": error})


async def _create_missed(call: Call) -> Response:
    """Creates the partitions of a partitioned topic that are missing."""
    name = call.topic

    def create(core: Core) -> None:
        topics.check_namespace(core, name)
        known = core.state.partitioned.get(name.full)
        if known is not None:
            lifecycle.create_partitioned(core, name, known.partitions, known.properties)
        elif not registry.exists(core, name):
            raise Refused(404, f"Topic {name} does not exist")

    return await call.change(create)


def _end(core: Core, topic: Topic) -> dict[str, Any]:
    return id_json(termination.terminate(core, topic), topic.partition)


def _check_persistent(name: TopicName) -> None:
    if not name.is_persistent:
        raise Refused(406, "Need to provide a persistent topic name")


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
    (f"{_TOPIC}/internalStats", {"GET": _internal_stats}),
    (f"{_TOPIC}/partitioned-internalStats", {"GET": _partitioned_internal_stats}),
    (f"{_TOPIC}/unload", {"PUT": _unload}),
    (f"{_TOPIC}/properties", {"GET": _get_properties, "PUT": _put_properties, "DELETE": _delete_property}),
    (f"{_TOPIC}/terminate", {"POST": _terminate}),
    (f"{_TOPIC}/terminate/partitions", {"POST": _terminate_partitions}),
    (f"{_TOPIC}/truncate", {"DELETE": _truncate}),
    (f"{_TOPIC}/trim", {"POST": _trim}),
    (f"{_TOPIC}/createMissedPartitions", {"POST": _create_missed}),
    (f"{_TOPIC}/compaction", {"PUT": _compact, "GET": _compaction_status}),
)
