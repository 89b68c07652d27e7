"""Small micro-batches: their rows are read ahead on the driver, and travel with the plan, where PySpark can (SPARK-5:
`source_runner`).

A task that reads costs the hand-over to a Python worker, more than a thousand rows are worth. `SmallBatches` decides
which micro-batches are small when their end is planned, and has their rows when their tasks are planned. It has none in
a replay, and none where something is amiss: then the one task that was planned reads the same ranges.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import ReadPosition
from spark_pulsar.connector.reading.projection import Projection
from spark_pulsar.model.errors import PulsarError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.read_limits.lookahead import LookAhead

LOG: Final = logging.getLogger("spark_pulsar")

_ARRIVAL_MS: Final = 100
"""Wait for messages that are known to exist: they are on their way, or there are too many of them."""
_MOST_BYTES: Final = 16 << 20
"""Rows of one micro-batch, decompressed."""


class SmallBatches:
    """Rows of the small micro-batches of one streaming query."""

    def __init__(self, client: PulsarClient, options: Options, projection: Projection) -> None:
        self._client = client
        self._options = options
        self._projection = projection

    def is_small(
        self, look_ahead: LookAhead, start: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]
    ) -> bool:
        """Returns whether all messages from `start` to `end` are kept, and few."""
        if self._projection.decoding is not None and self._projection.decoding.publishes:
            return False  # messages that are dropped here and read again by a task would publish dead letters twice
        try:
            return look_ahead.has_all(start, end, self._options.small_batch_max_messages, _ARRIVAL_MS)
        except PulsarError as error:
            LOG.info("a micro-batch is left to its tasks: %s", error)
            return False

    def rows(self, look_ahead: LookAhead, ranges: Sequence[TopicRange]) -> list[pa.RecordBatch] | None:
        """Returns the messages of the ranges, in order; None when they are left to a task."""
        from spark_pulsar.connector.reading.range_reading import read_range

        arrived = look_ahead.arrived_ranges(ranges)
        if arrived is None:
            return None
        batches: list[pa.RecordBatch] = []
        size = 0
        try:
            for work, blocks in zip(ranges, arrived, strict=True):
                for batch in read_range(self._client, self._options, work, self._projection, blocks):
                    batches.append(batch)
                    size += batch.nbytes
                    if size > _MOST_BYTES or any(map(_has_null_items, batch.columns)):
                        return None
        except (PulsarError, RuntimeError, ValueError) as error:
            LOG.info("a micro-batch is left to its task, which reports the reason: %s", error)
            return None
        return batches or None


def _has_null_items(array: pa.Array) -> bool:
    """Returns whether a list or a map inside holds a null: Spark copies rows that travel with the plan, and fails on
    null items of numbers ("Value at index is null")."""
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        return any(_has_null_items(array.field(index)) for index in range(array.type.num_fields))
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        items = array.items if pa.types.is_map(array.type) else array.values
        return items.null_count > 0 or _has_null_items(items)
    return False
