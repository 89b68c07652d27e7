"""Writing in a task: Arrow record batches become batches of messages on the right partitions, each with its receipt.

Rows are routed column-wise: keys are hashed by a kernel, rows of one partition are encoded together (SINK-18), and one
object exists for each batch on the wire. Small record batches are gathered first, so that a topic with many partitions
still gets full batches. A task returns when the broker has acknowledged every row. A task that is run again writes
again (at least once, SINK-3), unless it is an attempt whose rows have names (`effectively_once`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.effectively_once.ordering import in_order
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.writing.parallel_opening import open_each
from spark_pulsar.connector.writing.topic_column import by_topic
from spark_pulsar.connector.writing.topic_writer import TopicWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema

GATHER_ROWS: Final = 20_000
GATHER_BYTES: Final = 16 * 1024 * 1024
GATHER_BYTES_OF_TOPICS: Final = 32 * 1024 * 1024


@naming("sendTimeoutMs", "operationTimeoutMs")
def publish(
    client: PulsarClient,
    options: Options,
    batches: Iterator[pa.RecordBatch],
    schema: RowSchema | None = None,
    outcome: TaskOutcome | None = None,
) -> int:
    """Writes all rows of a task, with a schema if it is given; the number written. Opens nothing if there are none.

    With `outcome`, that of an attempt, each row is stored once, whatever attempts of the task there are, and it gets
    what the driver has to know; DeliveryGuaranteeError where that cannot be.

    Raises what the broker refuses as typed errors; MessageTooLarge for a row above its limit.
    """
    rows = 0
    topics: dict[str, TopicWriter] = {}
    try:
        for table in _gathered(batches if outcome is None else in_order(batches), options):
            parts = by_topic(table, options.topic, rows)
            rows += table.num_rows
            new = [topic for topic, _ in parts if topic not in topics]
            if len(new) > 1 and outcome is None:
                topics |= open_each(new, lambda topic: _opened(client, options, topic, schema), TopicWriter.close)
            for topic, part in parts:
                if topic not in topics:
                    topics[topic] = TopicWriter(client, options, topic, schema, outcome)
                topics[topic].write(part)
        if rows == 0 and outcome is not None and outcome.attempt.attempt_number > 0 and options.topic is not None:
            # An attempt before may have had rows where this one has none.
            topics[options.topic] = TopicWriter(client, options, options.topic, schema, outcome)
        for writer in topics.values():
            writer.flush()
    finally:
        for writer in topics.values():
            writer.close()
    return rows


def _opened(client: PulsarClient, options: Options, topic: str, schema: RowSchema | None) -> TopicWriter:
    writer = TopicWriter(client, options, topic, schema)
    writer.open_only_partition()
    return writer


def _gathered(batches: Iterator[pa.RecordBatch], options: Options) -> Iterator[pa.Table]:
    """Yields consecutive record batches as tables of some `GATHER_ROWS` rows or `GATHER_BYTES`, none of them empty
    (SINK-18).

    Rows of several topics are more, enough for a full batch on each of them, or `GATHER_BYTES_OF_TOPICS`.
    """
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    topics: set[str | None] = set()
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if options.topic is None:
            topics.update(batch.column("__topic").unique().to_pylist())
        enough = max(GATHER_ROWS, len(topics) * options.batching_max_messages)
        if rows >= enough or size >= (GATHER_BYTES if len(topics) < 2 else GATHER_BYTES_OF_TOPICS):
            yield pa.Table.from_batches(waiting)
            waiting, topics, rows, size = [], set(), 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
