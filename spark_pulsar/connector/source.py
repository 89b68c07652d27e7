"""Spark's classes for `format("pulsar")`, and nothing else: each method passes on to a module that knows no Spark.

Where objects live (measured on 4.3.0): the `DataSource` is made at the user's call and pickled to every planner; a
stream reader that plans is made once a query run and never pickled, the one that reads is another object, unpickled
in each task; a writer is made anew for each micro-batch, pickled to the tasks, and made once more to commit. So no
class here keeps state but the planning stream reader, and the writer that goes to the tasks, its transaction. No class
needs a SparkContext or a JVM (READ-45). Streaming writers get Arrow record batches on every version (SPARK-3:
`spark_versions`).

Spark runs the same classes over Spark Connect (READ-29) and in Declarative Pipelines (READ-30). They take no filters
from it, so that pushdown changes nothing (READ-25). Its offsets depend on no other source, so that sources with names
may change places (READ-46: `offsets.source_offset`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from spark_pulsar.connector.effectively_once.sequence_ids import SEQUENCE_ID
from spark_pulsar.connector.entry_points import EXPECTED_ERRORS, entry_point, entry_points
from spark_pulsar.connector.errors import OptionError, SchemaError
from spark_pulsar.connector.offsets.source_offset import SourceOffset
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options, report_without_effect
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE, STREAM_READ, STREAM_WRITE
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.reading.projection import Projection, is_plain, projection_of, read_schema
from spark_pulsar.connector.shipped_package import loader, shipped_archive
from spark_pulsar.connector.spark_versions import HAS_TIMES, StreamArrowWriter, StreamReader, is_nothing
from spark_pulsar.connector.worker_python import check_own_packages
from spark_pulsar.connector.writing.job import (
    TaskWrite,
    abort_writes,
    commit_writes,
    open_transaction_of,
    row_schema,
    write_rows,
)
from spark_pulsar.model.extras import require

require('format("pulsar")', "numpy", "pyarrow")  # before a task fails in a worker that lacks them

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
    from spark_pulsar.connector.options.decode_mode import DecodeMode
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema
    from spark_pulsar.model.positions.ids import TransactionId

LOG: Final = logging.getLogger("spark_pulsar")


def register_sources(spark: SparkSession) -> None:
    """Registers both data sources; see `register`. Spark 4.0 refuses names whose sources it has discovered by itself:
    both names then, and only the first where a JVM source has that."""
    from pyspark.errors import AnalysisException

    refused = []
    for source in (PulsarDataSource, PulsarPyDataSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
            refused.append(source)
    if refused == [PulsarDataSource]:
        LOG.warning('a JVM data source named "pulsar" exists; use format("pulsar-py")')


@entry_points
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

    def schema(self) -> StructType:
        """Columns of a read without `.schema(...)`."""
        from pyspark.sql.types import StructType

        self._parsed.check_topics_to_read()
        columns = read_schema(self._definition(), self._decode_mode, self._parsed.metadata_columns)
        return StructType.fromJson(columns)

    @property
    def _decode_mode(self) -> DecodeMode:
        return replace(self._parsed.decode_mode, times_as_text=not HAS_TIMES)

    def _definition(self, wanted: Sequence[str] | None = None) -> Definition | None:
        """Returns the schema of the topics to read. It is requested once: what `schema` has seen travels with this
        object to the planners, so that columns and decoding never differ."""
        if self._planned is None:
            from spark_pulsar.connector.schemas.lookup import definition_of_read

            self._planned = (definition_of_read(self._parsed, wanted),)
        return self._planned[0]

    def _projection(self, schema: StructType) -> Projection:
        try:
            definition = self._definition(schema.names)
        except SchemaError:
            if not is_plain(schema):
                raise
            definition = None  # no column of it is requested
        return projection_of(schema, definition, self._decode_mode, self._parsed.metadata_columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a batch read."""
        return PulsarReader(self._parsed.for_read(BATCH_READ), self._projection(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns a streaming read; one that refuses to be planned where the options or columns are wrong."""
        try:
            return PulsarStreamReader(self._parsed.for_read(STREAM_READ), self._projection(schema))
        except EXPECTED_ERRORS as error:
            return RefusedStreamReader(self._parsed, error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a batch write; append only."""
        if overwrite:
            raise OptionError('a topic cannot be overwritten: use .mode("append"), in SQL INSERT INTO')
        options = self._parsed.for_write(BATCH_WRITE)
        report_without_effect(options)
        return PulsarWriter(options, row_schema(schema, options), SEQUENCE_ID in schema.names)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Returns a streaming write; output mode append only."""
        if overwrite:
            raise OptionError('a topic cannot be overwritten: use output mode "append" (or foreachBatch)')
        options = self._parsed.for_write(STREAM_WRITE)
        return PulsarStreamWriter(options, row_schema(schema, options), SEQUENCE_ID in schema.names)


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


@entry_point
def _read(options: Options, projection: Projection, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if is_nothing(partition):
        return
    from spark_pulsar.connector.options.timeouts import naming
    from spark_pulsar.connector.reading.compacted import read_latest
    from spark_pulsar.connector.reading.range_reading import read_range
    from spark_pulsar.connector.task_log import recorded_reads
    from spark_pulsar.connector.worker_clients import begin_task, client_for

    begin_task()
    with naming("pollTimeoutMs", "operationTimeoutMs"):
        for number, work in enumerate(partition.value):
            read = read_latest if options.read_compacted else read_range
            yield from recorded_reads(work, number, read(client_for(options), options, work, projection))


@entry_points
class PulsarReader(DataSourceReader):
    """A batch read: ranges are resolved once, when the first action plans (READ-2)."""

    def __init__(self, options: Options, projection: Projection) -> None:
        self._options = options
        self._projection = projection

    def partitions(self) -> Sequence[InputPartition]:
        """One for each topic partition that has messages in the range."""
        from spark_pulsar.connector.planning.batch_read import plan_batch
        from spark_pulsar.connector.worker_clients import own_client

        report_without_effect(self._options)
        with own_client(self._options) as client:
            return [RangePartition((work,)) for work in plan_batch(client, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        return _read(self._options, self._projection, partition)


@entry_points
class PulsarStreamReader(StreamReader):
    """A streaming read. The object that plans keeps a `OffsetPlanner`; the one in a task never makes one."""

    _read_offsets: tuple[tuple[dict[str, Any], SourceOffset], ...] = ()

    def __init__(self, options: Options, projection: Projection) -> None:
        self._options = options
        self._projection = projection
        self._planner: OffsetPlanner | None = None

    def _offset(self, loaded: dict[str, Any]) -> SourceOffset:
        """Reads an offset. The last two are kept, for Spark hands the same ones over again and again, in an idle query
        one at each trigger; and reading 1,000 partitions takes milliseconds."""
        for known, offset in self._read_offsets:
            if known == loaded:
                return offset
        offset = SourceOffset.from_json(loaded)
        self._read_offsets = (*self._read_offsets[-1:], (loaded, offset))
        return offset

    def _planning(self) -> OffsetPlanner:
        if self._planner is None:
            from spark_pulsar.connector.micro_batches.offset_planner import OffsetPlanner
            from spark_pulsar.connector.micro_batches.small_batches import SmallBatches
            from spark_pulsar.connector.micro_batches.source_runner import takes_rows
            from spark_pulsar.connector.worker_clients import client_for

            report_without_effect(self._options)
            client, small = client_for(self._options), None
            if self._options.small_batch_max_messages and takes_rows():
                small = SmallBatches(client, self._options, self._projection)
            self._planner = OffsetPlanner(client, self._options, small)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        """Returns the start of a new query; Spark calls this more than once and stores no answer (see `offsets`)."""
        return self._planning().initial().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query at the last message that is on the broker now."""
        self._planning().freeze()

    def end_after(self, start: dict[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Returns the end of the next micro-batch; what lies before `start` is acknowledged."""
        begun = self._offset(start)
        options, planner = self._options, self._planning()
        if is_limited:
            max_messages, max_bytes = options.max_messages_per_trigger, options.max_bytes_per_trigger
            end = planner.latest(begun, max_messages, max_bytes, options.min_messages_per_trigger)
        else:
            end = planner.latest(begun)
        return start if end is begun else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns newest positions and lag for progress events, as known from `end_after`."""
        return self._planning().report()

    def tasks_between(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns one task for each topic partition with messages between the offsets; for a small micro-batch one for
        all, with their rows if the driver has kept them."""
        until = self._offset(end)
        tasks = self._planning().tasks(self._offset(start), until)
        if len(tasks) == 1:
            rows = self._planning().rows(tasks[0], until)
            if rows is not None:
                from spark_pulsar.connector.micro_batches.source_runner import send_along

                send_along(self, rows)
        return [RangePartition(works) for works in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        return _read(self._options, self._projection, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """A micro-batch is done: acknowledge it."""
        self._planning().commit(self._offset(end))

    def stop(self) -> None:
        """Spark 4.3 never calls this; connections end with the process."""
        if self._planner is not None:
            self._planner.close()


@entry_points
class RefusedStreamReader(PulsarStreamReader):
    """A streaming read that raises its error when Spark plans it (READ-42). Spark's runner covers an error of
    `streamReader` itself with one of its own, so that the reason would stand last in two tracebacks."""

    def __init__(self, options: Options, error: Exception) -> None:
        self._options = options
        self._error = error

    def _planning(self) -> OffsetPlanner:
        raise self._error

    def stop(self) -> None:
        """Has nothing to close."""


class Written(WriterCommitMessage):
    """The message of one task to the driver: the outcome of its writing."""

    def __init__(self, write: TaskWrite) -> None:
        self.write = write


def _context() -> TaskContext:
    """Returns Spark's context of the task that runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "a write runs in a task"
    return context


def _writes(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWrite]:
    """Returns what the tasks that ended well have written."""
    return [message.write for message in messages if isinstance(message, Written)]


@entry_points
class PulsarWriter(DataSourceArrowWriter):
    """A batch write: a task that returns has all receipts, so there is nothing to do at commit but for transactions."""

    def __init__(self, options: Options, schema: RowSchema | None, has_sequence_ids: bool) -> None:
        self._options = options
        self._schema = schema
        self._has_sequence_ids = has_sequence_ids
        self._job_id = uuid.uuid4().hex  # made once a job: all attempts of its tasks get this object
        self._transaction = open_transaction_of(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task; returns when the broker has stored every row."""
        job_id, ids = self._job_id, self._has_sequence_ids
        return Written(write_rows(_context(), self._options, self._schema, iterator, job_id, self._transaction, ids))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the job's transaction."""
        commit_writes(self._options, _writes(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Published rows stay on the topic, but for those of a transaction."""
        abort_writes(self._options, _writes(messages), self._transaction)


@entry_points
class PulsarStreamWriter(StreamArrowWriter):
    """A streaming write; as `PulsarWriter`, for each micro-batch."""

    def __init__(self, options: Options, schema: RowSchema | None, has_sequence_ids: bool) -> None:
        self._options = options
        self._schema = schema
        self._has_sequence_ids = has_sequence_ids
        self._transaction: TransactionId | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Opens the transaction of the micro-batch: of two writers only the one that goes to the tasks is pickled, the
        other one is made to commit."""
        report_without_effect(self._options)
        if self._transaction is None:
            self._transaction = open_transaction_of(self._options)
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task; returns when the broker has stored every row."""
        ids = self._has_sequence_ids
        return Written(write_rows(_context(), self._options, self._schema, iterator, None, self._transaction, ids))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits the micro-batch's transaction."""
        commit_writes(self._options, _writes(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Published rows stay on the topic, but for those of a transaction."""
        abort_writes(self._options, _writes(messages))
