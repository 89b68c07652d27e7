"""Admission: decides how far a micro-batch goes when `maxMessagesPerTrigger` limits it. Pure functions.

Without a limit a micro-batch goes to the end of every partition (`OffsetPlanner.latest`). With one, the messages that
were published first are admitted first, and every partition with a backlog gets one at least; with fewer messages than
partitions the batch is that much larger. What lies ahead is counted by `lookahead`; each partition is looked ahead by
its share of the limit, in proportion to its backlog, or a little more.

Publish order matters for watermarks, which are the newest event time less a delay: were the partitions' shares guessed
from their backlogs, which are known in entries and not in messages, one partition would run ahead of another by far
more than its producer ever did, and the rows of the other would come too late.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.connector.offsets import EARLIEST, ReadPosition

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from spark_pulsar.connector.lookahead import LookAhead

_LEAST_AHEAD: Final = 256
"""Messages to which each partition is looked ahead, if the limit is not less: a partition with a small share would hold
up the others after each few of its messages."""


def limited_end(
    look_ahead: LookAhead, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition], max_messages: int
) -> dict[str, ReadPosition]:
    """Returns the end of the next micro-batch: from `start` towards `end`, with at most `max_messages` messages in all.

    Admits the messages that were published first, but one of each partition at least. Partitions that only `end` knows
    start at their beginning; partitions that are gone from the broker are not in the answer. All partitions together
    are waited for as long as one time-out: a partition that sent too little by then holds up no other. A range whose
    end is gone from the broker is taken whole, so that the task that reads it reports the loss. OperationTimeout when
    there are messages, but none came in time.
    """
    look_ahead.keep(end)
    gathering = look_ahead.gathering(end)
    partition = look_ahead.partition
    position = {topic: start.get(topic, EARLIEST) for topic in end}
    left, least = max_messages, 1
    silent: set[str] = set()
    while left > 0:
        unfinished = {topic: at for topic, at in position.items() if at < end[topic]}
        ahead = {topic: partition(topic).counted(at, end[topic]) for topic, at in unfinished.items()}
        awaited = unfinished.keys() - silent
        backlogs = {topic: partition(topic).backlog(unfinished[topic], end[topic], ahead[topic]) for topic in awaited}
        wanted = {topic: min(left, max(count, _LEAST_AHEAD)) for topic, count in share(left, backlogs).items()}
        short = {topic: count for topic, count in wanted.items() if ahead[topic].lacks(count)}
        for topic in gathering.count(position, short):
            del position[topic], unfinished[topic], ahead[topic]
        for topic in short.keys() & ahead.keys():
            ahead[topic] = partition(topic).counted(unfinished[topic], end[topic])
            if ahead[topic].lacks(short[topic]):
                silent.add(topic)
        grants = earliest(left, ahead, least, silent)
        for topic, grant in grants.items():
            rest = ahead[topic].total - grant
            if not rest and (ahead[topic].is_all or (not grant and topic in gathering.cut_short)):
                position[topic] = end[topic]
            elif grant:
                position[topic] = partition(topic).take(unfinished[topic], grant)
        left, least = left - sum(grants.values()), 0
        if all(position[topic] == at for topic, at in unfinished.items()):
            break
    unmoved = all(position.get(topic) == start.get(topic, EARLIEST) for topic in end)
    if silent and unmoved:
        raise gathering.timeout(silent)
    return position


class Ahead(NamedTuple):
    """Messages counted ahead in one partition, an item an entry."""

    counts: npt.NDArray[np.int64]
    """Messages of each entry that are to be read."""
    publish_times_ms: npt.NDArray[np.int64]
    is_all: bool
    """True when nothing is to be read beyond these entries."""

    @property
    def total(self) -> int:
        """Messages of all entries."""
        return int(self.counts.sum())

    def lacks(self, count: int) -> bool:
        """Tells whether more is to be counted for `count` messages."""
        return self.total < count and not self.is_all


def share(limit: int, backlogs: Mapping[str, int]) -> dict[str, int]:
    """Returns the share of the limit that each partition with a backlog has, in messages.

    Shares never exceed a backlog, sum up to `min(limit, total backlog)` exactly, or to one each where `limit` is less
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


def earliest(limit: int, ahead: Mapping[str, Ahead], least: int, unawaited: Collection[str] = ()) -> dict[str, int]:
    """Grants messages to each partition: `least` (0 or 1) of each, and those published first up to `limit` in all.

    Nothing is granted that was published after the last message counted in a partition that goes on, because what
    follows there may be older; partitions in `unawaited` hold up no other. A message before an older one of its
    partition counts as published with that, so that one producer's clock which is ahead does not hold up what others
    sent. Entries that are equally old are taken in the order of the partitions' names.
    """
    import numpy as np

    topics = sorted(ahead)
    granted = {topic: min(least, ahead[topic].total) for topic in topics}
    left = limit - sum(granted.values())
    if left <= 0 or not topics:
        return granted
    awaited = [one for topic, one in ahead.items() if not one.is_all and topic not in unawaited]
    horizon_ms = min((int(one.publish_times_ms[-1]) for one in awaited if len(one.counts)), default=None)
    counts, times_ms, owners = [], [], []
    for number, topic in enumerate(topics):
        rest = ahead[topic].counts.copy()
        if granted[topic]:
            rest[np.argmax(rest > 0)] -= granted[topic]
        oldest_ms = np.minimum.accumulate(ahead[topic].publish_times_ms[::-1])[::-1]
        stop = len(rest) if horizon_ms is None else int(np.searchsorted(oldest_ms, horizon_ms, "right"))
        counts.append(rest[:stop])
        times_ms.append(oldest_ms[:stop])
        owners.append(np.full(stop, number))
    order = np.argsort(np.concatenate(times_ms), kind="stable")
    in_order = np.concatenate(counts)[order]
    before = np.cumsum(in_order) - in_order
    more = np.zeros(len(topics), np.int64)
    np.add.at(more, np.concatenate(owners)[order], np.clip(left - before, 0, in_order))
    return {topic: granted[topic] + int(more[number]) for number, topic in enumerate(topics)}


def advance(start: ReadPosition, entries: Iterable[tuple[int, int, int]], grant: int) -> tuple[ReadPosition, int]:
    """Walks `grant` messages on from `start` over `entries` of (ledger, entry, message count).

    Entries before `start` are passed over; of the start's own entry only the messages from its batch index on count.
    Entries that complete no message (chunks before a message's last one) count 0. Returns the new position and the
    number of messages passed, fewer than `grant` if the entries ran out.
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
