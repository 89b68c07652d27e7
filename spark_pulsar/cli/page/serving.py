"""The server of `spark-pulsar page`: the files of the page, and the admin API of one Pulsar behind them, with the
credentials of the caller's profile (SEC-90)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from spark_pulsar.admin.diagnosis.gathering import Request
from spark_pulsar.admin.page.diagnosis import PATH as _WHY
from spark_pulsar.admin.page.diagnosis import zone_of
from spark_pulsar.admin.page.files import CONNECT, HEADERS, INDEX, page_file
from spark_pulsar.cli.access.access import Access, credentials_failure
from spark_pulsar.cli.page.requests import Guard, RefusedRequest, body_bytes, forwarded_path
from spark_pulsar.cli.why.requests import diagnosed, is_peek
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.rest import NO_BODY, Answer, RestApi, RestError
from spark_pulsar.model.errors import PulsarError

HOST: Final = "127.0.0.1"
_PAGE: Final = "/page/"
_PRODUCE: Final = "/page/produce"
_PATIENCE_S: Final = 30.0
_JSON: Final = "application/json"
_MARK: Final = b'<html lang="en">'
_MARKED: Final = b'<html lang="en" data-server="page">'
"""Mark by which the page knows that this server signs in, and not its user."""


class NotProduced(Exception):
    """A message that could not be sent."""


Reply = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body of an answer."""
Produce = Callable[[Mapping[str, Any]], str]
"""Sends a message of the page, and returns its id. Raises NotProduced or ValueError."""


@dataclass(frozen=True, slots=True)
class Pulsar:
    """The Pulsar behind the page."""

    access: Access
    service_url: str
    produce: Produce

    def call(self, method: str, path: str, body: bytes, accept: str) -> Reply:
        """Calls the admin API and returns status, headers and body."""

        def called() -> Reply:
            answer = self._api().call(method, path, json.loads(body) if body else NO_BODY, accept=accept)
            return 200, _passed_on(answer), answer.body

        return self._answered(called)

    def diagnosis(self, query: Mapping[str, Sequence[str]]) -> Reply:
        """Names the cause why a consumer receives nothing, as `GET /page/why` of our broker does (WHY-8)."""

        def called() -> Reply:
            topic, subscription, zone = ((query.get(name) or ("",))[-1] for name in ("topic", "subscription", "zone"))
            findings = diagnosed(partial(_sent, self._api()), topic, subscription, "", zone_of(zone))
            return 200, [("Content-Type", _JSON)], json.dumps([finding.to_json() for finding in findings]).encode()

        return self._answered(called)

    def _api(self) -> RestApi:
        return RestApi(self.access.url, self.access.headers(), self.access.tls_context())

    def _answered(self, called: Callable[[], Reply]) -> Reply:
        try:
            return called()
        except RestError as error:
            if error.status:
                return error.status, [("Content-Type", _JSON)], error.text.encode()
            return _refusal(502, f"no answer from {self.access.url}: {error}")
        except CredentialsError as error:
            return _refusal(502, credentials_failure(error))
        except (PulsarError, ValueError) as error:  # certificates that cannot be read; a body that is no JSON
            return _refusal(400, str(error))


def _sent(api: RestApi, request: Request) -> Answer:
    return api.call("GET", request.path, query=request.query, accept="*/*" if is_peek(request) else _JSON)


def _passed_on(answer: Answer) -> list[tuple[str, str]]:
    """Returns the headers of an answer that the page reads."""
    return [
        (name, value)
        for name, value in answer.headers
        if name.lower() == "content-type" or name.lower().startswith("x-pulsar-")
    ]


def _refusal(status: int, reason: str) -> Reply:
    return status, [("Content-Type", _JSON)], json.dumps({"reason": reason}).encode()


class _Handler(BaseHTTPRequestHandler):
    """A connection of a browser."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_S
    server: PageServer

    def do_GET(self) -> None:
        """Answers a file of the page, or a call that reads."""
        target = urlsplit(self.path)
        if target.path == "/" and "key" in parse_qs(target.query):
            self._enter(parse_qs(target.query)["key"][-1])
        elif target.path == "/" or (target.path.startswith(_PAGE) and target.path not in (_PRODUCE, _WHY)):
            self._file(target.path)
        else:
            self._forward()

    def do_POST(self) -> None:
        """Answers a call that changes something, or sends a message."""
        self._forward()

    do_PUT = do_DELETE = do_POST

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _enter(self, key: str) -> None:
        """Gives the browser that has the key a cookie, and takes the key out of its address."""
        guard = self.server.guard
        try:
            guard.check_host(self._headers())
            if not guard.is_key(key):
                raise RefusedRequest(403, "the key is of another run")
        except RefusedRequest as refused:
            self._answer(*_refusal(refused.status, str(refused)))
            return
        cookie = f"{guard.cookie}={key}; HttpOnly; SameSite=Strict; Path=/"
        self._answer(303, [("Location", "/"), ("Set-Cookie", cookie)], b"")

    def _file(self, path: str) -> None:
        try:
            self.server.guard.check_host(self._headers())
        except RefusedRequest as refused:
            self._answer(*_refusal(refused.status, str(refused)))
            return
        name = path.removeprefix(_PAGE) if path != "/" else INDEX
        released = page_file(name)
        if released is None:
            self._answer(*_refusal(404, f"There is nothing at {path[:200]}"))
            return
        file, kept = released
        content = file.content.replace(_MARK, _MARKED, 1) if name == INDEX else file.content
        if name == CONNECT:
            pulsar = self.server.pulsar
            content = json.dumps(
                {"serviceUrl": pulsar.service_url, "adminUrl": pulsar.access.url, "produces": True}
            ).encode()
        self._answer(200, [("Content-Type", file.media_type), ("Cache-Control", kept["Cache-Control"])], content)

    def _forward(self) -> None:
        headers = self._headers()
        try:
            self.server.guard.check(self.command, headers)
            body = self.rfile.read(body_bytes(headers))
            target = urlsplit(self.path)
            if self.path == _PRODUCE and self.command == "POST":
                answer = self._produce(body)
            elif target.path == _WHY and self.command == "GET":
                answer = self.server.pulsar.diagnosis(parse_qs(target.query))
            else:
                path = forwarded_path(self.path)
                answer = self.server.pulsar.call(self.command, path, body, headers.get("accept", ""))
        except RefusedRequest as refused:
            self.close_connection = True  # its body may be unread
            answer = _refusal(refused.status, str(refused))
        self._answer(*answer)

    def _produce(self, body: bytes) -> Reply:
        try:
            message_id = self.server.pulsar.produce(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            return _refusal(400, f"no message: {error}")
        except NotProduced as error:
            return _refusal(500, f"not produced: {error}")
        return 200, [("Content-Type", _JSON)], json.dumps({"messageId": message_id}).encode()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        try:
            self.send_response(HTTPStatus(status) if status in HTTPStatus._value2member_map_ else status)
            own = {name for name, _ in headers}
            of_page = [(name, value) for name, value in HEADERS.items() if name not in own]
            for name, value in [*headers, *of_page, ("Content-Length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            if status not in (204, 304):
                self.wfile.write(body)
        except OSError:  # the browser is gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the key is in an address."""

    def version_string(self) -> str:
        """Returns the name of the server."""
        return "spark-pulsar"


class PageServer(ThreadingHTTPServer):
    """The page of one Pulsar at a port of this machine."""

    daemon_threads = True

    def __init__(self, port: int, pulsar: Pulsar) -> None:
        super().__init__((HOST, port), _Handler)
        self.pulsar = pulsar
        self.guard = Guard(self.server_address[1])

    @property
    def url(self) -> str:
        """The address to open, with the key of this run."""
        return f"http://{HOST}:{self.server_address[1]}/?key={self.guard.key}"


def message_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of the page as the arguments of the official client's `send`. Raises ValueError."""
    values: dict[str, Any] = {
        "content": base64.b64decode(record["payload"], validate=True),
        "properties": {str(name): str(value) for name, value in (record.get("properties") or {}).items()},
    }
    if record.get("key"):
        values["partition_key"] = str(record["key"])
    if record.get("eventTime"):
        values["event_timestamp"] = round(datetime.fromisoformat(record["eventTime"]).timestamp() * 1000)
    return values
