"""Outcomes of tasks: what one reports to the driver beside the number of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from spark_pulsar.connector.effectively_once.attempt import TaskAttempt


class Totals(NamedTuple):
    """The rows of a micro-batch, whatever their order and the number of tasks."""

    batch_id: int
    rows: int
    content: int
    """Sum of the hashes of all rows, and of their topics, modulo 2^64."""


class TaskProducer(NamedTuple):
    """A producer of one task on one partition of a topic."""

    topic: str
    partition_count: int
    """Partitions of the topic, by which rows were routed."""
    partition: int
    task: int


class SkippedIds(NamedTuple):
    """Rows with a `__sequenceId` that one producer has left out, as they are at or below its last one."""

    partition: str
    rows: int
    least: int
    most: int
    last_sequence_id: int
    """Last id of the producer when it was created."""


@dataclass(slots=True)
class TaskOutcome:
    """Rows that one attempt of a task has written, and its findings."""

    attempt: TaskAttempt
    rows: int = 0
    content: int = 0
    has_resumed: bool = False
    """An earlier attempt, or run, had written rows of this micro-batch."""
    producers: list[TaskProducer] = field(default_factory=list)
    skipped: list[SkippedIds] = field(default_factory=list)
    last_ids: dict[str, int] = field(default_factory=dict)
    """Last `__sequenceId` on each partition, behind this attempt."""
