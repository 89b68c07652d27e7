"""Spark's classes for `format("pulsar")`, and nothing else: each method passes on to a module that knows no Spark.

Where objects live (measured on 4.3.0): the `DataSource` is made at the user's call and pickled to every planner; a
stream reader that plans is made once a query run and never pickled, the one that reads is another object, unpickled
in each task; a writer is made anew for each micro-batch, pickled to the tasks, and made once more to commit. So no
class here keeps state but the planning stream reader, and the writer that goes to the tasks, its transaction.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.once.attempt import TaskAttempt, attempt_of, query_of
from spark_pulsar.connector.once.sequence_ids import SEQUENCE_ID
from spark_pulsar.connector.options.options import (
    AT_LEAST_ONCE,
    AUTO_PRODUCE_BYTES,
    EFFECTIVELY_ONCE,
    KEY_BASED,
    NO_SCHEMA,
    TRANSACTIONAL,
    Options,
)
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE, STREAM_READ, STREAM_WRITE
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.reading.projection import Projection, projection_of, read_ddl
from spark_pulsar.connector.shipping import loader, shipped_archive
from spark_pulsar.connector.transactions.results import TaskResult
from spark_pulsar.connector.worker_python import check_own_packages
from spark_pulsar.connector.writing.columns import check_writable
from spark_pulsar.model.extras import require

require('format("pulsar")', "numpy", "pyarrow")  # before a task fails in a worker that lacks them

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema
    from spark_pulsar.connector.task_log import RecordedWrite
    from spark_pulsar.model.ids import TransactionId

LOG: Final = logging.getLogger("spark_pulsar")


def register_sources(spark: SparkSession) -> None:
    """Registers both data sources; see `register`."""
    from pyspark.errors import AnalysisException

    for source in (PulsarDataSource, PulsarPyDataSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if source is not PulsarDataSource or "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
            LOG.warning('a JVM data source named "pulsar" exists; use format("pulsar-py")')


class PulsarDataSource(DataSource):
    """`format("pulsar")`: options are checked here, at the user's call site."""

    def __init__(self, options: Any) -> None:
        check_own_packages()
        self.options = options
        self._parsed = parse_options(options)
        self._planned: tuple[Definition | None] | None = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        archive = shipped_archive()
        if archive is None:
            plain: str | tuple[Any, ...] = super().__reduce_ex__(protocol)
            return plain
        from pyspark import cloudpickle

        return loader(), (archive, cloudpickle.dumps((type(self), self.__dict__)))

    @classmethod
    def name(cls) -> str:
        """Returns the format's name."""
        return "pulsar"

    def schema(self) -> str:
        """Columns of a read without `.schema(...)`."""
        self._parsed.check_topics_to_read()
        return read_ddl(self._definition(), self._parsed.decode_mode, self._parsed.metadata_columns)

    def _definition(self) -> Definition | None:
        """Returns the schema of the topics to read. It is asked for once: what `schema` has seen travels with this
        object to the planners, so that columns and decoding never differ."""
        if self._planned is None:
            from spark_pulsar.connector.schemas.topic_schemas import definition_of_read

            self._planned = (definition_of_read(self._parsed),)
        return self._planned[0]

    def _projection(self, schema: StructType) -> Projection:
        return projection_of(schema, self._definition(), self._parsed.decode_mode, self._parsed.metadata_columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a batch read."""
        return PulsarReader(self._parsed.for_read(BATCH_READ), self._projection(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns a streaming read."""
        return PulsarStreamReader(self._parsed.for_read(STREAM_READ), self._projection(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a batch write; append only."""
        if overwrite:
            raise OptionError('a topic cannot be overwritten: use .mode("append"), in SQL INSERT INTO')
        options = self._parsed.for_write(BATCH_WRITE)
        return PulsarWriter(options, _row_schema(schema, options), SEQUENCE_ID in schema.names)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Returns a streaming write; output mode append only."""
        if overwrite:
            raise OptionError('a topic cannot be overwritten: use output mode "append" (or foreachBatch)')
        options = self._parsed.for_write(STREAM_WRITE)
        return PulsarStreamWriter(options, _row_schema(schema, options), SEQUENCE_ID in schema.names)


class PulsarPyDataSource(PulsarDataSource):
    """The data source under a name that no JVM connector claims."""

    @classmethod
    def name(cls) -> str:
        """Returns the format's second name."""
        return "pulsar-py"


class RangePartition(InputPartition):
    """One task's work: ranges of topic partitions, mostly one."""

    def __init__(self, works: tuple[TopicRange, ...]) -> None:
        super().__init__(works)


def _read(options: Options, projection: Projection, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if partition.value is None:  # Spark's stand-in when a batch read has nothing to do
        return
    from spark_pulsar.connector.options.timeouts import naming
    from spark_pulsar.connector.reading.compacted import read_latest
    from spark_pulsar.connector.reading.range_reading import read_range
    from spark_pulsar.connector.task_log import recorded_reads
    from spark_pulsar.connector.worker import begin_task, client_for

    begin_task()
    with naming("pollTimeoutMs", "operationTimeoutMs"):
        for number, work in enumerate(partition.value):
            read = read_latest if options.read_compacted else read_range
            yield from recorded_reads(work, number, read(client_for(options), options, work, projection))


class PulsarReader(DataSourceReader):
    """A batch read: ranges are resolved once, when the first action plans."""

    def __init__(self, options: Options, projection: Projection) -> None:
        self._options = options
        self._projection = projection

    def partitions(self) -> Sequence[InputPartition]:
        """One for each topic partition that has messages in the range."""
        from spark_pulsar.connector.planning.batch_read import plan_batch
        from spark_pulsar.connector.worker import own_client

        with own_client(self._options) as client:
            return [RangePartition((work,)) for work in plan_batch(client, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        return _read(self._options, self._projection, partition)


class PulsarStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. The object that plans keeps a `OffsetPlanner`; the one in a task never makes one."""

    def __init__(self, options: Options, projection: Projection) -> None:
        self._options = options
        self._projection = projection
        self._planner: OffsetPlanner | None = None

    def _planning(self) -> OffsetPlanner:
        if self._planner is None:
            from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
            from spark_pulsar.connector.micro_batches.small_batches import SmallBatches
            from spark_pulsar.connector.source_runner import takes_rows
            from spark_pulsar.connector.worker import client_for

            client, small = client_for(self._options), None
            if self._options.small_batch_max_messages and takes_rows():
                small = SmallBatches(client, self._options, self._projection)
            self._planner = OffsetPlanner(client, self._options, small)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Returns the start of a new query; Spark asks more than once and stores no answer (see `offsets`)."""
        return self._planning().initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns one of the limits that the options set: Spark knows no two together. It says that there are any;
        `Trigger.Once` asks for all instead."""
        options = self._options
        if options.max_messages_per_trigger is not None:
            return ReadMaxRows(options.max_messages_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_messages_per_trigger is not None:
            return ReadMinRows(options.min_messages_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query at the last message that is on the broker now."""
        self._planning().freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the end of the next micro-batch; what lies before `start` is acknowledged."""
        begun = SourceOffset.from_json(start)
        options, planner = self._options, self._planning()
        if isinstance(limit, ReadAllAvailable):
            end = planner.latest(begun)
        else:
            max_messages, max_bytes = options.max_messages_per_trigger, options.max_bytes_per_trigger
            end = planner.latest(begun, max_messages, max_bytes, options.min_messages_per_trigger)
        return start if end is begun else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns newest positions and lag for progress events, as known from `latestOffset`."""
        return self._planning().report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each topic partition with messages between the offsets; one for all, with their rows if they are at
        hand, for a small micro-batch."""
        until = SourceOffset.from_json(end)
        tasks = self._planning().tasks(SourceOffset.from_json(start), until)
        if len(tasks) == 1:
            rows = self._planning().rows(tasks[0], until)
            if rows is not None:
                from spark_pulsar.connector.source_runner import send_along

                send_along(self, rows)
        return [RangePartition(works) for works in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        return _read(self._options, self._projection, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """A micro-batch is done: acknowledge it."""
        self._planning().commit(SourceOffset.from_json(end))

    def stop(self) -> None:
        """Spark 4.3 never calls this; connections end with the process."""
        if self._planner is not None:
            self._planner.close()


class Written(WriterCommitMessage):
    """The rows that one task published, and the transaction that it did so in."""

    def __init__(self, rows: int, result: TaskResult | None = None) -> None:
        self.rows = rows
        self.result = result


def _row_schema(schema: StructType, options: Options) -> RowSchema | None:
    """Checks the columns of a write, and agrees with the topic, if the options name one, on the schema of the rows."""
    from spark_pulsar.connector.options.timeouts import naming
    from spark_pulsar.connector.schemas.deriving.row_schema import derive_row_schema
    from spark_pulsar.connector.writing.encoded_values import check_encoded

    has_schema = options.schema_type not in (NO_SCHEMA, AUTO_PRODUCE_BYTES)
    check_writable(schema, options.topic, has_schema=has_schema)
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
    from spark_pulsar.connector.worker import own_client

    with naming("operationTimeoutMs"), own_client(options) as client:
        return agreed_schema(client, options.topic, rows)


def _write(
    options: Options,
    schema: RowSchema | None,
    batches: Iterator[pa.RecordBatch],
    job_id: str | None,
    transaction: TransactionId | None,
    has_sequence_ids: bool,
) -> WriterCommitMessage:
    from spark_pulsar.connector.task_log import RecordedWrite
    from spark_pulsar.connector.worker import begin_task, client_for
    from spark_pulsar.connector.writing.task_writing import publish

    begin_task()
    attempt, record = None, RecordedWrite(options.topic, batches)
    if options.delivery_guarantee != AT_LEAST_ONCE:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "a write runs in a task"
        attempt = attempt_of(context, options, job_id, transaction, has_sequence_ids=has_sequence_ids)
        if transaction is not None:
            return _write_in(transaction, options, schema, record, attempt, is_of_query=query_of(context) is not None)
    rows = publish(client_for(options), options, iter(record), schema, attempt)
    record.done(rows)
    return Written(rows)


def _write_in(
    transaction: TransactionId,
    options: Options,
    schema: RowSchema | None,
    record: RecordedWrite,
    attempt: TaskAttempt,
    *,
    is_of_query: bool,
) -> Written:
    from spark_pulsar.connector.transactions.transaction import abort
    from spark_pulsar.connector.worker import client_for
    from spark_pulsar.connector.writing.task_writing import publish

    client, result = client_for(options), TaskResult(transaction)
    try:
        if is_of_query and attempt.task == 0:
            result = _claimed(options, attempt, transaction)
        if result.was_committed:
            for _ in record:
                pass
            return Written(0, result)
        rows = publish(client, options, iter(record), schema, attempt)
    except Exception:
        if attempt.unordered is not None:  # then no other attempt can go on: readers need not wait for the time-out
            abort(client, transaction)
        raise
    record.done(rows)
    return Written(rows, result)


def _claimed(options: Options, attempt: TaskAttempt, transaction: TransactionId) -> TaskResult:
    """Claims the micro-batch for its transaction."""
    from spark_pulsar.connector.transactions.commit_log import CommitLog
    from spark_pulsar.connector.worker import client_for

    log = CommitLog(client_for(options), options, attempt)
    return TaskResult(transaction, log.place, was_committed=not log.claim())


def _open_transaction(options: Options) -> TransactionId | None:
    if options.delivery_guarantee != TRANSACTIONAL:
        return None
    from spark_pulsar.connector.transactions.transaction import open_transaction
    from spark_pulsar.connector.worker import client_for

    return open_transaction(client_for(options), options)


def _commit(options: Options, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commits the transaction, if there is one; else every row is stored already."""
    if options.delivery_guarantee == TRANSACTIONAL:
        from spark_pulsar.connector.transactions.committing import commit_written
        from spark_pulsar.connector.worker import client_for

        commit_written(client_for(options), options, _results(messages))


def _abort(
    options: Options, messages: Sequence[WriterCommitMessage | None], transaction: TransactionId | None = None
) -> None:
    """Aborts the transaction, if there is one, and is known; else published rows stay on the topic."""
    if options.delivery_guarantee != TRANSACTIONAL:
        rows = sum(message.rows for message in messages if isinstance(message, Written))
        again = "leaves them out" if options.delivery_guarantee == EFFECTIVELY_ONCE else "publishes them again"
        LOG.warning("a write failed after its finished tasks had published %d rows; a new attempt %s", rows, again)
        return
    from spark_pulsar.connector.transactions.committing import abort_written
    from spark_pulsar.connector.worker import client_for

    results = _results(messages)
    if transaction is not None:
        results.append(TaskResult(transaction))
    abort_written(client_for(options), results)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message.result for message in messages if isinstance(message, Written) and message.result is not None]


class PulsarWriter(DataSourceArrowWriter):
    """A batch write: a task that returns has all receipts, so there is nothing to do at commit but for transactions."""

    def __init__(self, options: Options, schema: RowSchema | None, has_sequence_ids: bool) -> None:
        self._options = options
        self._schema = schema
        self._has_sequence_ids = has_sequence_ids
        self._job_id = uuid.uuid4().hex  # made once a job: all attempts of its tasks get this object
        self._transaction = _open_transaction(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task; returns when the broker has stored every row."""
        return _write(self._options, self._schema, iterator, self._job_id, self._transaction, self._has_sequence_ids)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the job's transaction."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Published rows stay on the topic, but for those of a transaction."""
        _abort(self._options, messages, self._transaction)


class PulsarStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write; as `PulsarWriter`, for each micro-batch."""

    def __init__(self, options: Options, schema: RowSchema | None, has_sequence_ids: bool) -> None:
        self._options = options
        self._schema = schema
        self._has_sequence_ids = has_sequence_ids
        self._transaction: TransactionId | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Opens the transaction of the micro-batch: of two writers only the one that goes to the tasks is pickled, the
        other one is made to commit."""
        if self._transaction is None:
            self._transaction = _open_transaction(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task; returns when the broker has stored every row."""
        return _write(self._options, self._schema, iterator, None, self._transaction, self._has_sequence_ids)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the micro-batch's transaction."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Published rows stay on the topic, but for those of a transaction."""
        _abort(self._options, messages)
