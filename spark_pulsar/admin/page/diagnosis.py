"""Diagnosis for the page: `GET /page/why?topic=…&subscription=…&zone=…` (WHY-8).

The requests of a diagnosis are served by the application itself, with the headers of the caller: a role sees no more
than by its own requests, and each of them is authenticated, authorized and audited as those are.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlencode
from zoneinfo import ZoneInfo

from starlette.responses import JSONResponse, Response

from spark_pulsar.admin.diagnosis.diagnosing import diagnose
from spark_pulsar.admin.diagnosis.gathering import Reply, Request, gather
from spark_pulsar.model.errors import InvalidTopicName

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from spark_pulsar.admin.diagnosis.findings import Finding
    from spark_pulsar.admin.diagnosis.gathering import Rounds

PATH: Final = "/page/why"
_STRANGER: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_MOST_AT_ONCE: Final = 4


def with_diagnosis(app: ASGIApp, is_on: Callable[[], bool]) -> ASGIApp:
    """Returns the application with the route of the diagnosis before it, while the page is on."""
    free = asyncio.Semaphore(_MOST_AT_ONCE)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "GET" or not is_on():
            await app(scope, receive, send)
            return
        async with free:
            answer = await _diagnosis(app, scope)
        await answer(scope, receive, send)

    return serve


async def _diagnosis(app: ASGIApp, scope: Scope) -> Response:
    """Gathers the facts by requests to the application, and answers with the findings, or with the first refusal."""
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    try:
        subscription, role = query.get("subscription", ""), query.get("role", "")
        rounds = gather(query.get("topic", ""), subscription, role, zone_of(query.get("zone", "")))
        requests = next(rounds)
    except InvalidTopicName as error:
        return JSONResponse({"reason": error.message}, HTTPStatus.PRECONDITION_FAILED)
    began_s, is_first = time.monotonic(), True
    while True:
        await asyncio.sleep(max(0.0, began_s + max(request.after_s for request in requests) - time.monotonic()))
        answers = [await _answer(app, scope, request) for request in requests]
        if is_first and answers[0].status in _STRANGER:
            return answers[0].response()
        is_first = False
        # Statistics of many partitions are long: they are read beside the loop.
        requests, findings = await asyncio.to_thread(_go_on, rounds, answers)
        if findings is not None:
            return JSONResponse([finding.to_json() for finding in findings])


def zone_of(name: str) -> tzinfo | None:
    """Returns the time zone of the reader, that of the broker where it is not known here."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, OSError, ValueError):
        return None


def _go_on(rounds: Rounds, answers: Sequence[_Answer]) -> tuple[Sequence[Request], list[Finding] | None]:
    """Hands the replies of a round over; returns the next requests, or the findings."""
    try:
        return rounds.send([answer.reply() for answer in answers]), None
    except StopIteration as end:
        return (), diagnose(end.value)


@dataclass
class _Answer:
    """Answer of the application to one request."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    at_ms: int = 0

    async def receive_message(self, message: Message) -> None:
        """Receives a message of the application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
            self.at_ms = time.time_ns() // 1_000_000
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    def reply(self) -> Reply:
        """Returns it as a reply of a diagnosis."""
        is_json = self.headers.get("content-type", "").startswith("application/json")
        value: Any = json.loads(self.body) if is_json and self.body else None
        if self.status >= HTTPStatus.MULTIPLE_CHOICES:
            value = value.get("reason") if isinstance(value, Mapping) else None
        return Reply(self.status, value, self.headers, self.at_ms)

    def response(self) -> Response:
        """Returns it as an answer of its own."""
        kept = {name: value for name, value in self.headers.items() if name == "www-authenticate"}
        return Response(bytes(self.body), self.status, kept, self.headers.get("content-type"))


async def _answer(app: ASGIApp, scope: Scope, request: Request) -> _Answer:
    words = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in request.query.items()
    }
    inner = {
        **scope,
        "path": unquote(request.path),
        "raw_path": request.path.encode(),
        "query_string": urlencode(words).encode(),
    }
    answer = _Answer()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(inner, receive, answer.receive_message)
    return answer
