"""What is done to a topic over REST: terminate, truncate, trim, missing partitions (admin-rest.md 1.4, 1.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import retention, termination
from spark_pulsar.broker.topics import lifecycle as topic_rules

from . import topics
from .answers import Refused
from .calls import value_or_empty
from .messages import id_json

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.model.names import TopicName

    from .calls import Call, Routes


async def _terminate(call: Call) -> Response:
    """200 with the id of the last message, a second time too."""
    name = call.topic
    _check_persistent(name)

    def end(core: Core) -> dict[str, Any]:
        if registry.partition_count(core, name) is not None:
            raise Refused(405, "Termination of a partitioned topic is not allowed")
        return _end(core, topics.existing(core, name))

    return JSONResponse(await call.gate.ask(end))


async def _terminate_partitions(call: Call) -> Response:
    """200 with the id of the last message of each partition, by its number."""
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


async def _truncate(call: Call) -> Response:
    """204: every subscription stands at the end, and all that storage can give back is gone; of a partitioned topic
    for all its partitions."""
    name = call.topic
    if not name.is_persistent:
        raise Refused(412, "unsupport truncate")

    def truncate(core: Core) -> None:
        for topic in topics.existing_partitions(core, name):
            cursor_moves.truncate(core, topic)

    return await call.change(truncate)


async def _trim(call: Call) -> Response:
    """200 with nothing: what retention lets go is gone."""
    name = call.topic

    def trim(core: Core) -> None:
        for topic in topics.existing_partitions(core, name):
            if topic.non_persistent is None:
                retention.trim(core, topic)

    await call.gate.ask(trim)
    return value_or_empty(None)


async def _create_missed(call: Call) -> Response:
    """204: all partitions of a partitioned topic exist."""
    name = call.topic

    def create(core: Core) -> None:
        topics.check_namespace(core, name)
        known = core.state.partitioned.get(name.full)
        if known is not None:
            topic_rules.create_partitioned(core, name, known.partitions, known.properties)
        elif not registry.exists(core, name):
            raise Refused(404, f"Topic {name} does not exist")

    return await call.change(create)


def _end(core: Core, topic: Topic) -> dict[str, Any]:
    return id_json(termination.terminate(core, topic), topic.partition)


def _check_persistent(name: TopicName) -> None:
    if not name.is_persistent:
        raise Refused(406, "Need to provide a persistent topic name")


_TOPIC: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"

ROUTES: Final[Routes] = (
    (f"{_TOPIC}/terminate", {"POST": _terminate}),
    (f"{_TOPIC}/terminate/partitions", {"POST": _terminate_partitions}),
    (f"{_TOPIC}/truncate", {"DELETE": _truncate}),
    (f"{_TOPIC}/trim", {"POST": _trim}),
    (f"{_TOPIC}/createMissedPartitions", {"POST": _create_missed}),
)
