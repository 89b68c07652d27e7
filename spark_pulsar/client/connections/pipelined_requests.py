"""Pipelined requests: questions to brokers as generators, so that many run side by side without a thread each
(READ-22).

The generator yields a `PendingReply` for each command that it sends and is resumed with the reply; its return value is
the result. `run_all` starts one for each topic, so that all first commands are on their way before the first reply is
waited for, and so on round by round: a thousand partitions cost a few round trips instead of thousands, and a few
writes.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Final, TypeAlias, TypeVar

from spark_pulsar.client.connections.gathered_writes import gathering_writes
from spark_pulsar.client.connections.pending import PendingReply
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import naming_topic
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

Result = TypeVar("Result")
PipelinedRequest: TypeAlias = Generator[PendingReply, BaseCommand, Result]

_AT_ONCE: Final = 256


def run_one(make: Callable[[], PipelinedRequest[Result]], deadline: Deadline) -> Result:
    """Runs one request, again after retriable errors. Raises its error, or OperationTimeout at the deadline."""
    return run_all([""], lambda _: make(), lambda _: deadline)[""]


def settled(request: PipelinedRequest[Result]) -> PipelinedRequest[Result | PulsarError]:
    """Turns a refusal that no retry mends into the answer of a pipelined request, so that others go on beside it."""
    try:
        return (yield from request)
    except PulsarError as refusal:
        if refusal.retriable:
            raise
        return refusal


def if_any(request: PipelinedRequest[Result]) -> PipelinedRequest[Result | TopicNotFound]:
    """Turns TopicNotFound into the answer of a pipelined request, so that others go on beside it."""
    try:
        return (yield from request)
    except TopicNotFound as missing:
        return missing


def run_all(
    topics: Iterable[str], make: Callable[[str], PipelinedRequest[Result]], deadline_of: Callable[[str], Deadline]
) -> dict[str, Result]:
    """Runs a pipelined request for each topic; the results by topic, in the order given.

    A request that fails with a retriable error is made again after a pause, until its deadline; all deadlines are
    made before the first request. The first error that cannot be retried ends everything and is raised.
    """
    todo = list(dict.fromkeys(topics))
    results: dict[str, Result] = {}
    deadlines = {topic: deadline_of(topic) for topic in todo}  # of all before the first begins: one time-out together
    for first in range(0, len(todo), _AT_ONCE):
        _run_some(todo[first : first + _AT_ONCE], make, deadlines, results)
    return {topic: results[topic] for topic in todo}


def _run_some(
    todo: list[str],
    make: Callable[[str], PipelinedRequest[Result]],
    deadlines: dict[str, Deadline],
    results: dict[str, Result],
) -> None:
    backoff = Backoff()
    while todo:
        failed = _attempt(todo, make, deadlines, results)
        if not failed:
            return
        todo = list(failed)
        backoff.pause(deadlines[todo[0]], failed[todo[0]])


def _attempt(
    todo: list[str],
    make: Callable[[str], PipelinedRequest[Result]],
    deadlines: dict[str, Deadline],
    results: dict[str, Result],
) -> dict[str, PulsarError]:
    """Runs each request once; returns the retriable errors by topic."""
    failed: dict[str, PulsarError] = {}
    running: dict[str, tuple[PipelinedRequest[Result], PendingReply]] = {}
    requests = {topic: make(topic) for topic in todo}
    with gathering_writes():
        try:
            for topic, request in requests.items():
                _advance(topic, request, None, running, results, failed)
            while running:
                for topic, (request, pending) in list(running.items()):
                    try:
                        answer: BaseCommand | PulsarError = pending.result(deadlines[topic])
                    except PulsarError as error:
                        answer = error
                    _advance(topic, request, answer, running, results, failed)
        finally:
            for request in requests.values():
                request.close()
    return failed


def _advance(
    topic: str,
    request: PipelinedRequest[Result],
    answer: BaseCommand | PulsarError | None,
    running: dict[str, tuple[PipelinedRequest[Result], PendingReply]],
    results: dict[str, Result],
    failed: dict[str, PulsarError],
) -> None:
    """Resumes one pipelined request up to its next question or its end."""
    running.pop(topic, None)
    try:
        if answer is None:
            pending = next(request)
        elif isinstance(answer, PulsarError):
            pending = request.throw(answer)
        else:
            pending = request.send(answer)
    except StopIteration as end:
        results[topic] = end.value
    except PulsarError as error:
        if not error.retriable:
            raise naming_topic(error, topic) from error.__cause__
        failed[topic] = error
    else:
        running[topic] = (request, pending)
