"""The admin API as an ASGI application: paths to functions, on the undecoded path (T-8), once a request is known to
have good credentials (SEC-2: `server.security.http`).

Every refused call answers `{"reason": text}` (T-1): 404 for an unknown path, 405 with `Allow` for a method that the
path does not take, 501 for a feature of Apache Pulsar that this broker has not yet.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from spark_pulsar.broker.connections.handshake import SERVER_VERSION
from spark_pulsar.broker.turn.effects import WriteAudit
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.principals import UNAUTHENTICATED, Principal

from . import not_built, schemas
from .brokers import broker_stats, clusters, configuration, disk, isolation, load_report, lookups, owned_namespaces
from .http import access, media_types
from .http.answers import MAX_BODY_BYTES
from .http.calls import ADMIN_PATH, Call, routes
from .http.origins import READING, AllowedHosts
from .http.path_names import OLD_PATHS, parts_of, segments_of
from .http.refusals import Refused, Unauthenticated, refusal
from .metrics import monitoring_metrics
from .namespaces import bundles, namespace_lifecycle, permissions, tenants, topic_grants
from .page import files as page_files
from .page.diagnosis import with_diagnosis
from .policies import applied_policies, offloading, policy_routes, resource_groups, resource_quotas
from .subscriptions import backlogs, managed_info, replication, subscription_routes
from .subscriptions.cursors import subscription_in
from .topics import messages, topic_routes
from .transactions import coordinators, transaction_states

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .http.calls import Route, Routes
    from .http.gate import CurrentGate, Gate

DOMAINS: Final = frozenset({"persistent", "non-persistent"})


async def _ready(_call: Call) -> Response:
    return PlainTextResponse("ok")


async def _health(call: Call) -> Response:
    version = call.query.get("topicVersion")
    if version not in (None, "V1", "V2"):  # the form of the name of a topic that Apache Pulsar checks
        raise Refused(404, f"topicVersion={version}: want V1 or V2")
    if call.core.disk_reason:
        raise Refused(503, f"The broker takes no messages: {call.core.disk_reason}")
    return PlainTextResponse("ok")


async def _version(_call: Call) -> Response:
    return PlainTextResponse(SERVER_VERSION.split()[2])


async def _metrics(call: Call) -> Response:
    # Loaded by the first scrape, beside the loop: prometheus-client is many files.
    metrics = await asyncio.to_thread(importlib.import_module, "spark_pulsar.admin.metrics.prometheus_text")
    answer: Response = metrics.Exposition(call.gate.core, await disk.space_of(call.gate))
    return answer


_BROKER_ROUTES: Final[Routes] = (
    *routes("", ("GET /metrics", access.anyone, _metrics)),
    *routes(
        ADMIN_PATH,
        ("GET /brokers/health", access.broker("HEALTH_CHECK"), _health),
        ("GET /brokers/ready", access.anyone, _ready),
        ("GET /brokers/version", access.anyone, _version),
    ),
)
_OF_TODAY: Final[Routes] = (
    *_BROKER_ROUTES,
    *clusters.ROUTES,
    *tenants.ROUTES,
    *namespace_lifecycle.ROUTES,
    *permissions.ROUTES,
    *topic_grants.ROUTES,
    *policy_routes.ROUTES,
    *isolation.ROUTES,
    *applied_policies.ROUTES,
    *offloading.ROUTES,
    *lookups.ROUTES,
    *topic_routes.ROUTES,
    *subscription_routes.ROUTES,
    *replication.ROUTES,
    *messages.ROUTES,
    *backlogs.ROUTES,
    *managed_info.ROUTES,
    *schemas.ROUTES,
    *broker_stats.ROUTES,
    *disk.ROUTES,
    *load_report.ROUTES,
    *monitoring_metrics.ROUTES,
    *configuration.ROUTES,
    *resource_groups.ROUTES,
    *resource_quotas.ROUTES,
    *owned_namespaces.ROUTES,
    *coordinators.ROUTES,
    *transaction_states.ROUTES,
    *page_files.ROUTES,
    *bundles.ROUTES,  # behind the others: a name of theirs is no bundle
)


def _by_path() -> dict[str, dict[str, Route]]:
    by_path: dict[str, dict[str, Route]] = {}
    for route in _OF_TODAY:
        by_path.setdefault(route.path, {})[route.method] = route
    return {**by_path, **{old: {"GET": by_path[new]["GET"]} for old, new in OLD_PATHS.items()}}


ROUTES: Final = tuple(_by_path().items())
"""Paths with their routes by method; the first path that fits serves."""
_COMPILED: Final = tuple((tuple(path.split("/")), methods, path) for path, methods in ROUTES)


_REFUSALS: Final = (401, 403)

Audit = Callable[[WriteAudit], None]
Authenticator = Callable[[Request, Sequence[str]], Awaitable[Principal]]
"""Finds the principal of a request to this path, or raises Unauthenticated (AU-6)."""


def build_app(
    current_gate: CurrentGate,
    allowed_hosts: AllowedHosts | None = None,
    authenticate: Authenticator | None = None,
    audit: Audit | None = None,
) -> ASGIApp:
    """Builds the application over the core of the moment; `audit` writes the audit log, if there is one (SEC-20)."""
    allowed = allowed_hosts or AllowedHosts()

    def log_audited(request: Request, segments: Sequence[str], principal: Principal, answer: Response) -> None:
        if audit is not None and _is_audited(request, segments, answer):
            audit(_audit_of(request, segments, principal, answer))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        raw_segments, segments = segments_of(_raw_path(request))
        principal = UNAUTHENTICATED
        is_stranger = False
        try:
            _check_framing(request)
            allowed.check(request.method, request.headers, changes=_changes_by_reading(request, segments))
            media_types.check(request.method, segments, request.headers)
            principal = UNAUTHENTICATED if authenticate is None else await authenticate(request, segments)
            answer = await _serve(current_gate(), request, segments, raw_segments, principal)
        except Unauthenticated as error:
            answer, is_stranger = refusal(error), True
        except PulsarError as error:
            answer = refusal(error)
        except ClientDisconnect:
            return  # in the middle of its request
        except Exception as error:
            answer = refusal(Refused(500, f"{type(error).__name__}: {error}"))
            log_audited(request, segments, principal, answer)
            await answer(scope, receive, send)
            raise
        if not is_stranger:
            log_audited(request, segments, principal, answer)
        await answer(scope, receive, send)

    def has_page() -> bool:
        gate = current_gate()
        return gate is not None and gate.core.config.web_page

    return with_diagnosis(app, has_page)


def _is_audited(request: Request, segments: Sequence[str], answer: Response) -> bool:
    """Returns whether a request is in the audit log: it may change something, or it was refused."""
    is_change = request.method not in READING or _changes_by_reading(request, segments)
    return is_change or answer.status_code in _REFUSALS


def _audit_of(request: Request, segments: Sequence[str], principal: Principal, answer: Response) -> WriteAudit:
    status, client = answer.status_code, request.client
    peer = f"/{client.host}:{client.port}" if client else ""
    reason = f"status {status}" if status >= 400 else ""
    path, is_allowed = "/" + "/".join(segments), status not in _REFUSALS
    return WriteAudit(peer, principal.role, principal.original, request.method, path, is_allowed, reason)


def _changes_by_reading(request: Request, segments: Sequence[str]) -> bool:
    """Returns whether a request of a method that reads may change something: create a topic, or delete by its quota."""
    return "checkAllowAutoCreation" in request.query_params or segments[-1] == "backlog-quota-check"


def _check_framing(request: Request) -> None:
    """Refuses a body with two lengths, which a proxy in front may read in another way."""
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        raise Refused(400, "A request has Content-Length or Transfer-Encoding, not both")


def _raw_path(request: Request) -> str:
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace")


async def _serve(
    gate: Gate | None, request: Request, segments: list[str], raw_segments: list[str], principal: Principal
) -> Response:
    method = "GET" if request.method == "HEAD" else request.method
    methods, path = find_route(segments, method)
    route = methods.get(method)
    if method == "OPTIONS":
        return _options(methods)
    if route is None:
        refused = refusal(Refused(405, f"{request.method} is not for this path"))
        refused.headers["Allow"] = ", ".join(sorted(methods))
        return refused
    if gate is None:
        raise Refused(503, "The broker is restarting its core")
    host = request.headers.get("host") or "localhost:8080"
    pattern = path.split("/")
    parts = parts_of(pattern, segments, raw_segments)
    if "subscription" in parts:
        parts["subscription"] = subscription_in(gate.core, pattern, parts)
    call = Call(
        gate,
        parts,
        request.query_params,
        b"",
        host=host,
        is_tls=request.scope.get("scheme") == "https",
        headers=request.headers,
        principal=principal,
    )
    if gate.core.config.authorization_enabled:
        route.rule(gate.core, call)
    schema_bytes = gate.core.config.max_schema_bytes if segments[2:3] == ["schemas"] else 0
    call.body = await _body(request, MAX_BODY_BYTES + 2 * schema_bytes)  # JSON in JSON: each quote is two characters
    if route.rule_of_body is not None and gate.core.config.authorization_enabled:
        route.rule_of_body(gate.core, call)
    return await route.handler(call)


def _options(methods: dict[str, Route]) -> Response:
    """Returns the methods of a path (T-12). No header lets a page of another origin read them, or use them."""
    allowed = [*(["HEAD"] if "GET" in methods else []), *methods, "OPTIONS"]
    return PlainTextResponse(", ".join(allowed), headers={"Allow": ",".join(allowed)})


async def _body(request: Request, limit_bytes: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit_bytes:
            raise Refused(413, f"The request body is larger than {limit_bytes} bytes")
    return bytes(body)


def find_route(segments: list[str], method: str) -> tuple[dict[str, Route], str]:
    """Returns the methods of a path, and its route (T-20). Of several routes that fit, one that serves the method
    wins."""
    fitting = [(methods, path) for pattern, methods, path in _COMPILED if _fits(pattern, segments)]
    for methods, path in fitting:
        if method in methods and not_built.reason_of(segments, is_served=True) is None:
            return methods, path
    reason = not_built.reason_of(segments, is_served=bool(fitting))
    if reason is not None:
        why = "" if reason == not_built.NO_REASON else f": {reason}"
        raise Refused(501, f"{method} /{'/'.join(segments)} is not built in this broker yet{why}")
    if fitting:
        return fitting[0]
    if segments[:2] == ["admin", "namespaces"] and len(segments) > 4:  # as pulsar-admin names three parts
        name = "/".join(segments[2:5])
        raise Refused(404, f"{name} is no namespace: want <tenant>/<namespace>, or the same command for topics")
    raise Refused(404, f"There is nothing at /{'/'.join(segments)}")


def _fits(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    if len(pattern) != len(segments):
        return False
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            if not segment or (wanted == "{domain}" and segment not in DOMAINS):
                return False
        elif wanted != segment:
            return False
    return True
