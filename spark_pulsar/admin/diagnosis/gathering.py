"""Requests of a diagnosis, in three rounds, and their answers as facts (WHY-1).

    rounds = gather("persistent://public/default/orders", "billing", "")
    requests = next(rounds)
    while True:
        requests = rounds.send(replies to them, in their order)   # StopIteration.value: the Facts

The first round requests the number of partitions, the second all that needs no more than that, the third what the
statistics called for, and a second sample of them, a second later where clients are connected. The number of requests
is bounded, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from spark_pulsar.admin.diagnosis.facts import Facts, FirstMessage, Log, OpenTransaction
from spark_pulsar.admin.diagnosis.policies import policies_of, roles_of
from spark_pulsar.admin.diagnosis.statistics import logs_of
from spark_pulsar.model.names import TopicName

WINDOW_S: Final = 1.0
_STATISTICS: Final = {"getPreciseBacklog": True, "subscriptionBacklogSize": True}
_MOST_PARTITIONS: Final = 8
"""Partitions whose internal statistics are requested."""
_MOST_PEEKS: Final = 8
_POLICIES: Final = (
    *("backlogQuotaMap", "messageTTL", "retention", "dispatchRate", "subscriptionDispatchRate", "publishRate"),
    *("maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnSubscription", "maxConsumers", "maxProducers"),
    *("maxConsumersPerSubscription", "subscriptionTypesEnabled", "schemaCompatibilityStrategy"),
)


class Request(NamedTuple):
    """A GET of the admin API. Some are not sent at once."""

    path: str
    query: Mapping[str, object] = {}
    after_s: float = 0.0
    """Least time since the first request of the diagnosis."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, or a refusal: `value` is its reason then."""

    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by their names in lower case."""
    at_ms: int = 0

    @property
    def is_ok(self) -> bool:
        """Returns whether it answers the request."""
        return 200 <= self.status < 300

    @property
    def members(self) -> Mapping[str, Any]:
        """Returns the members of an object, none of a refusal or another value."""
        return self.value if self.is_ok and isinstance(self.value, Mapping) else {}


Rounds = Generator[Sequence[Request], Sequence[Reply], Facts]


def gather(topic: str, subscription: str = "", role: str = "", zone: tzinfo | None = None) -> Rounds:
    """Yields the requests of each round, receives their replies, and returns the facts."""
    name = TopicName.parse(topic)
    facts = Facts(str(name), subscription, role, zone=zone)
    local = f"{name.tenant}/{name.namespace}/{quote(name.local, safe='')}"
    path = f"/admin/v2/{name.domain}/{local}"
    replies = yield [Request(f"{path}/partitions")]
    partitions = int(replies[0].members.get("partitions", 0))
    statistics = Request(f"{path}/stats", _STATISTICS | {"getEarliestTimeInBacklog": True})
    if partitions:
        statistics = Request(f"{path}/partitioned-stats", _STATISTICS | {"perPartition": True})
    others = _other_requests(path, local, f"{name.tenant}/{name.namespace}", is_stored=name.is_persistent)
    first, *rest = yield [statistics, *others.values()]
    answers = dict(zip(others, rest, strict=True))
    if not first.is_ok:
        near = yield from _near_names(name, first)
        refusal = (first.status, str(first.value or ""))
        return replace(facts, refusal=refusal, near_names=near, now_ms=first.at_ms, policies=policies_of(answers))
    shown = tuple(logs_of(str(name), partitions, first.members, first.members, {}))
    more = dict(_more_requests(path, shown, subscription, partitions, is_stored=name.is_persistent))
    moves = any(log.publishers or any(one.consumers for one in log.subscriptions.values()) for log in shown)
    later, *rest = yield [statistics._replace(after_s=WINDOW_S if moves else 0.0), *more.values()]
    second = later if later.is_ok else first
    extra = dict(zip(more, rest, strict=True))
    internal = {key: reply.members for (kind, key), reply in extra.items() if kind == "internal" and reply.is_ok}
    return replace(
        facts,
        partitions=partitions,
        logs=tuple(logs_of(str(name), partitions, first.members, second.members, internal)),
        policies=policies_of(answers),
        roles=roles_of(answers, str(name), subscription),
        schema=_schema(answers["schema"]),
        transactions=tuple(_transactions(extra.get(("transactions", "")), str(name), subscription)),
        first_messages={
            key: _first_message(reply) for (kind, key), reply in extra.items() if kind == "peek" and reply.is_ok
        },
        disk_reason=str(answers["disk"].members.get("fullReason") or ""),
        unseen=tuple(_unseen(answers)),
        window_s=max(0.001, (second.at_ms - first.at_ms) / 1000),
        now_ms=second.at_ms,
    )


def _other_requests(path: str, local: str, namespace: str, *, is_stored: bool) -> dict[str, Request]:
    requests = {
        "namespace": Request(f"/admin/v2/namespaces/{namespace}"),
        "permissions": Request(f"{path}/permissions"),
        "schema": Request(f"/admin/v2/schemas/{local}/schema"),
        "configuration": Request("/admin/v2/brokers/configuration/runtime"),
        "disk": Request("/admin/v2/broker-stats/disk"),  # of ours
    }
    if is_stored:
        requests |= {policy: Request(f"{path}/{policy}", {"applied": True}) for policy in _POLICIES}
    return requests


def _more_requests(
    path: str, logs: Sequence[Log], subscription: str, partitions: int, *, is_stored: bool
) -> Iterator[tuple[tuple[str, str], Request]]:
    """Yields what the first sample calls for: internal statistics, first messages of backlogs, open transactions."""
    if not is_stored:
        return
    for log in logs[:_MOST_PARTITIONS]:
        yield ("internal", log.name), Request(f"{_path(path, log)}/internalStats")
    with_backlog = [
        (name, log)
        for log in logs
        for name, statistics in log.subscriptions.items()
        if statistics.backlog and subscription in ("", name)
    ]
    for name, log in dict(reversed(with_backlog[:_MOST_PEEKS])).items():
        words = f"/subscription/{quote(name, safe='')}/position/1"
        yield ("peek", name), Request(f"{_path(path, log)}{words}")
    if any(log.open_transactions for log in logs) or with_backlog:
        yield ("transactions", ""), Request("/admin/v3/transactions/slowTransactions/0")


def _path(path: str, log: Log) -> str:
    return path if log.number is None else f"{path}-partition-{log.number}"


def _near_names(name: TopicName, refused: Reply) -> Generator[Sequence[Request], Sequence[Reply], tuple[str, ...]]:
    """Requests the names beside a topic that is not there, of its namespace, or of the namespace where that is not."""
    if refused.status != HTTPStatus.NOT_FOUND:
        return ()
    namespace = f"{name.tenant}/{name.namespace}"
    plain, partitioned, namespaces = yield [
        Request(f"/admin/v2/{name.domain}/{namespace}"),
        Request(f"/admin/v2/{name.domain}/{namespace}/partitioned"),
        Request(f"/admin/v2/namespaces/{name.tenant}"),
    ]
    if not plain.is_ok:
        wanted, known = namespace, set(namespaces.value or ()) if namespaces.is_ok else set()
    else:
        wanted, known = str(name), {*(plain.value or ()), *((partitioned.value or ()) if partitioned.is_ok else ())}
        known -= {topic for topic in known if topic.rpartition("-partition-")[0] in known}
    return tuple(get_close_matches(wanted, sorted(known), 3, 0.8))


def _schema(reply: Reply) -> tuple[str, int] | None:
    schema = reply.members
    return (str(schema.get("type", "")), int(schema.get("version", 0))) if schema else None


def _transactions(reply: Reply | None, topic: str, subscription: str) -> Iterator[OpenTransaction]:
    """Yields the open transactions that have messages in the topic, or acknowledgements of the subscription."""
    for key, transaction in (reply.members if reply else {}).items():
        produced = transaction.get("producedPartitions") or {}
        acknowledged = transaction.get("ackedPartitions") or {}
        produces = any(_is_of(topic, name) for name in produced)
        acknowledges = any(
            _is_of(topic, name) and (not subscription or subscription in subscriptions)
            for name, subscriptions in acknowledged.items()
        )
        if produces or acknowledges:
            yield OpenTransaction(key, int(transaction.get("openTimestamp", 0)), produces)


def _is_of(topic: str, name: str) -> bool:
    return name == topic or name.rpartition("-partition-")[0] == topic


def _first_message(reply: Reply) -> FirstMessage:
    deliver_at = reply.headers.get("x-pulsar-deliver-at-time", "")
    is_encrypted = reply.headers.get("x-pulsar-is-encrypted", "").lower() == "true"
    if deliver_at.isdecimal():
        return FirstMessage(int(deliver_at), is_encrypted)
    try:
        return FirstMessage(int(datetime.fromisoformat(deliver_at).timestamp() * 1000), is_encrypted)
    except ValueError:
        return FirstMessage(0, is_encrypted)


def _unseen(answers: Mapping[str, Reply]) -> Iterator[str]:
    names = {"namespace": "policies", "permissions": "permissions", "configuration": "configuration of the broker"}
    for key, text in names.items():
        if answers[key].status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            yield text
