"""One attempt of a task that writes, as Spark describes it: the names and numbers that all its attempts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import DEFAULT_PRODUCER_NAME, EFFECTIVELY_ONCE, TRANSACTIONAL, Options

if TYPE_CHECKING:
    from spark_pulsar.model.ids import TransactionId

ROWS_OF_A_BATCH: Final = 1 << 32
"""Sequence ids of one micro-batch: more than a task can have rows."""
ROWS_OF_A_TRANSACTION: Final = 1 << 28
"""Sequence ids of one transaction, so that 2³⁵ of them fit."""

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

    def attemptNumber(self) -> int:
        """Returns how many attempts of the task were before this one."""

    def getLocalProperty(self, key: str) -> str | None:
        """Returns a property of the job."""


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """An attempt of a task to write its rows of one micro-batch, or of one batch job."""

    writer: str
    """Name of what writes: of the sink of a query, or of a job; equal in all attempts and micro-batches."""
    batch_id: int
    task: int
    transaction: TransactionId | None = None
    """Transaction of the micro-batch, or of the job: another one each time that it is run."""
    unordered: str | None = None
    """Why the rows may come in another order when the task runs again in its transaction; None if they may not."""

    @property
    def guarantee(self) -> str:
        """Name of the delivery guarantee that is to be kept."""
        return EFFECTIVELY_ONCE if self.transaction is None else TRANSACTIONAL

    @property
    def first_sequence_id(self) -> int:
        """Sequence id of the first row of a topic partition. It is never 0, which C++ clients take for none.

        In a transaction it follows from the transaction's number, which grows: a broker takes what was aborted for
        written, so that a micro-batch that is run again needs other ids.
        """
        if self.transaction is None:
            return self.batch_id * ROWS_OF_A_BATCH + 1
        return self.transaction.least * ROWS_OF_A_TRANSACTION + 1

    @property
    def last_sequence_id(self) -> int:
        """Highest sequence id that a row may get: those after it are the next micro-batch's, or transaction's."""
        return self.first_sequence_id - 1 + (ROWS_OF_A_BATCH if self.transaction is None else ROWS_OF_A_TRANSACTION)

    def producer_name(self, partition_count: int) -> str:
        """Returns the name of the task's producers on a topic with so many partitions.

        Rows go elsewhere, and have other numbers, once partitions are added: these are other producers then. Numbers of
        transactions grow at each coordinator by itself.
        """
        coordinator = "" if self.transaction is None else f"-coordinator-{self.transaction.most}"
        return f"{self.writer}{coordinator}-partitions-{partition_count}-task-{self.task}"

    def check_known(self, topic: str, last_sequence_id: int) -> None:
        """Refuses a producer in a transaction that knows ids which this attempt cannot go on after. Raises
        DeliveryGuaranteeError."""
        if self.transaction is None or last_sequence_id < self.first_sequence_id:
            return
        if last_sequence_id > self.last_sequence_id:
            raise self.refused(
                f"{topic} knows messages of a later transaction than {self.transaction} of this task: the micro-batch "
                "runs a second time elsewhere, or the coordinator has begun to count anew; in that case give another "
                "producerName, or begin with a new checkpoint"
            )
        self.check_order()

    def check_order(self) -> None:
        """Refuses to go on after an earlier attempt, if the rows may come in another order. Raises
        DeliveryGuaranteeError."""
        if self.unordered is not None:
            raise self.refused(
                f"an attempt of task {self.task} was lost after it had begun to write, and {self.unordered}. The "
                "transaction is not committed: run the job, or start the query, again"
            )

    def refused(self, why: str) -> DeliveryGuaranteeError:
        """Returns the error that says why the guarantee cannot be kept."""
        return _refused(why, self.guarantee)

    def first_partition(self, partition_count: int) -> int:
        """Returns the partition where rows without a key begin: another one for each task, the same in each attempt."""
        return (self.batch_id + self.task) % partition_count


def attempt_of(
    context: TaskContext,
    options: Options,
    job_id: str | None,
    transaction: TransactionId | None = None,
    *,
    has_sequence_ids: bool,
) -> TaskAttempt:
    """Returns the attempt that Spark runs. `job_id`: of a batch write, equal in its attempts; None for a stream.

    Raises DeliveryGuaranteeError for what cannot be written effectively once, or in the transaction.
    """
    guarantee = options.delivery_guarantee
    if context.getLocalProperty(_SPECULATION) == "true":
        raise _refused(
            "spark.speculation is on: a second attempt of a task would wait for the first one's producer until it "
            "fails; set spark.speculation to false",
            guarantee,
        )
    unordered = None
    if not has_sequence_ids and not options.repeatable_row_order:
        unordered = _why_unordered(context, is_stream=job_id is None, names_order=transaction is None)
        if unordered is not None and transaction is None:
            raise _refused(unordered, guarantee)
    writer, batch_id = _named(context, options, job_id, has_sequence_ids=has_sequence_ids)
    attempt = TaskAttempt(writer, batch_id, context.partitionId(), transaction, unordered)
    if transaction is not None and context.attemptNumber() > 0:
        attempt.check_order()
    return attempt


def query_of(context: TaskContext) -> str | None:
    """Returns the id of the streaming query whose micro-batch the task is part of; None outside of one."""
    return None if context.getLocalProperty(_BATCH_ID) is None else context.getLocalProperty(_QUERY_ID)


def _named(context: TaskContext, options: Options, job_id: str | None, *, has_sequence_ids: bool) -> tuple[str, int]:
    """(name of what writes, number of the micro-batch). Raises DeliveryGuaranteeError."""
    guarantee, name = options.delivery_guarantee, options.producer_name
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query_id is None or batch_id is None:
        if job_id is None:
            raise _refused("Spark tells neither query nor micro-batch to this streaming write", guarantee)
        if name is not None and guarantee == TRANSACTIONAL:
            raise _refused(
                "producerName tells the writes inside foreachBatch apart: a batch job is one transaction each time, "
                "leave it out; inside foreachBatch, write in the thread that Spark calls",
                guarantee,
            )
        if name is not None and not has_sequence_ids:
            raise _refused(
                "a batch write with producerName needs the column __sequenceId, for rows that are new have the places "
                "of rows that are written; inside foreachBatch, write in the thread that Spark calls",
                guarantee,
            )
        return name or f"{DEFAULT_PRODUCER_NAME}-{job_id}", 0
    if job_id is not None and name is None:
        raise _refused(
            "a write inside foreachBatch needs the option producerName: a name for this sink of the query, another one "
            "for each write to the same topic",
            guarantee,
        )
    return f"{name or DEFAULT_PRODUCER_NAME}-{query_id}", int(batch_id)


def _why_unordered(context: TaskContext, *, is_stream: bool, names_order: bool) -> str | None:
    """Tells of rows that come from a shuffle, and of those of which that cannot be seen, what is wrong with them."""
    why = (
        "their order may be another one when a task runs again, but it is what tells which of them are written already"
    )
    if context.getLocalProperty(_SHUFFLED):
        named = "Give the rows a column __sequenceId, by which each task sorts them, or set" if names_order else "Set"
        return (
            f"these rows come from a shuffle (an aggregation, a join, dropDuplicates, …): {why}. {named} "
            "repeatableRowOrder to true if they are sorted behind the shuffle by columns that leave no ties"
        )
    settings = (_ADAPTIVE_STREAM, _ADAPTIVE) if is_stream else (_ADAPTIVE,)
    if all(context.getLocalProperty(setting) != "false" for setting in settings):
        named = "; or give the rows a column __sequenceId, by which each task sorts them" if names_order else ""
        return (
            f"Spark's adaptive execution hides whether these rows come from a shuffle: {why}. Set {settings[0]} to "
            "false, by which the sink sees that none do; or set repeatableRowOrder to true if you know it (no "
            f"repartition, aggregation or join but a broadcast join comes before the write){named}"
        )
    return None


def _refused(why: str, guarantee: str) -> DeliveryGuaranteeError:
    return DeliveryGuaranteeError(f"deliveryGuarantee = {guarantee}: {why}")
