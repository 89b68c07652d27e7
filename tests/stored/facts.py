"""Facts of a data directory, in a form of their own that stays when the classes of the state change."""

from __future__ import annotations

import hashlib
from typing import Any

from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.topics import TopicState
from spark_pulsar.ledger.state.transactions import Transaction
from spark_pulsar.ledger.storage import Storage
from spark_pulsar.model.schemas import StoredSchema
from tests.delayed_entries import delayed_entries


def facts(storage: Storage, state: DurableState) -> dict[str, Any]:
    """Everything durable but the broker's own counters, as JSON has it."""
    return {
        "topics": {topic.name: _topic(storage, state, topic) for topic in state.topics.values()},
        "partitions": {topic.name: [topic.partitions, topic.properties] for topic in state.partitioned.values()},
        "namespaces": state.namespaces,
        "documents": state.documents,
        "transactions": {str(txn_id): _transaction(each) for txn_id, each in state.transactions.items()},
        "schemas": {of: [_schema(version) for version in versions] for of, versions in state.schemas.items()},
    }


def _transaction(transaction: Transaction) -> dict[str, Any]:
    return {
        "opened ms": transaction.opened_ms,
        "timeout ms": transaction.timeout_ms,
        "owner": transaction.owner,
        "partitions": list(transaction.partitions),
        "subscriptions": {topic: list(names) for topic, names in transaction.subscriptions.items()},
        "cursors": len(transaction.acks),
    }


def _pending(pending: PendingAcks) -> dict[str, Any]:
    return {
        str(txn_id): {
            "ranges": [list(each) for each in acks.ranges],
            "batches": [list(each) for each in acks.sets()],
            "through": acks.through,
        }
        for txn_id, acks in pending.of.items()
    }


def _schema(stored: StoredSchema) -> dict[str, Any]:
    schema = stored.schema
    return {
        "version": stored.version,
        "type": schema.type.name,
        "data": schema.data.decode(),
        "properties": dict(schema.properties),
        "created ms": stored.created_ms,
        "deleted": stored.is_deleted,
    }


def _topic(storage: Storage, state: DurableState, topic: TopicState) -> dict[str, Any]:
    ledger, compaction = topic.ledger, topic.compaction
    found = {
        "properties": topic.properties,
        "created ms": topic.created_ms,
        "entries ever": ledger.total_entries,
        "last": ledger.last_position,
        "ledgers": [_ledger(storage, state, info) for info in ledger.ledgers.values()],
        "cursors": {cursor.name: _cursor(cursor) for cursor in topic.cursors.values()},
        "sequences": topic.sequences,
        "terminated": topic.is_terminated,
        "chunks": topic.has_chunks,
        "delayed": [list(each) for each in delayed_entries(topic.delays)] if topic.delays else [],
        "damaged": len(topic.damages),
        "withheld": [list(each) for each in ledger.withheld],
        "entries of transactions": {
            str(txn_id): [list(each) for each in entries] for txn_id, entries in topic.open_transactions.items()
        },
    }
    if compaction is not None and compaction.ledger is not None:
        found["compacted"] = {
            "horizon": compaction.horizon,
            "last": compaction.last,
            "removed": compaction.removed,
            "ledger": _ledger(storage, state, compaction.ledger),
        }
    return found


def _first_unread(state: DurableState, info: LedgerInfo) -> int:
    """Returns the first entry that a subscription has not passed: earlier versions kept none before it."""
    topic = state.topics[info.topic_id]
    slowest = topic.slowest_mark_delete()
    is_kept = info.ledger_id not in topic.ledger.ledgers or state.keeps_consumed(topic)
    if is_kept or slowest is None or slowest.ledger_id < info.ledger_id:
        return info.first_entry_id
    passed = info.entries if slowest.ledger_id > info.ledger_id else min(slowest.entry_id + 1, info.entries)
    return max(info.first_entry_id, passed)


def _ledger(storage: Storage, state: DurableState, info: LedgerInfo) -> dict[str, Any]:
    digest, stored = hashlib.sha256(), 0
    first = at = _first_unread(state, info)
    while runs := storage.read(info.ledger_id, at, 1000, 1 << 20):
        for run in runs:
            for entry_id in range(run.first_entry_id, run.end_entry_id):
                digest.update(b"%d %d " % (entry_id, len(run.entry(entry_id))) + run.entry(entry_id))
                stored += 1
            at = run.end_entry_id
    return {
        "id": info.ledger_id,
        "entries": info.entries,
        "bytes": info.size_bytes,
        "messages": info.messages,
        "sealed": info.sealed_ms is not None,
        "needed from": first,
        "stored": stored,
        "digest": digest.hexdigest()[:32],
    }


def _cursor(cursor: Cursor) -> dict[str, Any]:
    def table(of: dict[int, dict[int, int]]) -> dict[str, int]:
        return {f"{ledger}:{entry}": value for ledger, entries in of.items() for entry, value in entries.items()}

    return {
        "mark-delete": cursor.mark_delete,
        "acked": [list(each) for each in cursor.acked],
        "left of batches": table(cursor.batch_sets),
        "delivered again": table(cursor.redelivered),
        "properties": cursor.properties,
        "numbers of the last ack": cursor.ack_properties,
        "created ms": cursor.created_ms,
        "backlog": cursor.backlog(),
        "pending": None if cursor.pending is None else _pending(cursor.pending),
    }
