"""The admin API's HTTP server, in the loop of the broker."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from spark_pulsar.admin.app import build_app
from spark_pulsar.admin.http.origins import AllowedHosts
from spark_pulsar.admin.http.refusals import Refused, refusal

from .connections.admission import Pending
from .connections.connection_memory import UNCOUNTED_BYTES, ConnectionMemory
from .connections.tls_connection import Handshakes, client_certificate
from .security.provider import AUTHENTICATED, CLIENT_CERTIFICATE, ON_GONE
from .sockets import peer_text
from .websocket.endpoint import PREFIX, WebSockets

if TYPE_CHECKING:
    import socket
    import ssl

    from starlette.types import ASGIApp, Receive, Scope, Send

    from .engine import Engine
    from .security.http import HttpAuthenticator

PATIENCE_S: Final = 30.0
"""Time that a client may take for its next request, body included, and to read some of its answer; at most twice as
long. The time that the broker takes to answer does not count."""
_UPGRADED: Final = "spark_pulsar.server.websocket.websocket_transport"
"""Module of WebSockets on sockets, with a library that most brokers never need."""
_NO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 42\r\n\r\n"
    b'{"reason":"Invalid HTTP request received"}'
)
"""Answer to bytes that are no HTTP."""


_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 48\r\n\r\n{"reason":"The head of the request is too long"}'
)
"""Answer to a request whose line and headers are longer than `httpMaxRequestHeaderSize` (SEC-27)."""


def _ignore(_unread_bytes: int) -> None:
    """Does nothing."""


class _Counted:
    """A transport that counts the bytes it is to write."""

    def __init__(self, transport: asyncio.Transport, note_unread: Callable[[int], None]) -> None:
        self.transport = transport
        self._note_unread = note_unread
        self.written_bytes = 0

    def write(self, data: bytes) -> None:
        """Writes, as a transport does."""
        self.written_bytes += len(data)
        self.transport.write(data)
        self._note_unread(self.transport.get_write_buffer_size())

    def end(self) -> None:
        """Counts no more: its connection is gone."""
        self._note_unread = _ignore

    def left_bytes(self) -> int:
        """Counts the bytes that have left."""
        return self.written_bytes - self.transport.get_write_buffer_size()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class _Connection(H11Protocol):
    """An HTTP connection that waits for its client, but not for ever, and is closed at once when there are too many
    (SEC-28)."""

    _most = 1 << 30
    _most_head_bytes = 1 << 30
    _memory: ConnectionMemory | None = None
    _waiting = Pending("HTTP connections")
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._counted = _Counted(transport, self._note_unread)
        self._request_bytes = 0
        self._on_gone: set[Callable[[], None]] = set()
        kept = {AUTHENTICATED: set(), ON_GONE: self._on_gone}
        self.app_state = {**self.app_state, CLIENT_CERTIFICATE: client_certificate(transport), **kept}
        transport.set_write_buffer_limits(UNCOUNTED_BYTES)
        super().connection_made(cast("asyncio.Transport", self._counted))
        if len(self.connections) > self._most:
            transport.close()
        else:
            self._waiting.enter(self, transport.get_extra_info("peername"), transport.abort)
        self._seen: tuple[object, int] | None = None
        self._watch = self.loop.call_later(PATIENCE_S, self._check_progress)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        self._waiting.leave(self)
        if self._memory is not None:
            self._memory.release(self)
        for call in list(self._on_gone):
            call()
        super().connection_lost(exc)
        # References back to this connection are removed, since the collector of cycles comes after thousands of them.
        self._counted.end()
        del self._watch
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        is_within = self._request_bytes
        self._head_bytes = is_within + len(data)
        super().data_received(data)
        if self._is_upgraded:
            return
        # What a request has sent so far is kept until it is whole.
        self._request_bytes += len(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._waiting.leave(self)  # it is the broker's turn
            self._request_bytes = len(self.conn.trailing_data[0]) if len(data) > UNCOUNTED_BYTES else 0
        if max(is_within, self._request_bytes) > UNCOUNTED_BYTES and self._memory is not None:
            self._memory.received(self, self._request_bytes, 0)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self._waiting.enter(self, self.transport.get_extra_info("peername"), self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._memory is not None:
            self._memory.unread(self, 0)

    def _note_unread(self, unread_bytes: int) -> None:
        if unread_bytes > UNCOUNTED_BYTES and self._memory is not None:
            self._memory.unread(self, unread_bytes)

    # Called by the memory of connections

    def restrain(self, *, is_read: bool, gets_messages: bool) -> None:
        """Does nothing: a request is bounded, and an answer is written as it is read."""

    def is_listening(self) -> bool:
        """Returns whether it is up to the client that nothing arrives."""
        return not self.flow.read_paused

    def count_unread(self) -> int:
        """Counts the bytes that the client has not taken."""
        size: int = self.transport.get_write_buffer_size()
        return size

    def keep_waiting(self) -> None:
        """Does nothing."""

    def end(self) -> str:
        """Ends the connection immediately, and names it."""
        self.transport.abort()
        return f"HTTP connection of {peer_text(self.transport.get_extra_info('peername'))}"

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hands the connection over to a WebSocket, which has bounds of its own."""
        self._waiting.leave(self)
        self._is_upgraded = True
        if _UPGRADED in sys.modules:
            self._hand_over(event)
            return
        # Loaded by the first WebSocket, beside the loop: it takes a tenth of a second.
        self.transport.pause_reading()
        loading = self.loop.run_in_executor(None, importlib.import_module, _UPGRADED)
        loading.add_done_callback(lambda loaded: self._resume(event, loaded.exception()))

    def _resume(self, event: h11.Request, error: BaseException | None) -> None:
        if error is not None:
            self.transport.abort()
            raise error
        if not self.transport.is_closing():
            self._hand_over(event)
            self.transport.resume_reading()

    def _hand_over(self, event: h11.Request) -> None:
        self._watch.cancel()
        if self._memory is not None:
            self._memory.release(self)
        self._counted.end()
        self.transport = self._counted.transport
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Ends a connection whose bytes are no HTTP: with an answer, unless one was begun already."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # what waits for the rest of the request waits no more
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            is_long = self._head_bytes > self._most_head_bytes and self.conn.our_state is h11.IDLE
            self.transport.write(
                _TOO_LONG if is_long else _NO_HTTP
            )  # not through h11, which may refuse an answer to HEAD, or any
        self.transport.close()

    def _check_progress(self) -> None:
        # The bytes that wait say nothing, as a streamed answer is refilled while it is read; those that have left do.
        is_its_turn = self.transport.get_write_buffer_size() or self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        seen = (self.cycle, self._counted.left_bytes()) if is_its_turn else None
        if seen is not None and seen == self._seen:
            self.transport.abort()
            return
        self._seen = seen
        self._watch = self.loop.call_later(PATIENCE_S, self._check_progress)


def _with_websockets(app: ASGIApp, websockets: ASGIApp) -> ASGIApp:
    """Serves WebSockets beside the admin API."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await websockets(scope, receive, send)
        elif scope["type"] == "http" and scope["path"].startswith(f"/{PREFIX}/"):
            text = "WebSockets are here: want a request with Upgrade: websocket"
            await refusal(Refused(405, text))(scope, receive, send)
        else:
            await app(scope, receive, send)

    return served


def _upgrade(settings: WebSocketSettings, memory: ConnectionMemory | None) -> Callable[..., asyncio.Protocol]:
    """Makes the connections of WebSockets."""

    def upgraded(*args: Any, **named: Any) -> asyncio.Protocol:
        connection: Callable[..., asyncio.Protocol] = sys.modules[_UPGRADED].UpgradedConnection
        return connection(*args, memory=memory, idle_s=settings.idle_ms / 1000, **named)

    return upgraded


def _with_bounded_heads(app: ASGIApp, most_bytes: int) -> ASGIApp:
    """Refuses requests whose head came at once and is longer than what h11 waits for."""

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            size = len(scope["raw_path"]) + len(scope["query_string"])
            size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
            if size > most_bytes:
                text = f"The request's line and headers are longer than {most_bytes} bytes (httpMaxRequestHeaderSize)"
                await refusal(Refused(431, text))(scope, receive, send)
                return
        await app(scope, receive, send)

    return bounded


class _Uvicorn(uvicorn.Server):
    """A server that leaves the process's signals to the runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing."""
        yield


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """Settings of WebSockets."""

    max_text_bytes: int = 1024 * 1024
    idle_ms: int = 300_000
    ping_s: int = -1
    """Seconds between two PINGs; none below 1."""


@dataclass(frozen=True)
class HttpLimits:
    """Limits of HTTP: connections, bytes of a request's head, and what ends the oldest of too many connections that
    wait for their clients."""

    connections: int = 1 << 30
    head_bytes: int = 8192
    waiting: Pending | None = None


class WebServer:
    """Serves the admin API on given sockets, with the engine of the moment."""

    def __init__(
        self,
        engine: Callable[[], Engine | None],
        limits: HttpLimits | None = None,
        allowed_hosts: AllowedHosts | None = None,
        memory: ConnectionMemory | None = None,
        authenticator: HttpAuthenticator | None = None,
        clock: Callable[[], int] = lambda: 0,
        websockets: WebSocketSettings | None = None,
    ) -> None:
        """`clock` reads wall-clock milliseconds; without `websockets` there are none."""
        limits = limits or HttpLimits()
        audit = None if authenticator is None else authenticator.audit
        app = build_app(engine, allowed_hosts, authenticator, audit)
        if websockets is not None:
            identify = None if authenticator is None else authenticator.identify
            app = _with_websockets(app, WebSockets(engine, clock, allowed_hosts or AllowedHosts(), identify))
        app = _with_bounded_heads(app, limits.head_bytes)
        self._waiting = Pending("HTTP connections") if limits.waiting is None else limits.waiting
        settings: dict[str, Any] = {"loop": "none", "lifespan": "off", "ws": "none", "access_log": False}
        if websockets is not None:
            settings |= {"ws": _upgrade(websockets, memory), "ws_max_size": websockets.max_text_bytes}
            # Frames that are compressed could become a thousand times as large.
            settings |= {"ws_per_message_deflate": False, "ws_ping_timeout": None}
            settings["ws_ping_interval"] = websockets.ping_s if websockets.ping_s > 0 else None
        settings |= {"proxy_headers": False, "server_header": False}
        # On h11, because the other one takes a path or headers of any length.
        bounds = {"_most": limits.connections, "_most_head_bytes": limits.head_bytes}
        settings["http"] = type("Connection", (_Connection,), bounds | {"_memory": memory, "_waiting": self._waiting})
        settings["h11_max_incomplete_event_size"] = limits.head_bytes
        # Its log goes where everything else goes; clients' mistakes are not worth a line each.
        self._server = _Uvicorn(uvicorn.Config(app, log_config=None, log_level="error", **settings))
        self._most_connections = limits.connections
        self._task: asyncio.Task[None] | None = None
        self._over_tls: list[asyncio.AbstractServer] = []

    def start(self, sockets: list[socket.socket]) -> None:
        """Begins to serve."""
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=sockets))

    async def started(self) -> None:
        """Waits until the server accepts requests."""
        while not self._server.started:
            assert self._task is not None, "start comes first"
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0)

    async def serve_tls(self, sockets: list[socket.socket], context: Callable[[], ssl.SSLContext]) -> None:
        """Serves these sockets, too, over TLS; after `started`. The limit of connections is one for all."""
        loop, config, state = asyncio.get_running_loop(), self._server.config, self._server.server_state
        handshakes = Handshakes(
            loop,
            context,
            lambda pending: pending + len(state.connections) < self._most_connections,
            self._waiting,
        )

        def connection() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(config, state, {}, loop)  # type: ignore[call-arg]
            return made

        for sock in sockets:
            self._over_tls.append(await loop.create_server(handshakes.over(connection), sock=sock))

    async def stop(self) -> None:
        """Ends the server; requests under way are cut off."""
        for server in self._over_tls:
            server.close()
        self._server.should_exit = True
        self._server.force_exit = True
        if self._task is not None:
            await self._task
