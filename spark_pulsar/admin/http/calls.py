"""A request of the admin API, and the forms of handlers: of values read, and of changes. Each module of handlers has a
table `ROUTES`, with the rule of each route for roles (SEC-60). Bytes are `server.web`'s, which bounds line and headers
(SEC-27)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import JSONResponse, Response

from spark_pulsar.broker.topics.lookup import addresses_for, host_of
from spark_pulsar.model.errors import ServiceNotReady
from spark_pulsar.model.principals import UNAUTHENTICATED, Principal

from .answers import flag, json_answer, parse_body, warned
from .gate import Answer
from .path_names import topic_name
from .refusals import Refused
from .slices import change_in_slices, read_in_slices, run_in_slices

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.addresses import Addresses
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.names import TopicName

    from .gate import Gate


class Call:
    """A request: the named parts of its path, its query, its body, its headers. Parameters of the query that a path
    does not know are ignored (T-11)."""

    def __init__(
        self,
        gate: Gate,
        parts: Mapping[str, str],
        query: Mapping[str, str],
        body: bytes,
        *,
        host: str = "localhost:8080",
        is_tls: bool = False,
        headers: Mapping[str, str] | None = None,
        principal: Principal = UNAUTHENTICATED,
    ) -> None:
        self.gate = gate
        self.parts = parts
        self.query = query
        self.body = body
        self.headers: Mapping[str, str] = headers or {}
        self.principal = principal
        self._host = host
        self.is_tls = is_tls

    @property
    def core(self) -> Core:
        """The core, for reading only."""
        return self.gate.core

    @property
    def topic(self) -> TopicName:
        """The topic that the path names."""
        parts = self.parts
        return topic_name(parts["domain"], parts["tenant"], parts["namespace"], parts["topic"])

    @property
    def namespace(self) -> str:
        """The namespace that the path names, `tenant/name`."""
        return f"{self.parts['tenant']}/{self.parts['namespace']}"

    @property
    def addresses(self) -> Addresses:
        """The addresses that clients receive, at the host that the caller reached unless others are advertised."""
        return self.addresses_of("")

    @property
    def broker_id(self) -> str:
        """Id of this broker, as lists of brokers and statistics have it: host and port of the admin API."""
        return self.admin_url.partition("://")[2]

    def addresses_of(self, listener: str) -> Addresses:
        """Returns the addresses of a listener, the default ones for no name. Raises Refused when there is none."""
        config = self.core.config
        try:
            addresses = addresses_for(config, host_of(self._host), listener)
        except ServiceNotReady as error:
            raise Refused(400, error.message) from error
        if config.advertised_listeners or config.advertised_address:
            return addresses
        # As the caller reached it, by whatever port that was.
        return replace(addresses, **{"http_tls" if self.is_tls else "http": self.admin_url})

    @property
    def admin_url(self) -> str:
        """The URL of this API, as the caller reached it: `http://HOST:PORT`."""
        return f"{'https' if self.is_tls else 'http'}://{self._host}"

    @property
    def broker_name(self) -> str:
        """The host that the caller reached, unless another is advertised."""
        return self.core.config.advertised_address or host_of(self._host)

    def json(self) -> Any:
        """Parses the body; None for the bodies that mean nothing (T-13)."""
        return parse_body(self.body)

    def flag(self, name: str) -> bool:
        """Reads a query value that is true or false; absent is false."""
        return flag(self.query.get(name))


Change = Callable[["Core", Call], object]
"""A change of the core that a request contains."""
Handler = Callable[[Call], Awaitable[Response]]
Rule = Callable[["Core", Call], None]
"""Refuses a call that its role may not make (`access`)."""


class Route(NamedTuple):
    """A method of a path, in which `{name}` is a named part: who may call it, and what answers."""

    method: str
    path: str
    rule: Rule
    handler: Handler
    rule_of_body: Rule | None = None
    """A second rule, where the body alone names the resource."""


Routes = tuple[Route, ...]

ADMIN_PATH: Final = "admin/v2"
NAMESPACE_PATH: Final = "admin/v2/namespaces/{tenant}/{namespace}"
TRANSACTIONS_PATH: Final = "admin/v3/transactions"
TOPIC_PATH: Final = "admin/v2/{domain}/{tenant}/{namespace}/{topic}"


def routes(base: str, *rows: tuple[str, Rule, Handler]) -> Routes:
    """Makes the routes of paths below `base`; a row begins with the method and the rest of the path, `GET /stats`."""
    split = [(*row[0].partition(" "), *row[1:]) for row in rows]
    return tuple(Route(method, (base + rest).strip("/"), rule, handler) for method, _, rest, rule, handler in split)


def reads(read: Callable[[Core, Call], object], status: int = 200) -> Handler:
    """Makes the handler that answers with a value of the core as JSON. A costly read is a generator (`slices`)."""

    async def handler(call: Call) -> Response:
        value = read(call.core, call)
        return await json_answer(await read_in_slices(value) if isinstance(value, Generator) else value, status)

    return handler


def changes(change: Change, status: int = 204) -> Handler:
    """Makes the handler that changes the core; its answer without a body comes when the changes are on disk (T-3, T-2).
    A costly change is a generator (`slices`)."""

    async def handler(call: Call) -> Response:
        await change_in_slices(call.gate, lambda core: change(core, call))
        return Response(status_code=status)

    return handler


def shows_change(change: Change) -> Handler:
    """Makes the handler that changes the core; the result as JSON when its changes are on disk."""

    async def handler(call: Call) -> Response:
        return await json_answer(await change_in_slices(call.gate, lambda core: change(core, call)))

    return handler


def shows_later(begin: Callable[[Core, Call, Callable[[Answer | PulsarError], None]], None]) -> Handler:
    """Makes the handler that shows an answer as JSON, when the core has it."""

    async def handler(call: Call) -> Response:
        return await json_answer(await run_in_slices(call.gate, lambda core, answer: begin(core, call, answer)))

    return handler


def noted(change: Handler, note: str) -> Handler:
    """Makes the handler that adds to the answer what its caller should know; the same one without a note."""

    async def handler(call: Call) -> Response:
        return warned(await change(call), note)

    return handler if note else change


def value_or_empty(value: object) -> Response:
    """Returns a value as JSON; an unset value is 200 with an empty body (T-4)."""
    if value is None:
        return Response(status_code=200, headers={"Content-Length": "0"})
    return JSONResponse(value)


def whole_number_in_path(text: str) -> int:
    """Reads a number in a path; any other text is 404, as for a path that does not exist (T-20)."""
    try:
        return int(text)
    except ValueError as error:
        raise Refused(404, f"{text!r} is no number") from error
