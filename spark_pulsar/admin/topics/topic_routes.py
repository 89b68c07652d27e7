"""Paths of topics, partitions, their statistics, and changes of topics as a whole (ADM-68)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import json_answer, text_map, whole_number
from spark_pulsar.admin.http.calls import TOPIC_PATH, changes, reads, routes, shows_change
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.http.slices import read_in_slices, run_in_slices
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import backlog_bytes, retention, termination
from spark_pulsar.broker.topics import lifecycle

from . import internal_stats, partitioned_stats, topic_lifecycle, topic_stats
from .messages import id_json
from .non_persistent_refusals import check_persistent, check_stored

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Change, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName


def _list(core: Core, call: Call) -> object:
    parts, with_system = call.parts, call.flag("includeSystemTopic")
    return topic_lifecycle.list_topics(
        core, parts["domain"], parts["tenant"], parts["namespace"], with_system=with_system
    )


def _list_partitioned(core: Core, call: Call) -> object:
    return topic_lifecycle.list_partitioned(core, call.parts["domain"], call.parts["tenant"], call.parts["namespace"])


def _partitions_in(call: Call) -> tuple[int, dict[str, str]]:
    """Reads `4`, `"4"`, or `{"partitions": 4, "properties": {...}}`."""
    body = call.json()
    if isinstance(body, dict):
        return whole_number(body.get("partitions"), "partitions"), text_map(body.get("properties"), "properties")
    return whole_number(body, "partitions"), {}


def _get_partitions(core: Core, call: Call) -> object:
    return topic_lifecycle.partition_metadata(core, call.topic, may_be_created=call.flag("checkAllowAutoCreation"))


async def _wanted(call: Call, topics: Iterable[Topic]) -> topic_stats.Wanted:
    earliest: dict[tuple[str, str], int] | None = None
    if call.flag("getEarliestTimeInBacklog"):
        earliest = {}
        for topic in topics:

            def begin(core: Core, done: Callable[[dict[str, int] | PulsarError], None], topic: Topic = topic) -> None:
                backlog_bytes.with_earliest(core, topic, done)

            times = await run_in_slices(call.gate, begin)
            earliest |= {(topic.full_name, name): published_ms for name, published_ms in times.items()}
    return topic_stats.Wanted(
        publishers=not call.flag("excludePublishers"),
        consumers=not call.flag("excludeConsumers"),
        owner_broker=call.broker_id,
        subscription_backlog_bytes=call.query.get("subscriptionBacklogSize", "true").lower() != "false",
        earliest=earliest,
    )


async def _find_oldest(call: Call, topics: Iterable[Topic]) -> None:
    """Reads the oldest entry of each backlog, so that its age is known."""
    for topic in topics:

        def begin(core: Core, done: Callable[[object], None], topic: Topic = topic) -> None:
            backlog_bytes.with_oldest(core, topic, lambda _: done(None))

        await run_in_slices(call.gate, begin)


async def _stats(call: Call) -> Response:
    topic = topic_lifecycle.existing(call.core, call.topic)
    await _find_oldest(call, [topic])
    steps = topic_stats.topic_stats_in_steps(call.core, topic, await _wanted(call, [topic]))
    return await json_answer(await read_in_slices(steps))


async def _partitioned_stats(call: Call) -> Response:
    core, name = call.core, call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        topic_lifecycle.check_namespace(core, name)
        raise Refused(404, f"Partitioned Topic {name} not found")
    topics = await read_in_slices(topic_lifecycle.partitions_in_steps(core, name))
    await _find_oldest(call, topics)
    per_partition = call.query.get("perPartition", "true").lower() != "false"
    wanted = await _wanted(call, topics)
    steps = partitioned_stats.partitioned_stats(core, known.partitions, topics, wanted, per_partition=per_partition)
    return await json_answer(await read_in_slices(steps))


def _internal_stats(core: Core, call: Call) -> Steps[object]:
    return internal_stats.internal_stats(topic_lifecycle.existing(core, call.topic), metadata=call.flag("metadata"))


def _partitioned_internal_stats(core: Core, call: Call) -> Steps[object]:
    name = call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise Refused(404, f"Partitioned Topic {name} not found")
    topics = yield from topic_lifecycle.partitions_in_steps(core, name)
    stats: dict[str, Any] = {}
    for topic in topics:
        if core.topics.get(topic.full_name) is not topic:
            continue  # deleted meanwhile
        stats[topic.full_name] = yield from internal_stats.internal_stats(topic, metadata=call.flag("metadata"))
    return {"metadata": {"partitions": known.partitions, "deleted": False}, "partitions": stats}


def _delete_property(core: Core, call: Call) -> None:
    name, key = call.topic, call.query.get("key")
    if key is None:
        raise Refused(412, "Which property? Name it as ?key=NAME")
    topic_lifecycle.change_properties(core, name, {}, removed=key)


# ---- changes of a topic ------------------------------------------------------------------------------------------


def _terminate(core: Core, call: Call) -> dict[str, Any]:
    """Terminates a topic; 200 with the id of its last message, a second time too."""
    name = call.topic
    _check_terminable(name)
    if registry.partition_count(core, name) is not None:
        raise Refused(405, "Termination of a partitioned topic is not allowed")
    return _end(core, topic_lifecycle.existing(core, name))


def _terminate_partitions(core: Core, call: Call) -> Steps[dict[str, Any]]:
    """Terminates all partitions; 200 with the id of the last message of each, by its number."""
    name = call.topic
    _check_terminable(name)
    topic_lifecycle.check_namespace(core, name)
    if registry.partition_count(core, name) is None:
        raise Refused(
            405,
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use "
            "terminate commands",
        )
    ended: dict[str, Any] = {}
    for topic in (yield from topic_lifecycle.partitions_in_steps(core, name)):
        if core.topics.get(topic.full_name) is topic:
            ended[str(topic.partition)] = _end(core, topic)
        yield
    return ended


def _of_each(action: Callable[[Core, Topic], object], check: Callable[[TopicName], None] | None = None) -> Change:
    """Returns the change of a topic, or of all partitions of a partitioned one, whose name passes the check."""

    def change(core: Core, call: Call) -> Steps[None]:
        name = call.topic
        if check is not None:
            check(name)
        for topic in (yield from topic_lifecycle.partitions_in_steps(core, name)):
            if core.topics.get(topic.full_name) is topic:
                action(core, topic)
            yield

    return change


def _check_truncatable(name: TopicName) -> None:
    check_persistent(name, 412, "unsupport truncate")


def _check_compactable(name: TopicName) -> None:
    check_stored(name, "Compaction")


def _trim(core: Core, topic: Topic) -> None:
    if topic.non_persistent is None:
        retention.trim(core, topic)


def _compaction_status(core: Core, call: Call) -> object:
    """Answers the outcome of the last compaction since the start of the broker."""
    _check_compactable(call.topic)
    status, error = compaction.status(core, topic_lifecycle.existing(core, call.topic))
    return {"status": status, "lastError": error}


def _create_missed(core: Core, call: Call) -> Steps[None]:
    """Creates the partitions of a partitioned topic that are missing."""
    name = call.topic
    topic_lifecycle.check_namespace(core, name)
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise Refused(404, f"Topic {name} does not exist")
    yield from lifecycle.create_partitioned_in_steps(core, name, known.partitions, known.properties)


def _end(core: Core, topic: Topic) -> dict[str, Any]:
    return id_json(termination.terminate(core, topic), topic.partition)


def _check_terminable(name: TopicName) -> None:
    check_persistent(name, 406, "Need to provide a persistent topic name")


_DOMAIN: Final = "admin/v2/{domain}/{tenant}/{namespace}"


def _create(core: Core, call: Call) -> None:
    topic_lifecycle.create(core, call.topic, text_map(call.json(), "properties"))


def _delete(core: Core, call: Call) -> None:
    topic_lifecycle.delete(core, call.topic, force=call.flag("force"))


def _create_partitioned(core: Core, call: Call) -> object:
    return topic_lifecycle.create_partitioned_in_steps(core, call.topic, *_partitions_in(call))


def _grow(core: Core, call: Call) -> object:
    return topic_lifecycle.grow_in_steps(core, call.topic, _partitions_in(call)[0])


def _delete_partitioned(core: Core, call: Call) -> object:
    return topic_lifecycle.delete_partitioned_in_steps(core, call.topic, force=call.flag("force"))


def _properties(core: Core, call: Call) -> object:
    return topic_lifecycle.properties(core, call.topic)


def _change_properties(core: Core, call: Call) -> None:
    topic_lifecycle.change_properties(core, call.topic, text_map(call.json(), "properties"))


_LOOKUP: Final = access.topic("LOOKUP")
_truncate: Final = _of_each(cursor_moves.truncate, _check_truncatable)
ROUTES: Final[Routes] = (
    *routes(
        _DOMAIN,
        ("GET", access.namespace("GET_TOPICS"), reads(_list)),
        ("GET /partitioned", access.namespace("GET_TOPICS"), reads(_list_partitioned)),
    ),
    *routes(
        TOPIC_PATH,
        ("PUT", access.namespace("CREATE_TOPIC"), changes(_create)),
        ("DELETE", access.namespace("DELETE_TOPIC"), changes(_delete)),
        ("GET /partitions", _LOOKUP, shows_change(_get_partitions)),
        ("PUT /partitions", access.topic_policy("PARTITION", "WRITE"), changes(_create_partitioned)),
        ("POST /partitions", access.topic_policy("PARTITION", "WRITE"), changes(_grow)),
        ("DELETE /partitions", access.namespace("DELETE_TOPIC"), changes(_delete_partitioned)),
        ("GET /stats", access.topic("GET_STATS"), _stats),
        ("GET /partitioned-stats", access.topic("GET_STATS"), _partitioned_stats),
        ("GET /internalStats", access.topic("GET_STATS"), reads(_internal_stats)),
        ("GET /partitioned-internalStats", access.topic("GET_STATS"), reads(_partitioned_internal_stats)),
        ("GET /properties", access.topic("GET_METADATA"), reads(_properties)),
        ("PUT /properties", access.topic("UPDATE_METADATA"), changes(_change_properties)),
        ("DELETE /properties", access.topic("DELETE_METADATA"), changes(_delete_property)),
        ("PUT /unload", access.topic("UNLOAD"), changes(_of_each(lifecycle.unload))),
        ("POST /terminate", access.topic("TERMINATE"), shows_change(_terminate)),
        ("POST /terminate/partitions", access.topic("TERMINATE"), shows_change(_terminate_partitions)),
        ("DELETE /truncate", access.both(_LOOKUP, access.administrator), changes(_truncate)),
        ("POST /trim", access.topic("TRIM_TOPIC"), changes(_of_each(_trim), 200)),
        (
            "POST /createMissedPartitions",
            access.both(_LOOKUP, access.namespace("CREATE_TOPIC")),
            changes(_create_missed),
        ),
        ("PUT /compaction", access.topic("COMPACT"), changes(_of_each(compaction.request, _check_compactable))),
        ("GET /compaction", access.topic("COMPACT"), reads(_compaction_status)),
    ),
)
