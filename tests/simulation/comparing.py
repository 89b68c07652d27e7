"""Comparison of the broker's state with the account."""

from __future__ import annotations

from typing import Any

from spark_pulsar.ledger.apply.schemas import next_version
from spark_pulsar.ledger.state.durable_state import DurableState

from .account import Account, Topic


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
