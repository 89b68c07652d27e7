"""The write of a job or micro-batch: its schema, its rows in each task, and its end at the driver, with each delivery
guarantee (ONCE-1, TXN-1, TXN-5)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.connector.effectively_once.attempt import TaskAttempt, TaskContext, attempt_of
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.effectively_once.sequence_ids import SEQUENCE_ID
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.options import (
    AT_LEAST_ONCE,
    AUTO_PRODUCE_BYTES,
    EFFECTIVELY_ONCE,
    KEY_BASED,
    NO_SCHEMA,
    TRANSACTIONAL,
    Options,
)
from spark_pulsar.connector.transactions.results import TaskResult
from spark_pulsar.connector.writing.columns import check_json_value, check_writable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema
    from spark_pulsar.connector.task_log import RecordedWrite
    from spark_pulsar.model.positions.ids import TransactionId

LOG: Final = logging.getLogger("spark_pulsar")


class TaskWrite(NamedTuple):
    """The rows that one task published; with a guarantee its outcome, and the transaction that it wrote in."""

    rows: int
    outcome: TaskOutcome | None = None
    result: TaskResult | None = None


def row_schema(schema: StructType, options: Options) -> RowSchema | None:
    """Checks the columns of a write, and agrees with the topic, if the options name one, on the schema of the rows."""
    from spark_pulsar.connector.options.timeouts import naming
    from spark_pulsar.connector.schemas.deriving.row_schema import derive_row_schema
    from spark_pulsar.connector.writing.encoded_values import check_encoded

    has_schema = options.schema_type not in (NO_SCHEMA, AUTO_PRODUCE_BYTES)
    check_writable(schema, options.topic, has_schema=has_schema)
    if not has_schema:
        check_json_value(schema)
    check_encoded(schema, options)
    if SEQUENCE_ID in schema.names and options.batcher_builder == KEY_BASED:
        raise OptionError(f"batcherBuilder {KEY_BASED} changes the order of rows, and {SEQUENCE_ID} has to grow")
    if SEQUENCE_ID in schema.names and options.delivery_guarantee == TRANSACTIONAL:
        raise OptionError(
            f"deliveryGuarantee {TRANSACTIONAL} gives the messages of each transaction ids of their own: leave out the "
            f"column {SEQUENCE_ID}"
        )
    rows = derive_row_schema(schema.jsonValue()["fields"], options)
    if rows is None or options.topic is None:
        return rows
    from spark_pulsar.connector.schemas.deriving.registration import agreed_schema
    from spark_pulsar.connector.worker_clients import own_client

    with naming("operationTimeoutMs"), own_client(options) as client:
        return agreed_schema(client, options.topic, rows)


def write_rows(
    context: TaskContext,
    options: Options,
    schema: RowSchema | None,
    batches: Iterator[pa.RecordBatch],
    job_id: str | None,
    transaction: TransactionId | None,
    has_sequence_ids: bool,
) -> TaskWrite:
    """Publishes the rows of one task with the delivery guarantee of the write, and returns when all are stored.

    `job_id` names the job of a batch write; `transaction` is that of the job, or micro-batch.
    """
    from spark_pulsar.connector.schemas.encoding.session_zone import begin_task_of
    from spark_pulsar.connector.task_log import RecordedWrite
    from spark_pulsar.connector.worker_clients import begin_task, client_for
    from spark_pulsar.connector.writing.task_writing import publish

    begin_task()
    begin_task_of(context.getLocalProperty)
    record = RecordedWrite(options.topic, batches)
    if options.delivery_guarantee == AT_LEAST_ONCE:
        rows = publish(client_for(options), options, iter(record), schema)
        record.done(rows)
        return TaskWrite(rows)
    attempt = attempt_of(context, options, job_id, transaction, has_sequence_ids=has_sequence_ids)
    if transaction is not None:
        return _write_in(transaction, options, schema, record, attempt)
    outcome = TaskOutcome(attempt)
    rows = publish(client_for(options), options, iter(record), schema, outcome)
    record.done(rows, sum(skipped.rows for skipped in outcome.skipped))
    return TaskWrite(rows, outcome)


def _write_in(
    transaction: TransactionId, options: Options, schema: RowSchema | None, record: RecordedWrite, attempt: TaskAttempt
) -> TaskWrite:
    from spark_pulsar.connector.transactions.transaction import abort
    from spark_pulsar.connector.worker_clients import client_for
    from spark_pulsar.connector.writing.task_writing import publish

    client, outcome, result = client_for(options), TaskOutcome(attempt), TaskResult(transaction)
    try:
        if attempt.is_of_query and attempt.task == 0:
            result = _claimed(options, attempt, transaction)
        rows = publish(client, options, iter(record), schema, outcome)
    except Exception:
        if attempt.is_last:  # readers need not wait for the time-out
            abort(client, transaction)
        raise
    record.done(rows)
    return TaskWrite(rows, outcome, result._replace(outcome=outcome))


def _claimed(options: Options, attempt: TaskAttempt, transaction: TransactionId) -> TaskResult:
    """Claims the micro-batch for its transaction."""
    from spark_pulsar.connector.transactions.commit_log import CommitLog
    from spark_pulsar.connector.worker_clients import client_for

    log = CommitLog(client_for(options), options, attempt)
    is_ours = log.claim()
    return TaskResult(transaction, log.place, was_committed=not is_ours, history=log.history)


def open_transaction_of(options: Options) -> TransactionId | None:
    """Opens the transaction of a job or micro-batch, where the guarantee requires one."""
    if options.delivery_guarantee != TRANSACTIONAL:
        return None
    from spark_pulsar.connector.transactions.transaction import open_transaction
    from spark_pulsar.connector.worker_clients import client_for

    return open_transaction(client_for(options), options)


def commit_writes(options: Options, writes: Sequence[TaskWrite]) -> None:
    """Commits the transaction, if there is one; else every row is stored already, and the micro-batch is checked."""
    if options.delivery_guarantee == EFFECTIVELY_ONCE:
        from spark_pulsar.connector.effectively_once.micro_batch import check_micro_batch
        from spark_pulsar.connector.worker_clients import client_for

        outcomes = [write.outcome for write in writes if write.outcome is not None]
        check_micro_batch(client_for(options), options, outcomes)
    elif options.delivery_guarantee == TRANSACTIONAL:
        from spark_pulsar.connector.transactions.commit_log import commit_written
        from spark_pulsar.connector.worker_clients import client_for

        commit_written(client_for(options), options, _results(writes))


def abort_writes(options: Options, writes: Sequence[TaskWrite], transaction: TransactionId | None = None) -> None:
    """Aborts the transaction, if there is one, and is known; else published rows stay on the topic."""
    if options.delivery_guarantee != TRANSACTIONAL:
        rows = sum(write.rows for write in writes)
        again = "leaves them out" if options.delivery_guarantee == EFFECTIVELY_ONCE else "publishes them again"
        LOG.warning("a write failed after its finished tasks had published %d rows; a new attempt %s", rows, again)
        return
    from spark_pulsar.connector.transactions.commit_log import abort_written
    from spark_pulsar.connector.worker_clients import client_for

    results = _results(writes)
    if transaction is not None:
        results.append(TaskResult(transaction))
    abort_written(client_for(options), results)


def _results(writes: Sequence[TaskWrite]) -> list[TaskResult]:
    return [write.result for write in writes if write.result is not None]
