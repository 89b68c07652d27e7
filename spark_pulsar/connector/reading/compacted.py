"""Compacted reads: the latest message of each key of a topic partition, tombstones left out (READ-20).

A compacted reader is sent the compacted view, whose entries keep their ids, with holes between them, and then the
messages published after the compaction as they are. So ids determine its end and not an entry, a hole is no loss, and
the task itself keeps the latest of each key; rows that are older, or deleted, go whenever they are half of all that it
holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.errors import UnreadableMessageError
from spark_pulsar.model.errors import CorruptMessage, MalformedBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.client.client import PulsarClient
    from spark_pulsar.connector.options.options import Options
    from spark_pulsar.connector.planning.ranges import TopicRange
    from spark_pulsar.connector.reading.projection import Projection

_KEY, _VALUE = "__key", "value"
_LEAST_ROWS: Final = 100_000
"""Rows after which older ones are released, if there are not more to keep."""
_ROWS_A_BATCH: Final = 10_000


class LatestByKey:
    """Rows of one partition in order, of which the latest of each key is kept. Takes record batches with a `__key` and
    the payload as `value`."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._discard_at = _LEAST_ROWS

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes the next rows."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= self._discard_at:
            self._discard_replaced()
            self._discard_at = max(2 * self._rows, _LEAST_ROWS)

    def batches(self) -> list[pa.RecordBatch]:
        """Returns the remaining rows, in order."""
        self._discard_replaced()
        return self._batches

    def _discard_replaced(self) -> None:
        import numpy as np
        import pyarrow as pa

        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        keys = table.column(_KEY).cast(pa.large_binary()).combine_chunks().dictionary_encode()
        has_key = keys.indices.is_valid().to_numpy(zero_copy_only=False)
        codes = keys.indices.fill_null(0).to_numpy(zero_copy_only=False)[has_key]
        rows = has_key.nonzero()[0]
        last = np.full(len(keys.dictionary), -1, np.int64)
        last[codes] = rows  # of several rows of a key the last one stays
        is_kept = ~has_key
        is_kept[rows] = last[codes] == rows
        has_value = table.column(_VALUE).is_valid().to_numpy()
        kept = table.filter(pa.array(is_kept & (has_value | ~has_key)))
        self._batches = kept.to_batches(max_chunksize=_ROWS_A_BATCH)
        self._rows = kept.num_rows


def read_latest(
    client: PulsarClient, options: Options, work: TopicRange, projection: Projection
) -> Iterator[pa.RecordBatch]:
    """Yields the latest message of each key between two positions, in order, without keys that were deleted.

    Raises UnreadableMessageError, OperationTimeout.
    """
    from spark_pulsar.client.errors import EndNotReached
    from spark_pulsar.connector.reading.block_unpacking import BlockUnpacking
    from spark_pulsar.connector.reading.range_reading import check_finished, decoding

    names = tuple(dict.fromkeys((*projection.read_names, _KEY, _VALUE)))
    unpacking, latest = BlockUnpacking(client, options, work.topic, names), LatestByKey()
    start, end = work.start.message_id, work.end.message_id
    try:
        with client.fetch(work.topic, start, end, read_compacted=True) as fetch, suppress(EndNotReached):
            while (block := fetch.next_block(options.poll_timeout_ms)) is not None:
                for batch in unpacking.batches(block):
                    latest.add(batch)
            check_finished(fetch, work, options)
        with decoding(client, work, projection) as decode:
            for batch in latest.batches():
                yield projection.fit(decode(batch.select(list(projection.read_names))))
    except (MalformedBatch, CorruptMessage) as error:
        raise UnreadableMessageError(f"{work.topic}: {error}") from error
