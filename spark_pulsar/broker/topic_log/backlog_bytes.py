"""Sizes of a topic's entries and backlogs, at little cost, for quotas and statistics (BQ-1, BQ-11, ST-3).

Bytes are stored bytes. A backlog's bytes are those after its mark-delete; entries acked one by one behind it count (as
in Apache Pulsar). Statistics take the sizes that are known at little cost (`ledger.managed_ledgers`), quotas an upper
bound of them, and have the rest measured when it matters.
"""

from __future__ import annotations

from functools import partial
from operator import sub
from typing import TYPE_CHECKING

from spark_pulsar.broker.entities.topic import OldestEntry
from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.entry_bytes import publish_time_of

from . import entry_lookup

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.managed_ledgers.ledger import SizeSpan
    from spark_pulsar.ledger.state.cursors.cursor import Cursor


def storage_bytes(topic: Topic) -> int:
    """Returns the bytes of all ledgers, consumed or not (`storageSize`)."""
    return topic.ledger.size_bytes


def slowest(topic: Topic) -> Cursor | None:
    """Returns the durable cursor with the lowest mark-delete, None when there is none."""
    return min(topic.state.cursors.values(), key=lambda cursor: cursor.mark_delete, default=None)


def backlog_bytes(topic: Topic) -> int:
    """Returns the bytes after the slowest durable cursor's mark-delete (the topic's `backlogSize`), about; 0 without
    one."""
    cursor = slowest(topic)
    return 0 if cursor is None else topic.ledger.bytes_after(cursor.mark_delete)


def most_backlog_bytes(topic: Topic) -> int:
    """Returns an upper bound of `backlog_bytes`."""
    cursor = slowest(topic)
    return 0 if cursor is None else topic.ledger.bytes_after_at_most(cursor.mark_delete)


def least_backlog_bytes(topic: Topic) -> int:
    """Returns a lower bound of `backlog_bytes`."""
    cursor = slowest(topic)
    return 0 if cursor is None else topic.ledger.bytes_after_at_least(cursor.mark_delete)


def measure(core: Core, topic: Topic, span: SizeSpan, done: Callable[[bool], None]) -> None:
    """Measures the sizes of some entries, which the topic's ledgers remember; `done` gets whether they did, in this
    turn when the entries are in memory, or in a later one."""
    sizes = _sizes_in_memory(core, span)
    if sizes is not None:
        topic.ledger.learn(span, sizes)
        done(True)
        return

    def receive(sizes: list[int] | None) -> None:
        if sizes is not None:
            topic.ledger.learn(span, sizes)
        done(sizes is not None)

    def read() -> None:
        core.read_sizes(span.ledger_id, span.first, span.end, receive)

    if core.is_stalled:
        read()
    else:
        core.when_durable(read)


def _sizes_in_memory(core: Core, span: SizeSpan) -> list[int] | None:
    sizes: list[int] = []
    while (at := span.first + len(sizes)) < span.end:
        run = core.cache.lookup(span.ledger_id, at)
        if run is None:
            return None
        low, high = at - run.first_entry_id, span.end - run.first_entry_id
        sizes += map(sub, run.ends[low:high], run.starts[low:high])
    return sizes


def subscription_backlog_bytes(subscription: Subscription) -> int:
    """Returns the bytes after the subscription's mark-delete (its `backlogSize`), about."""
    return subscription.topic.ledger.bytes_after(subscription.cursor.mark_delete)


def oldest_known(topic: Topic) -> OldestEntry | None:
    """Returns the oldest entry of the slowest backlog as far as it is known without reading: None when there is no
    backlog, or `with_oldest` was not called since the slowest subscription moved."""
    known = topic.oldest
    cursor = slowest(topic)
    if known is None or cursor is None:
        return None
    return known if cursor.name == known.subscription and cursor.next_to_read == known.position else None


def with_oldest(core: Core, topic: Topic, done: Callable[[OldestEntry | None], None]) -> None:
    """Finds the oldest entry of the slowest backlog; `done` gets it in this or a later turn, None when there is no
    backlog on disk. Another call about the same entry costs nothing, unless the entry could not be read."""
    cursor = slowest(topic)
    if cursor is None:
        done(None)
        return
    name, position = cursor.name, cursor.next_to_read
    if position > topic.last_add_confirmed or not topic.ledger.contains(position):
        done(None)
        return
    known = topic.oldest
    if known is not None and known.position == position and known.subscription == name:
        done(known)
        return

    def read(entry: bytes | None) -> None:
        if entry is None:
            done(OldestEntry(name, position, None))
        else:
            topic.oldest = OldestEntry(name, position, publish_time(entry))
            done(topic.oldest)

    entry_lookup.fetch(core, position, read)


def with_earliest(core: Core, topic: Topic, done: Callable[[dict[str, int]], None]) -> None:
    """Finds the time at which the first entry after each subscription's mark-delete was published, by its producer's
    clock; `done` gets it in this or a later turn, by name, without those that have no backlog."""
    earliest: dict[str, int] = {}
    left = 1

    def one_less() -> None:
        nonlocal left
        left -= 1
        if not left:
            done(earliest)

    def note(name: str, entry: bytes | None) -> None:
        published_ms = None if entry is None else publish_time(entry)
        if published_ms is not None:
            earliest[name] = published_ms
        one_less()

    for name, subscription in topic.subscriptions.items():
        position = subscription.cursor.next_to_read
        if subscription.backlog > 0 and position <= topic.last_add_confirmed and topic.ledger.contains(position):
            left += 1
            entry_lookup.fetch(core, position, partial(note, name))
    one_less()


def publish_time(entry: bytes) -> int | None:
    """Returns the publish time of an entry, by its producer's clock; None when its metadata cannot be read."""
    try:
        return publish_time_of(entry, 0, len(entry))
    except CorruptMessage:
        return None


def oldest_backlog_age_s(core: Core, topic: Topic) -> int:
    """Returns the age of the oldest entry of the slowest backlog in seconds, -1 when unknown or none
    (`oldestBacklogMessageAgeSeconds`, BQ-10)."""
    known = oldest_known(topic)
    return -1 if known is None or known.publish_ms is None else max(0, core.wall_ms - known.publish_ms) // 1000
