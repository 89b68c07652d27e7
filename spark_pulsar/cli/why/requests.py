"""Requests of a diagnosis over the admin API, those of a round at once (WHY-1)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Final

from spark_pulsar.admin.diagnosis.diagnosing import diagnose
from spark_pulsar.admin.diagnosis.findings import Finding
from spark_pulsar.admin.diagnosis.gathering import Reply, Request, gather
from spark_pulsar.cli.admin.rest import Admin, refusal_text
from spark_pulsar.client.rest import Answer, RestError

_THREADS: Final = 12


def diagnosed(admin: Admin, topic: str, subscription: str, role: str) -> list[Finding]:
    """Requests the facts of a topic, and returns the findings. Ends the command where there is no answer."""
    began_s = time.monotonic()
    rounds = gather(topic, subscription, role)
    requests = next(rounds)
    threads = ThreadPoolExecutor(_THREADS)
    try:
        while True:
            time.sleep(max(0.0, began_s + max(request.after_s for request in requests) - time.monotonic()))
            first, *others = requests
            replies = list(threads.map(lambda request: _reply(admin, request), others)) if others else []
            requests = rounds.send([_checked(admin, reply) for reply in (_reply(admin, first), *replies)])
    except StopIteration as end:
        return diagnose(end.value)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _reply(admin: Admin, request: Request) -> Reply | RestError:
    is_peek = "/position/" in request.path
    answer = admin.answer_or_error(request.path, dict(request.query), "*/*" if is_peek else "application/json")
    at_ms = time.time_ns() // 1_000_000
    if isinstance(answer, Answer):
        headers = {name.lower(): value for name, value in answer.headers}
        return Reply(HTTPStatus.OK, None if is_peek else answer.value, headers, at_ms)
    return Reply(answer.status, refusal_text(answer), at_ms=at_ms) if answer.status else answer


def _checked(admin: Admin, reply: Reply | RestError) -> Reply:
    if isinstance(reply, RestError):
        admin.check_answered(reply)
        raise reply
    return reply
