"""Requests of a diagnosis over the admin API, those of a round at once (WHY-1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from functools import partial
from http import HTTPStatus
from typing import Final

from spark_pulsar.admin.diagnosis.diagnosing import diagnose
from spark_pulsar.admin.diagnosis.findings import Finding
from spark_pulsar.admin.diagnosis.gathering import Reply, Request, gather
from spark_pulsar.cli.admin.rest import Admin, refusal_text
from spark_pulsar.client.rest import Answer, RestError

_THREADS: Final = 12


def diagnosed_by(admin: Admin, topic: str, subscription: str, role: str) -> list[Finding]:
    """Returns the findings about a topic. Ends the command where there is no answer."""
    try:
        return diagnosed(partial(_answer, admin), topic, subscription, role)
    except RestError as error:
        admin.check_answered(error)
        raise


def diagnosed(
    send: Callable[[Request], Answer], topic: str, subscription: str, role: str, zone: tzinfo | None = None
) -> list[Finding]:
    """Sends the requests of a diagnosis, those of a round at once, and returns the findings. A `RestError` of `send` is
    a refusal, or is raised where there is no answer."""
    began_s = time.monotonic()
    rounds = gather(topic, subscription, role, zone)
    requests = next(rounds)
    threads = ThreadPoolExecutor(_THREADS)
    try:
        while True:
            time.sleep(max(0.0, began_s + max(request.after_s for request in requests) - time.monotonic()))
            first, *others = requests
            replies = threads.map(partial(_reply, send), others)
            requests = rounds.send([_reply(send, first), *replies])
    except StopIteration as end:
        return diagnose(end.value)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def is_peek(request: Request) -> bool:
    """Returns whether the answer is a message, of which the headers are read, and not JSON."""
    return "/position/" in request.path


def _answer(admin: Admin, request: Request) -> Answer:
    answer = admin.answer_or_error(request.path, dict(request.query), "*/*" if is_peek(request) else "application/json")
    if isinstance(answer, RestError):
        raise answer
    return answer


def _reply(send: Callable[[Request], Answer], request: Request) -> Reply:
    try:
        answer = send(request)
    except RestError as error:
        if not error.status:
            raise
        return Reply(error.status, refusal_text(error), at_ms=_now_ms())
    headers = {name.lower(): value for name, value in answer.headers}
    return Reply(HTTPStatus.OK, None if is_peek(request) else answer.value, headers, _now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
