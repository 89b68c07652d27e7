"""One attempt of a task that writes, as Spark describes it: the names and numbers that all its attempts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import DEFAULT_PRODUCER_NAME, EFFECTIVELY_ONCE, Options

ROWS_OF_A_BATCH: Final = 1 << 32
"""Sequence ids of one micro-batch: more than a task can have rows."""

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_SPECULATION: Final = "spark.speculation"
_SHUFFLED: Final = "__fetch_continuous_blocks_in_batch_enabled"
"""Property that Spark sets where it plans to read a shuffle without adaptive execution, as in stateful queries."""
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_ADAPTIVE_STREAM: Final = "spark.sql.adaptive.streaming.stateless.enabled"
"""Settings of adaptive execution, under which a task cannot see a shuffle: of a session, and of streams alone."""


class TaskContext(Protocol):
    """The part of Spark's class that is used here."""

    def partitionId(self) -> int:
        """Returns the number of the task in its stage."""

    def getLocalProperty(self, key: str) -> str | None:
        """Returns a property of the job."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """An attempt of a task to write its rows of one micro-batch, or of one batch job."""

    writer: str
    """Name of what writes: of the sink of a query, or of a job; equal in all attempts and micro-batches."""
    batch_id: int
    task: int

    @property
    def first_sequence_id(self) -> int:
        """Sequence id of the first row of a topic partition. It is never 0, which C++ clients take for none."""
        return self.batch_id * ROWS_OF_A_BATCH + 1

    @property
    def last_sequence_id(self) -> int:
        """Highest sequence id that a row may get: those after it are the next micro-batch's."""
        return (self.batch_id + 1) * ROWS_OF_A_BATCH

    def producer_name(self, partition_count: int) -> str:
        """Returns the name of the task's producers on a topic with so many partitions.

        Rows go elsewhere, and have other numbers, once partitions are added: these are other producers then.
        """
        return f"{self.writer}-partitions-{partition_count}-task-{self.task}"

    def first_partition(self, partition_count: int) -> int:
        """Returns the partition where rows without a key begin: another one for each task, the same in each attempt."""
        return (self.batch_id + self.task) % partition_count


def attempt_of(context: TaskContext, options: Options, job_id: str | None, *, has_sequence_ids: bool) -> TaskAttempt:
    """Returns the attempt that Spark runs. `job_id`: of a batch write, equal in its attempts; None for a stream.

    Raises DeliveryGuaranteeError for what cannot be written effectively once.
    """
    if context.getLocalProperty(_SPECULATION) == "true":
        raise _refused(
            "spark.speculation is on: a second attempt of a task would wait for the first one's producer until it "
            "fails; set spark.speculation to false"
        )
    if not has_sequence_ids and not options.repeatable_row_order:
        _check_order(context, is_stream=job_id is None)
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    task, name = context.partitionId(), options.producer_name
    if query_id is None or batch_id is None:
        if job_id is None:
            raise _refused("Spark tells neither query nor micro-batch to this streaming write")
        if name is not None and not has_sequence_ids:
            raise _refused(
                "a batch write with producerName needs the column __sequenceId, for rows that are new have the places "
                "of rows that are written; inside foreachBatch, write in the thread that Spark calls"
            )
        return TaskAttempt(name or f"{DEFAULT_PRODUCER_NAME}-{job_id}", 0, task)
    if job_id is not None and name is None:
        raise _refused(
            "a write inside foreachBatch needs the option producerName: a name for this sink of the query, another one "
            "for each write to the same topic"
        )
    return TaskAttempt(f"{name or DEFAULT_PRODUCER_NAME}-{query_id}", int(batch_id), task)


def _check_order(context: TaskContext, *, is_stream: bool) -> None:
    """Refuses rows that come from a shuffle, and those of which that cannot be seen. Raises DeliveryGuaranteeError."""
    why = (
        "their order may be another one when a task runs again, but it is what tells which of them are written already"
    )
    if context.getLocalProperty(_SHUFFLED):
        raise _refused(
            f"these rows come from a shuffle (an aggregation, a join, dropDuplicates, …): {why}. Give the rows a "
            "column __sequenceId, by which each task sorts them, or set repeatableRowOrder to true if they are sorted "
            "behind the shuffle by columns that leave no ties"
        )
    settings = (_ADAPTIVE_STREAM, _ADAPTIVE) if is_stream else (_ADAPTIVE,)
    if all(context.getLocalProperty(setting) != "false" for setting in settings):
        raise _refused(
            f"Spark's adaptive execution hides whether these rows come from a shuffle: {why}. Set {settings[0]} to "
            "false, by which the sink sees that none do; or set repeatableRowOrder to true if you know it (no "
            "repartition, aggregation or join but a broadcast join comes before the write); or give the rows a column "
            "__sequenceId, by which each task sorts them"
        )


def _refused(why: str) -> DeliveryGuaranteeError:
    return DeliveryGuaranteeError(f"deliveryGuarantee = {EFFECTIVELY_ONCE}: {why}")
