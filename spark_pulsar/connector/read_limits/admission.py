"""Admission: decides how far a micro-batch goes when its size is limited. Pure functions of the counted messages.

Without a limit a micro-batch goes to the end of every partition (`OffsetPlanner.latest`). With one, the messages that
were published first are admitted first, and every partition with a backlog gets one at least; with fewer messages than
partitions the batch is that much larger. What lies ahead is counted by `lookahead`, and `admit` answers either how far
the micro-batch goes or which entries are to be counted yet: the look-ahead of each partition is its share of the limit,
in proportion to its backlog, or a little more. `gathering` goes between the two.

Publish order matters for watermarks, which are the newest event time less a delay: were the partitions' shares guessed
from their backlogs, which are known in entries and not in messages, one partition would run ahead of another by far
more than its producer ever did, and the rows of the other would come too late.

Bytes are those of stored entries, with their metadata, compressed as they were sent. An entry's bytes are spread evenly
over its messages, and a chunked message has those of all its chunks.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.connector.planning.splitting import Extents
from spark_pulsar.connector.positions import ReadPosition

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_FOLLOWED: Final = 32
"""Partitions that are followed at most for small micro-batches: each costs a reader, and memory for its entries."""
_LEAST_AHEAD: Final = 256
"""Least look-ahead of a partition in messages, if the limit is not less: a partition with a small share would hold up
the others after each few of its messages."""
_LEAST_BYTES_AHEAD: Final = 256 << 10
"""Bytes of the same, where bytes are limited."""
_UNLIMITED: Final = 2**62


class Limits(NamedTuple):
    """Limits of one micro-batch; None: no such limit."""

    max_messages: int | None = None
    max_bytes: int | None = None


class Wanted(NamedTuple):
    """Amount that is to be counted in one partition: a number of messages, or of bytes if these come first."""

    messages: int
    size_bytes: int | None = None


class Ahead(NamedTuple):
    """Messages counted ahead in one partition, an item an entry."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    """Messages of each entry that are to be read: 0 for a marker, and for a chunk that is not its message's last."""
    costs: npt.NDArray[np.int64]
    """Bytes of these messages; 0 where there are none."""
    publish_times_ms: npt.NDArray[np.int64]
    is_all: bool
    """True when nothing is to be read beyond these entries."""

    @property
    def total(self) -> int:
        """Messages of all entries."""
        return int(self.counts.sum())

    def lacks(self, wanted: Wanted) -> bool:
        """Returns whether more is to be counted."""
        if self.is_all or self.total >= wanted.messages:
            return False
        return wanted.size_bytes is None or int(self.costs.sum()) < wanted.size_bytes

    def after(self, start: ReadPosition, grant: int) -> ReadPosition:
        """Returns the position `grant` messages after `start`, which is where the entries begin."""
        import numpy as np

        if grant <= 0:
            return start
        through = np.cumsum(self.counts)
        index = int(np.searchsorted(through, grant))
        entry = ReadPosition(int(self.ledger_ids[index]), int(self.entry_ids[index]))
        if through[index] == grant:
            return entry._replace(entry_id=entry.entry_id + 1)
        passed = start.batch_index if entry[:2] == start[:2] else 0
        return entry._replace(batch_index=passed + grant - int(through[index] - self.counts[index]))


@dataclass(frozen=True, slots=True)
class Counting:
    """Partition as far as it was counted, between its start and the end that the micro-batch may not pass."""

    start: ReadPosition
    end: ReadPosition
    ahead: Ahead
    backlog: int
    """Messages from start to end: those that are counted, and an estimate of the others."""
    is_silent: bool = False
    """True when the wait for more was in vain: it delays no other partition."""
    is_cut_short: bool = False
    """True when its end is gone from the broker, so that nothing more will come."""


@dataclass(frozen=True, slots=True)
class CountMore:
    """Answer of `admit` and `has_at_least`: first count these partitions up to there."""

    wanted: Mapping[str, Wanted]


def admit(partitions: Mapping[str, Counting], limits: Limits) -> dict[str, ReadPosition] | CountMore:
    """Returns the end of the next micro-batch in each partition, or the amounts to count before it is known (READ-1,
    READ-16).

    Admits the messages that were published first, but one of each partition at least. A range whose end is gone from
    the broker is taken whole when nothing else is left of it, so that the task that reads it reports the loss.
    """
    unfinished = {topic: partitions[topic] for topic in sorted(partitions) if _is_unfinished(partitions[topic])}
    awaited = [topic for topic, one in unfinished.items() if not one.is_silent]
    if any(unfinished[topic].ahead.lacks(Wanted(1)) for topic in awaited):
        return _to_count(unfinished, dict.fromkeys(unfinished, 0), limits)
    ahead = {topic: one.ahead for topic, one in unfinished.items()}
    grants, is_full = earliest(limits, ahead, {topic for topic, one in unfinished.items() if one.is_silent})
    if not is_full:
        more = _to_count(unfinished, grants, limits)
        if more.wanted:
            return more
    ends = {topic: one.start for topic, one in partitions.items()}
    for topic, one in unfinished.items():
        ends[topic] = _end_of(one, grants[topic], is_full)
    return ends


def has_at_least(partitions: Mapping[str, Counting], count: int) -> bool | CountMore:
    """Returns whether the partitions have `count` messages, or the amounts to count before that is known (READ-17)."""
    unfinished = {topic: partitions[topic] for topic in sorted(partitions) if _is_unfinished(partitions[topic])}
    known = {topic: one.ahead.total for topic, one in unfinished.items()}
    missing = count - sum(known.values())
    if missing <= 0:
        return True
    backlogs = {
        topic: max(one.backlog - known[topic], 1)
        for topic, one in unfinished.items()
        if not one.is_silent and not one.ahead.is_all
    }
    shares = share(missing, backlogs)
    return CountMore({topic: Wanted(known[topic] + shares[topic]) for topic in shares}) if shares else False


def _is_unfinished(one: Counting) -> bool:
    return one.start < one.end


def _end_of(one: Counting, grant: int, is_full: bool) -> ReadPosition:
    nothing_left = grant == one.ahead.total
    if nothing_left and (one.ahead.is_all or (one.is_cut_short and (not grant or not is_full))):
        return one.end
    return min(one.ahead.after(one.start, grant), one.end)


def _to_count(unfinished: Mapping[str, Counting], grants: Mapping[str, int], limits: Limits) -> CountMore:
    """Returns the amounts to count beyond the granted ones, so that the rest of the limits can be granted."""
    backlogs = {
        topic: max(one.backlog - grants[topic], 1)
        for topic, one in unfinished.items()
        if not one.is_silent and not (one.ahead.is_all and grants[topic] == one.ahead.total)
    }
    spent = {topic: _cost_of(unfinished[topic].ahead, grants[topic]) for topic in unfinished}
    left = _UNLIMITED if limits.max_messages is None else limits.max_messages - sum(grants.values())
    left_bytes: int | None = None
    if limits.max_bytes is not None:
        left_bytes = max(limits.max_bytes - sum(spent.values()), 1)
        left = min(left, _messages_in(left_bytes, unfinished))
    shares = share(max(left, 1), backlogs)
    wanted = {}
    for topic, count in shares.items():
        size_bytes = None
        if left_bytes is not None:
            size_bytes = spent[topic] + min(left_bytes, max(left_bytes // len(shares), _LEAST_BYTES_AHEAD))
        one = Wanted(grants[topic] + min(max(left, 1), max(count, _LEAST_AHEAD)), size_bytes)
        if unfinished[topic].ahead.lacks(one):
            wanted[topic] = one
    return CountMore(wanted)


def _messages_in(size_bytes: int, unfinished: Mapping[str, Counting]) -> int:
    """Estimates the messages that fit into some bytes, by those that were counted."""
    counted = sum(one.ahead.total for one in unfinished.values())
    cost = sum(int(one.ahead.costs.sum()) for one in unfinished.values())
    return size_bytes * counted // cost + 1 if cost else _LEAST_AHEAD * len(unfinished)


def _cost_of(ahead: Ahead, grant: int) -> int:
    """Bytes of the first `grant` messages."""
    import numpy as np

    if grant <= 0:
        return 0
    through = np.cumsum(ahead.counts)
    index = int(np.searchsorted(through, grant))
    part = grant - int(through[index] - ahead.counts[index])
    return int(ahead.costs[:index].sum()) + -(-int(ahead.costs[index]) * part // int(ahead.counts[index]))


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


def earliest(
    limits: Limits, ahead: Mapping[str, Ahead], unawaited: Collection[str] = ()
) -> tuple[dict[str, int], bool]:
    """Grants messages to each partition: one of each, and those published first up to the limits in all; and returns
    whether a limit was reached.

    Nothing but that one is granted that was published after the last message counted in a partition that goes on,
    because what follows there may be older; partitions in `unawaited` hold up no other. A message before an older one
    of its partition counts as published with that, so that one producer's clock which is ahead does not hold up what
    others sent. Entries that are equally old are taken in the order of the partitions' names.
    """
    import numpy as np

    topics = sorted(ahead)
    granted = {topic: min(1, ahead[topic].total) for topic in topics}
    left = _UNLIMITED if limits.max_messages is None else limits.max_messages - sum(granted.values())
    left_bytes = _UNLIMITED if limits.max_bytes is None else limits.max_bytes
    left_bytes -= sum(_cost_of(ahead[topic], 1) for topic in topics if granted[topic])
    if left <= 0 or left_bytes <= 0 or not topics:
        return granted, bool(topics)
    awaited = [one for topic, one in ahead.items() if not one.is_all and topic not in unawaited]
    horizon_ms = min((int(one.publish_times_ms[-1]) for one in awaited if len(one.counts)), default=None)
    counts, costs, times_ms, owners = [], [], [], []
    for number, topic in enumerate(topics):
        rest, cost = ahead[topic].counts.copy(), ahead[topic].costs.copy()
        if granted[topic]:
            first = int(np.argmax(rest > 0))
            cost[first] -= -(-int(cost[first]) // int(rest[first]))
            rest[first] -= 1
        oldest_ms = np.minimum.accumulate(ahead[topic].publish_times_ms[::-1])[::-1]
        stop = len(rest) if horizon_ms is None else int(np.searchsorted(oldest_ms, horizon_ms, "right"))
        counts.append(rest[:stop])
        costs.append(cost[:stop])
        times_ms.append(oldest_ms[:stop])
        owners.append(np.full(stop, number))
    order = np.argsort(np.concatenate(times_ms), kind="stable")
    in_order, cost_in_order = np.concatenate(counts)[order], np.concatenate(costs)[order]
    through, cost_through = np.cumsum(in_order), np.cumsum(cost_in_order)
    # Entries from the first on that does not fit get nothing; of that one goes in what fits.
    complete = min(
        int(np.searchsorted(through, left, "right")), int(np.searchsorted(cost_through, left_bytes, "right"))
    )
    taken = in_order.copy()
    taken[complete:] = 0
    if complete < len(taken) and in_order[complete]:
        room = left - int(through[complete] - in_order[complete])
        cost_room = left_bytes - int(cost_through[complete] - cost_in_order[complete])
        fits = cost_room * int(in_order[complete]) // max(int(cost_in_order[complete]), 1)
        taken[complete] = min(room, fits, int(in_order[complete]))
    more = np.zeros(len(topics), np.int64)
    np.add.at(more, np.concatenate(owners)[order], taken)
    is_full = complete < len(taken) or left <= int(in_order.sum()) or left_bytes <= int(cost_in_order.sum())
    return {topic: granted[topic] + int(more[number]) for number, topic in enumerate(topics)}, is_full


def counted_extents(ahead: Ahead) -> Extents:
    """Returns the extents of a range that was counted ahead."""
    import numpy as np

    return Extents(ahead.ledger_ids, ahead.entry_ids, np.ones_like(ahead.counts), ahead.counts, is_exact=True)
