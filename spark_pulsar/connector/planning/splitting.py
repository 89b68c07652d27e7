"""Splitting: the cut points at which the range of a topic partition is divided among several tasks (READ-18, READ-19).
Pure functions.

`minPartitions` and `maxRecordsPerPartition` require it. Cut points are decided once, when a range is planned, by what
is known of it then: its messages where they were counted ahead, else its entries. A streaming offset notes them, so
that a replay has the same tasks, whatever the options and cores are by then.

A cut is the first position of the later task. It lies between two entries; only where the messages of each entry were
counted, and one has more than a task may read, inside it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.options.options import Split
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import ReadPosition

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LOG: Final = logging.getLogger("spark_pulsar")

MOST_TASKS: Final = 4_096
"""Tasks into which the ranges of one read are split at most: each is a position in the checkpoint."""


@dataclass(frozen=True)
class Extents:
    """Entries of one range, in order: each item is consecutive entries of one ledger, and their messages."""

    ledger_ids: npt.NDArray[np.int64]
    entry_ids: npt.NDArray[np.int64]
    """First entry of each."""
    entries: npt.NDArray[np.int64]
    messages: npt.NDArray[np.int64]
    is_exact: bool
    """True when each item is one entry, and its messages were counted."""

    @cached_property
    def total(self) -> int:
        """Messages of all."""
        return int(self.messages.sum())

    @cached_property
    def _through(self) -> npt.NDArray[np.int64]:
        return self.messages.cumsum()

    def at(self, message: int) -> tuple[ReadPosition, int]:
        """Returns the last position between two entries with at most that many messages before it, and how many there
        are; `message` is less than there are in all."""
        import numpy as np

        index = int(np.searchsorted(self._through, message, "right"))
        entries, messages = int(self.entries[index]), int(self.messages[index])
        before = int(self._through[index]) - messages
        passed = (message - before) * entries // messages
        position = ReadPosition(int(self.ledger_ids[index]), int(self.entry_ids[index]) + passed)
        return position, before + passed * messages // entries


def may_be_cut(ranges: Sequence[TopicRange], split: Split) -> bool:
    """Returns whether any of the ranges may be cut."""
    return split.max_records is not None or (split.min_partitions or 0) > len(ranges) > 0


def cut_points(
    ranges: Sequence[TopicRange], extents: Mapping[str, Extents], split: Split
) -> dict[str, tuple[ReadPosition, ...]]:
    """Returns the positions at which each range is cut, of those whose extents are known, in order.

    With `min_partitions` the ranges are cut into about that number of parts in all, in proportion to their messages;
    with `max_records` no part has more messages, as far as these are known.
    """
    known = {work.topic: work for work in ranges if work.topic in extents and extents[work.topic].total > 0}
    total = sum(extents[topic].total for topic in known)
    fewest = -(-total // MOST_TASKS)
    cuts: dict[str, tuple[ReadPosition, ...]] = {}
    for topic, work in known.items():
        count = extents[topic].total
        parts = 1
        if split.min_partitions is not None and split.min_partitions > len(ranges):
            parts = max(round(count * min(split.min_partitions, MOST_TASKS) / total), 1)
        if split.max_records is not None and split.max_records < count:
            most = min(split.max_records, -(-count // parts))
            if most < fewest:
                LOG.warning("%s: tasks get %d rows, for more than %d tasks are too many", topic, fewest, MOST_TASKS)
            points = _at_most(work.start, extents[topic], max(most, fewest))
        else:
            points = [extents[topic].at(count * part // parts)[0] for part in range(1, parts)]
        inside = tuple(sorted({at for at in points if work.start < at < work.end}))
        if inside:
            cuts[topic] = inside
    return cuts


def _at_most(start: ReadPosition, extents: Extents, most: int) -> list[ReadPosition]:
    """Returns cuts that leave at most `most` messages between them."""
    cuts: list[ReadPosition] = []
    reached, total = 0, extents.total
    while reached + most < total:
        position, passed = extents.at(reached + most)
        if passed <= reached:  # one entry has more
            if extents.is_exact:
                first = start.batch_index if position[:2] == start[:2] else 0
                position, passed = position._replace(batch_index=first + reached + most - passed), reached + most
            else:
                position, passed = position._replace(entry_id=position.entry_id + 1), reached + most
        cuts.append(position)
        reached = passed
    return cuts


def parts_of(work: TopicRange, cuts: Sequence[ReadPosition]) -> list[TopicRange]:
    """Returns the range in parts, one for each task.

    The entry at a cut is known to have existed, and so are those after it up to the next.
    """
    inside = [at for at in cuts if work.start < at < work.end]
    bounds = [work.start, *inside, work.end]
    parts = []
    for number, (begin, end) in enumerate(pairwise(bounds)):
        known_end = work.known_end if number == 0 else end
        parts.append(replace(work, start=begin, end=end, known_end=None if known_end is None else min(known_end, end)))
    return parts
