"""Internal statistics of topics over REST: their ledgers and cursors (ST-8, CUR-2)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.subscriptions.consumer_stats import timestamp
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.model.positions.ids import EARLIEST, Position

if TYPE_CHECKING:
    from spark_pulsar.admin.http.slices import Steps
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo

MAX_RANGES: Final = 10_000
"""Acked ranges that are written out; the rest is a number."""


_NO_CURSOR: Final = {
    "waitingReadOp": False,
    "pendingReadOps": 0,
    "messagesConsumedCounter": 0,
    "cursorLedger": 0,
    "cursorLedgerLastEntry": 0,
    "active": False,
    "numberOfEntriesSinceFirstNotAckedMessage": 0,
    "totalNonContiguousDeletedMessagesRange": 0,
    "subscriptionHavePendingRead": False,
    "subscriptionHavePendingReplayRead": False,
}
"""Members of the cursor that a subscription of a non-persistent topic does not have."""


def internal_stats(topic: Topic, *, metadata: bool = False) -> Steps[dict[str, Any]]:
    """Returns the ledgers, with a text about each if `metadata` is requested, and cursors of a topic; the
    `currentLedger…` members are the open ledger's. A non-persistent topic has none."""
    if topic.non_persistent is not None:
        return _nothing_stored(topic)
    cursors: dict[str, Any] = {}
    for name, subscription in list(topic.subscriptions.items()):
        cursors[name] = _cursor(subscription.cursor, max(0, subscription.backlog), is_used=bool(subscription.consumers))
        yield
    ledger = topic.ledger
    infos = list(ledger.ledgers.values())
    current = ledger.current
    return {
        "entriesAddedCounter": ledger.total_entries,
        "numberOfEntries": sum(info.entries for info in infos),
        "totalSize": ledger.size_bytes,
        "currentLedgerEntries": 0 if current is None else current.entries,
        "currentLedgerSize": 0 if current is None else current.size_bytes,
        "lastLedgerCreatedTimestamp": timestamp(infos[-1].opened_ms if infos else topic.state.created_ms),
        "waitingCursorsCount": sum(
            1 for subscription in topic.subscriptions.values() if subscription.consumers and not subscription.backlog
        ),
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": str(last_confirmed(topic)),
        "state": _state(topic),
        "ledgers": [_ledger(info, is_open=info is current, metadata=metadata) for info in infos],
        "cursors": {
            **cursors,
            **_compaction_cursor(topic),
            **_deduplication_cursor(topic),
        },
        "schemaLedgers": [],
        "compactedLedger": _compacted(topic),
    }


def _nothing_stored(topic: Topic) -> dict[str, Any]:
    return {
        "entriesAddedCounter": 0,
        "numberOfEntries": 0,
        "totalSize": 0,
        "currentLedgerEntries": 0,
        "currentLedgerSize": 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "cursors": {name: dict(_NO_CURSOR) for name in topic.subscriptions},
    }


def _state(topic: Topic) -> str:
    if topic.state.is_terminated:
        return "Terminated"
    return "LedgerOpened" if topic.ledger.appendable else "ClosedLedger"


def _compacted(topic: Topic) -> dict[str, Any]:
    compaction = topic.state.compaction
    if compaction is not None and compaction.ledger is not None:
        return _ledger(compaction.ledger, is_open=False)
    return {"ledgerId": -1, "entries": -1, "size": -1, "offloaded": False, "underReplicated": False}


def last_confirmed(topic: Topic) -> Position:
    """Returns the last entry on disk; before the first one the open ledger and -1."""
    last, current = topic.last_add_confirmed, topic.ledger.current
    return Position(current.ledger_id, -1) if last == EARLIEST and current is not None else last


def _compaction_cursor(topic: Topic) -> dict[str, Any]:
    """Returns the state of compaction as the cursor that Apache Pulsar has for it."""
    compaction = topic.state.compaction
    if compaction is None or compaction.ledger is None:
        return {}
    cursor = Cursor(topic.ledger, "__compaction", compaction.horizon, created_ms=compaction.finished_ms)
    stats = _cursor(cursor, cursor.backlog(topic.last_add_confirmed), is_used=False)
    return {cursor.name: {**stats, "properties": {"CompactedTopicLedger": compaction.ledger.ledger_id}}}


def _deduplication_cursor(topic: Topic) -> dict[str, Any]:
    """Returns the sequence ids of de-duplication as the cursor whose snapshots Apache Pulsar takes (DED-6). Here they
    are stored with each entry, so that this cursor is always at the end."""
    if not topic.deduplicates:
        return {}
    cursor = Cursor(topic.ledger, "pulsar.dedup", topic.last_add_confirmed, created_ms=topic.state.created_ms)
    return {cursor.name: {**_cursor(cursor, 0, is_used=False), "properties": dict(topic.state.sequences)}}


def _metadata(info: LedgerInfo, *, is_open: bool) -> str:
    state = "OPEN" if is_open else "CLOSED"
    return f"LedgerMetadata{{state={state}, length={info.size_bytes}, lastEntryId={info.entries - 1}}}"


def _ledger(info: LedgerInfo, *, is_open: bool, metadata: bool = False) -> dict[str, Any]:
    return {
        "ledgerId": info.ledger_id,
        "entries": 0 if is_open else info.entries,
        "size": 0 if is_open else info.size_bytes,
        "offloaded": False,
        **({"metadata": _metadata(info, is_open=is_open)} if metadata else {}),
        "underReplicated": False,
    }


def _cursor(cursor: Cursor, backlog: int, *, is_used: bool) -> dict[str, Any]:
    """Returns the state of a cursor: acked ranges (CUR-2), and the numbers that came with the last cumulative ack
    (ACK-5)."""
    ledger = cursor.ledger
    ranges = [
        f"({ledger_id}:{first - 1}..{ledger_id}:{end - 1}]"
        for ledger_id, first, end in islice(cursor.acked, MAX_RANGES)
    ]
    if cursor.acked.range_count() > MAX_RANGES:
        ranges.append("...")
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(cursor.next_to_read),
        "waitingReadOp": is_used and not backlog,
        "pendingReadOps": 0,
        "messagesConsumedCounter": ledger.total_entries - backlog,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": f"[{','.join(ranges)}]",
        "lastLedgerSwitchTimestamp": timestamp(cursor.created_ms),
        "state": "Open",
        "active": is_used,
        "numberOfEntriesSinceFirstNotAckedMessage": ledger.count_after(cursor.mark_delete),
        "totalNonContiguousDeletedMessagesRange": cursor.acked.range_count(),
        "subscriptionHavePendingRead": False,
        "subscriptionHavePendingReplayRead": False,
        "properties": {key: int(value) for key, value in (cursor.ack_properties or {}).items()},
    }
