"""One attempt of a task that writes, as Spark describes it: the names and numbers that all its attempts share, so that
each row is stored one time (ONCE-1), also when workers, driver or broker are killed (ONCE-8).  `resuming` opens its
producers, one entry in flight (ONCE-9), waits for an earlier attempt (ONCE-4), and proves that a topic de-duplicates
(ONCE-2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from spark_pulsar.connector.effectively_once.checked_sequence_ids import NUMBER_BITS, place_of
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import DEFAULT_PRODUCER_NAME, EFFECTIVELY_ONCE, TRANSACTIONAL, Options

if TYPE_CHECKING:
    from spark_pulsar.model.positions.ids import TransactionId

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_SPECULATION: Final = "spark.speculation"
_RUN_ID: Final = "spark.jobGroup.id"
"""Property that names the run of a streaming query."""
_MASTER: Final = "spark.master"
_MAX_FAILURES: Final = "spark.task.maxFailures"
_DEFAULT_MAX_FAILURES: Final = 4
_IN_FOREACH_BATCH: Final = (
    "inside foreachBatch, write in the thread that Spark calls; over Spark Connect, where Spark names no micro-batch "
    "to such a write, write the stream by writeStream, or, for effectively-once, give the rows a __sequenceId"
)
_LOCAL: Final = re.compile(r"local(?:\[[^,\]]*(?:,\s*(\d+)\s*)?\])?")


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
    """An attempt of a task to write its rows of one micro-batch, or of one batch job (TXN-4)."""

    writer: str
    """Name of what writes: of the sink of a query, or of a job; equal in all attempts and micro-batches."""
    batch_id: int
    task: int
    transaction: TransactionId | None = None
    """Transaction of the micro-batch, or of the job: another one each time that it is run."""
    has_sequence_ids: bool = False
    """Rows name their sequence ids."""
    is_order_vouched: bool = False
    """The user vouches for the rows, so that their content is not compared with that of an earlier attempt."""
    is_of_query: bool = False
    is_in_foreach_batch: bool = False
    """The write is one of those that the query makes inside foreachBatch."""
    run_id: str | None = None
    """Run of the query, where it is known."""
    attempt_number: int = 0
    is_last: bool = False
    """No other attempt follows where this one fails."""

    @property
    def guarantee(self) -> str:
        """Name of the delivery guarantee that is to be kept."""
        return EFFECTIVELY_ONCE if self.transaction is None else TRANSACTIONAL

    @property
    def number(self) -> int:
        """Number that sequence ids carry: of the micro-batch, or of its transaction.

        A broker takes aborted rows for written, so that a micro-batch that runs again in another transaction needs
        other ids; numbers of transactions grow at each coordinator.
        """
        return self.batch_id if self.transaction is None else self.transaction.least

    def producer_name(self, partition_count: int, task: int | None = None) -> str:
        """Returns the name of the producers of the task, or of another one, on a topic with that number of partitions.

        Rows go elsewhere, and have other numbers, once partitions are added: these are other producers then. Ids that
        are counted have no room for the whole number of the micro-batch: the rest of it is the epoch in the name.
        """
        name = self.named_producer(partition_count, task)
        return name if self.has_sequence_ids else f"{name}-epoch-{self.number >> NUMBER_BITS}"

    def named_producer(self, partition_count: int, task: int | None = None) -> str:
        """Returns the name of producers whose rows name their ids, and of all producers of earlier versions."""
        coordinator = "" if self.transaction is None else f"-coordinator-{self.transaction.most}"
        task = self.task if task is None else task
        return f"{self.writer}{coordinator}-partitions-{partition_count}-task-{task}"

    def check_known(self, topic: str, last_sequence_id: int) -> int:
        """Returns the number of rows of this micro-batch that a producer has written, as its last sequence id says
        (ONCE-11).

        Raises DeliveryGuaranteeError when it has written rows of a later one.
        """
        if last_sequence_id < 0 or self.has_sequence_ids:
            return 0
        place, own = place_of(last_sequence_id), self.number % (1 << NUMBER_BITS)
        if place.number <= own:
            return place.rows if place.number == own else 0
        if self.transaction is not None:
            raise self.refused(
                f"{topic} knows messages of a later transaction than {self.transaction} of this task: the micro-batch "
                "runs a second time elsewhere, or the coordinator has begun to count anew; in that case give another "
                "producerName, or begin with a new checkpoint"
            )
        later = self.number - own + place.number
        raise self.refused(
            f"{topic} has rows of micro-batch {later} of this query, and this is micro-batch {self.batch_id}: the "
            "checkpoint is older than what was written. Restore the newest checkpoint, or begin with a new one, which "
            "writes rows again"
        )

    def changed(self, why: str) -> DeliveryGuaranteeError:
        """Returns the error about rows that are not those that the micro-batch had when it ran first."""
        if self.transaction is not None:
            return self.refused(f"{why}. The transaction is not committed: {self._again}")
        named = "set repeatableRowOrder to true if the order is the same and only content that does not matter changes"
        return self.refused(
            f"{why}. Make the rows of a task come in the same order each time it runs: sort them behind the shuffle, "
            f"and give them a column __sequenceId; or {named}; or begin with a new checkpoint, which writes rows again"
        )

    @property
    def _again(self) -> str:
        return "start the query again" if self.is_of_query else "run the job again"

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
    """Returns the attempt that Spark runs (ONCE-7). `job_id`: of a batch write, equal in its attempts; None for a
    stream.

    Raises DeliveryGuaranteeError for what cannot be written effectively once, or in the transaction.
    """
    guarantee = options.delivery_guarantee
    if context.getLocalProperty(_SPECULATION) == "true":
        raise _refused(
            "spark.speculation is on: a second attempt of a task would wait for the first one's producer until it "
            "fails; set spark.speculation to false",
            guarantee,
        )
    writer, batch_id = _named(context, options, job_id, has_sequence_ids=has_sequence_ids)
    is_of_query = context.getLocalProperty(_QUERY_ID) is not None and context.getLocalProperty(_BATCH_ID) is not None
    return TaskAttempt(
        writer,
        batch_id,
        context.partitionId(),
        transaction,
        has_sequence_ids,
        options.repeatable_row_order,
        is_of_query=is_of_query,
        is_in_foreach_batch=is_of_query and job_id is not None,
        run_id=context.getLocalProperty(_RUN_ID),
        attempt_number=context.attemptNumber(),
        is_last=context.attemptNumber() + 1 >= _attempts(context),
    )


def _attempts(context: TaskContext) -> int:
    """Returns how often Spark runs a task that fails."""
    local = _LOCAL.fullmatch(context.getLocalProperty(_MASTER) or "")
    if local is not None:
        return int(local[1] or 1)
    return int(context.getLocalProperty(_MAX_FAILURES) or _DEFAULT_MAX_FAILURES)


def _named(context: TaskContext, options: Options, job_id: str | None, *, has_sequence_ids: bool) -> tuple[str, int]:
    """(name of what writes, number of the micro-batch) (ONCE-6, TXN-5). Raises DeliveryGuaranteeError."""
    guarantee, name = options.delivery_guarantee, options.producer_name
    query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
    if query_id is None or batch_id is None:
        if job_id is None:
            raise _refused("Spark names neither query nor micro-batch to this streaming write", guarantee)
        if name is not None and guarantee == TRANSACTIONAL:
            raise _refused(
                "producerName distinguishes the writes inside foreachBatch: a batch job is one transaction each time, "
                f"leave it out; {_IN_FOREACH_BATCH}",
                guarantee,
            )
        if name is not None and not has_sequence_ids:
            raise _refused(
                "a batch write with producerName needs the column __sequenceId, for rows that are new have the places "
                f"of rows that are written; {_IN_FOREACH_BATCH}",
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


def _refused(why: str, guarantee: str) -> DeliveryGuaranteeError:
    return DeliveryGuaranteeError(f"deliveryGuarantee = {guarantee}: {why}")
