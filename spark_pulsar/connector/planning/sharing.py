"""Sharing: the small ranges of many partitions are read by fewer tasks (READ-48). Pure functions.

A task costs Spark some 50 ms, more than a thousand messages are worth: a few messages in each of a thousand partitions
would take a minute on one core. So from 33 such ranges on tasks read several, and there are as many tasks as keep 32
cores busy. The number is decided when a micro-batch is planned, and an offset notes it, so that a replay has the same
tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from spark_pulsar.connector.options.options import Split
from spark_pulsar.connector.planning.ranges import TopicRange

_LEAST_TASKS: Final = 32
_SMALL_ENTRIES: Final = 16
"""Entries of a range that shares its task, at most."""
_TASK_ENTRIES: Final = 256
"""Entries that the ranges of one task have together, on average, at most."""


def sharing_tasks(ranges: Sequence[TopicRange], split: Split) -> int:
    """Returns the number of tasks that share the small ranges; 0: each range has a task of its own."""
    if split.max_records is not None:
        return 0
    small = [_entries(work) for work in ranges if _is_small(work)]
    tasks = max(_LEAST_TASKS, split.min_partitions or 0, -(-sum(small) // _TASK_ENTRIES))
    return tasks if len(small) > tasks else 0


def shared(ranges: Sequence[TopicRange], tasks: int) -> list[tuple[TopicRange, ...]]:
    """Returns the ranges of each task: `tasks` of them share the small ranges evenly, the others have one each."""
    small = [work for work in ranges if _is_small(work)]
    count = min(tasks, len(small))
    bounds = [len(small) * number // count for number in range(count + 1)] if count else [0]
    large = [(work,) for work in ranges if not _is_small(work)]
    return [tuple(small[first:stop]) for first, stop in pairwise(bounds)] + large


def _is_small(work: TopicRange) -> bool:
    return work.start.ledger_id == work.end.ledger_id and _entries(work) <= _SMALL_ENTRIES


def _entries(work: TopicRange) -> int:
    """Counts the entries of a range in one ledger."""
    return work.end.entry_id - work.start.entry_id + (1 if work.end.batch_index else 0)
