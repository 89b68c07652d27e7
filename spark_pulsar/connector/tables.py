"""Topics as Arrow tables, without Spark and without a JVM: `read_table`, `read_batches` and `send_table`.

They are the connector's own reading and writing, with its options, columns and errors, in the calling thread; a read
of several partitions takes a few threads more. pandas, Polars and DuckDB read the tables as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.errors import NoListener
from spark_pulsar.connector.columns import METADATA_COLUMNS, ON_REQUEST, READ_COLUMNS
from spark_pulsar.connector.entry_points import entry_point
from spark_pulsar.connector.errors import OptionError, SchemaError
from spark_pulsar.connector.options.options import AT_LEAST_ONCE, Options
from spark_pulsar.connector.options.parsing import is_option, parse_options, report_without_effect
from spark_pulsar.connector.options.python_values import count_argument, name_argument, texts_of
from spark_pulsar.connector.options.table import BATCH_READ, BATCH_WRITE
from spark_pulsar.connector.progress.table_progress import with_progress
from spark_pulsar.connector.reading.projection import Projection, is_plain, projection_of, read_schema
from spark_pulsar.model.arguments import naming_arguments
from spark_pulsar.model.extras import require

require("a topic as a table", "numpy", "pyarrow")

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.client.client import PulsarClient
    from spark_pulsar.connector.planning.ranges import TopicRange
    from spark_pulsar.connector.schemas.types.spark_schema import SparkSchema

DEFAULT_THREADS: Final = 4
_SENT_ROWS: Final = 20_000
"""Rows of a table that are encoded together."""
_PATIENCE_MS: Final = 2_000
"""Time in which a broker that starts may begin to listen; an address that is wrong costs no more."""
_MOST_THREADS: Final = 256


def _place_of_option(name: str) -> str:
    """Returns how an option is given that was taken for an argument; "" for a name that is none."""
    return f'options={{"{name}": …}}' if is_option(name) else ""


@naming_arguments(_place_of_option)
@entry_point
def read_batches(
    service_url: str,
    topic: str | None = None,
    *,
    columns: Iterable[str] | None = None,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    threads: int = DEFAULT_THREADS,
) -> Iterator[pa.RecordBatch]:
    """Returns an iterator of the messages of one topic, or of those that `options` name, as record batches of up to
    10,000 rows.

    `columns` picks some in any order, those of `metadataColumns` too; `limit` ends the read after so many rows;
    `options` are those of a batch read of `format("pulsar")`, such as `{"startingTime": "2026-11-27T08:00:00Z"}`. What
    is on the topics when the iteration begins is read: several partitions by at most so many `threads`, each in order.
    Holds a few batches of each thread in memory (TABLE-4). Raises the connector's errors (TABLE-3), those of arguments
    before it returns.
    """
    limit, threads = _counts(limit, threads)
    read, projection = _planned(service_url, topic, columns, options)
    return _reading(read, projection, threads, limit)


@naming_arguments(_place_of_option)
@entry_point
def read_table(
    service_url: str,
    topic: str | None = None,
    *,
    columns: Iterable[str] | None = None,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    threads: int = DEFAULT_THREADS,
) -> pa.Table:
    """Returns the messages of topics as one table; see `read_batches`. A topic without messages is a table of no rows
    that has the columns (TABLE-1). A notebook shows how far a long one is (TABLE-7)."""
    import pyarrow as pa

    limit, threads = _counts(limit, threads)
    read, projection = _planned(service_url, topic, columns, options)
    reading = _limited(_batches(read, projection, threads), limit)
    batches = list(with_progress(reading, f"Reading {topic or 'topics'}", limit))
    return pa.Table.from_batches(batches, None if batches else _arrow_schema(projection))


def table_reader(
    service_url: str,
    topic: str | None = None,
    *,
    columns: Iterable[str] | None = None,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    threads: int = DEFAULT_THREADS,
) -> pa.RecordBatchReader:
    """Returns a reader of the batches of `read_batches`, whose `schema` is known before anything is read."""
    import pyarrow as pa

    limit, threads = _counts(limit, threads)
    read, projection = _planned(service_url, topic, columns, options)
    return pa.RecordBatchReader.from_batches(
        _arrow_schema(projection), _limited(_batches(read, projection, threads), limit)
    )


@naming_arguments(_place_of_option)
@entry_point
def send_table(service_url: str, topic: str | None, table: Any, *, options: Mapping[str, object] | None = None) -> int:
    """Publishes the rows of a table, or of anything that Arrow reads as one, and returns their number when each has its
    receipt, which means that it is on disk (TABLE-2).

    Columns are those of a batch write of `format("pulsar")`: `value` or, with `{"schemaType": "AVRO"}`, the fields of a
    record, beside `__key`, `__messageProperties`, `__eventTime` and so on; without `topic` each row names its own in
    `__topic`. `options` are those of a batch write; the delivery guarantee is at-least-once. Raises the connector's
    errors.
    """
    from spark_pulsar.connector.schemas.types.spark_schema import of_arrow
    from spark_pulsar.connector.schemas.types.writable_types import writable_table
    from spark_pulsar.connector.worker_clients import own_client
    from spark_pulsar.connector.writing.job import row_schema
    from spark_pulsar.connector.writing.task_writing import publish

    write = _options(service_url, topic, options).for_write(BATCH_WRITE)
    if write.delivery_guarantee != AT_LEAST_ONCE:
        raise OptionError(
            f"deliveryGuarantee {write.delivery_guarantee} needs Spark, which numbers tasks and attempts: leave it out"
        )
    rows = writable_table(table)
    schema = row_schema(of_arrow(rows.schema), write)
    report_without_effect(write)
    with own_client(write) as client:
        _check_listener(client, write)
        batches = iter(rows.to_batches(max_chunksize=_SENT_ROWS))
        return publish(client, write, with_progress(batches, f"Sending to {topic or 'topics'}", rows.num_rows), schema)


def _options(service_url: str, topic: str | None, options: Mapping[str, object] | None) -> Options:
    texts = texts_of(options)
    if any(name.lower() == "service.url" for name in texts):
        raise OptionError("service.url is the first argument: leave it out of the options")
    named = {"service.url": name_argument("service_url", service_url, "pulsar://localhost:6650")}
    if topic is not None:
        if any(name.lower() == "topic" for name in texts):
            raise OptionError("topic is the second argument: leave it out of the options")
        more = " (several: the option topics, without topic)"
        named["topic"] = name_argument("topic", topic, f"persistent://public/default/orders{more}")
    return parse_options({**texts, **named})


def _counts(limit: int | None, threads: int) -> tuple[int | None, int]:
    """Checks both numbers before anything is connected. Raises OptionError."""
    if limit is not None:
        limit = count_argument("limit", limit, 0, "a number of rows, or None for all")
    return limit, count_argument("threads", threads, 1, f"a number from 1 to {_MOST_THREADS}", _MOST_THREADS)


def _planned(
    service_url: str, topic: str | None, columns: Iterable[str] | None, options: Mapping[str, object] | None
) -> tuple[Options, Projection]:
    from spark_pulsar.connector.worker_clients import own_client

    wanted = _names(columns)
    read = _options(service_url, topic, options).for_read(BATCH_READ)
    report_without_effect(read)
    with own_client(read) as client:
        _check_listener(client, read)
        return read, _projection(client, read, wanted)


def _names(columns: Iterable[str] | None) -> list[str] | None:
    """Returns the names of the columns that are wanted; None for all. Raises OptionError."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise OptionError(f"columns is the text {columns!r}: give a list of names, such as [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise OptionError(f"columns is {columns!r}: give a list of names, or None for all")
    names = list(columns)
    if not names:
        raise OptionError("columns names no column: name one, or None for all")
    if bad := [name for name in names if not isinstance(name, str)]:
        raise OptionError(f"columns has {bad[0]!r}, which is no name of a column: give texts")
    return names


def _check_listener(client: PulsarClient, options: Options) -> None:
    """Refuses a service URL where nothing listens, unless an option says how long to wait for it (TABLE-3)."""
    if "operationTimeoutMs" in options.given:
        return
    try:
        client.check_listener(_PATIENCE_MS)
    except NoListener as error:
        raise NoListener(
            f"no broker at {options.service_url}: {error}; start it, correct the service URL, or have the option "
            "operationTimeoutMs say how long to wait for it"
        ) from error.__cause__


def _projection(client: PulsarClient, options: Options, wanted: list[str] | None) -> Projection:
    from spark_pulsar.connector.schemas.lookup import definition_of_read
    from spark_pulsar.connector.schemas.types.spark_schema import of_fields

    try:
        definition = definition_of_read(options, wanted, client)
    except SchemaError:
        if wanted is None or not is_plain(_chosen(of_fields(read_schema(None)["fields"]), wanted)):
            raise
        definition = None  # no column of it is requested
    every = of_fields(read_schema(definition, options.decode_mode, options.metadata_columns)["fields"])
    if wanted is None:
        return projection_of(every, definition, options.decode_mode, options.metadata_columns)
    return projection_of(_chosen(every, wanted), definition, options.decode_mode)


def _chosen(schema: SparkSchema, names: list[str]) -> SparkSchema:
    """Returns the columns of these names; a name that is none is left for `projection_of` to refuse."""
    from spark_pulsar.connector.schemas.types.spark_schema import of_fields
    from spark_pulsar.connector.schemas.types.spark_types import json_field

    known = {name: json_field(name, column.types[0]) for name, column in ON_REQUEST.items()}
    known |= {field["name"]: field for field in schema.jsonValue()["fields"]}
    return of_fields(known.get(name) or json_field(name, "binary") for name in names)


@entry_point
def _reading(options: Options, projection: Projection, threads: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    yield from _limited(_batches(options, projection, threads), limit)


def _batches(options: Options, projection: Projection, threads: int) -> Iterator[pa.RecordBatch]:
    from spark_pulsar.connector.options.timeouts import naming
    from spark_pulsar.connector.planning.batch_read import plan_batch
    from spark_pulsar.connector.reading.compacted import read_latest
    from spark_pulsar.connector.reading.parallel_ranges import in_parallel
    from spark_pulsar.connector.reading.range_reading import read_range
    from spark_pulsar.connector.worker_clients import own_client

    read = read_latest if options.read_compacted else read_range
    with own_client(options) as client, naming("pollTimeoutMs", "operationTimeoutMs"):

        def read_one(one: TopicRange) -> Iterator[pa.RecordBatch]:
            return read(client, options, one, projection)

        yield from in_parallel(plan_batch(client, options), read_one, threads)


def _arrow_schema(projection: Projection) -> pa.Schema:
    """Returns the schema of the record batches of a read, for one that has none."""
    import pyarrow as pa

    from spark_pulsar.connector.schemas.types.spark_types import arrow_type

    types = {column.name: arrow_type(column.types[0]) for column in READ_COLUMNS + METADATA_COLUMNS}
    if projection.decoding is not None:
        types |= {name: arrow_type(kind) for name, kind in projection.decoding.mode.columns()}
        types |= dict(projection.decoding.wanted)
    return pa.schema([pa.field(name, types[name], name not in projection.not_null) for name in projection.names])


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    left = limit
    while left and (batch := next(batches, None)) is not None:
        rows = min(left, batch.num_rows)
        yield batch.slice(0, rows)
        left -= rows
