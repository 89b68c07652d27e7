"""Ordering: rows behind a shuffle come in any order; the sequence ids that they name put them back into one (ONCE-5).
Rows without ids are compared instead, and no shuffle is refused (ONCE-7: `attempt`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from spark_pulsar.connector.effectively_once.sequence_ids import SEQUENCE_ID
from spark_pulsar.connector.errors import DeliveryGuaranteeError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES: Final = 512 * 1024 * 1024
"""Rows of one task that are held at once, to be sorted."""


def in_order(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a task in the order of their sequence ids, where they name them; else as they come.

    Raises DeliveryGuaranteeError for more rows than can be held.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if SEQUENCE_ID not in batch.schema.names:
            yield batch
            continue
        held.append(batch)
        size += batch.nbytes
        if size > MOST_BYTES:
            raise DeliveryGuaranteeError(
                f"a task has more than {MOST_BYTES >> 20} MiB of rows to sort by {SEQUENCE_ID}: take smaller "
                "micro-batches (maxMessagesPerTrigger), or more partitions"
            )
    if held:
        table = pa.Table.from_batches(held)
        ids = table.column(SEQUENCE_ID)
        if len(ids) > 1 and not pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py():
            table = table.take(pc.sort_indices(ids))
        yield from table.to_batches()
