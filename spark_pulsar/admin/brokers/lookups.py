"""Lookup of topics over HTTP, for clients whose service URL is `http://…`, with the addresses of the listener that they
name (ADM-70, A4, SEC-47). Which brokers there are, and what they own, `owned_namespaces` answers (ADM-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import reads, routes
from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.namespaces.bundle_edges import bundle_of
from spark_pulsar.admin.namespaces.namespace_lifecycle import bundle_edges
from spark_pulsar.admin.topics.topic_lifecycle import check_namespace, is_known

if TYPE_CHECKING:
    from starlette.responses import Response

    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.broker.entities.core import Core

_LISTENER_HEADER: Final = "X-Pulsar-ListenerName"
_ALWAYS_READ: Final = frozenset({"brokerUrl", "brokerUrlTls"})


def _lookup(core: Core, call: Call) -> object:
    name = call.topic
    check_namespace(core, name)
    listener = call.query.get("listenerName") or call.headers.get(_LISTENER_HEADER)
    addresses = call.addresses_of(listener or "")
    if not is_known(core, name) and not core.policies_of(name).auto_topic_creation.allowed:
        raise Refused(404, f"Topic not found {name}")
    urls = {
        "brokerUrl": addresses.binary,
        "brokerUrlTls": addresses.binary_tls,
        "httpUrl": addresses.http,
        "httpUrlTls": addresses.http_tls,
        "nativeUrl": addresses.binary,
        "brokerUrlSsl": "",
    }
    # The C++ client reads both addresses of the binary protocol unchecked, whether there are both or not.
    return {name: url or "" for name, url in urls.items() if url is not None or name in _ALWAYS_READ}


async def _bundle(call: Call) -> Response:
    check_namespace(call.core, call.topic)
    return PlainTextResponse(bundle_of(bundle_edges(call.core, call.namespace), call.topic.full))


_TOPIC: Final = "lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"

ROUTES: Final[Routes] = routes(
    _TOPIC,
    ("GET", access.topic("LOOKUP"), reads(_lookup)),
    ("GET /bundle", access.namespace("GET_BUNDLE"), _bundle),
)
