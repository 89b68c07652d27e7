"""WebSockets of the HTTP port as an ASGI application: who may open which one, and what it does then (WS-1 ... WS-3).

Everything that can be refused is refused before the upgrade, with an HTTP status and `{"reason": text}`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, unquote

from starlette.requests import HTTPConnection

from spark_pulsar.admin.http.refusals import Refused, refusal
from spark_pulsar.model import errors
from spark_pulsar.model.errors import InvalidTopicName, PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.server.security.provider import VOUCHED

from .consumer_parameters import ConsumerParameters, ReaderParameters
from .consuming import WebSocketConsumer
from .dead_letters import DeadLetters
from .opened_bytes import OpenedBytes
from .outbox import SERVICE_RESTART, Outbox
from .parameters import Parameters, invalid
from .producing import ProducerParameters, WebSocketProducer
from .reading import WebSocketReader
from .session import Session

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from spark_pulsar.admin.http.origins import AllowedHosts
    from spark_pulsar.server.security.provider import Vouched

    from .session import Host

PREFIX: Final = "ws"
"""First segment of the paths of WebSockets."""
_DOMAINS: Final = frozenset({"persistent", "non-persistent"})
_STATUSES: Final[dict[type[PulsarError], int]] = {
    errors.AuthenticationError: 401,
    errors.AuthorizationError: 403,
    errors.TopicNotFound: 404,
    errors.SubscriptionNotFound: 404,
    errors.ProducerBusy: 409,
    errors.ConsumerBusy: 409,
    errors.ProducerFenced: 409,
    errors.IncompatibleSchema: 409,
    errors.TooManyRequests: 429,
    errors.BacklogQuotaHold: 503,
    errors.BacklogQuotaExceeded: 503,
    errors.TopicTerminated: 503,
    errors.ServiceNotReady: 503,
    errors.InvalidTopicName: 400,
}
"""Status of a refusal of the broker, as Apache Pulsar has it; 500 for the others."""

_MOST_TOPICS: Final = 100
"""Topics of one consumer."""

Make = Callable[["Session"], "Handler"]
"""Makes the handler of a WebSocket on its session."""
Identify = Callable[[HTTPConnection, Sequence[str]], Any]


class Handler(Protocol):
    """A producer, a consumer or a reader behind one WebSocket."""

    async def open(self, topics: Sequence[TopicName]) -> None:
        """Creates it at the broker."""

    async def on_text(self, text: str) -> None:
        """Takes a text of the client."""

    def next_message(self) -> str | None:
        """Returns the next message for the client, None while there is none."""

    def on_sent(self) -> None:
        """Notes that the client has taken that message."""

    def close(self) -> None:
        """Ends what goes on by itself."""


class WebSockets:
    """The application of all WebSockets."""

    def __init__(
        self,
        engine: Callable[[], Host | None],
        clock: Callable[[], int],
        allowed_hosts: AllowedHosts,
        identify: Identify | None = None,
    ) -> None:
        """`identify` finds the roles of a request, while authentication is on: an awaitable of `Vouched`."""
        self._engine = engine
        self._clock = clock
        self._allowed = allowed_hosts
        self._identify = identify
        self._opened = OpenedBytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one WebSocket from its request to its end."""
        await receive()
        session: Session | None = None
        outbox = Outbox()
        try:
            request = HTTPConnection(_with_token(scope))
            segments = _segments(scope)
            # A page of another site is refused as one that changes something over the admin API is (T-25).
            self._allowed.check("POST", request.headers)
            vouched = None if self._identify is None else await self._identify(request, segments)
            make, topics = self._route(segments, Parameters(_query(scope)), outbox)
            engine = self._engine()
            if engine is None:
                raise Refused(503, "The broker is restarting its core")
            extra = _extra(scope, vouched)
            session = Session(asyncio.get_running_loop(), extra, lambda reason: outbox.close(SERVICE_RESTART, reason))
            await session.open(engine, vouched)
            handler = make(session)
            await handler.open(topics)
        except PulsarError as error:
            if session is not None:
                session.close()
            await _refuse(scope, receive, send, error)
            return
        except BaseException:
            if session is not None:
                session.close()
            raise
        try:
            await send({"type": "websocket.accept"})
            await _serve(handler, outbox, receive, send)
        finally:
            handler.close()
            session.close()

    def _route(self, segments: list[str], query: Parameters, outbox: Outbox) -> tuple[Make, list[TopicName]]:
        """Returns what makes the handler of a path, and its topics. Raises Refused."""
        match segments:
            case ["ws", "v2", "producer", *rest]:
                return self._producer(query, outbox), [_topic_of(rest)]
            case ["ws", "v2", "consumer", *rest]:
                topic, subscription = _topic_of(rest[:4]), "".join(rest[4:5])
                if len(rest) != 5:
                    raise invalid("Invalid topic name format: want persistent/tenant/namespace/topic/subscription")
                return self._consumer(subscription, query, outbox), [topic]
            case ["ws", "v2", "reader", *rest]:
                topics = [_topic_of(rest)]
                parameters = ReaderParameters.of(query)
                name = f"reader-{secrets.token_hex(5)}"
                return lambda session: WebSocketReader(session, outbox, self._opened, name, parameters), topics
            case ["ws", "v3", "consumer", subscription]:
                return self._consumer(subscription, query, outbox), _topics_of(query)
            case [_, _, _, _, _, _, _, *_]:
                raise Refused(404, "There is no such WebSocket; names with a cluster (v1) are not supported")
        raise Refused(404, f"There is no WebSocket at /{'/'.join(segments)[:200]}")

    def _producer(self, query: Parameters, outbox: Outbox) -> Make:
        parameters = ProducerParameters.of(query)
        return lambda session: WebSocketProducer(session, outbox, parameters, self._clock)

    def _consumer(self, subscription: str, query: Parameters, outbox: Outbox) -> Make:
        if not subscription:
            raise invalid("Empty subscription name")
        parameters = ConsumerParameters.of(query)

        def make(session: Session) -> WebSocketConsumer:
            letters: DeadLetters | None = None
            if parameters.max_redeliver_count:
                letters = DeadLetters(session, outbox, subscription, parameters.dead_letter_topic, self._clock)
            return WebSocketConsumer(session, outbox, self._opened, subscription, parameters, letters)

        return make


async def _serve(handler: Handler, outbox: Outbox, receive: Receive, send: Send) -> None:
    """Receives the client's frames, and sends it the handler's, until one of both ends."""

    async def send_text(text: str) -> None:
        await send({"type": "websocket.send", "text": text})

    async def receive_texts() -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            text = event.get("text")
            if text is not None:  # bytes mean nothing, as in Apache Pulsar
                await outbox.has_room()
                await handler.on_text(text)

    sending = asyncio.ensure_future(outbox.send_all(send_text, handler))
    taking = asyncio.ensure_future(receive_texts())
    try:
        await asyncio.wait((sending, taking), return_when=asyncio.FIRST_COMPLETED)
        if outbox.closing is not None and not taking.done():
            code, reason = outbox.closing
            await send({"type": "websocket.close", "code": code, "reason": reason})
    finally:
        for task in (sending, taking):
            task.cancel()
        outcomes = await asyncio.gather(sending, taking, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
            raise outcome


async def _refuse(scope: Scope, receive: Receive, send: Send, error: PulsarError) -> None:
    """Answers a request with a status instead of the upgrade."""
    if isinstance(error, Refused):
        answer = refusal(error)
    else:
        status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), error.http_status)
        answer = refusal(Refused(status if type(error) in _STATUSES or status == 504 else 500, error.message))
    await answer({**scope, "type": "websocket"}, receive, send)


def _segments(scope: Scope) -> list[str]:
    """Returns the segments of the path, decoded."""
    raw = scope.get("raw_path", b"").decode("ascii", "replace")
    return [unquote(segment) for segment in raw.removeprefix("/").split("/")]


def _query(scope: Scope) -> dict[str, str]:
    """Returns the parameters of the query; of one that comes twice the first counts, as in Apache Pulsar."""
    text = scope["query_string"].decode("latin-1")
    try:
        parameters = parse_qs(text, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise Refused(400, "Invalid query params: more than 100") from None
    return {name: values[0] for name, values in parameters.items()}


def _with_token(scope: Scope) -> Scope:
    """Returns the request with the token of its query in the header, unless it has one: browsers cannot set any
    (WS-8)."""
    headers: list[tuple[bytes, bytes]] = list(scope["headers"])
    token = _query(scope).get("token")
    if token is None or any(name == b"authorization" for name, _ in headers):
        return scope
    value = token if token.startswith("Bearer") else f"Bearer {token}"
    return {**scope, "headers": [*headers, (b"authorization", value.encode("latin-1", "replace"))]}


def _topic_of(segments: Sequence[str]) -> TopicName:
    if len(segments) < 4 or segments[0] not in _DOMAINS:
        raise Refused(400, "Invalid query params: Invalid topic name format: want persistent/tenant/namespace/topic")
    try:
        return TopicName.parse(f"{segments[0]}://{'/'.join(segments[1:])}")
    except InvalidTopicName as error:
        raise Refused(400, f"Invalid query params: {error.message}") from None


def _topics_of(query: Parameters) -> list[TopicName]:
    """Returns the topics of a consumer of several."""
    if "topicsPattern" in query:
        raise Refused(501, "topicsPattern is not supported: want topics, full names separated by commas")
    names = query.raw("topics").split(",")
    if names == [""] or len(names) > _MOST_TOPICS:
        raise invalid(f"topics: want 1 to {_MOST_TOPICS} names, separated by commas")
    try:
        return list(dict.fromkeys(TopicName.parse(name.strip()) for name in names))
    except InvalidTopicName as error:
        raise invalid(error.message) from None


def _extra(scope: Scope, vouched: Vouched | None) -> dict[str, Any]:
    """Returns the attributes that the engine reads from the transport of a connection."""
    extra: dict[str, Any] = {"peername": scope["client"], "sockname": scope["server"], VOUCHED: vouched}
    if scope["scheme"] == "wss":
        extra["sslcontext"] = True
    return extra
