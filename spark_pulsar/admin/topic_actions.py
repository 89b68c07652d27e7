"""What is done to a topic over REST: terminate (admin-rest.md 1.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from spark_pulsar.broker import termination
from spark_pulsar.broker import topics as topic_rules

from . import topics
from .answers import Refused
from .messages import id_json

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.broker.core import Core
    from spark_pulsar.broker.topics import Topic
    from spark_pulsar.model.names import TopicName

    from .calls import Call, Routes


async def _terminate(call: Call) -> Response:
    """200 with the id of the last message, a second time too."""
    name = call.topic
    _check_persistent(name)

    def end(core: Core) -> dict[str, Any]:
        if topic_rules.partition_count(core, name) is not None:
            raise Refused(405, "Termination of a partitioned topic is not allowed")
        return _end(core, topics.existing(core, name))

    return JSONResponse(await call.gate.ask(end))


async def _terminate_partitions(call: Call) -> Response:
    """200 with the id of the last message of each partition, by its number."""
    name = call.topic
    _check_persistent(name)

    def end(core: Core) -> dict[str, Any]:
        topics.check_namespace(core, name)
        if topic_rules.partition_count(core, name) is None:
            raise Refused(
                405,
                "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use "
                "terminate commands",
            )
        return {str(topic.partition): _end(core, topic) for topic in topics.existing_partitions(core, name)}

    return JSONResponse(await call.gate.ask(end))


def _end(core: Core, topic: Topic) -> dict[str, Any]:
    return id_json(termination.terminate(core, topic), topic.partition)


def _check_persistent(name: TopicName) -> None:
    if not name.is_persistent:
        raise Refused(406, "Need to provide a persistent topic name")


_TOPIC: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"

ROUTES: Final[Routes] = (
    (f"{_TOPIC}/terminate", {"POST": _terminate}),
    (f"{_TOPIC}/terminate/partitions", {"POST": _terminate_partitions}),
)
