"""Writing in a task: Arrow record batches become batches of messages on the right partitions, each with its receipt.

Rows are routed column-wise: keys are hashed by a kernel, rows of one partition are encoded together, and one object
exists for each batch on the wire. Small record batches are gathered first, so that a topic with many partitions still
gets full batches. A task returns when the broker has acknowledged every row. A task that is run again writes again (at
least once), unless it is an attempt whose rows have names (`once`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.once.ordering import in_order
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.writing.topic_writer import TopicWriter
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.once.attempt import TaskAttempt
    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema

GATHER_ROWS: Final = 20_000
GATHER_BYTES: Final = 16 * 1024 * 1024


@naming("sendTimeoutMs", "operationTimeoutMs")
def publish(
    client: PulsarClient,
    options: Options,
    batches: Iterator[pa.RecordBatch],
    schema: RowSchema | None = None,
    attempt: TaskAttempt | None = None,
) -> int:
    """Writes all rows of a task, with a schema if it is given; the number written. Opens nothing if there are none.

    With `attempt` each row is stored once, whatever attempts of the task there are; DeliveryGuaranteeError where that
    cannot be. Raises what the broker refuses as typed errors; MessageTooLarge for a row above its limit.
    """
    rows = 0
    topics: dict[str, TopicWriter] = {}
    try:
        for table in _gathered(batches if attempt is None else in_order(batches)):
            rows += table.num_rows
            for topic, part in _by_topic(table, options.topic):
                if topic not in topics:
                    topics[topic] = TopicWriter(client, options, topic, schema, attempt)
                topics[topic].write(part)
        for writer in topics.values():
            writer.flush()
    finally:
        for writer in topics.values():
            writer.close()
    return rows


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Consecutive record batches as tables of some `GATHER_ROWS` rows or `GATHER_BYTES`, none of them empty."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GATHER_ROWS or size >= GATHER_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _by_topic(table: pa.Table, topic: str | None) -> Iterator[tuple[str, pa.Table]]:
    """Yields the rows of each topic: all of one if the option names it, else by the column `__topic`. Full names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if topic is not None:
        yield topic, table
        return
    column = table.column("__topic").combine_chunks()
    if column.null_count:
        raise OptionError("a row has no topic: __topic is null and the option topic is not given")
    encoded = pc.dictionary_encode(column)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    for index, name in enumerate(encoded.dictionary.to_pylist()):
        full = TopicName.parse(name).full
        yield full, table if len(encoded.dictionary) == 1 else table.filter(pc.equal(encoded.indices, index))
