"""Comparison of the broker's state with the account."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.ledger.state.cursors.pending_acks import unsized
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.schemas import next_version
from spark_pulsar.model.positions.ids import EARLIEST

from .account import Account, Place, Topic


class Violation(AssertionError):
    """The broker broke a promise."""


def compare(state: DurableState, account: Account) -> None:
    """Topics, entries, subscriptions. Violation when they differ."""
    if state.topics_by_name.keys() != account.topics.keys():
        raise Violation(f"topics are {sorted(state.topics_by_name)}, should be {sorted(account.topics)}")
    partitioned = {name: each.partitions for name, each in state.partitioned.items()}
    if partitioned != account.partition_counts:
        raise Violation(f"partitioned topics are {partitioned}, should be {account.partition_counts} (PT-7)")
    for name, topic in account.topics.items():
        found = state.topics_by_name[name]
        places = [
            (ledger_id, entry_id)
            for ledger_id, info in found.ledger.ledgers.items()
            for entry_id in range(info.first_entry_id, info.entries)
        ]
        if places != list(topic.log):
            raise Violation(f"{name} holds {places}, should hold {list(topic.log)}")
        if found.is_terminated != topic.is_terminated:
            raise Violation(f"{name} has {'' if found.is_terminated else 'not '}ended (TN-13)")
        if found.cursors.keys() != topic.subscriptions.keys():
            raise Violation(f"{name} has {list(found.cursors)}, should have {list(topic.subscriptions)}")
        for cursor in found.cursors.values():
            _compare_cursor(name, cursor, topic)
    _compare_schemas(state, account)
    _compare_transactions(state, account)


def _compare_transactions(state: DurableState, account: Account) -> None:
    found = {
        txn_id: (
            list(each.partitions),
            {(topic, name) for topic, names in each.subscriptions.items() for name in names},
        )
        for txn_id, each in state.transactions.items()
    }
    expected = {txn_id: (each.partitions, set(each.subscriptions)) for txn_id, each in account.transactions.items()}
    if found != expected:
        raise Violation(f"transactions are {found}, should be {expected} (TX-3 ... TX-7)")
    for name, topic in account.topics.items():
        known = state.topics_by_name[name]
        opened = {txn_id: _places(entries) for txn_id, entries in known.open_transactions.items()}
        if opened != topic.open:
            raise Violation(f"{name} has entries of transactions {opened}, should have {topic.open} (TX-8)")
        withheld = _places(known.ledger.withheld)
        if withheld != topic.withheld:
            raise Violation(f"{name} withholds {withheld}, should withhold {topic.withheld} (TX-10, TX-11)")
        for cursor in known.cursors.values():
            _compare_pending(name, cursor, topic)


def _compare_pending(name: str, cursor: Any, topic: Topic) -> None:
    pending = {} if cursor.pending is None else cursor.pending.of
    found = {
        txn_id: (
            _places(acks.ranges),
            {place: unsized(bits) for place, bits in acks.batch_sets.items()},
            tuple(acks.through) if acks.through > EARLIEST else None,
        )
        for txn_id, acks in pending.items()
    }
    known = topic.subscriptions[cursor.name].pending
    expected = {txn_id: (each.whole, each.parts, each.through) for txn_id, each in known.items()}
    if found != expected:
        raise Violation(f"acks pending on {cursor.name} of {name} are {found}, should be {expected} (TX-12)")


def _places(ranges: Iterable[tuple[int, int, int]]) -> set[Place]:
    return {(ledger_id, entry_id) for ledger_id, first, end in ranges for entry_id in range(first, end)}


def _compare_schemas(state: DurableState, account: Account) -> None:
    for name, known in {**dict.fromkeys(state.schemas, ()), **account.schemas}.items():
        versions = state.schemas.get(name, ())
        found = {each.version: each.schema.data for each in versions if not each.is_deleted}
        expected = {version: data for version, data in enumerate(known) if data is not None}
        if found != expected or next_version(versions) != len(known):
            raise Violation(f"{name} has schemas {found}, should have {expected} (SC-1)")


def _compare_cursor(name: str, cursor: Any, topic: Topic) -> None:
    subscription = topic.subscriptions[cursor.name]
    for place in topic.log:
        if cursor.is_acked(*place) != (place in subscription.acked):
            raise Violation(f"{cursor.name} of {name}: {place} is {'' if cursor.is_acked(*place) else 'not '}acked")
        bits = None if place in subscription.acked else cursor.batch_set(*place)
        if bits != subscription.bits.get(place):
            raise Violation(f"{cursor.name} of {name}: {place} has {bits}, should have {subscription.bits.get(place)}")
        count = 0 if place in subscription.acked else cursor.redelivered.get(place[0], {}).get(place[1], 0)
        if count != subscription.redelivered.get(place, 0):
            raise Violation(f"{cursor.name} of {name}: {place} was redelivered {count} times by the cursor")
    backlog = len(topic.log) - len(subscription.acked)
    if cursor.backlog() != backlog:
        raise Violation(f"{cursor.name} of {name}: backlog {cursor.backlog()}, should be {backlog}")


def check_quotas(core: Core, account: Account) -> None:
    """Checks that quotas know how much lies behind the slowest subscription, and check in time (BQ-1)."""
    for topic in core.topics.values():
        mark = min((cursor.mark_delete for cursor in topic.state.cursors.values()), default=None)
        if topic.quota is None or mark is None:
            continue
        log = account.topics[topic.full_name].log
        backlog = sum(len(sent.entry) for place, sent in log.items() if place > mark)
        least, most = backlog_bytes.least_backlog_bytes(topic), backlog_bytes.most_backlog_bytes(topic)
        if not least <= backlog <= most:
            raise Violation(f"{topic.name}: {backlog} bytes of backlog, should be {least} to {most}")
        if topic.quota.has_size and not topic.quota.is_checking:
            unseen = max(0, topic.check_at_bytes - topic.bytes_in)
            if backlog + unseen > max(topic.quota.size.limit_bytes, backlog + 1):
                raise Violation(f"{topic.name}: {backlog} bytes of backlog, and the next look is late (BQ-1)")


def difference(one: Any, other: Any, path: str = "") -> str:
    """Finds the place where two pictures differ, as text."""
    if isinstance(one, dict) and isinstance(other, dict):
        lines = [
            difference(one.get(key), other.get(key), f"{path}/{key}")
            for key in {**one, **other}
            if one.get(key) != other.get(key)
        ]
        return "\n".join(lines)
    return f"{path}: last tried {one!r}, found {other!r}"
