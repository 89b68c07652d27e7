"""The admin API as an ASGI application: paths to functions, on the undecoded path (T-8).

Every refused call answers `{"reason": text}`: 404 for a path nobody knows, 405 with `Allow` for a method it does not
take, 501 for what Apache Pulsar has there and this broker has not yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from spark_pulsar.broker.sessions import SERVER_VERSION
from spark_pulsar.model.errors import PulsarError

from . import topic_stats, topics
from .answers import MAX_BODY_BYTES, Refused, done, flag, parse_body, refusal, text_map, whole_number

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spark_pulsar.model.names import TopicName

    from .gate import CurrentGate, Gate

DOMAINS: Final = frozenset({"persistent", "non-persistent"})
_NOT_BUILT: Final = frozenset(
    {
        "clusters",
        "tenants",
        "namespaces",
        "brokers",
        "broker-stats",
        "schemas",
        "resource-quotas",
        "resourcegroups",
        "transactions",
        "bookies",
        "worker-stats",
        "functions",
        "sources",
        "sinks",
        "packages",
        "persistent",
        "non-persistent",
    }
)


class Call:
    """One request: its path's parts by name, its query, its body."""

    def __init__(self, gate: Gate, parts: Mapping[str, str], query: Mapping[str, str], body: bytes) -> None:
        self.gate = gate
        self.parts = parts
        self.query = query
        self.body = body

    @property
    def topic(self) -> TopicName:
        """The topic that the path names."""
        parts = self.parts
        return topics.topic_name(parts["domain"], parts["tenant"], parts["namespace"], parts["topic"])


Handler = Callable[[Call], Awaitable[Response]]


async def _health(_call: Call) -> Response:
    return PlainTextResponse("ok")


async def _version(_call: Call) -> Response:
    return PlainTextResponse(SERVER_VERSION.split()[2])


async def _metrics(call: Call) -> Response:
    from .metrics import metrics_text  # prometheus-client is loaded by the first scrape

    return Response(metrics_text(call.gate.core), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _list(call: Call) -> Response:
    parts = call.parts
    with_system = flag(call.query.get("includeSystemTopic"))
    return JSONResponse(
        topics.list_topics(
            call.gate.core, parts["domain"], parts["tenant"], parts["namespace"], with_system=with_system
        )
    )


async def _list_partitioned(call: Call) -> Response:
    parts = call.parts
    return JSONResponse(topics.list_partitioned(call.gate.core, parts["domain"], parts["tenant"], parts["namespace"]))


async def _create(call: Call) -> Response:
    name, properties = call.topic, text_map(parse_body(call.body), "properties")
    await call.gate.ask(lambda core: topics.create(core, name, properties))
    return done()


async def _delete(call: Call) -> Response:
    name, force = call.topic, flag(call.query.get("force"))
    await call.gate.ask(lambda core: topics.delete(core, name, force=force))
    return done()


def _partitions_in(call: Call) -> tuple[int, dict[str, str]]:
    """`4`, `"4"`, or `{"partitions": 4, "properties": {...}}`."""
    body = parse_body(call.body)
    if isinstance(body, dict):
        return whole_number(body.get("partitions"), "partitions"), text_map(body.get("properties"), "properties")
    return whole_number(body, "partitions"), {}


async def _create_partitions(call: Call) -> Response:
    name = call.topic
    count, properties = _partitions_in(call)
    await call.gate.ask(lambda core: topics.create_partitioned(core, name, count, properties))
    return done()


async def _grow_partitions(call: Call) -> Response:
    name, (count, _) = call.topic, _partitions_in(call)
    await call.gate.ask(lambda core: topics.grow(core, name, count))
    return done()


async def _get_partitions(call: Call) -> Response:
    may_be_created = flag(call.query.get("checkAllowAutoCreation"))
    return JSONResponse(topics.partition_metadata(call.gate.core, call.topic, may_be_created=may_be_created))


async def _delete_partitions(call: Call) -> Response:
    name, force = call.topic, flag(call.query.get("force"))
    await call.gate.ask(lambda core: topics.delete_partitioned(core, name, force=force))
    return done()


async def _stats(call: Call) -> Response:
    return JSONResponse(topic_stats.topic_stats(topics.existing(call.gate.core, call.topic)))


async def _partitioned_stats(call: Call) -> Response:
    core, name = call.gate.core, call.topic
    known = core.state.partitioned.get(name.full)
    if known is None:
        raise Refused(404, f"Partitioned Topic {name} not found")
    return JSONResponse(topic_stats.partitioned_stats(known.partitions, topics.existing_partitions(core, name)))


async def _subscriptions(call: Call) -> Response:
    found = topics.existing_partitions(call.gate.core, call.topic)
    names = dict.fromkeys(name for topic in found for name, each in topic.subscriptions.items() if each.is_durable)
    return JSONResponse(list(names))


async def _delete_subscription(call: Call) -> Response:
    name, subscription, force = call.topic, call.parts["subscription"], flag(call.query.get("force"))
    await call.gate.ask(lambda core: topics.delete_subscription(core, name, subscription, force=force))
    return done()


ROUTES: Final[tuple[tuple[str, dict[str, Handler]], ...]] = (
    ("metrics", {"GET": _metrics}),
    ("admin/v2/brokers/health", {"GET": _health}),
    ("admin/v2/brokers/ready", {"GET": _health}),
    ("admin/v2/brokers/version", {"GET": _version}),
    ("admin/v2/{domain}/{tenant}/{namespace}", {"GET": _list}),
    ("admin/v2/{domain}/{tenant}/{namespace}/partitioned", {"GET": _list_partitioned}),
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}", {"PUT": _create, "DELETE": _delete}),
    (
        "admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions",
        {
            "GET": _get_partitions,
            "PUT": _create_partitions,
            "POST": _grow_partitions,
            "DELETE": _delete_partitions,
        },
    ),
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/stats", {"GET": _stats}),
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitioned-stats", {"GET": _partitioned_stats}),
    ("admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscriptions", {"GET": _subscriptions}),
    (
        "admin/v2/{domain}/{tenant}/{namespace}/{topic}/subscription/{subscription}",
        {"DELETE": _delete_subscription},
    ),
)
"""Paths with their methods; the first that fits serves."""

_COMPILED: Final = tuple((tuple(path.split("/")), methods) for path, methods in ROUTES)


def build_app(current_gate: CurrentGate) -> ASGIApp:
    """The application over the core of the moment."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            answer = await _serve(current_gate(), request)
        except PulsarError as error:
            answer = refusal(error)
        except Exception as error:
            await refusal(Refused(500, f"{type(error).__name__}: {error}"))(scope, receive, send)
            raise
        await answer(scope, receive, send)

    return app


async def _serve(gate: Gate | None, request: Request) -> Response:
    raw = request.scope.get("raw_path") or request.url.path.encode()
    segments = [unquote(part) for part in raw.decode("ascii", "replace").partition("?")[0].strip("/").split("/")]
    methods, parts = find_route(segments, request.method)
    handler = methods.get(request.method)
    if handler is None and request.method == "HEAD":
        handler = methods.get("GET")
    if handler is None:
        refused = refusal(Refused(405, f"{request.method} is not for this path"))
        refused.headers["Allow"] = ", ".join(sorted(methods))
        return refused
    if gate is None:
        raise Refused(503, "The broker is restarting its core")
    return await handler(Call(gate, parts, request.query_params, await _body(request)))


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise Refused(413, f"The request body is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def find_route(segments: list[str], method: str) -> tuple[dict[str, Handler], dict[str, Any]]:
    """The methods of a path and its named parts. A path that several routes fit goes to one that takes the method."""
    fitting: list[tuple[dict[str, Handler], dict[str, Any]]] = []
    for pattern, methods in _COMPILED:
        parts = _match(pattern, segments)
        if parts is not None:
            fitting.append((methods, parts))
    for methods, parts in fitting:
        if method in methods:
            return methods, parts
    if fitting:
        return fitting[0]
    if len(segments) > 2 and segments[:2] == ["admin", "v2"] and segments[2] in _NOT_BUILT:
        raise Refused(501, f"{method} /{'/'.join(segments)} is not built in this broker yet")
    raise Refused(404, f"There is nothing at /{'/'.join(segments)}")


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    parts: dict[str, str] = {}
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            if not segment or (wanted == "{domain}" and segment not in DOMAINS):
                return None
            parts[wanted[1:-1]] = segment
        elif wanted != segment:
            return None
    return parts
