"""Admission: how far a micro-batch goes when `maxMessagesPerTrigger` limits it. Pure functions.

What was published first is admitted first (`publish_order`), and nobody with a backlog gets less than one message; with
fewer messages than partitions the batch is that much larger. How far each partition is looked ahead for that is its
share of the limit, in proportion to its backlog, or a little more.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from spark_pulsar.connector.offsets import ReadPosition


def share(limit: int, backlogs: Mapping[str, int]) -> dict[str, int]:
    """Messages granted to each partition that has a backlog.

    Grants never exceed a backlog, sum up to `min(limit, total backlog)` exactly, or to one each where `limit` is less
    than the number of partitions with a backlog, and do not depend on the mapping's order.
    """
    waiting = {topic: count for topic, count in backlogs.items() if count > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        return dict.fromkeys(waiting, 1)
    # Integers only, so any size is exact. What rounding leaves goes to the largest remainders; what the guaranteed
    # single messages cost is taken from the largest shares.
    granted = {topic: max(limit * count // total, 1) for topic, count in waiting.items()}
    left = limit - sum(granted.values())
    by_remainder = sorted(
        (topic for topic in waiting if granted[topic] < waiting[topic]),
        key=lambda topic: (-(limit * waiting[topic] % total), topic),
    )
    for topic in by_remainder[: max(left, 0)]:
        granted[topic] += 1
    largest = [(-granted[topic], rank, topic) for rank, topic in enumerate(sorted(granted, reverse=True))]
    heapq.heapify(largest)
    for _ in range(-left):
        negative, rank, topic = largest[0]
        granted[topic] -= 1
        heapq.heapreplace(largest, (negative + 1, rank, topic))
    return granted


def advance(start: ReadPosition, entries: Iterable[tuple[int, int, int]], grant: int) -> tuple[ReadPosition, int]:
    """Walk `grant` messages on from `start` over `entries` of (ledger, entry, message count).

    Entries before `start` are passed over; of the start's own entry only the messages from its batch index on count.
    Entries that complete no message (chunks before a message's last one) count 0. Returns the new position and how many
    messages were passed, fewer than `grant` if the entries ran out.
    """
    position, taken = start, 0
    for ledger_id, entry_id, count in entries:
        here = ReadPosition(ledger_id, entry_id)
        if here[:2] < start[:2]:
            continue
        if taken >= grant:
            break
        first = start.batch_index if here[:2] == start[:2] else 0
        available = max(count - first, 0)
        if taken + available > grant:
            return ReadPosition(ledger_id, entry_id, first + grant - taken), grant
        taken += available
        position = ReadPosition(ledger_id, entry_id + 1)
    return position, taken
