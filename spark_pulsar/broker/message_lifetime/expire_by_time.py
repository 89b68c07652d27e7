"""Expires the messages of a subscription that are older than a time, on demand (TTL-8), and for quotas (BQ-7). By
themselves entries expire in `ttl` (TTL-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.topic_log.entry_timestamps import time_in
from spark_pulsar.broker.topic_log.entry_walk import EntryWalk

from .ttl import CLOCK_TOLERANCE_MS, ack_expired

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.ledger.entries import EntryRange, EntryRun

_ENTRIES_A_TURN: Final = 2_000


def older_than(core: Core, subscription: Subscription, time_ms: int, done: Callable[[], None]) -> None:
    """Acks every entry published before the time, up to the first unacknowledged one that was not; `done` comes in this
    turn or a later one.

    Entries of a clock that is ahead of ours are stepped over and stay. An entry that is not older is never consumed,
    whatever lies behind it (better than TTL-4); one that cannot be read ends it.
    """
    expired: list[EntryRange] = []

    def visit(run: EntryRun, first: int, end: int) -> int:
        ahead_ms = core.wall_ms + CLOCK_TOLERANCE_MS
        for entry_id in range(first, end):
            published_ms = time_in(run, entry_id - run.first_entry_id)
            if time_ms <= published_ms <= ahead_ms:
                if subscription.cursor.is_acked(run.ledger_id, entry_id):
                    continue  # as a marker is, which has the broker's time
                return entry_id
            if published_ms < time_ms:
                if expired and expired[-1][::2] == (run.ledger_id, entry_id):
                    expired[-1] = (run.ledger_id, expired[-1][1], entry_id + 1)
                else:
                    expired.append((run.ledger_id, entry_id, entry_id + 1))
        return end

    def go_on() -> None:
        if topic.subscriptions.get(subscription.name) is not subscription:
            done()
            return
        walk.walk(_ENTRIES_A_TURN)
        if expired:
            ack_expired(core, subscription, expired.copy())
            expired.clear()
        if walk.is_over:
            done()
        elif not walk.is_reading:
            core.at(core.now_ms + 1, go_on)

    topic = subscription.topic
    begin, end = subscription.cursor.mark_delete.next_in_ledger, topic.last_add_confirmed.next_in_ledger
    walk = EntryWalk(core, topic, begin, end, visit, go_on)
    go_on()
