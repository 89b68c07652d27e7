"""Which messages of several partitions a limited micro-batch takes: those that were published first. Pure functions.

A watermark is the newest event time less a delay. Were the partitions' shares guessed from their backlogs, which are
known in entries and not in messages, one would run ahead of another by far more than its producer ever did, and the
other's rows would come too late.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Ahead(NamedTuple):
    """What was counted ahead in one partition, an item an entry."""

    counts: npt.NDArray[np.int64]
    """Messages of each that are to be read."""
    publish_times_ms: npt.NDArray[np.int64]
    is_all: bool
    """Whether there is nothing to be read beyond them."""

    @property
    def total(self) -> int:
        """Messages of all entries."""
        return int(self.counts.sum())


def earliest(limit: int, ahead: Mapping[str, Ahead], least: int, unawaited: Collection[str] = ()) -> dict[str, int]:
    """Messages granted to each partition: `least` (0 or 1) of each, and those published first up to `limit` in all.

    Nothing is granted that was published after the last message counted in a partition that goes on, because what
    follows there may be older; partitions in `unawaited` hold up nobody. A message before an older one of its partition
    counts as published with that, so that one producer's clock which is ahead does not hold up what others sent.
    Entries that are equally old are taken in the order of the partitions' names.
    """
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
