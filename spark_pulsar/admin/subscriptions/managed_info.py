"""Stored ledgers and backlogs over REST: `internal-info`, `backlog`, `analyzeBacklog` (ADM-73).

Apache Pulsar answers the first two from its metadata, which is older than the state of its broker, and the second with
zeros for topics that are in use; here both are up to date.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import TOPIC_PATH, reads, routes, shows_later
from spark_pulsar.admin.topics.internal_stats import MAX_RANGES
from spark_pulsar.admin.topics.non_persistent_refusals import check_stored
from spark_pulsar.admin.topics.topic_lifecycle import (
    check_namespace,
    existing,
    is_known,
    partitions_in_steps,
)
from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.subscriptions.backlog_scan import BacklogScan
from spark_pulsar.broker.subscriptions.consumer_stats import timestamp
from spark_pulsar.broker.topic_log import backlog_bytes

from . import cursors

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
    from spark_pulsar.ledger.state.cursors.cursor import Cursor
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.positions.ids import Position

VERSION: Final = 0
"""Version of the description, which Apache Pulsar counts up with each write; ours is no document of its own."""


def _internal_info(core: Core, call: Call) -> Steps[object]:
    name = call.topic
    check_stored(name, "Internal info")
    check_namespace(core, name)
    if registry.partition_count(core, name) is None:
        return internal_info(core, existing(core, name))
    partitions: dict[str, Any] = {}
    for topic in (yield from partitions_in_steps(core, name)):
        if core.topics.get(topic.full_name) is topic:  # else deleted meanwhile
            partitions[topic.full_name] = internal_info(core, topic)
        yield
    return {"version": VERSION, "partitions": partitions}


def internal_info(core: Core, topic: Topic) -> dict[str, Any]:
    """Returns the ledgers of a topic, the open one without sizes, and its durable subscriptions."""
    state, ledger = topic.state, topic.ledger
    infos = list(ledger.ledgers.values())
    changed_ms = max((info.opened_ms for info in infos), default=state.created_ms)
    answer: dict[str, Any] = {
        "version": VERSION,
        "creationDate": timestamp(state.created_ms),
        "modificationDate": timestamp(max(changed_ms, state.created_ms)),
        "ledgers": [_ledger(core, info) for info in infos],
        "cursors": {cursor.name: _cursor(cursor) for cursor in state.cursors.values()},
    }
    if state.is_terminated:
        answer["terminatedPosition"] = _place(topic.last_add_confirmed)
    if state.properties:
        answer["properties"] = state.properties
    return answer


def _ledger(core: Core, info: LedgerInfo) -> dict[str, Any]:
    ledger: dict[str, Any] = {"ledgerId": info.ledger_id}
    if info.sealed_ms is not None:
        ledger |= {"entries": info.entries, "size": info.size_bytes}
    return ledger | {"timestamp": core.wall_ms if info.sealed_ms is None else info.sealed_ms, "isOffloaded": False}


def _cursor(cursor: Cursor) -> dict[str, Any]:
    created = timestamp(cursor.created_ms)
    described: dict[str, Any] = {
        "version": VERSION,
        "creationDate": created,
        "modificationDate": created,
        "cursorsLedgerId": -1,
        "markDelete": _place(cursor.mark_delete),
    }
    if cursor.acked:
        described["individualDeletedMessages"] = [
            {
                "from": {"ledgerId": ledger_id, "entryId": first - 1},
                "to": {"ledgerId": ledger_id, "entryId": end - 1},
            }
            for ledger_id, first, end in islice(cursor.acked, MAX_RANGES)
        ]
    return described


def _place(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def _backlog(core: Core, call: Call) -> Steps[object]:
    """Answers the backlog of a topic, or of all partitions together; zeros for a topic that does not exist, as Apache
    Pulsar does."""
    name = call.topic
    check_namespace(core, name)
    partitions = (yield from partitions_in_steps(core, name)) if is_known(core, name) else []
    persistent = [topic for topic in partitions if topic.non_persistent is None]
    details: dict[str, dict[str, int]] = {}
    for topic in persistent:
        yield
        for subscription in topic.subscriptions.values():
            if subscription.is_durable:
                known = details.setdefault(subscription.name, {"cursorBacklog": 0, "cursorLedgerId": -1})
                known["cursorBacklog"] += max(0, subscription.backlog)
    infos = [info for topic in persistent for info in topic.ledger.ledgers.values()]
    return {
        "storageSize": sum(backlog_bytes.storage_bytes(topic) for topic in persistent),
        "totalMessages": sum(info.entries for info in infos),
        "messageBacklog": sum(detail["cursorBacklog"] for detail in details.values()),
        "brokerName": call.broker_name,
        "topicName": f"{name.tenant}/{name.namespace}/{name.domain}/{name.local}",
        "dataLedgerDetails": [
            {
                "entries": info.entries,
                "timestamp": core.wall_ms if info.sealed_ms is None else info.sealed_ms,
                "size": info.size_bytes,
                "ledgerId": info.ledger_id,
            }
            for info in infos
        ],
        "cursorDetails": details,
        "statGeneratedAt": core.wall_ms,
    }


def _analyze(core: Core, call: Call, answer: Callable[[dict[str, Any] | PulsarError], None]) -> None:
    """Counts the unacknowledged entries of a subscription, from a place on if one is named. Acknowledged entries
    between that place and mark-delete, which Apache Pulsar counts, do not count."""
    name, place = call.topic, cursors.place_in(call.json())
    refusal = "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition"
    subscription = cursors.one(core, name, call.parts["subscription"], refusal=refusal)
    check_stored(name, "Analyze backlog")
    start = subscription.cursor.mark_delete if place is None else place.position
    scan = BacklogScan(core, subscription, start, lambda: answer(_counted(scan)))
    scan.step()


def _counted(scan: BacklogScan) -> dict[str, Any]:
    """Returns the numbers of entries by the verdict of entry filters; without filters all are accepted."""
    counted: dict[str, Any] = {
        "entries": scan.entries,
        "messages": scan.messages,
        "markerMessages": 0,  # transactions leave none here
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": scan.entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": scan.messages,
        "filterRescheduledMessages": 0,
        "aborted": scan.aborted,
    }
    if scan.first is not None and scan.last is not None:
        counted["firstMessageId"] = str(scan.first)
        counted["lastMessageId"] = str(scan.last)
    return counted


ROUTES: Final[Routes] = routes(
    TOPIC_PATH,
    ("GET /internal-info", access.topic("GET_STATS"), reads(_internal_info)),
    ("GET /backlog", access.topic("GET_BACKLOG_SIZE"), reads(_backlog)),
    ("POST /subscription/{subscription}/analyzeBacklog", access.topic("CONSUME"), shows_later(_analyze)),
)
