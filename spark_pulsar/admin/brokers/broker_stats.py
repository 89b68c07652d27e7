"""Statistics of all topics of the broker in one answer (ADM-72), by namespace, bundle and domain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.answers import Piecewise, json_pieces
from spark_pulsar.admin.http.calls import ADMIN_PATH, routes
from spark_pulsar.admin.namespaces.bundle_edges import bundle_of
from spark_pulsar.admin.namespaces.namespace_lifecycle import bundle_edges
from spark_pulsar.admin.topics.topic_stats import topic_stats_in_steps
from spark_pulsar.model.errors import PulsarError

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic

_BLOCK_CHARACTERS: Final = 1 << 13
_PIECES_A_BLOCK: Final = 64
_NAMES_A_TURN: Final = 512
_OF_A_TOPIC: Final = {
    "producerCount": "producerCount",
    "averageMsgSize": "averageMsgSize",
    "msgRateIn": "msgRateIn",
    "msgRateOut": "msgRateOut",
    "msgInCount": "msgInCounter",
    "bytesInCount": "bytesInCounter",
    "msgOutCount": "msgOutCounter",
    "bytesOutCount": "bytesOutCounter",
    "msgThroughputIn": "msgThroughputIn",
    "msgThroughputOut": "msgThroughputOut",
    "storageSize": "storageSize",
    "backlogSize": "backlogSize",
}
_OF_A_SUBSCRIPTION: Final = {
    "consumers": "consumers",
    "msgBacklog": "msgBacklog",
    "msgRateExpired": "msgRateExpired",
    "msgRateOut": "msgRateOut",
    "messageAckRate": "messageAckRate",
    "msgThroughputOut": "msgThroughputOut",
    "msgRateRedeliver": "msgRateRedeliver",
    "totalNonContiguousDeletedMessagesRange": "nonContiguousDeletedMessagesRanges",
    "type": "type",
    "unackedMessages": "unackedMessages",
}
"""Members of the statistics of a whole broker, and their names in those of a topic."""


async def _topics(call: Call) -> Response:
    return Piecewise(blocks(call.core), "application/json")


def blocks(core: Core) -> Iterator[bytes]:
    """Makes the answer in blocks. Topics that are created or deleted meanwhile are not in it."""
    names: dict[str, dict[str, dict[str, list[str]]]] = {}
    edges: dict[str, list[str]] = {}
    for count, topic in enumerate(list(core.topics.values())):
        namespace = topic.name.namespace_name
        if namespace not in edges:
            edges[namespace] = _edges(core, namespace)
        if edges[namespace]:
            bundle = names.setdefault(namespace, {}).setdefault(bundle_of(edges[namespace], topic.full_name), {})
            bundle.setdefault(topic.name.domain, []).append(topic.full_name)
        if count % _NAMES_A_TURN == _NAMES_A_TURN - 1:
            yield b""
    block: list[str] = []
    size = 0
    for piece in _object(
        (namespace, _object((bundle, _domains(core, domains)) for bundle, domains in bundles.items()))
        for namespace, bundles in names.items()
    ):
        block.append(piece)
        size += len(piece)
        if size >= _BLOCK_CHARACTERS or len(block) >= _PIECES_A_BLOCK:
            yield "".join(block).encode()
            block.clear()
            size = 0
    yield "".join(block).encode()


def _edges(core: Core, namespace: str) -> list[str]:
    """Yields the bundles of a namespace; none when it was deleted meanwhile, with its topics."""
    try:
        return bundle_edges(core, namespace)
    except PulsarError:
        return []


def _domains(core: Core, domains: dict[str, list[str]]) -> Iterator[str]:
    return _object((domain, _object(_topic_members(core, names))) for domain, names in domains.items())


def _topic_members(core: Core, names: list[str]) -> Iterator[tuple[str, Iterable[str]]]:
    for name in names:
        topic = core.topics.get(name)
        if topic is not None:
            yield name, _pieces_of(core, topic)


def _object(members: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Writes the JSON of an object whose values are made piece by piece."""
    before = "{"
    for name, value in members:
        yield f"{before}{json.dumps(name)}:"
        yield from value
        before = ","
    yield "{}" if before == "{" else "}"


def _pieces_of(core: Core, topic: Topic) -> Iterator[str]:
    """Writes the statistics of a topic; an empty piece is a step that wrote nothing."""
    steps = topic_stats_in_steps(core, topic)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            yield from json_pieces(_shortened(end.value), ensure_ascii=True)
            return
        yield ""


def _shortened(stats: dict[str, Any]) -> dict[str, Any]:
    stats["producerCount"] = len(stats["publishers"])
    subscriptions = {
        name: {here: subscription[there] for here, there in _OF_A_SUBSCRIPTION.items() if there in subscription}
        for name, subscription in stats["subscriptions"].items()
    }
    return {
        "publishers": stats["publishers"],
        "replication": {},
        "subscriptions": subscriptions,
        **{here: stats[there] for here, there in _OF_A_TOPIC.items()},
    }


ROUTES: Final[Routes] = routes(ADMIN_PATH, ("GET /broker-stats/topics", access.super_user, _topics))
